//! What plugins know of the process they run in, and may ask of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::shutdown::{Stage, Stop, Stopper};

/// The process, as plugins see it.
#[derive(Debug)]
pub struct Process {
    /// Where the process keeps data over restarts.
    pub data_dir: PathBuf,
    /// The version, such as `0.1.0`.
    pub version: String,
    /// The commit that was built, `unknown` if nobody said.
    pub commit: String,
    /// How many threads serve queries.
    pub workers: usize,
    stopper: Stopper,
    reload: Notify,
    reloads: AtomicU64,
    failed: AtomicBool,
    fatal: watch::Sender<Option<String>>,
    held: watch::Sender<usize>,
    /// How many have something to write out before the end.
    lingering: Arc<watch::Sender<usize>>,
}

/// Keeps the process from its very end, for a short time, while something is written out; until it is dropped.
#[derive(Debug)]
pub struct Linger(Arc<watch::Sender<usize>>);

impl Drop for Linger {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Keeps the process from ending, as long as it is there.
#[derive(Debug)]
pub struct Hold(Arc<Process>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.held.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Process {
    /// A running process, whose listeners have `grace` to drain.
    pub fn new(data_dir: PathBuf, version: String, workers: usize, grace: Duration) -> Self {
        Self {
            data_dir,
            version,
            commit: "unknown".to_owned(),
            workers,
            stopper: Stopper::new(grace),
            reload: Notify::new(),
            reloads: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            fatal: watch::Sender::new(None),
            held: watch::Sender::new(0),
            lingering: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The same process, built from `commit`.
    #[must_use]
    pub fn built_from(mut self, commit: &str) -> Self {
        commit.clone_into(&mut self.commit);
        self
    }

    /// The program and its version, as in the banner and in `version.bind`.
    pub fn program(&self) -> String {
        format!("Causeway-{}", self.version)
    }

    /// The process's shutdown, to bring about.
    pub fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// The process's shutdown, to wait for.
    pub fn stop(&self) -> Stop {
        self.stopper.stop()
    }

    /// Has a shutdown wait, before the lameduck time, until what is returned is dropped.
    pub fn hold(self: &Arc<Self>) -> Hold {
        self.held.send_modify(|count| *count += 1);
        Hold(Arc::clone(self))
    }

    /// Resolves when nobody holds the process any more.
    pub async fn released(&self) {
        // The sender is a field of ours, so waiting cannot fail.
        drop(self.held.subscribe().wait_for(|count| *count == 0).await);
    }

    /// Has the process wait at its end until this is dropped, which it is to be soon after [`Stage::Closing`].
    pub fn linger(&self) -> Linger {
        self.lingering.send_modify(|count| *count += 1);
        Linger(Arc::clone(&self.lingering))
    }

    /// Tells everybody that no query is under way any more, and waits for those who linger, `limit` at most.
    pub async fn close(&self, limit: Duration) {
        self.stopper.reach(Stage::Closing);
        let mut lingering = self.lingering.subscribe();
        // The sender is a field of ours, so waiting cannot fail; who takes too long is left behind.
        drop(tokio::time::timeout(limit, lingering.wait_for(|count| *count == 0)).await);
    }

    /// Asks for the configuration to be read again.
    pub fn ask_reload(&self) {
        self.reload.notify_one();
    }

    /// Resolves when somebody has asked for it.
    pub async fn reload_asked(&self) {
        self.reload.notified().await;
    }

    /// Ends the process with an error: for what makes going on worse than stopping. The first message counts.
    pub fn end(&self, message: String) {
        self.fatal.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(message);
            is_first
        });
    }

    /// Resolves when somebody has asked for that, with the message.
    pub async fn fatal(&self) -> String {
        let mut messages = self.fatal.subscribe();
        // The sender is a field of ours, so waiting cannot fail.
        let message = messages.wait_for(Option::is_some).await.map(|message| message.clone());
        message.ok().flatten().unwrap_or_default()
    }

    /// Notes how a reload ended.
    pub fn note_reload(&self, good: bool) {
        self.failed.store(!good, Ordering::Release);
        self.reloads.fetch_add(1, Ordering::AcqRel);
    }

    /// How many reloads there were, good or bad, and whether the last one failed.
    pub fn reloads(&self) -> (u64, bool) {
        (self.reloads.load(Ordering::Acquire), self.failed.load(Ordering::Acquire))
    }
}
