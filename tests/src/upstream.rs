//! Upstream servers for `forward`: unbound, which shares no code with us.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::Namespace;
use crate::namespace::Door;
use crate::process::{Folder, Process, free_port, until};

/// How long unbound may take to its start.
const START: Duration = Duration::from_secs(20);

/// An unbound that answers from the records it was given, and NXDOMAIN for all other names; gone with this value.
///
/// ```no_run
/// use tests::{Gateway, Upstream};
/// let upstream = Upstream::start(&["example.org. 60 IN SOA ns h 1 2 3 4 5", "www.example.org. 60 IN A 203.0.113.1"]);
/// let gateway = Gateway::new(&format!(".:@PORT@ {{\n forward . {}\n}}", upstream.address())).start();
/// assert_eq!(gateway.ask("www.example.org A").answers().len(), 1);
/// assert_eq!(upstream.queries().len(), 1);
/// ```
#[derive(Debug)]
pub struct Upstream {
    /// Where its configuration lies.
    folder: Folder,
    /// The program, while it runs.
    process: Option<Process>,
    /// Where it listens.
    address: SocketAddr,
    /// Where it runs, if not in the test's own network.
    door: Option<Door>,
    /// What earlier runs of it logged.
    before: String,
}

impl Upstream {
    /// Starts one with these records. A zone whose SOA is among them answers negatively with it.
    pub fn start(records: &[&str]) -> Self {
        Self::with(records, "")
    }

    /// Starts two with the same records.
    pub fn pair(records: &[&str]) -> (Self, Self) {
        (Self::start(records), Self::start(records))
    }

    /// Starts one with more lines in the `server:` clause of its configuration.
    pub fn with(records: &[&str], more: &str) -> Self {
        Self::begin(None, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())), records, more)
    }

    /// Starts one in a namespace, which must outlive it, at an address of that.
    pub fn within(namespace: &Namespace, address: SocketAddr, records: &[&str]) -> Self {
        Self::begin(Some(namespace.door()), address, records, "")
    }

    /// Starts one anywhere.
    fn begin(door: Option<Door>, address: SocketAddr, records: &[&str], more: &str) -> Self {
        let folder = Folder::new("upstream");
        folder.write("unbound.conf", configuration(records, more, address));
        let mut upstream = Self { folder, process: None, address, door, before: String::new() };
        upstream.restart();
        upstream
    }

    /// Its address, for `forward`, UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts it again on the same port, if it does not run.
    pub fn restart(&mut self) {
        if self.process.is_some() {
            return;
        }
        let mut command =
            self.door.map_or_else(|| Command::new("unbound"), |d| d.command("unbound"));
        // Debian keeps it where only root's PATH looks.
        command
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
        command
            .args(["-d", "-c"])
            .arg(self.folder.path().join("unbound.conf"))
            .stdin(Stdio::null());
        let mut process = Process::start("unbound", command);
        let up = until(START, || {
            (!process.running() || process.ports().contains(&self.address.port()))
                .then(|| process.running())
        });
        assert_eq!(up, Some(true), "unbound did not start:\n{}", process.output());
        self.process = Some(process);
    }

    /// Stops it: its port is closed then.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(Duration::from_secs(5));
            self.before.push_str(&process.output());
        }
    }

    /// Makes it hang: it takes queries and answers none, until [`Upstream::resume`].
    pub fn pause(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::STOP);
    }

    /// Lets it go on after [`Upstream::pause`].
    pub fn resume(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::CONT);
    }

    /// The questions that it was asked so far, in their order: `127.0.0.1 www.example.org. A IN`.
    pub fn queries(&self) -> Vec<String> {
        let log = format!(
            "{}{}",
            self.before,
            self.process.as_ref().map(Process::output).unwrap_or_default()
        );
        let question = |line: &str| Some(line.split_once(" info: ")?.1.to_owned());
        log.lines()
            .filter_map(question)
            .filter(|q| q.ends_with(" IN") || q.ends_with(" CH"))
            .collect()
    }
}

/// An unbound configuration that reaches nothing but itself.
fn configuration(records: &[&str], more: &str, address: SocketAddr) -> String {
    let mut zones = String::new();
    let mut data = String::new();
    for record in records {
        let words: Vec<&str> = record.split_whitespace().collect();
        if let [owner, _, _, "SOA", ..] = words.as_slice() {
            writeln!(zones, "  local-zone: \"{owner}\" static")
                .expect("a string can be written to");
        }
        writeln!(data, "  local-data: '{record}'").expect("a string can be written to");
    }
    format!(
        "server:\n  interface: {}@{}\n  do-daemonize: no\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  directory: \"\"\n  \
         use-syslog: no\n  logfile: \"\"\n  log-queries: yes\n  verbosity: 0\n  num-threads: 1\n  module-config: \"iterator\"\n  \
         do-not-query-localhost: no\n  access-control: 0.0.0.0/0 allow\n  local-zone: \".\" static\n{zones}{data}{more}\n\
         remote-control:\n  control-enable: no\n",
        address.ip(),
        address.port()
    )
}
