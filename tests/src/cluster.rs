//! A real Kubernetes API server with a real etcd, run by the program in `tests/testbed`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::Namespace;
use crate::namespace::Door;
use crate::process::{Folder, Process, free_port, repository, run};

/// How long the server may take to its start; it is 3 seconds on a quiet machine.
const START: Duration = Duration::from_secs(120);

/// A cluster's API server; gone with this value.
///
/// ```no_run
/// use tests::{Cluster, Gateway};
/// let cluster = Cluster::start();
/// cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
/// let kubeconfig = cluster.kubeconfig("reader");
/// let gateway = Gateway::new(&format!("cluster.local:@PORT@ {{\n kubernetes {{\n  kubeconfig {}\n }}\n}}", kubeconfig.display())).start();
/// ```
#[derive(Debug)]
pub struct Cluster {
    /// Its keys, data and ports, which stay over restarts.
    folder: Folder,
    /// The program, while it runs.
    process: Option<Process>,
    /// The flags of `testbed serve`.
    flags: Vec<String>,
    /// Where it runs, if not in the test's own network.
    door: Option<Door>,
    /// What the program says about itself.
    info: Value,
}

impl Cluster {
    /// Starts an empty cluster.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts an empty cluster with more flags of `testbed serve`, for example `--audit`.
    pub fn with(flags: &[&str]) -> Self {
        Self::begin(None, flags)
    }

    /// Starts an empty cluster in a namespace, which must outlive it; it listens on 127.0.0.1 there.
    pub fn within(namespace: &Namespace, flags: &[&str]) -> Self {
        Self::begin(Some(namespace.door()), flags)
    }

    /// Starts a cluster with so many Services, each with an EndpointSlice of five addresses, all of which is in etcd before
    /// the API server starts; they are those of [`Cluster::load`], and every tenth Service is headless. Service `I` has the
    /// cluster IP 10.100.0.0 + `I` + 1 or, if headless, hostnames `pod-0` to `pod-4`; the addresses begin at
    /// 172.16.0.0 + 5 `I`.
    pub fn loaded(services: u32, namespaces: u32, flags: &[&str]) -> Self {
        let mut cluster = Self::prepared(None, flags);
        cluster.serve(&["--etcd-only"]);
        run(testbed(None, "etcdload").args(["-etcd", cluster.etcd()]).args([
            "-services",
            &services.to_string(),
            "-namespaces",
            &namespaces.to_string(),
        ]));
        cluster.stop();
        cluster.restart();
        cluster
    }

    /// Starts an empty cluster anywhere.
    fn begin(door: Option<Door>, flags: &[&str]) -> Self {
        let mut cluster = Self::prepared(door, flags);
        cluster.restart();
        cluster
    }

    /// Makes a folder for a cluster and finds ports, and starts nothing.
    fn prepared(door: Option<Door>, flags: &[&str]) -> Self {
        // The program would take any free port, one that the kernel may give to a client while the server is away.
        let ports = [format!("--port={}", free_port()), format!("--etcd-port={}", free_port())];
        let flags = ports.into_iter().chain(flags.iter().map(|&f| f.to_owned())).collect();
        Self { folder: Folder::new("cluster"), process: None, flags, door, info: Value::Null }
    }

    /// Starts it again on the same data and ports, if it does not run.
    pub fn restart(&mut self) {
        self.serve(&[]);
    }

    /// Starts it with more flags, if it does not run.
    fn serve(&mut self, more: &[&str]) {
        if self.process.is_some() {
            return;
        }
        let mut command = testbed(self.door, "serve");
        command
            .arg("--state-dir")
            .arg(self.folder.path())
            .args(["--stop-on-stdin-close", "--grace=1s"]);
        command.args(&self.flags).args(more).stdin(Stdio::piped());
        let process = Process::start("testbed", command);
        let line = process.line("\"readyAfterMs\"", START);
        self.info = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        self.process = Some(process);
    }

    /// Ends it in good order.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(Duration::from_secs(15));
        }
    }

    /// Ends it at once; what was acknowledged is still there after a restart.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Makes it hang: connections stay open and nothing is answered, until [`Cluster::resume`].
    pub fn pause(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::STOP);
    }

    /// Lets it go on after [`Cluster::pause`].
    pub fn resume(&self) {
        self.process.as_ref().expect("it runs").signal(Signal::CONT);
    }

    /// The folder with etcd's data; to be touched only while the server is away.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }

    /// The server's address on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        let url = self.url();
        let address = url.strip_prefix("https://").and_then(|a| a.parse().ok());
        address.unwrap_or_else(|| panic!("{url} is not https://ADDRESS:PORT"))
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        self.text(&self.info["url"])
    }

    /// etcd's URL.
    pub fn etcd(&self) -> &str {
        self.text(&self.info["etcd"])
    }

    /// The file with the certificate of its CA.
    pub fn ca(&self) -> &Path {
        Path::new(self.text(&self.info["ca"]))
    }

    /// A kubeconfig with a user's client certificate: `admin`, `reader`, `reader-rsa`, `reader-nopods` or `nobody`.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.user(user, "kubeconfig")
    }

    /// The text of a kubeconfig with a user's client certificate that leads to another address, such as that of a
    /// [`Relay`](crate::Relay).
    pub fn kubeconfig_at(&self, user: &str, address: SocketAddr) -> String {
        let path = self.kubeconfig(user);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        text.replace(self.url(), &format!("https://{address}"))
    }

    /// A kubeconfig with a user's token.
    pub fn token_kubeconfig(&self, user: &str) -> PathBuf {
        self.user(user, "kubeconfigToken")
    }

    /// The file with a user's client certificate.
    pub fn certificate(&self, user: &str) -> PathBuf {
        self.user(user, "cert")
    }

    /// The file with a user's key.
    pub fn key(&self, user: &str) -> PathBuf {
        self.user(user, "key")
    }

    /// The file with a user's token.
    pub fn token_file(&self, user: &str) -> PathBuf {
        self.user(user, "tokenFile")
    }

    /// Makes the objects be as this YAML says (any number of documents); a status is written as well.
    pub fn apply(&self, manifests: &str) {
        let file = Folder::new("manifests");
        self.apply_path(&file.write("all.yaml", manifests));
    }

    /// The same from a file or a folder.
    pub fn apply_path(&self, path: &Path) {
        run(self.command("apply").arg("-q").arg("-f").arg(path));
    }

    /// Adds the definitions of ServiceImport and ServiceExport.
    pub fn add_multicluster(&self) {
        run(self.command("apply").args(["-q", "-mcs-crds"]));
    }

    /// Deletes what the YAML names.
    pub fn delete(&self, manifests: &str) {
        let file = Folder::new("manifests");
        run(self.command("delete").arg("-f").arg(file.write("all.yaml", manifests)));
    }

    /// Deletes a namespace with all that is in it.
    pub fn delete_namespace(&self, name: &str) {
        run(self.command("delete").args(["-namespace", name]));
    }

    /// Makes many Services, each with one EndpointSlice of five addresses: `svc-I` in `load-ns-(I mod namespaces)`.
    pub fn load(&self, services: u32, namespaces: u32) {
        run(self.command("load").args([
            "-services",
            &services.to_string(),
            "-namespaces",
            &namespaces.to_string(),
        ]));
    }

    /// Changes EndpointSlices, `rate` a second for so many seconds, and gives what was changed when.
    pub fn churn(&self, rate: f64, seconds: f64) -> Vec<Change> {
        let mut command = self.command("churn");
        command.args(["-rate", &rate.to_string(), "-seconds", &seconds.to_string(), "-o", "-"]);
        run(&mut command).lines().filter_map(Change::read).collect()
    }

    /// A token of the ServiceAccount `kube-system/dns-gateway`, good for ten minutes.
    pub fn token(&self) -> String {
        run(&mut self.command("token")).trim().to_owned()
    }

    /// Drops etcd's history, so that old watches cannot go on.
    pub fn compact(&self) {
        run(testbed(self.door, "compact").args(["-etcd", self.etcd()]));
    }

    /// What was asked of the server, an object a request; the cluster must have been started with `--audit`.
    pub fn audit(&self) -> Vec<Value> {
        self.audited("")
    }

    /// The same of one user.
    pub fn audit_of(&self, user: &str) -> Vec<Value> {
        // Most lines are others'; they need not be taken apart.
        let mut events = self.audited(user);
        events.retain(|event| event["user"]["username"] == user);
        events
    }

    /// Those whose lines have this text.
    fn audited(&self, part: &str) -> Vec<Value> {
        let path = self.text(&self.info["auditLog"]);
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let lines = text.lines().filter(|line| line.contains(part));
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// What the server wrote so far.
    pub fn output(&self) -> String {
        self.process.as_ref().map(Process::output).unwrap_or_default()
    }

    /// A testbed command against this cluster, as `admin`.
    pub fn command(&self, name: &str) -> Command {
        let mut command = testbed(self.door, name);
        command.arg("-kubeconfig").arg(self.kubeconfig("admin"));
        command
    }

    /// A field of a user.
    fn user(&self, user: &str, field: &str) -> PathBuf {
        self.text(&self.info["users"][user][field]).into()
    }

    /// A field that is text.
    fn text<'a>(&self, value: &'a Value) -> &'a str {
        value.as_str().unwrap_or_else(|| panic!("the testbed did not say that: {}", self.info))
    }
}

/// One change that [`Cluster::churn`] made.
#[derive(Clone, Debug)]
pub struct Change {
    /// When the API server acknowledged it, in microseconds of the Unix epoch.
    pub acknowledged: u64,
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The addresses of its ready endpoints after the change.
    pub addresses: Vec<String>,
}

impl Change {
    /// Reads one line of the record; changes that failed are left out.
    fn read(line: &str) -> Option<Self> {
        let v: Value = serde_json::from_str(line).ok()?;
        if v.get("err").is_some() {
            return None;
        }
        Some(Self {
            acknowledged: v["ack_us"].as_u64()?,
            namespace: v["namespace"].as_str()?.to_owned(),
            service: v["service"].as_str()?.to_owned(),
            addresses: v["addresses"]
                .as_array()?
                .iter()
                .filter_map(|a| Some(a.as_str()?.to_owned()))
                .collect(),
        })
    }
}

/// A command of the testbed program; panics if it was not built.
fn testbed(door: Option<Door>, name: &str) -> Command {
    let program = repository().join("tests/testbed/bin/testbed");
    assert!(program.exists(), "{} is missing: run tests/testbed/build.sh", program.display());
    let mut command = door.map_or_else(|| Command::new(&program), |d| d.command(&program));
    command.arg(name);
    command
}
