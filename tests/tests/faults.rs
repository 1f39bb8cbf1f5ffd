//! The table of faults: each is done to a gateway that is asked for all it knows the whole time. No answer may be wrong or
//! missing, what happened meanwhile must be answered soon after, and log, metrics and EDE must say what was the matter.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::meddler::{Fault, Meddler};
use tests::{Cluster, Folder, Gateway, Pki, Query, Watchman, stated, watchman};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// How soon what happened meanwhile must be answered after the fault is over, unless a row says more.
const FRESH: f64 = 10.0;

/// How long a fault lasts at least that answers must tell of: ten seconds are no outage.
const OUTAGE: Duration = Duration::from_millis(11_500);

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
    /// The API server itself, for itself alone.
    Server,
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
    /// A metric with words of its labels, which is at least 1 while it lasts.
    metric: &'static [&'static str],
    /// Whether it lasts so long that answers tell of it.
    ede: bool,
    /// How soon it must be over, in seconds.
    within: f64,
}

/// The metric of a watch that fails.
const FAILING: &[&str] =
    &["causeway_kubernetes_watch_state", "kind=\"services\"", "state=\"failing\""];

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
    ede: bool,
) -> Row {
    let mend = |stage: &mut Stage<'_>| stage.meddle(Fault::None);
    Row { area, name, way: Way::Token, inject, mend, log, metric, ede, within: FRESH }
}

/// The table.
const ROWS: &[Row] = &[
    proxied("connection", "refused", |s| s.meddle(Fault::Refuse), "refused", FAILING, true),
    proxied("connection", "reset", |s| s.meddle(Fault::Reset), "eset", FAILING, true),
    proxied(
        "connection",
        "accepted and silent",
        |s| s.meddle(Fault::Hang),
        "deadline has elapsed",
        FAILING,
        true,
    ),
    proxied(
        "connection",
        "request without an answer",
        |s| s.meddle(Fault::Swallow),
        "no answer within",
        FAILING,
        true,
    ),
    proxied(
        "connection",
        "half-open within a response",
        |s| s.meddle(Fault::HalfOpen),
        "",
        &[],
        false,
    ),
    proxied("connection", "slow drip", |s| s.meddle(Fault::Drip), "", &[], false),
    proxied(
        "connection",
        "truncated chunk",
        |s| s.meddle(Fault::Truncate),
        "ended early",
        FAILING,
        true,
    ),
    proxied("TLS", "expired certificate", |s| s.meddle(Fault::Expired), "xpired", FAILING, true),
    proxied(
        "TLS",
        "certificate of another CA",
        |s| s.meddle(Fault::Stranger),
        "certificate",
        FAILING,
        true,
    ),
    proxied(
        "TLS",
        "certificate for another name",
        |s| s.meddle(Fault::Misnamed),
        "not valid for name",
        FAILING,
        true,
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
            true,
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
            true,
        )
    },
    proxied(
        "auth",
        "403 of one kind",
        |s| s.meddle(Fault::Forbid("endpointslices")),
        "\"endpointslices\"",
        &["causeway_kubernetes_watch_state", "kind=\"endpointslices\"", "state=\"forbidden\""],
        true,
    ),
    proxied(
        "auth",
        "403 of everything",
        |s| s.meddle(Fault::Forbid("/api")),
        "forbidden: the verb",
        code!("403"),
        true,
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
            true,
        )
    },
    proxied(
        "protocol",
        "429 with Retry-After",
        |s| s.meddle(Fault::Status(429, 1)),
        "429",
        code!("429"),
        false,
    ),
    proxied("protocol", "500", |s| s.meddle(Fault::Status(500, 0)), "500", code!("500"), true),
    proxied("protocol", "503", |s| s.meddle(Fault::Status(503, 0)), "503", code!("503"), false),
    proxied(
        "protocol",
        "410 Gone for each watch",
        |s| s.meddle(Fault::Gone),
        "",
        code!("410"),
        false,
    ),
    proxied(
        "protocol",
        "watches that end at once",
        |s| s.meddle(Fault::EndAtOnce),
        "",
        code!("200"),
        false,
    ),
    proxied(
        "protocol",
        "garbage in place of an event",
        |s| s.meddle(Fault::Garbage),
        "can not be read",
        FAILING,
        false,
    ),
    proxied(
        "protocol",
        "event of two GiB",
        |s| s.meddle(Fault::Oversized),
        "bytes",
        FAILING,
        false,
    ),
    proxied(
        "protocol",
        "page for people",
        |s| s.meddle(Fault::Page),
        "can not be read",
        FAILING,
        true,
    ),
    proxied(
        "protocol",
        "gzip garbage",
        |s| s.meddle(Fault::Gzip),
        "can not be read",
        FAILING,
        false,
    ),
    proxied("protocol", "not HTTP", |s| s.meddle(Fault::NotHttp), "HTTP", FAILING, false),
    proxied("data", "each event twice", |s| s.meddle(Fault::Twice), "", &[], false),
    proxied(
        "data",
        "events once more, out of order",
        |s| {
            s.meddle(Fault::Late);
            s.stir();
        },
        "after",
        &[],
        false,
    ),
    Row {
        mend: |s| {
            s.meddle(Fault::None);
        },
        ..proxied(
            "data",
            "kind change during a list",
            |s| {
                s.meddle(Fault::Drip);
                s.flip();
            },
            "",
            &[],
            false,
        )
    },
    Row {
        way: Way::Clock,
        mend: |_| {},
        ..proxied("time", "clock an hour ahead", |s| s.write("clock", "+3600s"), "", &[], false)
    },
    Row {
        way: Way::Clock,
        mend: |_| {},
        ..proxied("time", "clock an hour back", |s| s.write("clock", "-3600s"), "", &[], false)
    },
    Row {
        mend: |s| {
            let text = s.config.clone();
            s.write("kubeconfig", &text);
        },
        ..proxied(
            "disk",
            "half of a kubeconfig",
            |s| {
                let half = s.config[..s.config.len() / 2].to_owned();
                s.write("kubeconfig", &half);
                s.shake();
            },
            "the kubeconfig",
            &[],
            false,
        )
    },
    Row {
        mend: |s| {
            let text = s.config.clone();
            s.write("kubeconfig", &text);
        },
        ..proxied(
            "disk",
            "kubeconfig removed",
            |s| {
                s.remove("kubeconfig");
                s.shake();
            },
            "the kubeconfig",
            &[],
            false,
        )
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().restart(),
        ..proxied("process", "API server killed", |s| s.cluster().kill(), "refused", FAILING, true)
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().resume(),
        ..proxied(
            "process",
            "API server stopped for a while",
            |s| s.cluster().pause(),
            "",
            &[],
            false,
        )
    },
    Row {
        way: Way::Server,
        mend: |_| {},
        ..proxied("data", "restored etcd", |s| s.restore(), "older than", &[], false)
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
            &[],
            false,
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
            false,
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
            Way::Token | Way::Clock => format!("tokenFile: {}", path("token")),
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
        let stage = Self { steady, own, meddler, folder, config, namespace, net };
        stage.write("token", TOKEN);
        stage.write("good", TOKEN);
        stage.write("clock", "+0s");
        let good = path_of(&stage.folder, "good");
        stage.write("program", &format!(
            "t=$(cat {}) || exit 3\nprintf '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"%s\"}}}}' \"$t\"\n",
            good.display()
        ));
        stage.write("kubeconfig", &stage.config);
        if let Some(meddler) = &stage.meddler {
            meddler.demand(TOKEN);
        }
        stage.apply(&stage.objects());
        stage
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
    let (kubeconfig, more) = match &stage.own {
        Some(cluster) => (cluster.kubeconfig("reader"), "multicluster clusterset.local"),
        None => (path_of(&stage.folder, "kubeconfig"), ""),
    };
    let mut builder = Gateway::new(&format!(
        ".:@PORT@ {{\n errors\n prometheus localhost:@PORT:metrics@\n kubernetes cluster.local clusterset.local 10.97.0.0/16 {{\n  kubeconfig {}\n  {more}\n }}\n}}",
        kubeconfig.display()
    ));
    if row.way == Way::Clock {
        assert!(Path::new(FAKETIME).exists(), "{FAKETIME} is missing: install libfaketime");
        builder = builder
            .env("LD_PRELOAD", FAKETIME)
            .env("FAKETIME_TIMESTAMP_FILE", &path_of(&stage.folder, "clock").display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    let gateway = builder.start();
    let known = stage.known();
    for name in &known {
        let reply = gateway.ask(name.as_str());
        let empty = name.starts_with("nothing");
        assert!(reply.answers().is_empty() == empty, "{name}: {reply:?}\n{}", gateway.output());
    }
    let watchman = Watchman::start(vec![gently(&gateway, &known)]);
    let begin = Instant::now();
    (row.inject)(&mut stage);
    let line = if row.log.is_empty() { String::new() } else { gateway.line(row.log) };
    if let [name, labels @ ..] = row.metric {
        let seen = tests::until(LIMIT, || {
            let metrics = gateway.metrics("metrics");
            let fits = |(key, value): (&String, &f64)| {
                key.starts_with(name) && labels.iter().all(|l| key.contains(l)) && *value >= 1.0
            };
            metrics.iter().any(fits).then_some(())
        });
        assert!(seen.is_some(), "{:?} is not there:\n{}", row.metric, gateway.output());
    }
    let server = row.way == Way::Server;
    if !server {
        stage.happen();
    }
    let mut ede = String::new();
    if row.ede {
        sleep(OUTAGE.saturating_sub(begin.elapsed()));
        let query = Query::from(&*known[0]).bufsize(1232);
        let told = query.ask_until(gateway.address(), LIMIT, |r| stale(r).is_some());
        ede = stale(&told).unwrap_or_default();
        assert!(ede.contains("not heard of for"), "{ede}");
        // That is counted once a second.
        let counted = tests::until(LIMIT, || {
            let metrics = gateway.metrics("metrics");
            let mut found =
                metrics.iter().filter(|(k, _)| k.starts_with("causeway_kubernetes_stale"));
            found.any(|(_, value)| *value >= 1.0).then_some(())
        });
        assert!(counted.is_some(), "{}", gateway.output());
    }
    (row.mend)(&mut stage);
    let mended = Instant::now();
    if server {
        stage.happen();
    }
    stage.told(&gateway);
    let over = mended.elapsed().as_secs_f64();
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
    let said = log.lines().filter(|l| l.contains("[ERROR]") || l.contains("[WARNING]")).count();
    assert!(said <= 12, "{said} lines of trouble:\n{log}");
    let line = said_of(&line);
    Outcome { answers, over, line, ede }
}

/// What a line of the log says, without where the kubeconfig of the test is and what goes on.
fn said_of(line: &str) -> String {
    let text = line.split_once("plugin/kubernetes: ").map_or(line, |(_, text)| text);
    let text = ["; what is known", "; all else"]
        .iter()
        .fold(text, |text, end| text.split_once(end).map_or(text, |(text, _)| text));
    text.split_once("kubeconfig: ").map_or(text, |(_, text)| text).to_owned()
}

/// Where Debian has the library that moves a program's clock.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// The text of EDE 3.
fn stale(reply: &tests::Reply) -> Option<String> {
    let data = reply.option(15)?;
    let (code, text) = data.split_first_chunk::<2>()?;
    (u16::from_be_bytes(*code) == STALE).then(|| String::from_utf8_lossy(text).into_owned())
}

/// A client that asks for all names all the time and leaves the machine to the others between.
fn gently(gateway: &Gateway, names: &[String]) -> watchman::Asker {
    let mut ask = watchman::steady(gateway.address(), names);
    Box::new(move || {
        sleep(Duration::from_millis(4));
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
        "| layer | fault | answers, all right | over after | log | metric | EDE 3 |\n|---|---|---|---|---|---|---|"
    );
    let mut failed = Vec::new();
    for (number, outcome) in &done {
        let row = &ROWS[*number];
        let Some(Outcome { answers, over, line, ede }) = outcome else {
            failed.push(row.name);
            continue;
        };
        let metric = row.metric.join(" ").replace('"', "");
        println!(
            "| {} | {} | {answers} | {over:.1} s | {line} | {metric} | {ede} |",
            row.area, row.name
        );
    }
    println!("{} faults in {:?}", done.len(), begin.elapsed());
    assert!(failed.is_empty(), "{failed:?} failed");
}
