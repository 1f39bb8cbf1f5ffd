//! The words of all texts in one row: imported ones in the place of their `import`.

use super::env;
use super::files::{Files, is_pattern};
use super::lexer::{Token, lex};
use crate::value::nearest;
use crate::{Diagnostic, Word};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The most snippets that are put in.
const SNIPPETS: usize = 10_000;

/// The most files that are put in.
const IMPORTS: usize = 100_000;

/// The most words of all texts, and of all that is put in.
const WORDS: usize = 2_000_000;

/// The most octets of all texts.
const OCTETS: usize = 128 << 20;

/// The most errors that are told.
const ERRORS: usize = 100;

/// What words came from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// A file.
    File(PathBuf),
    /// A snippet.
    Snippet(String),
}

/// Words of which some are still to be read.
struct Frame {
    tokens: Arc<[Token]>,
    next: usize,
    origin: Origin,
}

/// The words of all texts.
pub(super) struct Stream<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    files: &'a dyn Files,
    frames: Vec<Frame>,
    /// Whether the next word begins a line because other words were put in, or ended, before it.
    fresh: bool,
    snippets: HashMap<String, Arc<[Token]>>,
    lexed: HashMap<PathBuf, Arc<[Token]>>,
    texts: Vec<(PathBuf, String)>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Whether the words end before the text does, so that what is open cannot be closed.
    cut: bool,
    snippets_put: usize,
    imports: usize,
    words: usize,
    octets: usize,
    taken: usize,
}

/// What a stream leaves behind.
pub(super) struct Rest {
    /// All that is wrong.
    pub(super) errors: Vec<Diagnostic>,
    /// All that is odd.
    pub(super) warnings: Vec<Diagnostic>,
    /// The texts that were read.
    pub(super) texts: Vec<(PathBuf, String)>,
}

impl<'a> Stream<'a> {
    /// Begins with the main text.
    pub(super) fn new(
        name: &Path,
        text: &str,
        env: &'a dyn Fn(&str) -> Option<String>,
        files: &'a dyn Files,
    ) -> Self {
        let mut stream = Self {
            env,
            files,
            frames: Vec::new(),
            fresh: true,
            snippets: HashMap::new(),
            lexed: HashMap::new(),
            texts: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            cut: false,
            snippets_put: 0,
            imports: 0,
            words: 0,
            octets: 0,
            taken: 0,
        };
        let path = clean(name);
        let tokens = stream.lex(name, path.clone(), text.to_owned());
        stream.frames.push(Frame { tokens, next: 0, origin: Origin::File(path) });
        stream
    }

    /// Gives away what was gathered.
    pub(super) fn finish(self) -> Rest {
        Rest { errors: self.errors, warnings: self.warnings, texts: self.texts }
    }

    /// Tells an error.
    pub(super) fn wrong(&mut self, error: Diagnostic) {
        self.errors.push(error);
        if self.errors.len() >= ERRORS && !self.cut {
            self.halt(None);
        }
    }

    /// Tells that something is open at the end; not if the end is not the text's.
    pub(super) fn open(&mut self, error: Diagnostic) {
        if !self.cut {
            self.wrong(error);
        }
    }

    /// Where to tell what is odd.
    pub(super) fn warnings(&mut self) -> &mut Vec<Diagnostic> {
        &mut self.warnings
    }

    /// Ends the words here.
    fn halt(&mut self, why: Option<Diagnostic>) {
        self.cut = true;
        self.frames.clear();
        self.errors.extend(why);
    }

    /// The next word, which stays, and whether it begins a line.
    pub(super) fn peek(&mut self) -> Option<(&Token, bool)> {
        while self.frames.last().is_some_and(|frame| frame.next >= frame.tokens.len()) {
            self.frames.pop();
            self.fresh = true;
        }
        let fresh = self.fresh;
        let frame = self.frames.last()?;
        frame.tokens.get(frame.next).map(|token| (token, token.first || fresh))
    }

    /// Whether the next word is this one.
    pub(super) fn at(&mut self, text: &str) -> bool {
        self.peek().is_some_and(|(token, _)| token.text == text)
    }

    /// Whether the next word begins a line; the end does.
    pub(super) fn at_line(&mut self) -> bool {
        self.peek().is_none_or(|(_, first)| first)
    }

    /// Takes the next word; its `first` says whether it begins a line where it was put.
    pub(super) fn take(&mut self) -> Option<Token> {
        let (token, first) = self.peek()?;
        let token = Token { first, ..token.clone() };
        if self.taken >= WORDS {
            let why = token.fault(format!("more than {WORDS} words are put in up to here"));
            self.halt(Some(why.help("import less, or less often")));
            return None;
        }
        self.taken += 1;
        self.fresh = false;
        if let Some(frame) = self.frames.last_mut() {
            frame.next += 1;
        }
        Some(token)
    }

    /// Takes the next word of the line, if the line has one. Unlike `peek` it does not leave an imported text at its end.
    fn take_argument(&mut self) -> Option<Token> {
        let frame = self.frames.last()?;
        frame.tokens.get(frame.next).filter(|token| !token.first)?;
        self.take()
    }

    /// Takes what is left of the line.
    pub(super) fn skip_line(&mut self) {
        while !self.at_line() {
            self.take();
        }
    }

    /// Takes words up to the brace that closes the one before, and gives them without it; `None` if it is not closed.
    pub(super) fn take_block(&mut self) -> Option<Vec<Token>> {
        let mut tokens = Vec::new();
        let mut depth = 1_usize;
        while let Some(token) = self.take() {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(tokens);
            }
            tokens.push(token);
        }
        None
    }

    /// Fills in the environment variables of a word.
    pub(super) fn word(&mut self, token: Token) -> Word {
        let text = match env::fill(&token.text, self.env) {
            Ok(Cow::Owned(text)) => text,
            Ok(Cow::Borrowed(_)) => token.text,
            Err(_) => {
                let why = token.fault(format!(
                    "the environment variables in '{}' do not come to an end",
                    token.text
                ));
                self.wrong(why.help("a value refers to itself, or is longer than 1 MiB"));
                String::new()
            }
        };
        Word { text, place: token.place }
    }

    /// Keeps a snippet.
    pub(super) fn keep_snippet(&mut self, name: &Word, tokens: Vec<Token>) {
        let named = tokens.windows(2).find(|pair| match pair {
            [import, argument] => {
                let target = env::fill(&argument.text, self.env);
                import.first
                    && import.text == "import"
                    && target.is_ok_and(|target| target == snippet_name(&name.text))
            }
            _ => false,
        });
        if let Some([_, argument]) = named {
            self.wrong(argument.fault(format!("the snippet '{name}' imports itself")));
        } else if self.snippets.contains_key(snippet_name(&name.text)) {
            self.wrong(name.wrong("is declared twice").help("a snippet's name may stand once"));
        } else {
            self.snippets.insert(snippet_name(&name.text).to_owned(), tokens.into());
        }
    }

    /// Reads what stands behind `import` and puts in what it means.
    pub(super) fn import(&mut self, import: &Token) {
        let Some(argument) = self.take_argument() else {
            let what = "Wrong argument count or unexpected line ending after 'import'";
            return self.wrong(import.fault(what).help("write: import SNIPPET|FILE|PATTERN"));
        };
        let target = self.word(argument);
        if let Some(more) = self.take_argument() {
            while self.take_argument().is_some() {}
            let what = format!(
                "Wrong argument count: import takes one word, '{}' is one too many",
                more.text
            );
            return self.wrong(more.fault(what).help("a snippet takes no arguments"));
        }
        if target.text.is_empty() {
            return self.wrong(target.fault("import needs a name that is not empty"));
        }
        self.fresh = true;
        match self.snippets.get(&target.text).map(Arc::clone) {
            Some(tokens) => self.put_snippet(&target, tokens),
            None => self.put_files(&target),
        }
    }

    /// Whether words from there are being read, so that they would be put into themselves.
    fn inside(&self, origin: &Origin) -> bool {
        self.frames.iter().any(|frame| frame.next > 0 && frame.origin == *origin)
    }

    /// Puts a snippet in.
    fn put_snippet(&mut self, target: &Word, tokens: Arc<[Token]>) {
        let origin = Origin::Snippet(target.text.clone());
        self.snippets_put += 1;
        if self.inside(&origin) {
            self.wrong(target.wrong("imports itself, here or through others"));
        } else if self.snippets_put > SNIPPETS {
            self.halt(Some(
                target.fault(format!("more than {SNIPPETS} snippets are put in up to here")),
            ));
        } else {
            self.frames.push(Frame { tokens, next: 0, origin });
        }
    }

    /// Puts files in, in order.
    fn put_files(&mut self, target: &Word) {
        let directory = target.place.file.parent().unwrap_or_else(|| Path::new(""));
        let pattern = clean(&directory.join(&target.text));
        let shown = pattern.to_string_lossy();
        let many = shown.matches('*').count() > 1 || shown.matches('?').count() > 1;
        if many || (shown.contains('[') && shown.contains(']')) {
            let wrong = target.wrong("has too many wildcards");
            return self.wrong(wrong.help("a pattern may have one '*' and one '?', and no '[…]'"));
        }
        let found = match self.files.glob(&pattern) {
            Ok(found) => found,
            Err(error) => return self.wrong(target.wrong(format_args!("is no pattern: {error}"))),
        };
        if found.is_empty() && is_pattern(&shown) {
            return self
                .warnings
                .push(target.fault(format!("No files matching import glob pattern: {target}")));
        }
        if found.is_empty() {
            let wrong = target
                .wrong(format_args!("is neither a snippet declared above nor a file (no {shown})"));
            let near = nearest(&target.text, self.snippets.keys().map(String::as_str));
            return self.wrong(match near {
                Some(near) => wrong.help(format!("did you mean the snippet '{near}'?")),
                None => wrong.help("a path is relative to the file that imports it; a snippet is declared before its use"),
            });
        }
        self.imports += found.len();
        if self.imports > IMPORTS {
            return self.halt(Some(
                target.fault(format!("more than {IMPORTS} files are put in up to here")),
            ));
        }
        let frames: Vec<_> = found.into_iter().filter_map(|path| self.file(target, path)).collect();
        // The first of them is read first, so it comes last.
        self.frames.extend(frames.into_iter().rev());
    }

    /// The words of a file.
    fn file(&mut self, target: &Word, path: PathBuf) -> Option<Frame> {
        let origin = Origin::File(path.clone());
        if self.cut {
            return None;
        }
        if self.inside(&origin) {
            self.wrong(
                target.wrong(format_args!("imports {}, which imports this", path.display())),
            );
            return None;
        }
        if let Some(tokens) = self.lexed.get(&path) {
            return Some(Frame { tokens: Arc::clone(tokens), next: 0, origin });
        }
        match self.files.read(&path) {
            Ok(text) => {
                let tokens = self.lex(&path.clone(), path, text);
                Some(Frame { tokens, next: 0, origin })
            }
            Err(error) => {
                self.wrong(target.fault(format!("cannot import {}: {error}", path.display())));
                None
            }
        }
    }

    /// Splits a text into words and keeps both.
    fn lex(&mut self, name: &Path, path: PathBuf, text: String) -> Arc<[Token]> {
        self.octets += text.len();
        if self.octets > OCTETS {
            let what = format!("all texts together are larger than {} MiB", OCTETS >> 20);
            self.halt(Some(Diagnostic::new(what)));
            return Arc::from([]);
        }
        let (tokens, error) = lex(&Arc::from(name), &text, WORDS.saturating_sub(self.words));
        self.words += tokens.len();
        if let Some(error) = error {
            self.wrong(error);
            self.cut = true;
        }
        let tokens: Arc<[Token]> = tokens.into();
        self.lexed.insert(path, Arc::clone(&tokens));
        self.texts.push((name.to_owned(), text));
        tokens
    }
}

/// The name of a snippet without its parentheses.
fn snippet_name(key: &str) -> &str {
    key.strip_prefix('(').and_then(|key| key.strip_suffix(')')).unwrap_or(key)
}

/// Takes `.` and `..` out of a path as far as the text allows, so that a file has one name.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(clean.components().next_back(), Some(Component::Normal(_))) =>
            {
                clean.pop();
            }
            Component::ParentDir if clean.has_root() => {}
            other => clean.push(other),
        }
    }
    clean
}
