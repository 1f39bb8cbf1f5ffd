//! What a fault is done to: a gateway, its way to a cluster, and what the cluster has.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::meddler::{Fault, Meddler};
use tests::{Cluster, Folder, Gateway, Namespace, Pki};

use super::LIMIT;
use super::rows::{Row, Way};

/// What the disk holds that is to be full, in octets.
const DISK: usize = 1 << 20;

/// The secret that the API server's proxy lets in.
pub(super) const TOKEN: &str = "faulty-token";

/// A row being tried.
pub(super) struct Stage<'a> {
    /// The cluster that all proxies lead to.
    pub(super) steady: &'a Cluster,
    /// A cluster for this row alone.
    pub(super) own: Option<&'a mut Cluster>,
    /// The proxy.
    pub(super) meddler: Option<Meddler>,
    /// Where the kubeconfig is, with what it needs.
    pub(super) folder: Folder,
    /// Where the disk of the snapshots is mounted.
    pub(super) disk: Option<Namespace>,
    /// The kubeconfig's text.
    pub(super) config: String,
    /// The row's namespace.
    pub(super) namespace: String,
    /// The first three octets of its addresses.
    pub(super) net: String,
}

impl<'a> Stage<'a> {
    /// Makes a namespace with objects, and a way to its cluster.
    pub(super) fn new(
        row: &Row,
        number: usize,
        (steady, pki): (&'a Cluster, &Pki),
        own: Option<&'a mut Cluster>,
    ) -> Self {
        let folder = Folder::new("fault");
        let (namespace, net) = (format!("fault-{number}"), format!("10.97.{number}"));
        let meddler = own.is_none().then(|| Meddler::start(steady, pki));
        let path = |name: &str| folder.path().join(name).display().to_string();
        let user = match row.way {
            Way::Token | Way::Clock | Way::Full | Way::ReadOnly | Way::Damaged => {
                format!("tokenFile: {}", path("token"))
            }
            Way::Program => format!(
                "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  command: sh\n  args: [-c, '. {}']\n  interactiveMode: Never",
                path("program")
            ),
            Way::Server => String::new(),
        };
        let config = match &meddler {
            Some(meddler) => meddler.kubeconfig(pki, &user),
            None => String::new(),
        };
        let disk = matches!(row.way, Way::Full | Way::ReadOnly).then(Namespace::of_mounts);
        let stage = Self { steady, own, meddler, folder, disk, config, namespace, net };
        stage.write("token", TOKEN);
        stage.write("good", TOKEN);
        stage.write("clock", "+0s");
        let good = path_of(&stage.folder, "good");
        stage.write("program", &format!(
            "t=$(cat {}) || exit 3\nprintf '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"%s\"}}}}' \"$t\"\n",
            good.display()
        ));
        stage.configure();
        if stage.disk.is_some() {
            fs::create_dir(stage.kept()).expect("the folder is ours");
            stage.on_disk(&format!("mount -t tmpfs -o size={DISK},mode=700 tmpfs ."));
        }
        match row.way {
            Way::Full => stage.on_disk(&format!("! head -c {} /dev/zero >fill", DISK + 1)),
            Way::ReadOnly => stage.on_disk("mount -o remount,ro ."),
            _ => {}
        }
        if let Some(meddler) = &stage.meddler {
            meddler.demand(TOKEN);
        }
        stage.apply(&stage.objects());
        stage
    }

    /// The folder of snapshots.
    pub(super) fn kept(&self) -> PathBuf {
        path_of(&self.folder, "kept")
    }

    /// Runs a shell line in the folder of snapshots.
    pub(super) fn on_disk(&self, line: &str) {
        let disk = self.disk.as_ref().expect("the row has a disk");
        disk.shell(&format!("cd {}; {line}", self.kept().display()));
    }

    /// Damages the snapshot that a gateway leaves.
    pub(super) fn damage(&self, mut gateway: Gateway) {
        let find = || {
            let files =
                fs::read_dir(self.kept()).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
            files.into_iter().find(|file| file.extension().is_some_and(|e| e == "snapshot"))
        };
        let file = tests::until(LIMIT, find).expect("there is a snapshot");
        // Its last one is written as it ends.
        gateway.stop();
        let mut bytes = fs::read(&file).expect("it is ours");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).expect("it is ours");
    }

    /// Writes the kubeconfig as it has to be.
    pub(super) fn configure(&self) {
        self.write("kubeconfig", &self.config);
    }

    /// A gateway on this way to the cluster.
    pub(super) fn gateway(&self, way: Way) -> Gateway {
        let (kubeconfig, more) = match &self.own {
            Some(cluster) => {
                (cluster.kubeconfig("reader"), "multicluster clusterset.local".to_owned())
            }
            None if way.keeps() => {
                (path_of(&self.folder, "kubeconfig"), format!("snapshot {}", self.kept().display()))
            }
            None => (path_of(&self.folder, "kubeconfig"), String::new()),
        };
        let mut builder = Gateway::new(&format!(
            ".:@PORT@ {{\n errors\n prometheus localhost:@PORT:metrics@\n kubernetes cluster.local clusterset.local 10.97.0.0/16 {{\n  kubeconfig {}\n  {more}\n }}\n}}",
            kubeconfig.display()
        ));
        if way == Way::Clock {
            builder = builder
                .env("LD_PRELOAD", &faketime().display().to_string())
                .env(
                    "FAKETIME_TIMESTAMP_FILE",
                    &path_of(&self.folder, "clock").display().to_string(),
                )
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        match &self.disk {
            Some(disk) => builder.within(disk).start(),
            None => builder.start(),
        }
    }

    /// What is there all the time: a Service, a headless one with two endpoints, and an alias.
    pub(super) fn objects(&self) -> String {
        let Self { namespace, net, .. } = self;
        let headless = slice(
            namespace,
            "db-1",
            "db",
            &[(&format!("{net}.101"), "db-0"), (&format!("{net}.102"), "db-1")],
        );
        [
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"),
            service(namespace, "web", &format!("{net}.1")),
            service(namespace, "doomed", &format!("{net}.9")),
            service(namespace, "flip", &format!("{net}.5")),
            service(namespace, "db", "None"),
            headless,
            format!("{{apiVersion: v1, kind: Service, metadata: {{name: out, namespace: {namespace}}}, spec: {{type: ExternalName, externalName: www.example.org}}}}"),
        ]
        .join("\n---\n")
    }

    /// The names that are known, with their types.
    pub(super) fn known(&self) -> Vec<String> {
        let Self { namespace, net, .. } = self;
        let last = net.rsplit('.').next().unwrap_or_default();
        let names = ["web", "db", "db-0.db", "db-1.db"]
            .map(|n| format!("{n}.{namespace}.svc.cluster.local A"));
        names
            .into_iter()
            .chain([
                format!("out.{namespace}.svc.cluster.local CNAME"),
                format!("_http._tcp.web.{namespace}.svc.cluster.local SRV"),
                format!("1.{last}.97.10.in-addr.arpa PTR"),
                format!("102.{last}.97.10.in-addr.arpa PTR"),
                format!("nothing.{namespace}.svc.cluster.local A"),
            ])
            .collect()
    }

    /// Makes objects be as YAML says.
    pub(super) fn apply(&self, yaml: &str) {
        self.own.as_deref().unwrap_or(self.steady).apply(yaml);
    }

    /// Lets something happen in the cluster: a Service comes and another goes.
    pub(super) fn happen(&self) {
        let cluster = self.own.as_deref().unwrap_or(self.steady);
        cluster.apply(&service(&self.namespace, "fresh", &format!("{}.10", self.net)));
        cluster.delete(&service(&self.namespace, "doomed", &format!("{}.9", self.net)));
    }

    /// Waits until answers tell of it.
    pub(super) fn told(&self, gateway: &Gateway, limit: Duration) {
        let name = |n: &str| format!("{n}.{}.svc.cluster.local", self.namespace);
        gateway.ask_until(&*name("fresh"), limit, |r| r.addresses().len() == 1);
        gateway.ask_until(&*name("doomed"), limit, |r| r.rcode() == ResponseCode::NXDomain);
    }

    /// The proxy.
    pub(super) fn meddler(&self) -> &Meddler {
        self.meddler.as_ref().expect("the row has a proxy")
    }

    /// Has the proxy do something wrong.
    pub(super) fn meddle(&mut self, fault: Fault) {
        self.meddler.as_mut().expect("the row has a proxy").set(fault);
    }

    /// Has requests fail for a moment, so that credentials are read again.
    pub(super) fn shake(&mut self) {
        self.meddle(Fault::Refuse);
        sleep(Duration::from_secs(1));
        self.meddle(Fault::None);
    }

    /// The cluster of the row alone.
    pub(super) fn cluster(&mut self) -> &mut Cluster {
        self.own.as_deref_mut().expect("the row has a cluster")
    }

    /// Writes a file, by rename.
    pub(super) fn write(&self, name: &str, text: &str) {
        let new = self.folder.write(&format!("{name}.new"), text);
        fs::rename(new, path_of(&self.folder, name)).expect("the folder is ours");
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) {
        fs::remove_file(path_of(&self.folder, name)).expect("it is there");
    }

    /// Has the token file have another token.
    pub(super) fn token(&self, token: &str) {
        self.write("token", token);
    }

    /// Changes services when the watch is there again.
    pub(super) fn stir(&self) {
        sleep(Duration::from_secs(2));
        for number in 20..23 {
            self.apply(&service(
                &self.namespace,
                &format!("s{number}"),
                &format!("{}.{number}", self.net),
            ));
        }
    }

    /// Makes a Service with a cluster IP a headless one while it is listed slowly.
    pub(super) fn flip(&self) {
        sleep(Duration::from_millis(600));
        let flip = service(&self.namespace, "flip", "None");
        self.steady.delete(&flip);
        let slice =
            slice(&self.namespace, "flip-1", "flip", &[(&format!("{}.77", self.net), "one")]);
        self.apply(&format!("{flip}\n---\n{slice}"));
    }

    /// Makes many objects, so that resource versions rise.
    pub(super) fn grow(&self) {
        let many = (0..60).map(|n| service(&self.namespace, &format!("many-{n}"), "None"));
        self.apply(&many.collect::<Vec<_>>().join("\n---\n"));
    }

    /// Restores etcd from a backup, so that resource versions go back and something is lost.
    pub(super) fn restore(&mut self) {
        let lost = service(&self.namespace, "lost", &format!("{}.30", self.net));
        let cluster = self.cluster();
        cluster.stop();
        let backup = Folder::new("backup");
        let copy = |from: &Path, to: &Path| {
            tests::process::run(std::process::Command::new("cp").arg("-a").arg(from).arg(to));
        };
        copy(&cluster.data(), &backup.path().join("etcd"));
        cluster.restart();
        cluster.apply(&lost);
        self.grow();
        let cluster = self.cluster();
        sleep(Duration::from_secs(3));
        cluster.stop();
        fs::remove_dir_all(cluster.data()).expect("the server is away");
        copy(&backup.path().join("etcd"), &cluster.data());
        cluster.restart();
    }
}

/// A file in a folder.
fn path_of(folder: &Folder, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// A Service with a cluster IP, or `None`.
fn service(namespace: &str, name: &str, ip: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{clusterIP: {ip}, ports: [{{name: http, port: 80}}]}}}}"
    )
}

/// An EndpointSlice: addresses and hostnames.
fn slice(namespace: &str, name: &str, of: &str, endpoints: &[(&str, &str)]) -> String {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|(ip, host)| format!("{{addresses: [{ip}], hostname: {host}}}"))
        .collect();
    format!(
        "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: {namespace}, labels: {{kubernetes.io/service-name: {of}}}}}, addressType: IPv4, ports: [{{name: http, port: 80, protocol: TCP}}], endpoints: [{}]}}",
        endpoints.join(", ")
    )
}

/// The library that moves a program's clock, where Debian has it.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("it is there").filter_map(Result::ok);
    let mut found = folders.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).expect("install libfaketime")
}
