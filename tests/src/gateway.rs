//! The gateway as its users run it: the built program with a Corefile.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;

use crate::client::{self, Query, Reply};
use crate::process::{Folder, Process, free_port, repository, target, until};
use crate::{Namespace, namespace};

/// How long the start may take; a slow machine under load is no reason to fail.
const START: Duration = Duration::from_secs(30);

/// How long a stop may take before the program is ended.
const STOP: Duration = Duration::from_secs(10);

/// What a gateway is started with.
///
/// In the Corefile, in files and in the environment `@PORT@` and `@PORT:name@` stand for free ports, the same for the same
/// name, and `@DIR@` for the gateway's folder, which is its current directory.
#[derive(Debug)]
pub struct Builder<'a> {
    /// Folder and ports.
    place: Place,
    /// The Corefile, as given.
    corefile: String,
    /// More arguments.
    arguments: Vec<String>,
    /// Environment variables, as given.
    environment: Vec<(String, String)>,
    /// Where it runs, if not in the test's own network.
    namespace: Option<&'a Namespace>,
    /// Whether blocks without a port have port 53.
    standard_port: bool,
}

impl<'a> Builder<'a> {
    /// Writes a file beside the Corefile.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        let text = self.place.expand(text);
        self.place.folder.write(name, text);
        self
    }

    /// Sets an environment variable. The gateway gets no other than PATH, HOME and those set here.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds an argument to the command line.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Leaves port 53 to the blocks that name none, which otherwise get a free one; only for a namespace.
    pub fn standard_port(mut self) -> Self {
        self.standard_port = true;
        self
    }

    /// Runs it in a namespace.
    pub fn within(mut self, namespace: &'a Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Starts the gateway and waits until it listens on each `@PORT@` that the Corefile names, or on any port if it names none;
    /// panics with its output if it does not.
    pub fn start(self) -> Gateway {
        let mut gateway = self.launch();
        let wanted = gateway.wanted.clone();
        let up = until(START, || {
            if !gateway.process.running() {
                return Some(false);
            }
            let ports = gateway.process.ports();
            (!ports.is_empty() && ports.is_superset(&wanted)).then_some(true)
        });
        match up {
            Some(true) => gateway,
            Some(false) => panic!("the gateway ended at its start:\n{}", gateway.output()),
            None => {
                let missing: Vec<_> =
                    wanted.difference(&gateway.process.ports()).copied().collect();
                panic!("the gateway does not listen on {missing:?}:\n{}", gateway.output())
            }
        }
    }

    /// Starts the gateway and waits for its end: for Corefiles that are refused. Gives its status and its output.
    pub fn refused(self) -> (ExitStatus, String) {
        let mut gateway = self.launch();
        let status = gateway.process.wait(START);
        // The last line may still be on its way through the pipe.
        std::thread::sleep(Duration::from_millis(50));
        let output = gateway.output();
        (status.unwrap_or_else(|| panic!("the gateway accepts this:\n{output}")), output)
    }

    /// Starts the gateway and waits for nothing.
    pub fn launch(mut self) -> Gateway {
        let corefile = self.place.expand(&self.corefile);
        let path = self.place.folder.write("Corefile", &corefile);
        let default = self.place.port("");
        let mut command = namespace::command(self.namespace, self.place.folder.path(), binary());
        command.arg("-conf").arg(&path);
        if !self.standard_port {
            command.arg("-dns.port").arg(default.to_string());
        }
        command.args(&self.arguments).stdin(Stdio::null()).env_clear();
        command.envs(std::env::vars().filter(|(k, _)| k == "PATH" || k == "HOME"));
        // One of its own, so that gateways of tests have a control socket each.
        command.env("CAUSEWAY_RUN_DIR", self.place.folder.path().join("run"));
        for (name, value) in &self.environment {
            command.env(name, self.place.expand(value));
        }
        let named = |p: &&u16| corefile.contains(&format!(":{p}"));
        let wanted = self.place.ports.values().filter(named).copied().collect();
        Gateway { process: Process::start("causeway", command), place: self.place, wanted }
    }
}

/// A running gateway; stopped when this value goes.
///
/// ```no_run
/// use tests::Gateway;
/// let gateway = Gateway::new("example.org:@PORT@ {\n hosts hosts.txt\n}")
///     .file("hosts.txt", "203.0.113.1 www.example.org")
///     .start();
/// assert_eq!(gateway.ask("www.example.org A").addresses(), ["203.0.113.1".parse::<std::net::IpAddr>().unwrap()]);
/// ```
#[derive(Debug)]
pub struct Gateway {
    /// The program.
    process: Process,
    /// Folder and ports.
    place: Place,
    /// The ports that the Corefile names.
    wanted: std::collections::BTreeSet<u16>,
}

impl Gateway {
    /// Begins with a Corefile.
    #[expect(clippy::new_ret_no_self, reason = "tests read better: a gateway with this Corefile")]
    pub fn new<'a>(corefile: &str) -> Builder<'a> {
        Builder {
            place: Place { folder: Folder::new("gateway"), ports: BTreeMap::new() },
            corefile: corefile.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            namespace: None,
            standard_port: false,
        }
    }

    /// The address of `@PORT@` on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        self.address_of("")
    }

    /// The address of `@PORT:name@` on 127.0.0.1.
    pub fn address_of(&self, name: &str) -> SocketAddr {
        let port = self
            .place
            .ports
            .get(name)
            .unwrap_or_else(|| panic!("the Corefile has no @PORT:{name}@"));
        SocketAddr::from((Ipv4Addr::LOCALHOST, *port))
    }

    /// The ports that it was given, each with its name; that of `@PORT@` has none.
    pub fn ports(&self) -> impl Iterator<Item = (&str, u16)> {
        self.place.ports.iter().map(|(name, port)| (name.as_str(), *port))
    }

    /// Asks at `@PORT@`; panics with the log if there is no reply.
    pub fn ask(&self, query: impl Into<Query>) -> Reply {
        self.ask_at("", query)
    }

    /// Asks at `@PORT:name@`; panics with the log if there is no reply.
    pub fn ask_at(&self, name: &str, query: impl Into<Query>) -> Reply {
        let query = query.into();
        let reply = query.ask(self.address_of(name));
        reply.unwrap_or_else(|| {
            panic!(
                "no reply to {}; the gateway wrote:\n{}",
                query.message().queries[0],
                self.output()
            )
        })
    }

    /// Asks at `@PORT@` until a reply satisfies the condition; panics with the last reply after `limit`.
    pub fn ask_until(
        &self,
        query: impl Into<Query>,
        limit: Duration,
        good: impl Fn(&Reply) -> bool,
    ) -> Reply {
        query.into().ask_until(self.address(), limit, good)
    }

    /// Fetches a page of one of its HTTP side doors: status and body.
    pub fn get(&self, name: &str, path: &str) -> Option<(u16, String)> {
        client::http_get(self.address_of(name), path)
    }

    /// The samples that it exports at `@PORT:name@`: name with labels, as written, to value.
    pub fn metrics(&self, name: &str) -> BTreeMap<String, f64> {
        let (status, text) = until(START, || self.get(name, "/metrics"))
            .unwrap_or_else(|| panic!("no metrics:\n{}", self.output()));
        assert_eq!(status, 200, "{text}");
        let sample = |line: &str| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key.to_owned(), value.parse().ok()?))
        };
        text.lines().filter(|l| !l.starts_with('#')).filter_map(sample).collect()
    }

    /// All that it wrote so far.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Waits until it wrote a line with this text, and gives the line.
    pub fn line(&self, text: &str) -> String {
        self.process.line(text, START)
    }

    /// Writes a file in its folder, by rename.
    pub fn write(&mut self, name: &str, text: &str) {
        let text = self.place.expand(text);
        self.place.folder.write(name, text);
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.place.folder.path()
    }

    /// Asks it to read its Corefile again.
    pub fn reload(&self) {
        self.signal(Signal::USR1);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// What it used so far: memory, time, open files.
    pub fn usage(&self) -> &Process {
        &self.process
    }

    /// Its process, for anything else.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The memory that it holds, in bytes.
    pub fn resident(&self) -> u64 {
        self.process.size("VmRSS")
    }

    /// Ends it as a service manager does; gives its status.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop(STOP)
    }
}

/// The gateway's program: `CAUSEWAY_BIN`, or what `cargo build` makes of the sources as they are.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("CAUSEWAY_BIN") {
            return path.into();
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--package", "gateway", "--bin", "causeway"])
            .current_dir(repository());
        crate::process::run(&mut cargo);
        target().join("debug").join("causeway")
    })
}

/// A gateway's folder and ports.
#[derive(Debug)]
struct Place {
    /// Its current directory.
    folder: Folder,
    /// The ports given so far; that of `@PORT@` has no name.
    ports: BTreeMap<String, u16>,
}

impl Place {
    /// The port of a name.
    fn port(&mut self, name: &str) -> u16 {
        *self.ports.entry(name.to_owned()).or_insert_with(free_port)
    }

    /// Puts ports and folder into a text.
    fn expand(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("@PORT") {
            out.push_str(before);
            let (name, tail) = after
                .split_once('@')
                .unwrap_or_else(|| panic!("@PORT without its second @ in {text:?}"));
            out.push_str(&self.port(name.trim_start_matches(':')).to_string());
            rest = tail;
        }
        out.push_str(rest);
        out.replace("@DIR@", &self.folder.path().to_string_lossy())
    }
}
