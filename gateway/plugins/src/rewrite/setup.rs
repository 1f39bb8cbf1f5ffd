//! From words to rules.

use config::value::based_integer;
use config::{Diagnostic, Directive, Word, Words};
use engine::Setup;
use wire::Name;
use wire::text::{class_number, type_number};

use super::edns::{self, Content, Data, EdnsRule, Variable};
use super::handler::{Action, Auto, Back, NameRule, Rewrite, Rule};
use super::names::{Groups, Pattern, Place, Rename, Tail};
use crate::shared::{mnemonic, regex};

/// The longest time to live where none is given (RFC 2181 §8).
const MAX_TTL: u32 = i32::MAX as u32;

/// Reads the block's rules.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut rules = Vec::new();
    for directive in setup.directives() {
        rules.push(rule(directive)?);
        if rules.len() > usize::from(u16::MAX) {
            return Err(directive.name.wrong("is there more than 65,535 times"));
        }
    }
    let metadata = setup.metadata();
    setup.install(Rewrite { rules: rules.into(), metadata });
    Ok(())
}

/// Reads one directive. With less than two words on its line the words of its block belong to it as if they stood there.
fn rule(directive: &Directive) -> Result<Rule, Diagnostic> {
    let mut line = Directive {
        name: directive.name.clone(),
        args: directive.args.clone(),
        block: None,
        brace: None,
    };
    if directive.args.len() < 2 {
        for inner in directive.lines() {
            inner.no_block()?;
            line.args.push(inner.name.clone());
            line.args.extend(inner.args.iter().cloned());
        }
    } else {
        directive.no_block()?;
    }
    let mut words = line.words();
    let mut field = keyword(&mut words).map_err(|wrong| wrong.help(FORM))?;
    let stop = field.text != "continue";
    if matches!(&*field.text, "stop" | "continue") {
        field = keyword(&mut words).map_err(|wrong| wrong.help(FORM))?;
    }
    let (read, form): (ReadAction, &str) = match &*field.text {
        "name" => (
            name,
            "name [exact|prefix|suffix|substring|regex] FROM TO [answer auto] [answer name|value REGEX TO]…",
        ),
        "type" => (rtype, "type FROM TO"),
        "class" => (class, "class FROM TO"),
        "edns0" => (edns0, "edns0 local|nsid|subnet set|append|replace|unset …"),
        "ttl" => (ttl, "ttl [exact|prefix|suffix|substring|regex] NAME SECONDS|MIN-MAX"),
        "rcode" => (rcode, "rcode [exact|prefix|suffix|substring|regex] NAME FROM TO"),
        "cname" => (cname, "cname [exact|prefix|suffix|substring|regex] FROM TO"),
        "answer" => {
            return Err(field.word.wrong("cannot begin a rule").help(
                "an answer is rewritten by the rule that rewrites its name: name FROM TO answer …",
            ));
        }
        _ => return Err(field.word.wrong("is no rule").help(FORM)),
    };
    let action = read(&mut words).and_then(|action| words.end().map(|()| action));
    let action = action.map_err(|wrong| match wrong.help {
        Some(_) => wrong,
        None => wrong.help(format!("write: rewrite [continue|stop] {form}")),
    })?;
    Ok(Rule { stop, action })
}

/// Reads what stands behind a field's name.
type ReadAction = fn(&mut Words<'_>) -> Result<Action, Diagnostic>;

/// How a rule is written.
const FORM: &str = "write: rewrite [continue|stop] type|class|name|edns0|ttl|cname|rcode …";

/// A word that stands for itself in any case.
struct Keyword<'a> {
    /// The word.
    word: &'a Word,
    /// Its text in lower case.
    text: String,
}

/// Takes the next word as a keyword.
fn keyword<'a>(words: &mut Words<'a>) -> Result<Keyword<'a>, Diagnostic> {
    let word = words.one()?;
    Ok(Keyword { word, text: word.text.to_ascii_lowercase() })
}

/// How names are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    /// As a whole.
    Exact,
    /// At the start.
    Prefix,
    /// At the end.
    Suffix,
    /// Anywhere.
    Substring,
    /// By a regular expression.
    Regex,
}

/// Takes the kind of match.
fn kind(words: &mut Words<'_>) -> Result<Match, Diagnostic> {
    let kind = keyword(words)?;
    Ok(match &*kind.text {
        "exact" => Match::Exact,
        "prefix" => Match::Prefix,
        "suffix" => Match::Suffix,
        "substring" => Match::Substring,
        "regex" => Match::Regex,
        _ => {
            return Err(kind
                .word
                .wrong("is no way to match names")
                .help("take one of exact, prefix, suffix, substring and regex"));
        }
    })
}

/// A text in lower case with its last dot.
fn normal(text: &str) -> String {
    let mut text = text.to_ascii_lowercase();
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}

/// Reads a name.
fn read_name(word: &Word) -> Result<Name, Diagnostic> {
    word.text.parse().map_err(|wrong| word.wrong(format_args!("is {wrong}")))
}

/// Reads the end of a name.
fn tail(word: &Word) -> Result<Tail, Diagnostic> {
    Tail::parse(&normal(&word.text)).ok_or_else(|| word.wrong("is not the end of a domain name"))
}

/// Takes a condition on names.
fn pattern(kind: Match, words: &mut Words<'_>) -> Result<Pattern, Diagnostic> {
    let word = words.one()?;
    Ok(match kind {
        Match::Exact => Pattern::Exact(read_name(word)?),
        Match::Prefix => Pattern::Labels(read_name(word)?),
        Match::Suffix => Pattern::Tail(tail(word)?),
        Match::Substring => Pattern::Within(normal(&word.text).into()),
        Match::Regex => Pattern::Regex(regex::read(word)?),
    })
}

/// Takes a regular expression and what it is replaced by.
fn regex_rename(words: &mut Words<'_>) -> Result<Rename, Diagnostic> {
    let from = regex::read(words.one()?)?;
    let word = words.one()?;
    let to = groups(&from, word, &normal(&word.text))?;
    Ok(Rename::Regex { from, to })
}

/// Reads a replacement with groups.
fn groups(from: &regex::Regex, word: &Word, text: &str) -> Result<Groups, Diagnostic> {
    let to = Groups::parse(text);
    match to.highest() {
        Some(group) if group >= from.captures_len() => Err(word
            .wrong(format_args!(
                "uses the group {{{group}}}, which the regular expression does not have"
            ))
            .help(
                "groups are counted from 1 by their opening parentheses; {0} is the whole match",
            )),
        _ => Ok(to),
    }
}

/// Reads a rule for names.
fn name(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let kind = if words.len() > 2 { kind(words)? } else { Match::Exact };
    let rename = match kind {
        Match::Regex => regex_rename(words)?,
        Match::Exact => {
            Rename::Exact { from: read_name(words.one()?)?, to: read_name(words.one()?)? }
        }
        Match::Prefix => {
            Rename::Labels { from: read_name(words.one()?)?, to: read_name(words.one()?)? }
        }
        Match::Suffix => Rename::Tail { from: tail(words.one()?)?, to: tail(words.one()?)? },
        Match::Substring => {
            let (from, to) = (normal(&words.one()?.text), normal(&words.one()?.text));
            Rename::Text { place: Place::Within, from: from.into(), to: to.into() }
        }
    };
    let (auto, answers) = answers(words)?;
    let auto = match (&rename, auto) {
        (Rename::Exact { from, to }, _) => {
            Auto::Reverse(Box::new(Rename::Below { from: to.clone(), to: from.clone() }))
        }
        (Rename::Tail { from, to }, true) => {
            Auto::Reverse(Box::new(Rename::Tail { from: to.clone(), to: from.clone() }))
        }
        (_, true) => Auto::Asked,
        (_, false) => Auto::Off,
    };
    Ok(Action::Name(Box::new(NameRule { rename, auto, answers })))
}

/// Takes what a rule for names says of the reply: whether `auto`, and the rules. A second `answer` may be left out.
fn answers(words: &mut Words<'_>) -> Result<(bool, Vec<Back>), Diagnostic> {
    let (mut auto, mut answers, mut first) = (None, Vec::new(), true);
    while let Some(word) = words.peek() {
        if word.text == "answer" {
            words.one()?;
        } else if first {
            return Err(word.fault(format!("Wrong argument count: '{word}' is one too many")));
        }
        first = false;
        let word = words.one()?;
        match &*word.text {
            "auto" => auto = Some(word),
            "name" => {
                answers.push(Back { owners: true, values: false, rename: regex_rename(words)? })
            }
            "value" => {
                answers.push(Back { owners: false, values: true, rename: regex_rename(words)? })
            }
            _ => {
                return Err(word
                    .wrong("is no way to rewrite an answer")
                    .help("take one of auto, name REGEX TO and value REGEX TO"));
            }
        }
    }
    if let Some(word) = auto
        && answers.iter().any(|back| back.owners)
    {
        return Err(word.wrong("excludes a rule 'answer name': take one of the two away"));
    }
    // The names in the data are rewritten as the owners are where nothing else is said of them.
    if answers.iter().all(|back| !back.values) {
        answers.iter_mut().for_each(|back| back.values = true);
    }
    Ok((auto.is_some(), answers))
}

/// Reads a rule for types.
fn rtype(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let mut one = || -> Result<u16, Diagnostic> {
        let word = words.one()?;
        type_number(&word.text).ok_or_else(|| {
            word.wrong("is no record type")
                .help("take a mnemonic such as AAAA, or TYPE and a number")
        })
    };
    Ok(Action::Type { from: one()?, to: one()? })
}

/// Reads a rule for classes.
fn class(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let mut one = || -> Result<u16, Diagnostic> {
        let word = words.one()?;
        class_number(&word.text).ok_or_else(|| {
            word.wrong("is no class").help("take one of IN, CS, CH, HS, NONE and ANY")
        })
    };
    Ok(Action::Class { from: one()?, to: one()? })
}

/// Reads a rule for times to live.
fn ttl(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let kind = if words.len() > 2 { kind(words)? } else { Match::Exact };
    let name = pattern(kind, words)?;
    let word = words.one()?;
    let (least, most) = ttl_range(&word.text).ok_or_else(|| {
        word.wrong("is no time to live, and no range of them")
            .help("write seconds such as 30, or a range such as 30-300, 30- or -300")
    })?;
    Ok(Action::Ttl { name, least, most })
}

/// A time to live or a range of them, in seconds.
fn ttl_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| -> Option<u32> {
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let (least, most) = match text.split_once('-') {
        None => (number(text)?, number(text)?),
        Some(("", "")) => return None,
        Some(("", most)) => (0, number(most)?),
        Some((least, "")) => (number(least)?, MAX_TTL),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    (least <= most).then_some((least, most))
}

/// Reads a rule for response codes.
fn rcode(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let kind = if words.len() > 3 { kind(words)? } else { Match::Exact };
    let name = pattern(kind, words)?;
    let mut one = || -> Result<u16, Diagnostic> {
        let word = words.one()?;
        let number = word.text.parse().ok().filter(|number| *number <= 23);
        number.or_else(|| mnemonic::rcode(&word.text)).ok_or_else(|| {
            word.wrong("is no response code")
                .help("take a mnemonic such as NXDOMAIN, or a number up to 23")
        })
    };
    Ok(Action::Rcode { name, from: one()?, to: one()? })
}

/// Reads a rule for the targets of aliases. But for whole names its texts are compared and put in as they stand.
fn cname(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let kind = if words.len() > 2 { kind(words)? } else { Match::Exact };
    let place = match kind {
        Match::Exact => {
            return Ok(Action::Cname(Box::new(Rename::Exact {
                from: read_name(words.one()?)?,
                to: read_name(words.one()?)?,
            })));
        }
        Match::Regex => {
            // Targets are compared in lower case, whatever the pattern's.
            let from = regex::read_folded(words.one()?)?;
            let word = words.one()?;
            let to = groups(&from, word, &word.text.to_ascii_lowercase())?;
            return Ok(Action::Cname(Box::new(Rename::Regex { from, to })));
        }
        Match::Prefix => Place::Start,
        Match::Suffix => Place::End,
        Match::Substring => Place::Within,
    };
    let mut one = || -> Result<Box<str>, Diagnostic> {
        let word = words.one()?;
        if word.text.is_empty() {
            return Err(word.fault("a text is empty"));
        }
        Ok(word.text.to_ascii_lowercase().into())
    };
    Ok(Action::Cname(Box::new(Rename::Text { place, from: one()?, to: one()? })))
}

/// Reads a rule for EDNS options.
fn edns0(words: &mut Words<'_>) -> Result<Action, Diagnostic> {
    let option = keyword(words)?;
    let action = keyword(words)?;
    let verb = match &*action.text {
        "set" => edns::Action::Set,
        "append" => edns::Action::Append,
        "replace" => edns::Action::Replace,
        "unset" => edns::Action::Unset,
        _ => {
            return Err(action
                .word
                .wrong("is nothing to do with an option")
                .help("take one of set, append, replace and unset"));
        }
    };
    let unset = verb == edns::Action::Unset;
    let content = match &*option.text {
        "local" => {
            let word = words.one()?;
            let code = based_integer(&word.text).ok().and_then(|code| u16::try_from(code).ok());
            let code = code.ok_or_else(|| {
                word.wrong("is no option code").help("write a number up to 65535, such as 0xffee")
            })?;
            let data = if unset { Data::Fixed([].into()) } else { data(words.one()?)? };
            Content::Local(code, data)
        }
        "nsid" => Content::Nsid,
        "subnet" if unset => Content::Subnet(0, 0),
        "subnet" => Content::Subnet(bits(words, 32)?, bits(words, 128)?),
        _ => {
            return Err(option
                .word
                .wrong("is no kind of option")
                .help("take one of local, nsid and subnet"));
        }
    };
    let revert = !unset && words.peek().is_some_and(|word| word.text == "revert");
    if revert {
        words.one()?;
    }
    Ok(Action::Edns(EdnsRule { action: verb, content, revert }))
}

/// Takes the length of a prefix.
fn bits(words: &mut Words<'_>, most: u8) -> Result<u8, Diagnostic> {
    let word = words.one()?;
    let bits = based_integer(&word.text).ok().and_then(|bits| u8::try_from(bits).ok());
    bits.filter(|bits| *bits <= most).ok_or_else(|| {
        word.wrong("is no number of bits").help(format!("write a number up to {most}"))
    })
}

/// Reads the data of a local option.
fn data(word: &Word) -> Result<Data, Diagnostic> {
    if let Some(name) = word.text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        return Variable::parse(name).map(Data::Variable).ok_or_else(|| {
            word.wrong("is no variable").help("take one of {qname}, {qtype}, {client_ip}, {client_port}, {protocol}, {server_ip}, {server_port}, or a metadata label such as {kubernetes/namespace}")
        });
    }
    let Some(digits) = word.text.strip_prefix("0x") else {
        return Ok(Data::Fixed(word.text.as_bytes().into()));
    };
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        pair.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok())?
    });
    let octets: Option<Vec<u8>> = pairs.collect();
    octets.map(|octets| Data::Fixed(octets.into())).ok_or_else(|| {
        word.wrong("is no hexadecimal number").help(
            "write two digits an octet, such as 0x0a1b, or a text that does not begin with 0x",
        )
    })
}
