//! Network and mount namespaces, for tests that need port 53, another /etc/resolv.conf, or a link with a real MTU.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{Folder, Process, run, until};

/// A network of its own with nothing but a loopback interface, and mounts of its own; gone with this value. Needs root.
///
/// ```no_run
/// use tests::{Gateway, Namespace};
/// let namespace = Namespace::new();
/// namespace.resolv_conf("nameserver 127.0.0.1\n");
/// let gateway = Gateway::new(".:53 {\n whoami\n}").within(&namespace).start();
/// let seen = namespace.enter(|| tests::client::ask("127.0.0.1:53".parse().unwrap(), "example.org A"));
/// ```
#[derive(Debug)]
pub struct Namespace {
    /// The process that keeps the namespaces alive.
    holder: Process,
    /// The files that are mounted over others.
    folder: Folder,
    /// How many were.
    mounts: AtomicU32,
}

impl Namespace {
    /// Makes one, with the loopback interface up.
    pub fn new() -> Self {
        Self::with(&["--net", "--mount"], "ip link set lo up")
    }

    /// Makes one that has mounts of its own alone, in the network that is there.
    pub fn of_mounts() -> Self {
        Self::with(&["--mount"], "true")
    }

    /// Makes one of these kinds, in which a command is run first.
    fn with(kinds: &[&str], first: &str) -> Self {
        assert!(rustix::process::geteuid().is_root(), "namespaces need root");
        let mut command = Command::new("unshare");
        let line = format!("{first} && echo ready && exec sleep infinity");
        command.args(kinds).args(["sh", "-c", &line]);
        command.env("PATH", path()).stdin(Stdio::null());
        let holder = Process::start("namespace", command);
        holder.line("ready", Duration::from_secs(10));
        Self { holder, folder: Folder::new("namespace"), mounts: AtomicU32::new(0) }
    }

    /// A command that will run in it; a process started so has its own ID, not that of a wrapper.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.door().command(program)
    }

    /// The way in, for what keeps it.
    pub(crate) fn door(&self) -> Door {
        Door(self.holder.id())
    }

    /// Runs a shell line in it and gives its stdout; panics unless it succeeds.
    pub fn shell(&self, line: &str) -> String {
        run(self.command("sh").args(["-ec", line]))
    }

    /// Puts a text in the place of /etc/resolv.conf, for the programs in it only.
    pub fn resolv_conf(&self, text: &str) {
        self.mount("/etc/resolv.conf", text);
    }

    /// Puts a text in the place of any file that exists.
    pub fn mount(&self, over: &str, text: &str) {
        // A file that is mounted and then replaced could not be mounted over again.
        let number = self.mounts.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.write(&format!("mount-{number}"), text);
        run(self.command("mount").arg("--bind").arg(file).arg(over));
    }

    /// Gives the processes in it the account of a pod: the files below `/var/run/secrets`, on an empty `/run`.
    pub fn service_account(&self, token: &str, ca: &Path) {
        const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";
        let token = self.folder.write("token", token);
        self.shell(&format!(
            "mount -t tmpfs tmpfs /run; mkdir -p {ACCOUNT}; printf kube-system >{ACCOUNT}/namespace; cp {} {ACCOUNT}/token; cp {} {ACCOUNT}/ca.crt",
            token.display(),
            ca.display()
        ));
    }

    /// Runs a function on a thread whose sockets are in this network.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/proc/{}/ns/net", self.holder.id()))
            .expect("the namespace is there");
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("the namespace can be entered");
                inside()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Joins this network to another by a link with an MTU in octets; `mine` and `theirs` are addresses of one network, of `bits` bits.
    pub fn link(&self, other: &Self, mine: IpAddr, theirs: IpAddr, bits: u8, mtu: u32) {
        let (a, b) = (self.holder.id(), other.holder.id());
        run(Command::new("ip")
            .env("PATH", path())
            .args(["link", "add", "link0", "mtu", &mtu.to_string(), "netns", &a.to_string()])
            .args([
                "type",
                "veth",
                "peer",
                "name",
                "link0",
                "mtu",
                &mtu.to_string(),
                "netns",
                &b.to_string(),
            ]));
        for (side, address) in [(self, mine), (other, theirs)] {
            // Without duplicate address detection an IPv6 address is there at once.
            let flag = if address.is_ipv6() { "nodad" } else { "" };
            side.shell(&format!(
                "ip address add {address}/{bits} dev link0 {flag}; ip link set link0 up"
            ));
        }
        let up = || (!self.shell("ip -o link show link0 up").is_empty()).then_some(());
        until(Duration::from_secs(5), up).expect("the link comes up");
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

/// The way into a namespace, as long as that lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door(u32);

impl Door {
    /// A command that will run in the namespace.
    pub(crate) fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.0.to_string(), "--net", "--mount", "--"])
            .arg(program.as_ref());
        command.env("PATH", path());
        command
    }
}

/// A command in a folder and in a namespace, or outside if there is none.
pub(crate) fn command(namespace: Option<&Namespace>, folder: &Path, program: &Path) -> Command {
    let Some(namespace) = namespace else {
        let mut command = Command::new(program);
        command.current_dir(folder);
        return command;
    };
    // Who enters other mounts finds itself in their root.
    let mut command = namespace.command("env");
    command.arg("-C").arg(folder).arg(program);
    command
}

/// The search path with the folders of system programs.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}
