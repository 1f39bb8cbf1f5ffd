//! The table of faults: each is done to a gateway that is asked for all it knows the whole time. No answer may be wrong or
//! missing, what happened meanwhile must be answered soon after, and log, metrics and EDE must say what was the matter.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::meddler::{Fault, Meddler};
use tests::{Cluster, Folder, Gateway, Namespace, Pki, Query, Watchman, stated, watchman};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// How soon what happened meanwhile must be answered after the fault is over, unless a row says more.
const FRESH: f64 = 10.0;

/// How long a fault lasts at least that answers must tell of.
const OUTAGE: Duration = Duration::from_millis(11_500);

/// Before that nobody is told anything: connections break and are made again all the time.
const GRACE: Duration = Duration::from_secs(10);

/// How long a fault lasts that nobody is to notice.
const WHILE: Duration = Duration::from_secs(8);

/// How many lines of trouble a fault may take.
const MOST: usize = 10;

/// How many more may come when it is over.
const AFTER: usize = 2;

/// What the disk holds that is to be full, in octets.
const DISK: usize = 1 << 20;

/// How many rows are tried at once.
const LANES: usize = 6;

/// The secret that the API server's proxy lets in.
const TOKEN: &str = "faulty-token";

/// EDE 3: the answer may be out of date (RFC 8914 4.4).
const STALE: u16 = 3;

/// What a row needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A proxy, and a token in the kubeconfig.
    Token,
    /// A proxy, and a program that gives the token.
    Program,
    /// A proxy, and a clock that can be moved.
    Clock,
    /// A proxy, and a folder of snapshots on a small disk of its own, which is full.
    Full,
    /// The same, to which nothing can be written.
    ReadOnly,
    /// The same, with a snapshot that is damaged.
    Damaged,
    /// The API server itself, for itself alone.
    Server,
}

impl Way {
    /// Whether snapshots are kept.
    fn keeps(self) -> bool {
        matches!(self, Self::Full | Self::ReadOnly | Self::Damaged)
    }
}

/// What answers tell of a fault by EDE 3.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing, however long it lasts: what is answered is up to date, or nobody can know that it is not.
    Never,
    /// Nothing in the first ten seconds; it is over before that, unless the machine is slow.
    NotYet,
    /// Nothing in the first ten seconds, and then for how long the cluster has not been heard of.
    Then,
}

/// A fault.
struct Row {
    /// The layer.
    area: &'static str,
    /// What happens.
    name: &'static str,
    /// What it is done by.
    way: Way,
    /// Does it.
    inject: fn(&mut Stage<'_>),
    /// Takes it back.
    mend: fn(&mut Stage<'_>),
    /// What the log says of it; nothing if it is to stay silent.
    log: &'static str,
    /// How many lines of trouble the log may have while it lasts; none if it is to stay silent.
    lines: usize,
    /// A metric with words of its labels, which is at least 1 while it lasts.
    metric: &'static [&'static str],
    /// What answers tell of it.
    told: Told,
    /// Whether what happens in the cluster is answered while it lasts, not only afterwards.
    through: bool,
    /// How long it lasts at least.
    lasts: Duration,
    /// What the log says when it is over, if it does.
    healed: &'static str,
    /// How soon it must be over, in seconds.
    within: f64,
}

/// The metric of a watch that fails.
const FAILING: &[&str] =
    &["causeway_kubernetes_watch_state", "kind=\"services\"", "state=\"failing\""];

/// The metric of a watch that goes on.
const WATCHING: &[&str] =
    &["causeway_kubernetes_watch_state", "kind=\"services\"", "state=\"watching\""];

/// The metric of snapshots that could not be written or used.
const UNKEPT: &[&str] = &["causeway_kubernetes_snapshot_failures_total"];

/// The metric of requests that were answered with a status.
macro_rules! code {
    ($code:literal) => {
        &["coredns_kubernetes_rest_client_requests_total", concat!("code=\"", $code, "\"")]
    };
}

/// A row of a fault of the proxy.
const fn proxied(
    area: &'static str,
    name: &'static str,
    inject: fn(&mut Stage<'_>),
    log: &'static str,
    metric: &'static [&'static str],
    told: Told,
) -> Row {
    Row {
        area,
        name,
        way: Way::Token,
        inject,
        mend: |stage| stage.meddle(Fault::None),
        log,
        lines: if log.is_empty() { 0 } else { MOST },
        metric,
        told,
        through: false,
        lasts: Duration::ZERO,
        healed: "",
        within: FRESH,
    }
}

/// A row of a fault of the proxy that nobody is to notice: the log is silent, and what happens is answered meanwhile.
const fn unnoticed(area: &'static str, name: &'static str, inject: fn(&mut Stage<'_>)) -> Row {
    Row { through: true, ..proxied(area, name, inject, "", WATCHING, Told::Never) }
}

/// The table.
const ROWS: &[Row] = &[
    proxied("connection", "refused", |s| s.meddle(Fault::Refuse), "refused", FAILING, Told::Then),
    proxied("connection", "reset", |s| s.meddle(Fault::Reset), "eset", FAILING, Told::Then),
    proxied(
        "connection",
        "accepted and silent",
        |s| s.meddle(Fault::Hang),
        "deadline has elapsed",
        FAILING,
        Told::Then,
    ),
    proxied(
        "connection",
        "request without an answer",
        |s| s.meddle(Fault::Swallow),
        "no answer within",
        FAILING,
        Told::Then,
    ),
    proxied(
        "connection",
        "half-open within a response",
        |s| s.meddle(Fault::HalfOpen),
        "fell silent",
        FAILING,
        Told::NotYet,
    ),
    unnoticed("connection", "slow drip", |s| s.meddle(Fault::Drip)),
    Row {
        through: false,
        lasts: WHILE,
        ..unnoticed("connection", "watches that tell nothing", |s| s.meddle(Fault::Mute))
    },
    proxied(
        "connection",
        "truncated chunk",
        |s| s.meddle(Fault::Truncate),
        "ended early",
        FAILING,
        Told::Then,
    ),
    proxied(
        "TLS",
        "expired certificate",
        |s| s.meddle(Fault::Expired),
        "xpired",
        FAILING,
        Told::Then,
    ),
    proxied(
        "TLS",
        "certificate of another CA",
        |s| s.meddle(Fault::Stranger),
        "certificate",
        FAILING,
        Told::Then,
    ),
    proxied(
        "TLS",
        "certificate for another name",
        |s| s.meddle(Fault::Misnamed),
        "not valid for name",
        FAILING,
        Told::Then,
    ),
    Row {
        mend: |s| s.meddler().demand(TOKEN),
        ..proxied(
            "auth",
            "401, the token is not accepted",
            |s| {
                s.meddler().demand("another");
                s.meddler().cut();
            },
            "the credentials are not accepted (401",
            FAILING,
            Told::Then,
        )
    },
    Row {
        mend: |s| s.token("renewed"),
        ..proxied(
            "auth",
            "token has ended, a new one comes by file",
            |s| {
                s.meddler().demand("renewed");
                s.meddler().cut();
            },
            "the credentials are not accepted (401",
            code!("401"),
            Told::Then,
        )
    },
    proxied(
        "auth",
        "403 of one kind",
        |s| s.meddle(Fault::Forbid("endpointslices")),
        "\"endpointslices\"",
        &["causeway_kubernetes_watch_state", "kind=\"endpointslices\"", "state=\"forbidden\""],
        Told::Then,
    ),
    proxied(
        "auth",
        "403 of everything",
        |s| s.meddle(Fault::Forbid("/api")),
        "forbidden: the verb",
        code!("403"),
        Told::Then,
    ),
    Row {
        way: Way::Program,
        mend: |s| {
            s.write("good", TOKEN);
            s.meddler().demand(TOKEN);
        },
        ..proxied(
            "auth",
            "exec plugin fails",
            |s| {
                s.remove("good");
                s.meddler().demand("another");
                s.meddler().cut();
            },
            "failed: exit",
            FAILING,
            Told::Then,
        )
    },
    proxied(
        "protocol",
        "429 with Retry-After",
        |s| s.meddle(Fault::Status(429, 1)),
        "429",
        code!("429"),
        Told::NotYet,
    ),
    proxied(
        "protocol",
        "500",
        |s| s.meddle(Fault::Status(500, 0)),
        "500",
        code!("500"),
        Told::Then,
    ),
    proxied(
        "protocol",
        "503",
        |s| s.meddle(Fault::Status(503, 0)),
        "503",
        code!("503"),
        Told::NotYet,
    ),
    Row {
        metric: code!("410"),
        ..unnoticed("protocol", "410 Gone for each watch", |s| s.meddle(Fault::Gone))
    },
    Row {
        through: false,
        lasts: WHILE,
        ..unnoticed("protocol", "watches that end at once", |s| s.meddle(Fault::EndAtOnce))
    },
    proxied(
        "protocol",
        "garbage in place of an event",
        |s| s.meddle(Fault::Garbage),
        "can not be read",
        FAILING,
        Told::NotYet,
    ),
    proxied(
        "protocol",
        "event of two GiB",
        |s| s.meddle(Fault::Oversized),
        "bytes",
        FAILING,
        Told::NotYet,
    ),
    proxied(
        "protocol",
        "page for people",
        |s| s.meddle(Fault::Page),
        "can not be read",
        FAILING,
        Told::Then,
    ),
    proxied(
        "protocol",
        "gzip garbage",
        |s| s.meddle(Fault::Gzip),
        "can not be read",
        FAILING,
        Told::NotYet,
    ),
    proxied("protocol", "not HTTP", |s| s.meddle(Fault::NotHttp), "HTTP", FAILING, Told::NotYet),
    unnoticed("data", "each event twice", |s| s.meddle(Fault::Twice)),
    Row {
        through: true,
        ..proxied(
            "data",
            "events once more, out of order",
            |s| {
                s.meddle(Fault::Late);
                s.stir();
            },
            "after",
            WATCHING,
            Told::Never,
        )
    },
    unnoticed("data", "kind change during a list", |s| {
        s.meddle(Fault::Drip);
        s.flip();
    }),
    Row {
        way: Way::Clock,
        mend: |_| {},
        ..unnoticed("time", "clock an hour ahead", |s| s.write("clock", "+3600s"))
    },
    Row {
        way: Way::Clock,
        mend: |_| {},
        ..unnoticed("time", "clock an hour back", |s| s.write("clock", "-3600s"))
    },
    Row {
        mend: |s| s.configure(),
        through: true,
        ..proxied(
            "disk",
            "beginning of a kubeconfig",
            |s| {
                let (begin, _) = s.config.split_once("cluster: c,").expect("it has a context");
                s.write("kubeconfig", begin);
                s.shake();
            },
            "the kubeconfig",
            WATCHING,
            Told::NotYet,
        )
    },
    Row {
        mend: |s| s.configure(),
        through: true,
        ..proxied(
            "disk",
            "kubeconfig removed",
            |s| {
                s.remove("kubeconfig");
                s.shake();
            },
            "the kubeconfig",
            WATCHING,
            Told::NotYet,
        )
    },
    Row {
        way: Way::Full,
        mend: |s| s.on_disk("rm fill"),
        lines: 1,
        through: true,
        healed: "is written again",
        ..proxied("disk", "folder of snapshots full", |_| {}, "No space left", UNKEPT, Told::Never)
    },
    Row {
        way: Way::ReadOnly,
        mend: |s| s.on_disk("mount -o remount,rw ."),
        lines: 1,
        through: true,
        healed: "is written again",
        ..proxied("disk", "folder of snapshots read-only", |_| {}, "Read-only", UNKEPT, Told::Never)
    },
    Row {
        way: Way::Damaged,
        mend: |_| {},
        lines: 1,
        through: true,
        ..proxied("disk", "snapshot damaged", |_| {}, "it is damaged", UNKEPT, Told::Never)
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().restart(),
        ..proxied(
            "process",
            "API server killed",
            |s| s.cluster().kill(),
            "refused",
            FAILING,
            Told::Then,
        )
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().resume(),
        through: false,
        lasts: WHILE,
        ..unnoticed("process", "API server stopped for a while", |s| s.cluster().pause())
    },
    Row {
        way: Way::Server,
        mend: |_| {},
        ..proxied("data", "restored etcd", |s| s.restore(), "older than", WATCHING, Told::NotYet)
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().restart(),
        ..proxied(
            "data",
            "history compacted while away",
            |s| {
                s.cluster().stop();
                s.cluster().restart();
                s.grow();
                s.cluster().compact();
                s.cluster().kill();
            },
            "refused",
            FAILING,
            Told::NotYet,
        )
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().add_multicluster(),
        ..proxied(
            "data",
            "definition of ServiceImport removed",
            |s| {
                s.cluster().delete("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: serviceimports.multicluster.x-k8s.io}}");
            },
            "are not defined in the cluster",
            &["causeway_kubernetes_watch_state", "kind=\"serviceimports\"", "state=\"absent\""],
            Told::Never,
        )
    },
];

/// A row being tried.
struct Stage<'a> {
    /// The cluster that all proxies lead to.
    steady: &'a Cluster,
    /// A cluster for this row alone.
    own: Option<&'a mut Cluster>,
    /// The proxy.
    meddler: Option<Meddler>,
    /// Where the kubeconfig is, with what it needs.
    folder: Folder,
    /// Where the disk of the snapshots is mounted.
    disk: Option<Namespace>,
    /// The kubeconfig's text.
    config: String,
    /// The row's namespace.
    namespace: String,
    /// The first three octets of its addresses.
    net: String,
}

impl<'a> Stage<'a> {
    /// Makes a namespace with objects, and a way to its cluster.
    fn new(
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
    fn kept(&self) -> PathBuf {
        path_of(&self.folder, "kept")
    }

    /// Runs a shell line in the folder of snapshots.
    fn on_disk(&self, line: &str) {
        let disk = self.disk.as_ref().expect("the row has a disk");
        disk.shell(&format!("cd {}; {line}", self.kept().display()));
    }

    /// Damages the snapshot that a gateway leaves.
    fn damage(&self, mut gateway: Gateway) {
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
    fn configure(&self) {
        self.write("kubeconfig", &self.config);
    }

    /// A gateway on this way to the cluster.
    fn gateway(&self, way: Way) -> Gateway {
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
    fn objects(&self) -> String {
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
    fn known(&self) -> Vec<String> {
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
    fn apply(&self, yaml: &str) {
        self.own.as_deref().unwrap_or(self.steady).apply(yaml);
    }

    /// Lets something happen in the cluster: a Service comes and another goes.
    fn happen(&self) {
        let cluster = self.own.as_deref().unwrap_or(self.steady);
        cluster.apply(&service(&self.namespace, "fresh", &format!("{}.10", self.net)));
        cluster.delete(&service(&self.namespace, "doomed", &format!("{}.9", self.net)));
    }

    /// Waits until answers tell of it; gives the seconds.
    fn told(&self, gateway: &Gateway) -> f64 {
        let begin = Instant::now();
        let name = |n: &str| format!("{n}.{}.svc.cluster.local", self.namespace);
        gateway.ask_until(&*name("fresh"), LIMIT, |r| r.addresses().len() == 1);
        gateway.ask_until(&*name("doomed"), LIMIT, |r| r.rcode() == ResponseCode::NXDomain);
        begin.elapsed().as_secs_f64()
    }

    /// The proxy.
    fn meddler(&self) -> &Meddler {
        self.meddler.as_ref().expect("the row has a proxy")
    }

    /// Has the proxy do something wrong.
    fn meddle(&mut self, fault: Fault) {
        self.meddler.as_mut().expect("the row has a proxy").set(fault);
    }

    /// Has requests fail for a moment, so that credentials are read again.
    fn shake(&mut self) {
        self.meddle(Fault::Refuse);
        sleep(Duration::from_secs(1));
        self.meddle(Fault::None);
    }

    /// The cluster of the row alone.
    fn cluster(&mut self) -> &mut Cluster {
        self.own.as_deref_mut().expect("the row has a cluster")
    }

    /// Writes a file, by rename.
    fn write(&self, name: &str, text: &str) {
        let new = self.folder.write(&format!("{name}.new"), text);
        fs::rename(new, path_of(&self.folder, name)).expect("the folder is ours");
    }

    /// Removes a file.
    fn remove(&self, name: &str) {
        fs::remove_file(path_of(&self.folder, name)).expect("it is there");
    }

    /// Has the token file have another token.
    fn token(&self, token: &str) {
        self.write("token", token);
    }

    /// Changes services when the watch is there again.
    fn stir(&self) {
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
    fn flip(&self) {
        sleep(Duration::from_millis(600));
        let flip = service(&self.namespace, "flip", "None");
        self.steady.delete(&flip);
        let slice =
            slice(&self.namespace, "flip-1", "flip", &[(&format!("{}.77", self.net), "one")]);
        self.apply(&format!("{flip}\n---\n{slice}"));
    }

    /// Makes many objects, so that resource versions rise.
    fn grow(&self) {
        let many = (0..60).map(|n| service(&self.namespace, &format!("many-{n}"), "None"));
        self.apply(&many.collect::<Vec<_>>().join("\n---\n"));
    }

    /// Restores etcd from a backup, so that resource versions go back and something is lost.
    fn restore(&mut self) {
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

/// What came of a row.
struct Outcome {
    /// Answers to those who asked all the time; none was wrong, none was lost.
    answers: usize,
    /// Seconds until what had happened meanwhile was answered.
    over: f64,
    /// How many lines of trouble the log had.
    lines: usize,
    /// The line of the log.
    line: String,
    /// The text of the EDE.
    ede: String,
}

/// Tries a row.
fn attempt(
    row: &Row,
    number: usize,
    steady: (&Cluster, &Pki),
    own: Option<&mut Cluster>,
) -> Outcome {
    let mut stage = Stage::new(row, number, steady, own);
    if row.way == Way::Damaged {
        stage.damage(stage.gateway(row.way));
    }
    let gateway = stage.gateway(row.way);
    let known = stage.known();
    for name in &known {
        let reply = gateway.ask(name.as_str());
        let empty = name.starts_with("nothing");
        assert!(reply.answers().is_empty() == empty, "{name}: {reply:?}\n{}", gateway.output());
    }
    let began = Arc::new(OnceLock::new());
    let watchman = Watchman::start(vec![gently(&gateway, &known, row.told, Arc::clone(&began))]);
    let begin = *began.get_or_init(Instant::now);
    (row.inject)(&mut stage);
    let server = row.way == Way::Server;
    let happened = Instant::now();
    if !server {
        stage.happen();
    }
    let line = if row.log.is_empty() { String::new() } else { gateway.line(row.log) };
    let during = row.through.then(|| {
        stage.told(&gateway);
        happened.elapsed().as_secs_f64()
    });
    sleep(row.lasts.saturating_sub(begin.elapsed()));
    let [name, labels @ ..] = row.metric else { panic!("the row says no metric") };
    counted(&gateway, name, labels);
    let mut ede = String::new();
    if row.told == Told::Then {
        sleep(OUTAGE.saturating_sub(begin.elapsed()));
        let query = Query::from(&*known[0]).bufsize(1232);
        let told = query.ask_until(gateway.address(), LIMIT, |r| stale(r).is_some());
        ede = stale(&told).unwrap_or_default();
        assert!(ede.contains("not heard of for"), "{ede}");
        // That is counted once a second.
        counted(&gateway, "causeway_kubernetes_stale", &[]);
    }
    let lines = troubles(&gateway);
    (row.mend)(&mut stage);
    let mended = Instant::now();
    if server {
        stage.happen();
    }
    stage.told(&gateway);
    let over = during.unwrap_or_else(|| mended.elapsed().as_secs_f64());
    if !row.healed.is_empty() {
        let healed = || gateway.output().contains(row.healed).then_some(());
        tests::until(LIMIT, healed).unwrap_or_else(|| panic!("{}", gateway.output()));
    }
    if row.name.starts_with("kind change") {
        let name = format!("flip.{}.svc.cluster.local", stage.namespace);
        let other = format!("{}.77", stage.net);
        gateway.ask_until(&*name, LIMIT, |r| {
            r.addresses().iter().map(ToString::to_string).eq([other.clone()])
        });
    }
    if row.name.starts_with("restored") {
        let name = format!("lost.{}.svc.cluster.local", stage.namespace);
        gateway.ask_until(&*name, LIMIT, |r| r.rcode() == ResponseCode::NXDomain);
    }
    // Nobody is told of an outage that is over.
    let query = Query::from(&*known[0]).bufsize(1232);
    query.ask_until(gateway.address(), LIMIT, |r| stale(r).is_none());
    let enough = tests::until(LIMIT, || (watchman.count() >= 100).then_some(()));
    assert!(enough.is_some(), "{}", gateway.output());
    let answers = watchman.end(&gateway);
    let log = gateway.output();
    assert!(over < row.within, "it took {over} s:\n{log}");
    assert!(!log.contains("panicked") && !log.contains(TOKEN), "{log}");
    assert!(lines <= row.lines, "{lines} lines of trouble, not {} at most:\n{log}", row.lines);
    // The end of a fault breaks what is under way.
    let after = troubles(&gateway);
    assert!(after <= row.lines + AFTER, "{after} lines of trouble in the end:\n{log}");
    let line = said_of(&line);
    Outcome { answers, over, lines, line, ede }
}

/// How many lines of trouble are in the log.
fn troubles(gateway: &Gateway) -> usize {
    let trouble = |line: &&str| line.contains("[ERROR]") || line.contains("[WARNING]");
    gateway.output().lines().filter(trouble).count()
}

/// What a line of the log says, without where the files of the test are and what goes on.
fn said_of(line: &str) -> String {
    let text = line.split_once("plugin/kubernetes: ").map_or(line, |(_, text)| text);
    let text = ["; what is known", "; all else", "; serving goes on"]
        .iter()
        .fold(text, |text, end| text.split_once(end).map_or(text, |(text, _)| text));
    let text = text.split_once("kubeconfig: ").map_or(text, |(_, text)| text);
    let words = text.split(' ').map(|word| match Path::new(word).file_name() {
        Some(_) if word.ends_with(".snapshot") => "NAME.snapshot",
        Some(name) if word.starts_with('/') => name.to_str().unwrap_or(word),
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The library that moves a program's clock, where Debian has it.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("it is there").filter_map(Result::ok);
    let mut found = folders.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).expect("install libfaketime")
}

/// Waits until a metric with these labels is at least 1.
fn counted(gateway: &Gateway, name: &str, labels: &[&str]) {
    let seen = tests::until(LIMIT, || {
        let metrics = gateway.metrics("metrics");
        let fits = |(key, value): (&String, &f64)| {
            key.starts_with(name) && labels.iter().all(|l| key.contains(l)) && *value >= 1.0
        };
        metrics.iter().any(fits).then_some(())
    });
    assert!(seen.is_some(), "{name} {labels:?} is not there:\n{}", gateway.output());
}

/// The text of EDE 3.
fn stale(reply: &tests::Reply) -> Option<String> {
    reply.extended().filter(|(code, _)| *code == STALE).map(|(_, text)| text)
}

/// A client that asks for all names all the time and leaves the machine to the others between. Now and then it looks whether it is
/// told of an outage that it should not know of: never, or in the first ten seconds since the fault began.
fn gently(
    gateway: &Gateway,
    names: &[String],
    told: Told,
    began: Arc<OnceLock<Instant>>,
) -> watchman::Asker {
    let (server, first) = (gateway.address(), names[0].clone());
    let mut ask = watchman::steady(server, names);
    let mut turn = 0;
    Box::new(move || {
        sleep(Duration::from_millis(4));
        turn += 1;
        if turn % 8 == 0
            && let Some(text) =
                Query::from(&*first).bufsize(1232).ask(server).and_then(|r| stale(&r))
            && (told == Told::Never || began.get().is_none_or(|began| began.elapsed() < GRACE))
        {
            return Err(format!("too soon: {text}"));
        }
        ask()
    })
}

#[test]
fn no_fault_makes_an_answer_wrong_or_lost() {
    let only = std::env::var("FAULT").unwrap_or_default();
    let wanted = |server: bool| {
        let fits = move |row: &Row| (row.way == Way::Server) == server;
        let rows = ROWS.iter().enumerate().filter(move |(_, row)| fits(row));
        rows.filter(|(_, row)| row.name.contains(&*only)).collect::<VecDeque<_>>()
    };
    let lanes = stated("FAULT_LANES", LANES as f64) as usize;
    let begin = Instant::now();
    let (queue, done) = (Mutex::new(wanted(false)), Mutex::new(Vec::new()));
    let (steady, pki) = (Cluster::start(), Pki::new());
    // A row that fails is told of when all have been tried.
    let try_one = |number: usize, row: &Row, own: Option<&mut Cluster>| {
        let attempt = std::panic::AssertUnwindSafe(|| attempt(row, number, (&steady, &pki), own));
        let outcome = std::panic::catch_unwind(attempt);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome.ok()));
    };
    scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((number, row)) = next else { return };
                    try_one(number, row, None);
                }
            });
        }
        let rows = wanted(true);
        if !rows.is_empty() {
            let mut cluster = Cluster::start();
            cluster.add_multicluster();
            for (number, row) in rows {
                cluster.restart();
                try_one(number, row, Some(&mut cluster));
            }
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    println!(
        "| layer | fault | answers, all right | over after | lines | log | metric | EDE 3 |\n|---|---|---|---|---|---|---|---|"
    );
    let mut failed = Vec::new();
    for (number, outcome) in &done {
        let row = &ROWS[*number];
        let Some(Outcome { answers, over, lines, line, ede }) = outcome else {
            failed.push(row.name);
            continue;
        };
        let metric = row.metric.join(" ").replace('"', "");
        println!(
            "| {} | {} | {answers} | {}{over:.1} s | {lines} | {line} | {metric} | {ede} |",
            row.area,
            row.name,
            if row.through { "meanwhile: " } else { "" }
        );
    }
    println!("{} faults in {:?}", done.len(), begin.elapsed());
    assert!(failed.is_empty(), "{failed:?} failed");
}
