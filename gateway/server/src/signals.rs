//! Signals, as CoreDNS takes them.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// SIGUSR1: read the configuration again.
    Reload,
    /// SIGTERM: go lame, drain, end.
    Terminate,
    /// SIGINT: go lame and end, without draining.
    Interrupt,
    /// SIGQUIT: end at once.
    Quit,
}

/// The signals that are listened for.
#[derive(Debug)]
pub(crate) struct Signals {
    usr1: Signal,
    usr2: Signal,
    hup: Signal,
    term: Signal,
    int: Signal,
    quit: Signal,
}

impl Signals {
    /// Takes the signals over.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            usr1: signal(SignalKind::user_defined1())?,
            usr2: signal(SignalKind::user_defined2())?,
            hup: signal(SignalKind::hangup())?,
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// The next one that asks for something.
    pub(crate) async fn next(&mut self) -> Told {
        loop {
            tokio::select! {
                _ = self.usr1.recv() => return Told::Reload,
                _ = self.term.recv() => return Told::Terminate,
                _ = self.int.recv() => return Told::Interrupt,
                _ = self.quit.recv() => return Told::Quit,
                _ = self.usr2.recv() => {
                    log::warn!("SIGUSR2: upgrading in place is not supported; start the new version beside this one, the ports are shared");
                }
                // Ignored, as CoreDNS does, whatever its pages say.
                _ = self.hup.recv() => {}
            }
        }
    }
}
