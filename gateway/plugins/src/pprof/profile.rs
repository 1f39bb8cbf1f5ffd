//! Where the processor's time goes: the stack of a running thread, looked at again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::pprof::protos::Message;
use ::pprof::{Error, ProfilerGuardBuilder};

/// How often stacks are looked at, a second.
const FREQUENCY: i32 = 100;

/// Where no stack is looked at: unwinding from these libraries may wait for a lock that the interrupted thread holds.
const NOT_IN: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Takes a profile of so long; blocks for that time.
///
/// # Errors
/// In words, if one is being taken already, or the system has no timer.
pub(super) fn take(time: Duration) -> Result<Vec<u8>, String> {
    let failed = |error: Error| format!("Could not enable CPU profiling: {error}");
    let _turn =
        Turn::new().ok_or("Could not enable CPU profiling: cpu profiling already in use")?;
    let builder = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&NOT_IN);
    let profiler = builder.build().map_err(failed)?;
    std::thread::sleep(time);
    let profile = profiler.report().build().and_then(|report| report.pprof()).map_err(failed)?;
    drop(profiler);
    profile.write_to_bytes().map_err(|error| format!("the profile cannot be written: {error}"))
}

/// Whether a profile is being taken: the process has one timer for it.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The turn of one profile, given back when dropped.
struct Turn;

impl Turn {
    /// Takes the turn; none if another one has it.
    fn new() -> Option<Self> {
        (!TAKEN.swap(true, Ordering::AcqRel)).then_some(Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}
