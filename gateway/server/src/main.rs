//! Causeway, the edge DNS gateway.

mod banner;
mod control;
mod demo;
mod flags;
mod logger;
mod rbac;
mod run;
mod secret;
mod signals;

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use config::corefile::Source;
use config::settings::{self, Provenance, Settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::flags::Command;

fn main() -> ExitCode {
    match flags::read(std::env::args_os().skip(1)) {
        Ok(command) => command_line(command),
        Err(refused) => {
            // Words too many are no question about flags.
            let usage = if refused.code == 2 { flags::USAGE } else { "" };
            say(&format!("{}\n{usage}", refused.what));
            ExitCode::from(refused.code)
        }
    }
}

/// Does what the command line asks for.
fn command_line(command: Command) -> ExitCode {
    match command {
        Command::Usage => {
            print(flags::USAGE);
            ExitCode::SUCCESS
        }
        Command::Version => {
            print(&banner::version());
            ExitCode::SUCCESS
        }
        Command::Secret(name, groups) => secret::make(&name, &groups),
        Command::Ask(flags, asked) => with_settings(&flags, |settings, _| {
            let socket = asked.socket.clone();
            let socket = socket.unwrap_or_else(|| control::path(&settings.run_dir));
            match control::client::ask(&socket, &asked) {
                Ok(control::client::Said { text, code }) => {
                    print(&text);
                    ExitCode::from(code)
                }
                // Not known is not the same as not well.
                Err(wrong) => {
                    say(&wrong);
                    ExitCode::from(2)
                }
            }
        }),
        Command::Plugins => {
            print(&banner::plugins());
            ExitCode::SUCCESS
        }
        Command::Config(flags) => with_settings(&flags, |settings, provenance| {
            print(&settings::table(&settings, &provenance));
            ExitCode::SUCCESS
        }),
        Command::Check(flags, file) => with_settings(&flags, |settings, _| {
            match source(Some(&file)).and_then(|source| run::check(&settings, &source, &file)) {
                Ok(text) => {
                    print(&text);
                    ExitCode::SUCCESS
                }
                Err(wrong) => fail(&wrong),
            }
        }),
        Command::Rbac { file, account, cluster } => {
            let read = source(Some(&file));
            match read.and_then(|source| rbac::manifests(&source, &account, cluster.as_deref())) {
                Ok(text) => {
                    print(&text);
                    ExitCode::SUCCESS
                }
                Err(wrong) => fail(&wrong),
            }
        }
        Command::Demo(flags) => with_settings(&flags, |settings, provenance| {
            let port = match provenance.of("port") {
                "default" => demo::PORT,
                _ => settings.port,
            };
            match demo::prepare(port) {
                Ok(demo) => serve(&settings, &demo.source(), Some(&demo)),
                Err(wrong) => fail(&format!("cannot lay the demo out: {wrong}")),
            }
        }),
        Command::Serve(flags) => {
            with_settings(&flags, |settings, _| match source(settings.corefile.as_deref()) {
                Ok(source) => serve(&settings, &source, None),
                Err(wrong) => fail(&wrong),
            })
        }
    }
}

/// Reads the settings and goes on with them, or says what is wrong.
fn with_settings(
    flags: &settings::Flags,
    go_on: impl FnOnce(Settings, Provenance) -> ExitCode,
) -> ExitCode {
    match Settings::load(flags) {
        Ok((settings, provenance)) => go_on(settings, provenance),
        Err(refused) => fail(&refused.to_string()),
    }
}

/// Where the Corefile is: the named file, a pipe for the name `stdin`, or the default.
fn source(file: Option<&Path>) -> Result<Source, String> {
    match file {
        None => Ok(Source::Default),
        Some(path) if path == Path::new("stdin") => {
            let mut stdin = std::io::stdin();
            if stdin.is_terminal() {
                return Ok(Source::Default);
            }
            let mut text = String::new();
            stdin
                .read_to_string(&mut text)
                .map_err(|error| format!("reading the Corefile from a pipe: {error}"))?;
            Ok(Source::Stdin(text))
        }
        Some(path) => Ok(Source::File(path.to_path_buf())),
    }
}

/// Serves until told to stop.
fn serve(settings: &Settings, source: &Source, demo: Option<&demo::Demo>) -> ExitCode {
    let log = logger::install(settings.log_format, settings.log_level, settings.log_timestamps);
    allow_files();
    let code = match run::serve(settings, source, demo) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            log.flush();
            return fail(&format!("{error:#}"));
        }
    };
    log.flush();
    code
}

/// Takes as many file descriptors as the system allows: the soft limit, often 1,024, is for programs that use `select`, and fewer than
/// the connections that the settings allow.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        log::warn!("the limit of open files stays as it is: {error}");
    }
}

/// Says on standard error why nothing goes, and fails.
fn fail(why: &str) -> ExitCode {
    say(why);
    ExitCode::FAILURE
}

/// Writes a line to standard error.
fn say(text: &str) {
    // Where nobody listens nothing can be said.
    drop(writeln!(std::io::stderr(), "{}", text.trim_end()));
}

/// Writes to standard output.
fn print(text: &str) {
    // A reader that has gone away, such as `head`, is no error of ours.
    drop(writeln!(std::io::stdout(), "{}", text.trim_end()));
}
