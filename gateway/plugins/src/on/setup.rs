//! From directives to the commands of each event.

use std::sync::Arc;

use config::{Diagnostic, Directive};
use engine::{Setup, Stage};

use super::command::Command;

/// What a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The configuration is served from now on.
    Startup,
    /// The process was told to stop.
    Shutdown,
    /// Never happens here.
    Renewal,
}

/// The names of events.
const EVENTS: &[(&str, Event)] =
    &[("startup", Event::Startup), ("shutdown", Event::Shutdown), ("certrenew", Event::Renewal)];

/// Sets the plugin up: a task for each event that happens and has commands.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let (mut startup, mut shutdown) = (Vec::new(), Vec::new());
    for directive in setup.directives() {
        let (event, command) = read(directive)?;
        match event {
            Event::Startup => startup.push(command),
            Event::Shutdown => shutdown.push(command),
            Event::Renewal => {
                setup.warn(directive.args[0].wrong("never happens: the command is never run"));
            }
        }
    }
    if !startup.is_empty() {
        setup.task(move |_| run(startup));
    }
    if !shutdown.is_empty() {
        let process = Arc::clone(setup.process());
        setup.task(move |mut stop| {
            // Taken at once: the process must not end before the task has its turn.
            let hold = process.hold();
            let mut ending = process.stop();
            async move {
                tokio::select! {
                    biased;
                    // A configuration that was replaced has no say in the shutdown.
                    () = stop.reached(Stage::Draining) => {}
                    () = ending.reached(Stage::LameDuck) => run(shutdown).await,
                }
                drop(hold);
            }
        });
    }
    Ok(())
}

/// Reads one directive.
fn read(directive: &Directive) -> Result<(Event, Command), Diagnostic> {
    directive.no_block()?;
    let mut words = directive.words();
    let help = "write: on startup|shutdown COMMAND [ARGS...] [&]";
    let event = words.choice(EVENTS).map_err(|wrong| match wrong.help {
        Some(_) => wrong,
        None => wrong.help(help),
    })?;
    let first = words.peek().unwrap_or(&directive.name);
    let line: Vec<&str> = words.rest().iter().map(|word| &*word.text).collect();
    match Command::read(&line.join(" ")) {
        Ok(command) => Ok((event, command)),
        Err(why) => Err(first.fault(why).help(help)),
    }
}

/// Runs commands one after another.
async fn run(commands: Vec<Command>) {
    for command in commands {
        command.run().await;
    }
}
