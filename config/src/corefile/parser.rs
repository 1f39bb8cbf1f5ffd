//! Words to blocks. A wrong line is told and left out, so that all errors of a text are found at once.

use super::lexer::Token;
use super::stream::Stream;
use super::{Block, Key, Scheme, key};
use crate::{Diagnostic, Directive, Place, Word};

/// The most blocks in blocks.
const DEPTH: usize = 32;

/// The keys of a block as written.
struct Keys {
    words: Vec<Word>,
    /// Whether the text ends behind them.
    ended: bool,
}

/// Reads all blocks.
pub(super) fn blocks(stream: &mut Stream<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some((token, _)) = stream.peek() {
        let place = token.place.clone();
        blocks.extend(block(stream, place));
    }
    blocks
}

/// Reads one block, or keeps one snippet.
fn block(stream: &mut Stream<'_>, place: Place) -> Option<Block> {
    let Keys { words, ended } = keys(stream);
    if let [word] = words.as_slice()
        && word.text.starts_with('(')
        && word.text.ends_with(')')
    {
        snippet(stream, word);
        return None;
    }
    let place = words.first().map_or(place, |word| word.place.clone());
    let keys = read_keys(stream, &words);
    let directives = if ended { Vec::new() } else { contents(stream, &words) };
    if words.is_empty() {
        if !ended {
            let odd = Diagnostic {
                place: Some(place),
                span: 1,
                ..Diagnostic::new("a block without keys is left out")
            };
            stream.warnings().push(odd.help("write a zone before its '{'"));
        }
        return None;
    }
    Some(Block { keys, directives, place })
}

/// Takes the words up to the brace or the end of the line; a comma at a word's end goes on to the next line.
fn keys(stream: &mut Stream<'_>) -> Keys {
    let mut words = Vec::new();
    let mut comma: Option<Word> = None;
    loop {
        if let Some(import) = take_import(stream, true) {
            stream.import(&import);
            continue;
        }
        if stream.at("{") {
            if let Some(comma) = comma {
                let wrong = comma.fault(format!(
                    "Unexpected token '{{' after the comma of '{comma}', expecting a key"
                ));
                stream.wrong(wrong.help("take the comma away"));
            }
            return Keys { words, ended: false };
        }
        if stream.at("}") {
            stream.take().into_iter().for_each(|brace| stray(stream, &brace));
            continue;
        }
        let Some(token) = stream.take() else {
            if let Some(comma) = comma {
                let wrong = comma.fault(format!("Unexpected EOF after the comma of '{comma}'"));
                stream.open(wrong.help("take the comma away"));
            }
            return Keys { words, ended: true };
        };
        let mut word = stream.word(token);
        // An empty word is no key, and leaves the comma before it open.
        if !word.text.is_empty() {
            comma = match word.text.strip_suffix(',') {
                Some(text) => {
                    let whole = word.clone();
                    word.text = text.to_owned();
                    Some(whole)
                }
                None => None,
            };
            words.push(word);
        }
        match stream.peek() {
            None if comma.is_none() => return Keys { words, ended: true },
            Some((_, true)) if comma.is_none() => return Keys { words, ended: false },
            _ => {}
        }
    }
}

/// Tells of a brace that closes nothing.
fn stray(stream: &mut Stream<'_>, brace: &Token) {
    let wrong = brace.fault("Unexpected '}': no block is open here");
    stream.wrong(wrong.help("take it away, or put a '{' behind the keys of its block"));
}

/// Takes the word `import` if it stands here, where `line` says it must begin a line.
fn take_import(stream: &mut Stream<'_>, line: bool) -> Option<Token> {
    let (token, first) = stream.peek()?;
    if token.text == "import" && (first || !line) { stream.take() } else { None }
}

/// Reads the keys: the further zones of networks stand behind all written ones.
fn read_keys(stream: &mut Stream<'_>, words: &[Word]) -> Vec<Key> {
    let (mut keys, mut more) = (Vec::new(), Vec::new());
    for word in words {
        match key::read(word, stream.warnings()) {
            Ok(zones) => {
                let mut zones = zones.into_iter();
                keys.extend(zones.next());
                more.extend(zones);
            }
            Err(error) => stream.wrong(error),
        }
    }
    keys.append(&mut more);
    if let Some(cluster) = keys.iter().find(|key| key.scheme == Scheme::Cluster)
        && keys.len() > 1
    {
        let wrong = cluster.word.wrong("does not stand alone");
        stream.wrong(wrong.help("a block declares one cluster, and has no other key"));
    }
    keys
}

/// Reads the directives between braces, or without braces up to the end of the text.
fn contents(stream: &mut Stream<'_>, keys: &[Word]) -> Vec<Directive> {
    let open = if stream.at("{") { stream.take() } else { None };
    let mut directives = Vec::new();
    loop {
        if let Some(import) = take_import(stream, false) {
            stream.import(&import);
            continue;
        }
        match stream.peek().map(|(token, _)| token.text.as_str()) {
            None => {
                if let Some(open) = &open {
                    let owner = keys.first().map(|key| format!(" of '{key}'")).unwrap_or_default();
                    let what = format!(
                        "Unexpected EOF, expecting '}}': the block{owner} that opens here is not closed"
                    );
                    stream.open(
                        open.fault(what)
                            .help("put a '}' on a line of its own behind its last directive"),
                    );
                }
                return directives;
            }
            Some("}") => {
                let close = stream.take();
                if let (None, Some(close)) = (&open, close) {
                    let wrong = close.fault("Unexpected '}': no block is open here");
                    stream.wrong(
                        wrong.help("take it away, or put a '{' behind the keys of its block"),
                    );
                }
                return directives;
            }
            Some("{") => {
                if let Some(brace) = stream.take() {
                    let what = "Syntax error: Unexpected token '{', expecting a directive";
                    stream.wrong(
                        brace.fault(what).help("a directive's '{' stands on the directive's line"),
                    );
                    stream.take_block();
                }
            }
            Some(_) => match line(stream, 0) {
                Line::Whole(directive) => directives.push(directive),
                Line::Closed(directive) => {
                    directives.push(directive);
                    return directives;
                }
                Line::Nothing => {}
            },
        }
    }
}

/// What a line turned out to be.
enum Line {
    /// A line.
    Whole(Directive),
    /// A line that took the brace of the block around it.
    Closed(Directive),
    /// Nothing.
    Nothing,
}

/// Reads a line and its block. `depth` is how many blocks of lines it stands in.
fn line(stream: &mut Stream<'_>, depth: usize) -> Line {
    let Some(name) = stream.take() else { return Line::Nothing };
    let name = stream.word(name);
    let mut directive = Directive { name, args: Vec::new(), block: None, brace: None };
    loop {
        if stream.at("{") {
            return match braces(stream, &mut directive, depth) {
                true => Line::Closed(directive),
                false => Line::Whole(directive),
            };
        }
        if stream.at_line() {
            return Line::Whole(directive);
        }
        let Some(token) = stream.take() else { return Line::Whole(directive) };
        if token.text == "}" {
            // In the block of a directive it depends on the property whether the brace is one of its words.
            let brace = stream.word(token);
            if depth == 0 {
                stream.wrong(brace.shares_line(&directive.name));
            } else {
                directive.brace = Some(brace);
            }
            return Line::Closed(directive);
        }
        let word = stream.word(token);
        directive.args.push(word);
    }
}

/// Reads the block of a line from its brace on. Says whether the brace of the block around it was taken too.
fn braces(stream: &mut Stream<'_>, directive: &mut Directive, depth: usize) -> bool {
    let on_line = !stream.at_line();
    // A brace on the next line of a block's line does not belong to it.
    if !on_line && depth > 0 {
        return false;
    }
    let Some(open) = stream.take() else { return false };
    if !on_line {
        let wrong = open.fault(format!(
            "Unexpected token '{{': the block of '{}' opens on another line",
            directive.name
        ));
        stream.wrong(wrong.help("put the '{' at the end of the directive's line"));
    }
    if depth >= DEPTH {
        stream.wrong(open.fault(format!("more than {DEPTH} blocks stand in each other")));
        stream.take_block();
        return false;
    }
    directive.block = Some(lines(stream, &open, &directive.name, depth + 1));
    if stream.at_line() {
        return false;
    }
    // Words behind a block: CoreDNS takes them for words of the directive, which nobody means.
    let Some((token, _)) = stream.peek() else { return false };
    let closes = token.text == "}";
    let wrong = token.fault(format!(
        "Unexpected token '{}' behind the block of '{}'",
        token.text, directive.name
    ));
    stream.wrong(wrong.help("begin a new line behind a closing brace"));
    if closes {
        stream.take();
        return true;
    }
    stream.skip_line();
    false
}

/// Reads the lines of a block up to its closing brace.
fn lines(stream: &mut Stream<'_>, open: &Token, owner: &Word, depth: usize) -> Vec<Directive> {
    let mut lines = Vec::new();
    loop {
        if let Some(import) = take_import(stream, false) {
            stream.import(&import);
            continue;
        }
        match stream.peek().map(|(token, _)| token.text.as_str()) {
            None => {
                let what = format!(
                    "Unexpected EOF, expecting '}}': the block of '{owner}' that opens here is not closed"
                );
                stream.open(
                    open.fault(what).help("put a '}' on a line of its own behind its last line"),
                );
                return lines;
            }
            Some("}") => {
                stream.take();
                return lines;
            }
            Some("{") => {
                if let Some(brace) = stream.take() {
                    let what = format!(
                        "Syntax error: Unexpected token '{{', expecting a property of '{owner}'"
                    );
                    stream.wrong(
                        brace
                            .fault(what)
                            .help("a '{' stands at the end of the line that it belongs to"),
                    );
                    stream.take_block();
                }
            }
            Some(_) => match line(stream, depth) {
                Line::Whole(line) => lines.push(line),
                Line::Closed(line) => {
                    lines.push(line);
                    return lines;
                }
                Line::Nothing => {}
            },
        }
    }
}

/// Keeps a snippet.
fn snippet(stream: &mut Stream<'_>, name: &Word) {
    if !stream.at("{") {
        let what = match stream.peek() {
            None => format!("Unexpected EOF, expecting '{{' behind the snippet '{name}'"),
            Some((token, _)) => {
                format!("Syntax error: Unexpected token '{}', expecting '{{'", token.text)
            }
        };
        stream.wrong(name.fault(what).help(format!("a snippet is written: {name} {{ … }}")));
        return;
    }
    let Some(open) = stream.take() else { return };
    match stream.take_block() {
        Some(tokens) => stream.keep_snippet(name, tokens),
        None => {
            let what = format!(
                "Unexpected EOF, expecting '}}': the snippet '{name}' that opens here is not closed"
            );
            stream.open(open.fault(what).help("put a '}' on a line of its own behind it"));
        }
    }
}
