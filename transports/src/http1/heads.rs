//! The heads of HTTP/1.1 requests and the ends of their bodies, as strictly as RFC 9112 has them: what two readers could take
//! for different requests is refused before the library reads it (request smuggling, RFC 9112 §11.2).

use std::sync::Arc;

use crate::guard::{Filter, Watch};
use crate::http1::HEAD;

/// The longest line with the size of a chunk, in octets.
const CHUNK_LINE: usize = 256;

/// The most octets of chunked bodies' own trailers.
const TRAILERS: usize = 4096;

/// Where in a request the next octet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the head.
    Head,
    /// In a head that is too large: the library refuses it.
    Overlong,
    /// In a body, with so many octets to come.
    Body(u64),
    /// In a line with a chunk's size.
    Size,
    /// In a chunk, with so many octets to come.
    Chunk(u64),
    /// Behind a chunk.
    ChunkEnd,
    /// In the lines behind the last chunk.
    Trailers,
}

/// Follows the requests of a connection. What is ambiguous is not passed on.
#[derive(Debug)]
pub(crate) struct Heads {
    watch: Arc<Watch>,
    state: State,
    /// The line so far.
    line: Vec<u8>,
    /// The octets of the head or of the trailers before it.
    before: usize,
    head: Head,
}

/// What a head has said so far.
#[derive(Debug, Default)]
struct Head {
    /// Whether the request line was there.
    begun: bool,
    /// Whether it says HTTP/1.1.
    is_current: bool,
    hosts: usize,
    length: Option<u64>,
    is_chunked: bool,
}

impl Heads {
    /// Of a connection of which nothing has been read.
    pub(crate) fn new(watch: Arc<Watch>) -> Self {
        Self { watch, state: State::Head, line: Vec::new(), before: 0, head: Head::default() }
    }

    /// Takes one octet of a line; false if it must not be there.
    fn octet(&mut self, octet: u8) -> bool {
        let limit = match self.state {
            State::Size => CHUNK_LINE,
            State::ChunkEnd => 2,
            State::Trailers => TRAILERS - self.before,
            _ => HEAD - self.before,
        };
        // A line ends in CRLF; a bare LF or CR ends it for some readers and not for others (RFC 9112 §2.2).
        let after_cr = self.line.last() == Some(&b'\r');
        let is_astray = self.state == State::ChunkEnd && self.line.is_empty() && octet != b'\r';
        if (octet == b'\n') != after_cr || octet == 0 || is_astray {
            return false;
        }
        if octet == b'\n' {
            self.line.pop();
            let line = std::mem::take(&mut self.line);
            let is_good = self.end_of_line(&line);
            self.before += line.len() + 2;
            self.line = line;
            self.line.clear();
            return is_good;
        }
        if self.state == State::Head && !self.head.begun && self.line.is_empty() && octet != b'\r' {
            self.watch.note_head(true);
        }
        self.line.push(octet);
        if self.line.len() < limit {
            return true;
        }
        match self.state {
            State::Head => {
                self.state = State::Overlong;
                true
            }
            _ => false,
        }
    }

    /// Takes a line, without its end; false if it must not be there.
    fn end_of_line(&mut self, line: &[u8]) -> bool {
        match self.state {
            State::Head if !self.head.begun => {
                // An empty line before a request is passed over (RFC 9112 §2.2).
                self.head.begun = !line.is_empty();
                self.head.is_current = line.ends_with(b" HTTP/1.1");
                true
            }
            State::Head if line.is_empty() => self.end_of_head(),
            State::Head => self.head.field(line),
            State::Size => {
                let size = line.split(|octet| *octet == b';').next().unwrap_or_default();
                match number(size.trim_ascii_end(), 16) {
                    Some(0) => self.go_to(State::Trailers),
                    Some(size) => self.go_to(State::Chunk(size)),
                    None => return false,
                }
                true
            }
            State::ChunkEnd => {
                self.go_to(State::Size);
                line.is_empty()
            }
            State::Trailers if line.is_empty() => {
                self.go_to(State::Head);
                true
            }
            State::Trailers => name_and_value(line).is_some(),
            State::Overlong | State::Body(_) | State::Chunk(_) => false,
        }
    }

    /// Finds out what follows the head; false if it says two things.
    fn end_of_head(&mut self) -> bool {
        self.watch.note_head(false);
        let head = std::mem::take(&mut self.head);
        if head.is_current && head.hosts != 1 || head.hosts > 1 {
            return false;
        }
        self.go_to(match (head.is_chunked, head.length) {
            (true, Some(_)) => return false,
            (true, None) if !head.is_current => return false,
            (true, None) => State::Size,
            (false, None | Some(0)) => State::Head,
            (false, Some(length)) => State::Body(length),
        });
        true
    }

    /// Begins with something else; the line is added to what was before by the caller.
    fn go_to(&mut self, state: State) {
        self.state = state;
        self.before = 0;
    }
}

impl Head {
    /// Takes a header field; false if it must not be there.
    fn field(&mut self, line: &[u8]) -> bool {
        let Some((name, value)) = name_and_value(line) else { return false };
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts += 1;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            // A second one is refused, even if it says the same.
            let length = number(value, 10);
            if length.is_none() || self.length.is_some() {
                return false;
            }
            self.length = length;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return false;
            }
            self.is_chunked = true;
        }
        true
    }
}

/// A field's name, a token right before the colon, and its value without the space around it (RFC 9112 §5.1). None for a
/// folded line (§5.2).
fn name_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|octet| *octet == b':')?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    let is_token = |octet: &u8| octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(octet);
    (!name.is_empty() && name.iter().all(is_token)).then(|| (name, value.trim_ascii()))
}

/// A number of digits alone.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    if !text.iter().all(|octet| char::from(*octet).is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

impl Filter for Heads {
    // No request line, no header and no chunk has such octets; what looks like the end of a head has the library read it.
    const POISON: &'static [u8] = b"\0\0\r\n\r\n";

    fn pass(&mut self, octets: &[u8]) -> usize {
        let mut at = 0;
        while let Some(octet) = octets.get(at) {
            match &mut self.state {
                State::Overlong => return octets.len(),
                State::Body(left) | State::Chunk(left) => {
                    let rest = octets.len() - at;
                    let count = usize::try_from(*left).map_or(rest, |left| rest.min(left));
                    *left -= count as u64;
                    at += count;
                    if *left == 0 {
                        let is_chunk = matches!(self.state, State::Chunk(_));
                        self.go_to(if is_chunk { State::ChunkEnd } else { State::Head });
                    }
                }
                _ => {
                    if !self.octet(*octet) {
                        return at;
                    }
                    at += 1;
                }
            }
        }
        at
    }
}
