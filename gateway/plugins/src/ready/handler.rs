//! `/ready`.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use engine::admin::{Ask, Handler, Told};
use engine::{Role, Roles, Stage, Stop};

/// How often a plugin is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Monitor {
    /// Until it has said yes once.
    #[default]
    UntilReady,
    /// Each time.
    Continuously,
}

/// Says whether all plugins of some blocks are ready.
#[derive(Debug)]
pub(super) struct Page {
    process: Stop,
    asked: Mutex<Asked>,
}

/// Whom to ask, and who has said yes.
#[derive(Debug, Default)]
struct Asked {
    monitor: Monitor,
    blocks: Vec<Block>,
}

/// One block's plugins.
#[derive(Debug)]
struct Block {
    roles: Roles,
    /// The places, among the block's roles, of those that have said yes.
    ready: BTreeSet<usize>,
}

impl Page {
    /// Nobody to ask yet.
    pub(super) fn new(process: Stop) -> Self {
        Self { process, asked: Mutex::default() }
    }

    /// Asks the plugins of one more block; `monitor` holds for all of them.
    pub(super) fn add(&self, roles: Roles, monitor: Monitor) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.monitor = monitor;
        asked.blocks.push(Block { roles, ready: BTreeSet::new() });
    }

    /// The names of the plugins that are not ready, sorted.
    fn waiting(&self) -> BTreeSet<&'static str> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let monitor = asked.monitor;
        let mut waiting = BTreeSet::new();
        for Block { roles, ready } in &mut asked.blocks {
            for (at, (name, role)) in roles.iter().enumerate() {
                let Role::Ready(plugin) = role else { continue };
                if monitor == Monitor::UntilReady && ready.contains(&at) {
                    continue;
                }
                if plugin.ready() {
                    ready.insert(at);
                } else {
                    waiting.insert(name);
                }
            }
        }
        waiting
    }
}

impl Handler for Page {
    fn handle(&self, _: Ask<'_>) -> Told {
        // Connections that were open before hear it too.
        if self.process.stage() >= Stage::LameDuck {
            return Told::text(503, "Shutting down");
        }
        let waiting = self.waiting();
        if waiting.is_empty() {
            return Told::text(200, "OK");
        }
        let names = waiting.into_iter().collect::<Vec<_>>().join(",");
        log::info!(target: "plugin/ready", "Plugins not ready: {names:?}");
        Told::text(503, names)
    }
}
