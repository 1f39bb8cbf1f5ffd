//! Zone files (RFC 1035 §5, RFC 2308 §4): records, `$ORIGIN`, `$TTL`, `$INCLUDE` and `$GENERATE`, line by line.

use std::fmt;
use std::io::{self, BufRead, Read as _};

use wire::{Name, class};

use crate::builder::{Builder, Unfit};
use crate::generate::{Range, put};
use crate::record::{BadRecord, Body, Word, name, ttl, words};
use crate::zone::Zone;

/// The time to live of records that state none where nothing before does, in seconds.
const TTL: u32 = 3600;
/// How deep files may include one another.
const DEEPEST: usize = 7;
/// The longest record, in octets with all its lines.
const LONGEST: usize = 1 << 20;
/// The most records that all `$GENERATE` lines of a zone make.
const GENERATED: u64 = 1 << 20;
/// How many notes are kept.
const NOTES: usize = 10;

/// Opens the files that a zone file includes.
pub trait Files {
    /// The file `name`, which `by` includes, and what it is called in messages and for the files that it includes itself.
    ///
    /// # Errors
    /// Those of opening it.
    fn open(&self, name: &str, by: &str) -> io::Result<(Box<dyn BufRead>, String)>;
}

/// Includes nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &str, _: &str) -> io::Result<(Box<dyn BufRead>, String)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files are not included here"))
    }
}

/// What is wrong with a zone file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadZone {
    /// The file.
    pub file: String,
    /// The line that the record begins in, counted from 1; 0 for the whole file.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for BadZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for BadZone {}

/// A zone that was read.
#[derive(Debug)]
pub struct Read {
    /// The zone.
    pub zone: Zone,
    /// What was passed over or is not seen, with its place; the first few.
    pub notes: Vec<BadZone>,
    /// How much was passed over.
    pub passed_over: usize,
}

/// Reads a zone file of a zone whose name is `origin`; `file` is what it is called.
///
/// # Errors
/// The first thing that is wrong, and [`Unfit::NoSoa`] and the like for the whole. Records outside of the zone are passed over.
pub fn read(
    input: impl BufRead,
    file: &str,
    origin: &Name,
    files: &dyn Files,
) -> Result<Read, BadZone> {
    let mut reading = Reading {
        builder: Builder::new(origin.clone()),
        files,
        generated: 0,
        notes: Vec::new(),
        passed_over: 0,
    };
    let state = State { origin: origin.clone(), ttl: None, directive: false, owner: None };
    reading.file(&mut { input }, file, state, 0)?;
    let Reading { builder, mut notes, passed_over, .. } = reading;
    let whole = |what| BadZone { file: file.to_owned(), line: 0, what };
    let zone = builder.finish().map_err(|unfit| whole(format!("zone {origin} {unfit}")))?;
    for name in zone.clashes().take(NOTES) {
        notes.push(whole(format!("{name} has a CNAME record, so its other records are not seen")));
    }
    Ok(Read { zone, notes, passed_over })
}

/// What lines leave to those behind them.
#[derive(Clone)]
struct State {
    /// What follows names without a last dot.
    origin: Name,
    /// The last time to live, in seconds.
    ttl: Option<u32>,
    /// Whether that is a `$TTL`'s.
    directive: bool,
    /// The last owner.
    owner: Option<Vec<u8>>,
}

/// A zone being read.
struct Reading<'a> {
    builder: Builder,
    files: &'a dyn Files,
    /// The records made by `$GENERATE`.
    generated: u64,
    notes: Vec<BadZone>,
    passed_over: usize,
}

impl Reading<'_> {
    /// Reads a file.
    fn file(
        &mut self,
        input: &mut dyn BufRead,
        file: &str,
        mut state: State,
        depth: usize,
    ) -> Result<(), BadZone> {
        let mut entries = Entries { input, line: 0, raw: Vec::new() };
        loop {
            let at = |line| {
                move |wrong: BadRecord| BadZone {
                    file: file.to_owned(),
                    line,
                    what: wrong.to_string(),
                }
            };
            let (line, text) = match entries.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                Err((line, wrong)) => return Err(at(line)(wrong)),
            };
            let words = words(&text).map_err(at(line))?;
            let Some((first, rest)) = words.split_first() else { continue };
            let blank = text.starts_with([' ', '\t']);
            if first.quoted || blank || !first.text.starts_with('$') {
                self.record(&words, blank, &mut state, file, line).map_err(at(line))?;
            } else if first.text.eq_ignore_ascii_case("$INCLUDE") {
                self.include(rest, file, &state, depth, line)?;
            } else if first.text.eq_ignore_ascii_case("$GENERATE") {
                self.generate(rest, &mut state, file, line).map_err(at(line))?;
            } else {
                state.directive(&first.text, rest).map_err(at(line))?;
            }
        }
    }

    /// Reads a record's line.
    fn record(
        &mut self,
        words: &[Word<'_>],
        blank: bool,
        state: &mut State,
        file: &str,
        line: u64,
    ) -> Result<(), BadRecord> {
        let rest = match words.split_first() {
            Some((owner, rest)) if !blank => {
                state.owner = Some(name(&owner.text, &state.origin)?);
                rest
            }
            _ => words,
        };
        let owner = state.owner.as_deref();
        let owner = owner.ok_or_else(|| BadRecord::new("the first record has no owner"))?;
        let Body { ttl, class, rtype, data } = Body::read(rest, &state.origin)?;
        if class.is_some_and(|class| class != class::IN) {
            return Err(BadRecord::new("only records of class IN are served"));
        }
        if let Some(ttl) = ttl.filter(|_| !state.directive) {
            state.ttl = Some(ttl);
        }
        // RFC 2181 §8: a time with the top bit set is none.
        let ttl = ttl.or(state.ttl).unwrap_or(TTL);
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        match self.builder.add(owner, rtype, ttl, &data) {
            Ok(()) => Ok(()),
            Err(wrong @ (Unfit::Outside | Unfit::MisplacedSoa)) => {
                self.passed_over += 1;
                if self.notes.len() < NOTES {
                    let owner = wire::text::name_text(owner);
                    let what = format!("the record of {owner} is passed over: {wrong}");
                    self.notes.push(BadZone { file: file.to_owned(), line, what });
                }
                Ok(())
            }
            Err(wrong) => Err(BadRecord::new(wrong.to_string())),
        }
    }

    /// Reads `$INCLUDE FILE [ORIGIN]`: what the file says of origin, owner and time to live ends with it.
    fn include(
        &mut self,
        words: &[Word<'_>],
        by: &str,
        state: &State,
        depth: usize,
        line: u64,
    ) -> Result<(), BadZone> {
        let wrong = |what: String| BadZone { file: by.to_owned(), line, what };
        let (file, origin) = match words {
            [file] => (file, None),
            [file, origin] => (file, Some(origin)),
            _ => return Err(wrong("write: $INCLUDE FILE [ORIGIN]".to_owned())),
        };
        if depth >= DEEPEST {
            return Err(wrong("files include one another too deeply".to_owned()));
        }
        let mut inner = state.clone();
        if let Some(origin) = origin {
            inner.origin =
                origin_of(origin, &state.origin).map_err(|bad| wrong(bad.to_string()))?;
        }
        let opened = self.files.open(&file.text, by);
        let (mut input, file) =
            opened.map_err(|error| wrong(format!("cannot include {}: {error}", file.text)))?;
        self.file(&mut *input, &file, inner, depth + 1)
    }

    /// Reads `$GENERATE RANGE OWNER [TTL] [CLASS] TYPE DATA`.
    fn generate(
        &mut self,
        words: &[Word<'_>],
        state: &mut State,
        file: &str,
        line: u64,
    ) -> Result<(), BadRecord> {
        let [range, template @ ..] = words else {
            return Err(BadRecord::new("write: $GENERATE FROM-TO OWNER [TTL] [CLASS] TYPE DATA"));
        };
        let range = Range::read(&range.text)?;
        self.generated += range.len();
        if self.generated > GENERATED {
            return Err(BadRecord::new("$GENERATE makes more than 1,048,576 records"));
        }
        let before = state.owner.clone();
        for number in range.numbers() {
            let words: Result<Vec<_>, _> = template.iter().map(|word| put(word, number)).collect();
            self.record(&words?, false, state, file, line)?;
        }
        state.owner = before;
        Ok(())
    }
}

impl State {
    /// Reads `$ORIGIN NAME` or `$TTL TTL`.
    fn directive(&mut self, word: &str, rest: &[Word<'_>]) -> Result<(), BadRecord> {
        let [value] = rest else {
            return Err(BadRecord::new(format!("'{word}' is no directive with so many words")));
        };
        if word.eq_ignore_ascii_case("$ORIGIN") {
            self.origin = origin_of(value, &self.origin)?;
        } else if word.eq_ignore_ascii_case("$TTL") {
            let seconds = ttl(&value.text);
            let wrong = || BadRecord::new(format!("'{}' is no time to live", value.text));
            self.ttl = Some(seconds.ok_or_else(wrong)?);
            self.directive = true;
        } else {
            return Err(BadRecord::new(format!("'{word}' is no directive")));
        }
        Ok(())
    }
}

/// An origin, which may itself be relative.
fn origin_of(word: &Word<'_>, origin: &Name) -> Result<Name, BadRecord> {
    let wrong = || BadRecord::new(format!("'{}' is no domain name", word.text));
    Name::read(&name(&word.text, origin)?).map(|(name, _)| name).ok_or_else(wrong)
}

/// The records and directives of a file, each with its lines.
struct Entries<'a> {
    input: &'a mut dyn BufRead,
    /// The lines read so far.
    line: u64,
    raw: Vec<u8>,
}

impl Entries<'_> {
    /// The next one, and the line that it begins in.
    fn next(&mut self) -> Result<Option<(u64, String)>, (u64, BadRecord)> {
        self.raw.clear();
        let mut scan = Scan::default();
        let mut begin = self.line + 1;
        loop {
            let start = self.raw.len();
            let room = (LONGEST + 1).saturating_sub(start) as u64;
            let read = (&mut *self.input).take(room).read_until(b'\n', &mut self.raw);
            let len = read.map_err(|error| {
                (self.line + 1, BadRecord::new(format!("cannot be read: {error}")))
            })?;
            if self.raw.len() > LONGEST {
                return Err((begin, BadRecord::new("a record is longer than 1 MiB")));
            }
            if len == 0 {
                return match scan {
                    Scan { quoted: true, .. } => {
                        Err((begin, BadRecord::new("a quote is not closed")))
                    }
                    Scan { depth: 1.., .. } => {
                        Err((begin, BadRecord::new("a parenthesis is not closed")))
                    }
                    Scan { words: false, .. } => Ok(None),
                    _ => Ok(Some((begin, self.text()))),
                };
            }
            self.line += 1;
            scan.line(self.raw.get(start..).unwrap_or_default());
            if !scan.words && scan.depth == 0 {
                self.raw.clear();
                begin = self.line + 1;
            } else if scan.depth == 0 && !scan.quoted {
                return Ok(Some((begin, self.text())));
            }
        }
    }

    /// What was read as text; octets that are none are escaped.
    fn text(&self) -> String {
        match std::str::from_utf8(&self.raw) {
            Ok(text) => text.to_owned(),
            Err(_) => self.raw.iter().fold(String::new(), |mut text, byte| {
                match byte {
                    0..0x80 => text.push(char::from(*byte)),
                    _ => text.push_str(&format!("\\{byte:03}")),
                }
                text
            }),
        }
    }
}

/// What is open at the end of a line.
#[derive(Default)]
struct Scan {
    /// The parentheses.
    depth: usize,
    /// Whether a quote is.
    quoted: bool,
    /// Whether there was a word.
    words: bool,
}

impl Scan {
    /// Goes over a line.
    fn line(&mut self, line: &[u8]) {
        let mut bytes = line.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => {
                    bytes.next();
                    self.words = true;
                }
                b'"' => (self.quoted, self.words) = (!self.quoted, true),
                _ if self.quoted => {}
                b';' => return,
                b'(' => self.depth += 1,
                // One too many is told when the words are read.
                b')' => (self.depth, self.words) = (self.depth.saturating_sub(1), true),
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => self.words = true,
            }
        }
    }
}
