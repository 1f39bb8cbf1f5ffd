//! The threads that serve queries: one runtime each, nothing is stolen.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// Threads with a single-threaded runtime each; dropping them stops them.
#[derive(Debug)]
pub struct Workers {
    handles: Vec<Handle>,
    threads: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl Workers {
    /// Starts `count` threads (at least one).
    ///
    /// # Errors
    /// Those of making a thread or its runtime.
    pub fn start(count: usize) -> io::Result<Self> {
        let stop = watch::Sender::new(false);
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        for at in 0..count.max(1) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let mut stopped = stop.subscribe();
            let run = move || {
                // An error means that the other side is gone, which is as good as being told to stop.
                runtime.block_on(async { drop(stopped.wait_for(|stop| *stop).await) });
            };
            threads.push(std::thread::Builder::new().name(format!("worker-{at}")).spawn(run)?);
        }
        Ok(Self { handles, threads, stop })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    /// The runtimes of all.
    pub(crate) fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// The runtime of one of them, counted round.
    pub(crate) fn handle(&self, at: usize) -> &Handle {
        &self.handles[at % self.handles.len()]
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so already.
            drop(thread.join());
        }
    }
}
