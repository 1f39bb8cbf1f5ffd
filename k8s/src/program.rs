//! Programs that print credentials, run within bounds.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};

/// How much a program may print, in octets: a token and a certificate with its chain are far less.
pub(crate) const MOST: u64 = 1 << 20;

/// Why a program printed nothing of use. No text has anything of what it printed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// It could not be started or read.
    #[error("can not be run: {0}")]
    Unusable(#[from] io::Error),
    /// It took longer than it may.
    #[error("was ended: it took longer than {} s", .0.as_secs())]
    Late(Duration),
    /// It printed more than 1 MiB.
    #[error("was ended: it printed more than {} MiB", MOST >> 20)]
    Endless,
    /// It ended with an error.
    #[error("failed: {0}")]
    Ended(ExitStatus),
}

/// Runs a program for at most `limit` and gives what it prints to its standard output, 1 MiB at most. It has no input, and what it
/// says on stderr is not read at all: it may quote credentials too.
///
/// A program that takes too long, prints too much or fails is ended with all that it has started, and so is one whose future is
/// dropped.
///
/// # Errors
///
/// See [`Failed`].
pub async fn print(command: &mut Command, limit: Duration) -> Result<Vec<u8>, Failed> {
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let running = Running(command.process_group(0).kill_on_drop(true).spawn()?);
    timeout(limit, running.end()).await.map_err(|_| Failed::Late(limit))?
}

/// A program that runs, with all that it starts: a process group of its own. Unless it has ended well all of that is ended when
/// this is dropped.
struct Running(Child);

impl Running {
    /// Waits for its end; gives what it printed.
    async fn end(mut self) -> Result<Vec<u8>, Failed> {
        let group = self.group();
        let mut text = Vec::new();
        if let Some(out) = self.0.stdout.take() {
            out.take(MOST + 1).read_to_end(&mut text).await?;
        }
        if text.len() as u64 > MOST {
            return Err(Failed::Endless);
        }
        let status = self.0.wait().await?;
        // What a program leaves behind when it ends well is its own matter: it may be a daemon that keeps tokens. The group's number
        // is still its own: as long as one of it is left none else has it, and else numbers are given out in turn.
        if status.success() {
            return Ok(text);
        }
        kill(group);
        Err(Failed::Ended(status))
    }

    /// The group's number, until the end of the program was seen.
    fn group(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(id.try_into().ok()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill(self.group());
    }
}

/// Ends all processes of a group.
fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        // They may all have ended by themselves.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
}
