//! Commands: how they are read, and run.

use std::fmt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::process;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    program: String,
    args: Vec<String>,
    /// Whether nobody waits for it.
    in_background: bool,
    /// What tells its lines in the log from those of others.
    id: u64,
}

impl Command {
    /// Takes a line apart.
    ///
    /// # Errors
    /// In words, if a quote is open at its end, or there is no command.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        /// The number of the next command.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut args = split(line)?;
        let in_background = args.len() > 1 && args.last().is_some_and(|last| last == "&");
        if in_background {
            args.pop();
        }
        if args.first().is_none_or(String::is_empty) {
            return Err("no command is stated".to_owned());
        }
        let program = args.remove(0);
        Ok(Self { program, args, in_background, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// Runs it, and waits for its end unless it is one for the background.
    pub(super) async fn run(&self) {
        let way = if self.in_background { "Nonblocking" } else { "Blocking" };
        // The line carries no plugin's name.
        log::info!("{way} Command \"{self}\" with ID {}", self.id);
        let mut command = process::Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null());
        let (shown, id) = (self.to_string(), self.id);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                log::error!(target: "plugin/on", "Command \"{shown}\" with ID {id} cannot be run: {error}");
                return;
            }
        };
        let ended = async move {
            match child.wait().await {
                Ok(status) if status.success() => {}
                Ok(status) => {
                    log::error!(target: "plugin/on", "Command \"{shown}\" with ID {id} failed: {status}");
                }
                Err(error) => {
                    log::error!(target: "plugin/on", "Command \"{shown}\" with ID {id}: {error}");
                }
            }
        };
        if self.in_background {
            tokio::spawn(ended);
        } else {
            ended.await;
        }
    }
}

impl fmt::Display for Command {
    /// Writes the words with spaces between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Takes a line apart at white space: quotes keep it, a backslash takes the next sign as it is (between double quotes only a
/// quote or a backslash, between single quotes nothing).
///
/// # Errors
/// In words, if a quote is open at the end, or a backslash stands there.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\'' | '"' => quoted(sign, &mut signs, word.get_or_insert_default())?,
            '\\' => match signs.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("nothing stands behind the last backslash".to_owned()),
            },
            sign if sign.is_whitespace() => words.extend(word.take()),
            sign => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the closing quote.
fn quoted(quote: char, signs: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    while let Some(sign) = signs.next() {
        match sign {
            sign if sign == quote => return Ok(()),
            '\\' if quote == '"' => match signs.next() {
                Some(next @ ('"' | '\\')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            sign => word.push(sign),
        }
    }
    Err(format!("the quote {quote} is not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_a_shell_does() {
        for (line, want) in [
            ("", &[][..]),
            ("  ", &[]),
            ("echo a  b", &["echo", "a", "b"]),
            ("echo 'a  b' c", &["echo", "a  b", "c"]),
            (r#"echo "a \"b\" \n" '\n'"#, &["echo", r#"a "b" \n"#, r"\n"]),
            (r"a\ b c\\", &["a b", r"c\"]),
            ("x'y'\"z\"", &["xyz"]),
            ("echo '' \"\"", &["echo", "", ""]),
            ("echo $HOME * | cat", &["echo", "$HOME", "*", "|", "cat"]),
        ] {
            assert_eq!(split(line).unwrap(), want, "{line}");
        }
        for line in ["'a", "\"a", "a \\", "\"a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_last_word_may_send_it_to_the_background() {
        let read = |line: &str| Command::read(line).unwrap();
        assert!(read("sleep 1 &").in_background);
        assert_eq!(read("sleep 1 &").to_string(), "sleep 1");
        assert!(!read("sleep & 1").in_background);
        // A command of this name, if anybody has one.
        assert!(!read("&").in_background);
        assert_ne!(read("true").id, read("true").id);
        assert_eq!(Command::read(" ").unwrap_err(), "no command is stated");
        assert_eq!(Command::read("''").unwrap_err(), "no command is stated");
    }
}
