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
       causeway rbac [-account NAMESPACE/NAME] [-cluster CLUSTER] [FILE]
                                    print the roles that a Corefile needs in its clusters (also 'stdin')
       causeway secret NAME [GROUP...]
                                    make secrets for a client, and the lines for the file that `identity` reads
       causeway status              say how the running process is
       causeway explain NAME [TYPE] [--view VIEW] [--from ADDRESS] [--as IDENTITY[,GROUP...]] [--at LISTENER] [--tcp]
                                    say how the running process answers a question, and why
       causeway verify [CLUSTER]    compare what the running process knows of its clusters with what is there
           each with [--json] [--socket PATH] (default: causeway.sock in run_dir)

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
    /// Print the roles that a Corefile takes.
    Rbac {
        /// The Corefile.
        file: PathBuf,
        /// Who is bound to them: namespace and name of a ServiceAccount.
        account: String,
        /// The one cluster that is meant.
        cluster: Option<String>,
    },
    /// Make secrets for a client that is in these groups.
    Secret(String, Vec<String>),
    /// Ask the running process.
    Ask(Flags, Asked),
    /// Print the version.
    Version,
    /// List the plugins.
    Plugins,
    /// Print the usage.
    Usage,
}

/// What the running process is asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The verb.
    pub(crate) verb: String,
    /// What stands behind it.
    pub(crate) words: Vec<String>,
    /// The socket, if not that of the settings.
    pub(crate) socket: Option<PathBuf>,
    /// Whether the answer is to be JSON.
    pub(crate) json: bool,
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

/// The verbs that the running process answers.
const ASKED: &[&str] = &["status", "explain", "verify"];

/// Reads the words behind the program's name.
pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Command, Refused> {
    let mut words = words.map(|word| word.to_string_lossy().into_owned()).peekable();
    if let Some(verb) = words.next_if(|word| ASKED.contains(&&**word)) {
        return ask(verb, words);
    }
    let verb = words.next_if(|word| matches!(&**word, "check" | "config" | "demo" | "secret"));
    if words.next_if(|word| word == "rbac").is_some() {
        return rbac(words);
    }
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

/// Reads the words behind a verb that the running process answers. Flags may stand anywhere; those that are not known here are the
/// verb's own.
fn ask(verb: String, mut words: impl Iterator<Item = String>) -> Result<Command, Refused> {
    let mut flags = Flags::default();
    let mut asked = Asked { verb, ..Asked::default() };
    while let Some(word) = words.next() {
        let flag = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let (name, given) = match flag.and_then(|flag| flag.split_once('=')) {
            Some((name, value)) => (Some(name), Some(value.to_owned())),
            None => (flag, None),
        };
        match name {
            Some("h" | "help") => return Ok(Command::Usage),
            Some("json") => asked.json = true,
            Some(name @ ("socket" | "config" | "set")) => {
                let Some(value) = given.or_else(|| words.next()) else {
                    let what = format!("flag needs an argument: -{name}");
                    return Err(Refused { what, code: 2 });
                };
                match (name, value.split_once('=')) {
                    ("socket", _) => asked.socket = Some(PathBuf::from(value)),
                    ("config", _) => flags.config = Some(PathBuf::from(value)),
                    (_, Some((key, value))) => flags.set.push(Flag {
                        flag: "-set".to_owned(),
                        key: key.to_owned(),
                        value: value.to_owned(),
                    }),
                    (_, None) => {
                        let what = format!("-set needs KEY=VALUE, not '{value}'");
                        return Err(Refused { what, code: 2 });
                    }
                }
            }
            _ => asked.words.push(word),
        }
    }
    Ok(Command::Ask(flags, asked))
}

/// Reads the words behind `rbac`.
fn rbac(mut words: impl Iterator<Item = String>) -> Result<Command, Refused> {
    let (mut file, mut account, mut cluster) = (None, crate::rbac::ACCOUNT.to_owned(), None);
    while let Some(word) = words.next() {
        let flag = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let Some(flag) = flag.filter(|flag| !flag.is_empty()) else {
            if let Some(one) = file.replace(word) {
                let what = format!("rbac reads one Corefile, not '{one}' and another one");
                return Err(Refused { what, code: 1 });
            }
            continue;
        };
        let (name, given) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if matches!(name, "h" | "help") {
            return Ok(Command::Usage);
        }
        if !matches!(name, "account" | "cluster" | "conf") {
            let what = format!("flag provided but not defined: -{name}");
            return Err(Refused { what, code: 2 });
        }
        let Some(value) = given.or_else(|| words.next()) else {
            return Err(Refused { what: format!("flag needs an argument: -{name}"), code: 2 });
        };
        match name {
            "account" => account = value,
            "cluster" => cluster = Some(value),
            _ => file = Some(value),
        }
    }
    let file = PathBuf::from(file.unwrap_or_else(|| "Corefile".to_owned()));
    Ok(Command::Rbac { file, account, cluster })
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

    /// A question to the running process.
    fn asked(
        flags: Flags,
        verb: &str,
        words: &[&str],
        socket: Option<&str>,
        json: bool,
    ) -> Command {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let socket = socket.map(PathBuf::from);
        Command::Ask(flags, Asked { verb: verb.to_owned(), words, socket, json })
    }

    /// The command to print roles.
    fn roles(file: &str, account: &str, cluster: Option<&str>) -> Command {
        Command::Rbac {
            file: file.into(),
            account: account.to_owned(),
            cluster: cluster.map(str::to_owned),
        }
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
            ("rbac", Ok(roles("Corefile", "causeway/causeway-remote", None))),
            ("rbac -account dns/edge --cluster=prod x", Ok(roles("x", "dns/edge", Some("prod")))),
            (
                "rbac x y",
                Err(Refused {
                    what: "rbac reads one Corefile, not 'x' and another one".into(),
                    code: 1,
                }),
            ),
            (
                "rbac -p 53",
                Err(Refused { what: "flag provided but not defined: -p".into(), code: 2 }),
            ),
            (
                "rbac -account",
                Err(Refused { what: "flag needs an argument: -account".into(), code: 2 }),
            ),
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
            ("status", Ok(asked(sets(&[]), "status", &[], None, false))),
            (
                "verify --socket /run/x prod --json --deep -set run_dir=/y",
                Ok(asked(
                    sets(&[("-set", "run_dir", "/y")]),
                    "verify",
                    &["prod", "--deep"],
                    Some("/run/x"),
                    true,
                )),
            ),
            (
                "status -socket",
                Err(Refused { what: "flag needs an argument: -socket".into(), code: 2 }),
            ),
            ("check -conf y", Ok(Command::Check(sets(&[("-conf", "corefile", "y")]), "y".into()))),
            ("a b", Err(Refused { what: "extra command line arguments: [a b]".into(), code: 1 })),
        ] {
            assert_eq!(line(text), want, "{text}");
        }
    }
}
