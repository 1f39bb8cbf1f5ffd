//! How far the shutdown of the process or of one listener has come.

use std::time::Duration;

use tokio::sync::watch;

/// The stages of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Serving.
    Running,
    /// Serving, but `/ready` says no, so that balancers move away.
    LameDuck,
    /// Taking no new queries; those under way end until the grace period is over.
    Draining,
    /// No query is under way any more: what was noted of them is written out.
    Closing,
}

/// The side that stops.
#[derive(Clone, Debug)]
pub struct Stopper {
    stage: watch::Sender<Stage>,
    grace: Duration,
}

impl Stopper {
    /// Running, with a grace period for draining.
    pub fn new(grace: Duration) -> Self {
        Self { stage: watch::Sender::new(Stage::Running), grace }
    }

    /// Goes on to `stage`; never back.
    pub fn reach(&self, stage: Stage) {
        self.stage.send_if_modified(|now| {
            let further = stage > *now;
            *now = stage.max(*now);
            further
        });
    }

    /// The stage now.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// The view of somebody who is to stop.
    pub fn stop(&self) -> Stop {
        Stop { stage: self.stage.subscribe(), grace: self.grace }
    }
}

/// The view of somebody who is to stop: a listener, a task.
#[derive(Clone, Debug)]
pub struct Stop {
    stage: watch::Receiver<Stage>,
    /// How long draining may take.
    pub grace: Duration,
}

impl Stop {
    /// Resolves once `stage` is reached, or the stopping side is gone.
    pub async fn reached(&mut self, stage: Stage) {
        // An error means the sender is gone, which is as good as being told to stop.
        drop(self.stage.wait_for(|now| *now >= stage).await);
    }

    /// The stage now.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }
}
