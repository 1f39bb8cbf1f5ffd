//! Programs that a test starts: their output, their ports, their end; folders and ports for them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often something that is waited for is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Tries again and again until there is a value, and gives up after `limit`.
///
/// ```
/// use std::time::Duration;
/// let mut tries = 0;
/// let third = tests::until(Duration::from_secs(5), || { tries += 1; (tries == 3).then_some(tries) });
/// assert_eq!(third, Some(3));
/// ```
pub fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep(POLL);
    }
}

/// Takes a lock that nobody leaves in disorder.
pub(crate) fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A figure from the environment, or this one if it names none; how long tests say what they measure against.
pub fn stated(name: &str, default: f64) -> f64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Gives a port that is free for UDP and TCP on all addresses, below those the kernel gives to clients, each once.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port =
            u16::try_from(FIRST + start.wrapping_add(step) % COUNT).expect("it is below 65,536");
        if TcpListener::bind(("::", port)).is_ok() && UdpSocket::bind(("::", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// A temporary folder, gone with this value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes an empty folder with the label in its name; removes those of test programs that are gone.
    pub fn new(label: &str) -> Self {
        static SWEPT: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        SWEPT.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("{PREFIX}{}-{number}-{label}", std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, by rename, so that nobody reads half of it; folders in the name are made.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        let half = self.0.join(format!("{name}.half"));
        fs::create_dir_all(path.parent().expect("a file has a folder"))
            .expect("its folder can be made");
        fs::write(&half, content).unwrap_or_else(|e| panic!("{}: {e}", half.display()));
        fs::rename(&half, &path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is swept by the next run.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The beginning of the names of all such folders; a process ID follows.
const PREFIX: &str = "causeway-tests-";

/// Removes the folders of test programs that are gone: folders kept in statics are not dropped.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|n| n.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// A running program; stopped (SIGTERM, then SIGKILL) when this value goes.
#[derive(Debug)]
pub struct Process {
    /// The program.
    child: Child,
    /// What it wrote on stdout and stderr so far.
    output: Arc<Mutex<Vec<u8>>>,
    /// Its name in messages.
    label: String,
}

impl Process {
    /// Starts a program and collects what it writes on stdout and stderr.
    pub fn start(label: &str, mut command: Command) -> Self {
        let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
        let copy = writer.try_clone().expect("a pipe can be shared");
        let child = command
            .stdout(writer)
            .stderr(copy)
            .spawn()
            .unwrap_or_else(|e| panic!("{label}: {command:?}: {e}"));
        // The command holds the pipe's other end, so that without this it would never end.
        drop(command);
        let output = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(n @ 1..) = reader.read(&mut part) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..n]);
            }
        });
        Self { child, output, label: label.to_owned() }
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The other end of its stdin, if it was started with a pipe there; dropping it closes stdin.
    pub fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// All that it wrote so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }

    /// All that it wrote, once it has ended and its last words are there.
    pub fn rest(&mut self) -> String {
        // Who inherited its output may live on, so the end of the pipe is waited for but not counted on.
        let ended = || (Arc::strong_count(&self.output) == 1).then_some(());
        until(Duration::from_secs(2), ended);
        self.output()
    }

    /// The first line written so far that contains the text; waits for it, and panics with the output after `limit`.
    pub fn line(&self, text: &str, limit: Duration) -> String {
        let find = || self.output().lines().find(|l| l.contains(text)).map(str::to_owned);
        until(limit, find).unwrap_or_else(|| {
            panic!("{} did not write {text:?}; it wrote:\n{}", self.label, self.output())
        })
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal)
            .unwrap_or_else(|e| panic!("{}: {signal:?}: {e}", self.label));
    }

    /// Waits for its end.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        until(limit, || self.child.try_wait().ok().flatten())
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        if self.running() {
            self.child.kill().unwrap_or_else(|e| panic!("{}: {e}", self.label));
        }
        self.child.wait().unwrap_or_else(|e| panic!("{}: {e}", self.label));
    }

    /// Asks it to end, and ends it after `limit`; gives its status.
    pub fn stop(&mut self, limit: Duration) -> ExitStatus {
        if self.running() {
            self.signal(Signal::TERM);
        }
        self.wait(limit).unwrap_or_else(|| {
            self.kill();
            self.child.wait().unwrap_or_else(|e| panic!("{}: {e}", self.label))
        })
    }

    /// A size from its `/proc` status in octets, such as that of `VmRSS` (proc_pid_status(5)).
    pub fn size(&self, field: &str) -> u64 {
        let text = self.proc("status");
        let kib = text.lines().find_map(|l| {
            l.strip_prefix(field)?.strip_prefix(':')?.split_whitespace().next()?.parse::<u64>().ok()
        });
        kib.unwrap_or_else(|| panic!("{} has no {field}:\n{text}", self.label)) * 1024
    }

    /// Makes `VmHWM`, the most memory that it held, begin anew with what it holds now.
    pub fn forget_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.id());
        fs::write(&path, "5").unwrap_or_else(|e| panic!("{path}: {e}"));
    }

    /// The time that all its threads spent on a processor so far.
    pub fn processor_time(&self) -> Duration {
        /// Ticks of a second in `/proc`, which are a hundred on all machines that Rust knows.
        const TICKS: f64 = 100.0;
        let text = self.proc("stat");
        // The second field is the program's name in brackets and may have spaces; utime and stime are 14 and 15.
        let fields = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
        let ticks: Vec<u32> =
            fields.into_iter().flatten().skip(11).take(2).filter_map(|f| f.parse().ok()).collect();
        assert_eq!(ticks.len(), 2, "{}: {text}", self.label);
        Duration::from_secs_f64(ticks.iter().map(|&t| f64::from(t)).sum::<f64>() / TICKS)
    }

    /// How many files it has open, sockets included.
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.id());
        fs::read_dir(&path).unwrap_or_else(|e| panic!("{path}: {e}")).count()
    }

    /// What `/proc` tells of it.
    fn proc(&self, name: &str) -> String {
        let path = format!("/proc/{}/{name}", self.id());
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {path}: {e}", self.label))
    }

    /// The ports on which it listens for TCP connections or has an unconnected UDP socket.
    pub fn ports(&self) -> BTreeSet<u16> {
        ports(self.id())
    }

    /// Its ID as the kernel's calls take it.
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.running() {
            kill_process(self.pid(), Signal::TERM).ok();
            if self.wait(Duration::from_secs(3)).is_none() {
                drop(self.child.kill());
                drop(self.child.wait());
            }
        }
    }
}

/// Runs a program to its end and gives its stdout; panics with the end of its output unless it succeeds.
pub fn run(command: &mut Command) -> String {
    let done = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    if !done.status.success() {
        let skipped = out.lines().count().saturating_sub(200);
        let end: String = out.lines().skip(skipped).map(|line| format!("{line}\n")).collect();
        panic!("{command:?}: {}\n{end}{err}", done.status);
    }
    out.into_owned()
}

/// The root folder of the repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the crate lies in the repository").to_owned()
}

/// The folder of what is built: cargo's target folder.
pub fn target() -> PathBuf {
    // A test program lies in TARGET/debug/deps.
    let here = std::env::current_exe().expect("a program knows where it lies");
    let profile = |a: &&Path| a.file_name().is_some_and(|n| n == "debug" || n == "release");
    let target = here.ancestors().find(profile).and_then(Path::parent);
    target.expect("a test program lies below `debug` or `release`").to_owned()
}

/// The ports on which a process listens, read from `/proc` so that nothing has to be sent to it.
fn ports(pid: u32) -> BTreeSet<u16> {
    let proc = Path::new("/proc").join(pid.to_string());
    let links = fs::read_dir(proc.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| fs::read_link(e.path()).ok());
    let sockets: BTreeSet<String> = links
        .filter_map(|l| Some(l.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = BTreeSet::new();
    // 0A is a listening TCP socket, 07 an unconnected UDP one (linux/net/tcp_states.h).
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let text = fs::read_to_string(proc.join("net").join(table)).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, st, .., _] = words.as_slice() else { continue };
            if *st == state && words.get(9).is_some_and(|inode| sockets.contains(*inode)) {
                let port = local.rsplit(':').next().and_then(|p| u16::from_str_radix(p, 16).ok());
                found.extend(port);
            }
        }
    }
    found
}
