//! From the directive to patterns.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use config::{Diagnostic, Prop, Words};
use engine::Setup;
use log::Level;
use tokio::sync::Notify;

use super::handler::{Board, Errors, Pattern, summarise};
use crate::shared::regex;

/// What the block says.
#[derive(Debug, Default)]
pub(super) struct Options {
    stacktrace: bool,
    patterns: Vec<Pattern>,
}

/// What a block may say.
pub(super) const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "stacktrace",
        words: "",
        set: |options, _| {
            options.stacktrace = true;
            Ok(())
        },
    },
    Prop {
        name: "consolidate",
        words: "DURATION REGEXP [LEVEL] [show_first]",
        set: |options, words| {
            options.patterns.push(pattern(words)?);
            Ok(())
        },
    },
];

/// The names of levels.
const LEVELS: &[(&str, Level)] = &[
    ("warning", Level::Warn),
    ("error", Level::Error),
    ("info", Level::Info),
    ("debug", Level::Debug),
];

/// Sets the plugin up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    if let [word, ..] = &*directive.args
        && word.text != "stdout"
    {
        return Err(word.wrong("is an invalid log file").help("errors go to the process's log"));
    }
    if let [_, second, ..] = &*directive.args {
        return Err(second.fault(format!("Wrong argument count: '{second}' is one too many")));
    }
    let mut options = Options::default();
    directive.read_block(PROPS, &mut options)?;
    if options.stacktrace {
        setup.stacktrace();
    }
    let board = Arc::new(Board { patterns: options.patterns.into(), hit: Notify::new() });
    if !board.patterns.is_empty() {
        let (board, process) = (Arc::clone(&board), setup.process().stop());
        setup.task(move |stop| summarise(board, stop, process));
    }
    setup.observe(Errors { board, last: "errors" });
    Ok(())
}

/// Reads the words of `consolidate`.
fn pattern(words: &mut Words<'_>) -> Result<Pattern, Diagnostic> {
    let period = words.duration()?;
    let word = words.one()?;
    let regex = regex::read(word)?;
    let level = match words.peek() {
        Some(level) if level.text != "show_first" => words.choice(LEVELS)?,
        _ => Level::Error,
    };
    let show_first = match words.maybe() {
        None => false,
        Some(word) if word.text == "show_first" => true,
        Some(word) => return Err(word.wrong("is not known here")),
    };
    let text = word.text.clone();
    Ok(Pattern { period, regex, text, level, show_first, count: AtomicU64::new(0) })
}
