//! The command line: flags with one or two dashes, as CoreDNS has them, and a few words of our own.

use std::ffi::OsString;
use std::path::PathBuf;

use config::settings::{Flag, Flags};

/// What `-h` prints.
pub(crate) const USAGE: &str = "\
Usage: causeway [FLAGS]             serve
       causeway check [FILE]        say whether a Corefile is right, and what is wrong with it (also 'stdin')
       causeway config [FLAGS]      print each setting with where it came from
       causeway demo [FLAGS]        serve a made-up cluster on ports that anybody may open
       causeway secret NAME [GROUP...]
                                    make secrets for a client, and the lines for the file that `identity` reads

  -conf FILE        the Corefile ('stdin' for a pipe; default: Corefile in the working directory)
  -dns.port PORT    the port of dns:// keys without one (default 53)
  -p PORT           the same
  -config FILE      the settings file (default: causeway.toml, then /etc/causeway/causeway.toml)
  -set KEY=VALUE    one setting; see docs/settings.md
  -pidfile FILE     write the process id to FILE
  -plugins          list the plugins
  -quiet            say nothing at the start
  -version          print the version
  -h                print this";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Serve.
    Serve(Flags),
    /// Serve the demo.
    Demo(Flags),
    /// Check a Corefile.
    Check(Flags, PathBuf),
    /// Print the settings.
    Config(Flags),
    /// Make secrets for a client that is in these groups.
    Secret(String, Vec<String>),
    /// Print the version.
    Version,
    /// List the plugins.
    Plugins,
    /// Print the usage.
    Usage,
}

/// Why a command line cannot be followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// What is wrong.
    pub(crate) what: String,
    /// The exit code: 2 for flags, 1 for words.
    pub(crate) code: u8,
}

/// Flags with a value, and the setting that each of them sets.
const VALUED: &[(&str, &str)] = &[
    ("conf", "corefile"),
    ("dns.port", "port"),
    ("p", "port"),
    ("pidfile", "pid_file"),
    ("config", ""),
    ("set", ""),
];

/// Reads the words behind the program's name.
pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Command, Refused> {
    let mut words = words.map(|word| word.to_string_lossy().into_owned()).peekable();
    let verb = words.next_if(|word| matches!(&**word, "check" | "config" | "demo" | "secret"));
    let mut flags = Flags::default();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        let Some(flag) = word
            .strip_prefix("--")
            .or_else(|| word.strip_prefix('-'))
            .filter(|flag| !flag.is_empty())
        else {
            // As in Go, the first word that is no flag ends the flags.
            rest.push(word);
            rest.extend(words.by_ref());
            break;
        };
        let (name, given) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        match name {
            "h" | "help" => return Ok(Command::Usage),
            "version" => return Ok(Command::Version),
            "plugins" => return Ok(Command::Plugins),
            "quiet" => {
                let value = given.unwrap_or_else(|| "true".to_owned());
                flags.set.push(Flag { flag: "-quiet".to_owned(), key: "quiet".to_owned(), value });
                continue;
            }
            _ => {}
        }
        let Some((_, key)) = VALUED.iter().find(|(own, _)| *own == name) else {
            return Err(Refused {
                what: format!("flag provided but not defined: -{name}"),
                code: 2,
            });
        };
        let Some(value) = given.or_else(|| words.next()) else {
            return Err(Refused { what: format!("flag needs an argument: -{name}"), code: 2 });
        };
        match name {
            "config" => flags.config = Some(PathBuf::from(value)),
            "set" => {
                let Some((key, value)) = value.split_once('=') else {
                    return Err(Refused {
                        what: format!("-set needs KEY=VALUE, not '{value}'"),
                        code: 2,
                    });
                };
                let flag =
                    Flag { flag: "-set".to_owned(), key: key.to_owned(), value: value.to_owned() };
                flags.set.push(flag);
            }
            _ => flags.set.push(Flag { flag: format!("-{name}"), key: (*key).to_owned(), value }),
        }
    }
    let command = match (verb.as_deref(), &*rest) {
        (Some("check"), []) => {
            let set = flags.set.iter().rev().find(|flag| flag.key == "corefile");
            let file =
                set.map_or_else(|| PathBuf::from("Corefile"), |flag| PathBuf::from(&flag.value));
            return Ok(Command::Check(flags, file));
        }
        (Some("check"), [file]) => Command::Check(flags, PathBuf::from(file)),
        (Some("config"), []) => Command::Config(flags),
        (Some("demo"), []) => Command::Demo(flags),
        (Some("secret"), [name, groups @ ..]) => Command::Secret(name.clone(), groups.to_vec()),
        (Some("secret"), []) => {
            let what = "secret needs a name: causeway secret NAME [GROUP...]".to_owned();
            return Err(Refused { what, code: 1 });
        }
        (None, []) => Command::Serve(flags),
        (_, rest) => {
            return Err(Refused {
                what: format!("extra command line arguments: [{}]", rest.join(" ")),
                code: 1,
            });
        }
    };
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a line.
    fn line(text: &str) -> Result<Command, Refused> {
        read(text.split_whitespace().map(OsString::from))
    }

    /// Flags that set these keys.
    fn sets(of: &[(&str, &str, &str)]) -> Flags {
        let set = of.iter().map(|(flag, key, value)| Flag {
            flag: (*flag).to_owned(),
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        });
        Flags { config: None, set: set.collect() }
    }

    #[test]
    fn flags_are_read_as_coredns_does() {
        for (text, want) in [
            ("", Ok(Command::Serve(sets(&[])))),
            (
                "-conf a -dns.port=1053",
                Ok(Command::Serve(sets(&[
                    ("-conf", "corefile", "a"),
                    ("-dns.port", "port", "1053"),
                ]))),
            ),
            (
                "--p 5353 -quiet",
                Ok(Command::Serve(sets(&[("-p", "port", "5353"), ("-quiet", "quiet", "true")]))),
            ),
            ("-version", Ok(Command::Version)),
            ("--plugins", Ok(Command::Plugins)),
            ("-h", Ok(Command::Usage)),
            ("check x", Ok(Command::Check(sets(&[]), "x".into()))),
            ("check", Ok(Command::Check(sets(&[]), "Corefile".into()))),
            ("demo", Ok(Command::Demo(sets(&[])))),
            ("secret alice", Ok(Command::Secret("alice".into(), vec![]))),
            ("secret alice a b", Ok(Command::Secret("alice".into(), vec!["a".into(), "b".into()]))),
            (
                "secret",
                Err(Refused {
                    what: "secret needs a name: causeway secret NAME [GROUP...]".into(),
                    code: 1,
                }),
            ),
            (
                "-nope",
                Err(Refused { what: "flag provided but not defined: -nope".into(), code: 2 }),
            ),
            ("-conf", Err(Refused { what: "flag needs an argument: -conf".into(), code: 2 })),
            ("check -conf y", Ok(Command::Check(sets(&[("-conf", "corefile", "y")]), "y".into()))),
            ("a b", Err(Refused { what: "extra command line arguments: [a b]".into(), code: 1 })),
        ] {
            assert_eq!(line(text), want, "{text}");
        }
    }
}
