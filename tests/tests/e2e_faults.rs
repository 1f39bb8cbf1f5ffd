//! Faults: an API server that is away, hangs, lies or refuses, and files that are broken while they are read again. What was good
//! last is served on, the cause is said once, and everything is taken up again when it can be.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::{Cluster, Folder, Gateway, Relay, Watchman, stated, watchman};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// How soon what an API server says that has come back must be answered.
const FRESH: Duration = Duration::from_secs(5);

/// How long the outage lasts that the long test makes ten minutes.
const OUTAGE: Duration = Duration::from_secs(20);

/// The cluster that is killed, stopped and restored, for one test at a time.
fn shaken() -> MutexGuard<'static, Cluster> {
    static CLUSTER: OnceLock<Mutex<Cluster>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| Mutex::new(Cluster::start()));
    let mut cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.restart();
    cluster
}

/// The cluster that keeps running.
fn steady() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::start();
        cluster.apply(&objects("steady", "10.96.60"));
        cluster
    })
}

/// A namespace with a Service, a headless one with two endpoints, an alias and a pod, whose addresses begin with three octets.
fn objects(namespace: &str, net: &str) -> String {
    format!(
        "
{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: {namespace}}}, spec: {{clusterIP: {net}.1, ports: [{{name: http, port: 80}}]}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: db, namespace: {namespace}}}, spec: {{clusterIP: None, ports: [{{name: pg, port: 5432}}]}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: out, namespace: {namespace}}}, spec: {{type: ExternalName, externalName: www.example.org}}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: db-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: db}}}}
addressType: IPv4
ports: [{{name: pg, port: 5432, protocol: TCP}}]
endpoints: [{{addresses: [{net}.101], hostname: db-0}}, {{addresses: [{net}.102], hostname: db-1}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: one, namespace: {namespace}}}
spec: {{containers: [{{name: c, image: 'registry.example/web:1'}}]}}
status: {{phase: Running, podIP: {net}.201, podIPs: [{{ip: {net}.201}}]}}
"
    )
}

/// A Service with a cluster IP.
fn service(namespace: &str, name: &str, ip: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{clusterIP: {ip}, ports: [{{port: 80}}]}}}}"
    )
}

/// A gateway that knows the cluster of a kubeconfig file, reverse names of 10.96.0.0/16 and all pods included.
fn gateway(kubeconfig: &Path, properties: &str) -> Gateway {
    Gateway::new(&format!(
        ".:@PORT@ {{\n errors\n ready localhost:@PORT:ready@\n prometheus localhost:@PORT:metrics@\n kubernetes cluster.local 10.96.0.0/16 {{\n  kubeconfig {}\n  {properties}\n }}\n}}",
        kubeconfig.display()
    ))
    .start()
}

/// How many lines of the log have the text.
fn lines(gateway: &Gateway, text: &str) -> usize {
    gateway.output().lines().filter(|l| l.contains(text)).count()
}

/// Begins to ask all the time for the names of a namespace made by [`objects`].
fn watch(gateway: &Gateway, namespace: &str, net: &str) -> Watchman {
    let last = net.rsplit('.').next().unwrap_or_default();
    let names: Vec<String> = ["web", "db", "db-0.db", "db-1.db"]
        .iter()
        .map(|n| format!("{n}.{namespace}.svc.cluster.local A"))
        .chain([
            format!("web.{namespace}.svc.cluster.local AAAA"),
            format!("out.{namespace}.svc.cluster.local CNAME"),
            format!("_http._tcp.web.{namespace}.svc.cluster.local SRV"),
            format!("_pg._tcp.db.{namespace}.svc.cluster.local SRV"),
            format!("{}.{namespace}.pod.cluster.local A", format!("{net}.201").replace('.', "-")),
            format!("1.{last}.96.10.in-addr.arpa PTR"),
            format!("102.{last}.96.10.in-addr.arpa PTR"),
            format!("{namespace}.svc.cluster.local A"),
            format!("nothing.{namespace}.svc.cluster.local A"),
            "kubernetes.default.svc.cluster.local A".to_owned(),
        ])
        .collect();
    for name in &names {
        let reply = gateway.ask(name.as_str());
        let empty =
            name.contains("AAAA") || name.starts_with(namespace) || name.starts_with("nothing");
        let wanted = if name.starts_with("nothing") {
            ResponseCode::NXDomain
        } else {
            ResponseCode::NoError
        };
        assert!(
            reply.rcode() == wanted && reply.answers().is_empty() == empty,
            "{name}: {reply:?}\n{}",
            gateway.output()
        );
    }
    Watchman::start(vec![watchman::steady(gateway.address(), &names)])
}

/// The duration of the outage: that of the environment if it names one.
fn outage() -> Duration {
    Duration::from_secs_f64(stated("OUTAGE_SECONDS", OUTAGE.as_secs_f64()))
}

#[test]
fn an_outage_is_not_noticed_by_clients_and_over_at_once() {
    let mut cluster = shaken();
    cluster.apply(&objects("outage", "10.96.61"));
    cluster.apply(&service("outage", "doomed", "10.96.61.9"));
    let mut relay = Relay::start(cluster.address());
    let folder = Folder::new("kubeconfig");
    let kubeconfig = folder.write("kubeconfig", cluster.kubeconfig_at("reader", relay.address()));
    let gateway = gateway(&kubeconfig, "pods verified");
    let watchman = watch(&gateway, "outage", "10.96.61");

    relay.close();
    cluster.kill();
    sleep(outage());
    // When it comes back all is new and nobody knows what was before.
    cluster.restart();
    cluster.apply(&service("outage", "fresh", "10.96.61.10"));
    cluster.delete("{apiVersion: v1, kind: Service, metadata: {name: doomed, namespace: outage}}");
    cluster.compact();
    assert_eq!(gateway.ask("doomed.outage.svc.cluster.local").addresses().len(), 1);
    relay.open();
    let begin = Instant::now();
    gateway.ask_until("fresh.outage.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    gateway.ask_until("doomed.outage.svc.cluster.local", LIMIT, |r| {
        r.rcode() == ResponseCode::NXDomain
    });
    let took = begin.elapsed();
    let count = watchman.end(&gateway);
    println!(
        "{count} answers over an outage of {:?}, none wrong; fresh {took:?} after it",
        outage()
    );
    assert!(took < FRESH, "fresh answers took {took:?}:\n{}", gateway.output());
    gateway.line("answers again");
    let said = lines(&gateway, "[ERROR]");
    assert!((1..=4).contains(&said), "{said} errors:\n{}", gateway.output());
}

#[test]
fn a_server_that_is_killed_and_restarted_is_found_again() {
    let mut cluster = shaken();
    cluster.apply(&objects("killed", "10.96.62"));
    let gateway = gateway(&cluster.kubeconfig("reader"), "pods verified");
    let watchman = watch(&gateway, "killed", "10.96.62");
    for round in 1..=2 {
        cluster.kill();
        gateway.line("refused");
        cluster.restart();
        let begin = Instant::now();
        let name = format!("fresh{round}");
        cluster.apply(&service("killed", &name, &format!("10.96.62.1{round}")));
        gateway.ask_until(format!("{name}.killed.svc.cluster.local").as_str(), LIMIT, |r| {
            r.addresses().len() == 1
        });
        assert!(begin.elapsed() < FRESH, "{:?}:\n{}", begin.elapsed(), gateway.output());
    }
    watchman.end(&gateway);
}

#[test]
fn a_server_that_hangs_is_waited_for() {
    let cluster = shaken();
    cluster.apply(&objects("hung", "10.96.63"));
    let kubeconfig = cluster.kubeconfig("reader");
    let first = gateway(&kubeconfig, "pods verified");
    let watchman = watch(&first, "hung", "10.96.63");
    cluster.pause();
    let second = gateway(&kubeconfig, "pods verified\n  startup_timeout 200ms");
    second.line("starting server with unsynced Kubernetes API");
    assert_eq!(second.get("ready", "/ready"), Some((503, "kubernetes".to_owned())));
    assert_eq!(second.ask("web.hung.svc.cluster.local").rcode(), ResponseCode::ServFail);
    second.line("[ERROR]");
    sleep(Duration::from_secs(6));
    cluster.resume();
    cluster.apply(&service("hung", "fresh", "10.96.63.10"));
    for gateway in [&first, &second] {
        gateway.ask_until("fresh.hung.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    }
    watchman.end(&first);
    assert!(lines(&second, "[ERROR]") <= 4, "{}", second.output());
}

#[test]
fn a_server_whose_data_was_restored_from_a_backup_is_believed() {
    let mut cluster = shaken();
    cluster.apply(&objects("restored", "10.96.64"));
    cluster.apply(&service("restored", "doomed", "10.96.64.9"));
    cluster.stop();
    let backup = Folder::new("backup");
    let copy = |from: &Path, to: &Path| {
        let mut command = std::process::Command::new("cp");
        tests::process::run(command.arg("-a").arg(from).arg(to));
    };
    copy(&cluster.data(), &backup.path().join("etcd"));
    cluster.restart();
    let gateway = gateway(&cluster.kubeconfig("reader"), "pods verified");
    // What happens now will not have happened.
    cluster
        .delete("{apiVersion: v1, kind: Service, metadata: {name: doomed, namespace: restored}}");
    cluster.churn(50.0, 1.0);
    cluster.apply(&objects("restored", "10.96.64"));
    cluster.apply(&service("restored", "lost", "10.96.64.10"));
    gateway.ask_until("lost.restored.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    cluster.stop();
    fs::remove_dir_all(cluster.data()).unwrap();
    copy(&backup.path().join("etcd"), &cluster.data());
    let watchman = watch(&gateway, "restored", "10.96.64");
    cluster.restart();
    let begin = Instant::now();
    gateway.ask_until("lost.restored.svc.cluster.local", LIMIT, |r| {
        r.rcode() == ResponseCode::NXDomain
    });
    gateway.ask_until("doomed.restored.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    assert!(begin.elapsed() < FRESH * 2, "{:?}:\n{}", begin.elapsed(), gateway.output());
    cluster.apply(&service("restored", "fresh", "10.96.64.11"));
    gateway.ask_until("fresh.restored.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    watchman.end(&gateway);
}

#[test]
fn a_server_with_another_certificate_is_not_believed() {
    let cluster = steady();
    let text = |c: &Cluster| fs::read_to_string(c.kubeconfig("reader")).unwrap();
    let authority = |text: &str| {
        let after = text.split_once("certificate-authority-data: ").expect("it has one").1;
        after.split_whitespace().next().expect("it has one").to_owned()
    };
    let right = text(cluster);
    let wrong = right.replace(&authority(&right), &authority(&text(&shaken())));
    let folder = Folder::new("kubeconfig");
    let kubeconfig = folder.write("kubeconfig", wrong);
    let gateway = gateway(&kubeconfig, "startup_timeout 2s");
    assert_eq!(gateway.ask("web.steady.svc.cluster.local").rcode(), ResponseCode::ServFail);
    assert_eq!(gateway.get("ready", "/ready"), Some((503, "kubernetes".to_owned())));
    let line = gateway.line("certificate");
    assert!(line.contains("[ERROR]"), "{line}");
    assert_eq!(lines(&gateway, "certificate"), 1, "{}", gateway.output());
    // The file is put right without a restart.
    folder.write("kubeconfig", right);
    gateway.ask_until("web.steady.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    gateway.line("answers again");
}

#[test]
fn a_token_that_is_revoked_is_said_once_and_a_new_one_is_taken() {
    let cluster = steady();
    let account = |verb: &str| {
        format!(
            "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {verb}, namespace: steady}}}}\n---\n\
             {{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: sa-{verb}}}, \
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dns-reader}}, \
             subjects: [{{kind: ServiceAccount, name: {verb}, namespace: steady}}]}}"
        )
    };
    let token = || tests::process::run(cluster.command("token").args(["-sa", "steady/doomed"]));
    cluster.apply(&account("doomed"));
    let folder = Folder::new("token");
    folder.write("token", token());
    let relay = Relay::start(cluster.address());
    let text = cluster.kubeconfig_at("reader", relay.address());
    // The client certificate gives way to the token.
    let (before, _) = text.split_once("users:").expect("it has users");
    let file = folder.path().join("token");
    let users = format!("users:\n- name: reader\n  user:\n    tokenFile: {}\n", file.display());
    let kubeconfig = folder.write("kubeconfig", format!("{before}{users}"));
    let gateway = gateway(&kubeconfig, "pods verified");
    let watchman = watch(&gateway, "steady", "10.96.60");
    cluster.delete(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: doomed, namespace: steady}}",
    );
    // The API server remembers for ten seconds what it found out about a token.
    let seen = tests::until(LIMIT, || {
        relay.cut();
        sleep(Duration::from_millis(500));
        (lines(&gateway, "401") > 0).then_some(())
    });
    assert!(seen.is_some(), "{}", gateway.output());
    sleep(Duration::from_secs(3));
    let log = gateway.output();
    assert_eq!(lines(&gateway, "401"), 1, "{log}");
    // What the server says of it, and which file it is about.
    let why = format!(
        "the credentials are not accepted (401 Unauthorized): token of the file {}",
        file.display()
    );
    assert!(gateway.line("401").contains(&why), "{log}");
    let status = std::process::Command::new(tests::gateway::binary())
        .args(["status", "--json", "--socket"])
        .arg(gateway.folder().join("run/causeway.sock"))
        .output()
        .expect("it can be run");
    let status = String::from_utf8_lossy(&[status.stdout, status.stderr].concat()).into_owned();
    assert!(status.contains("last_error") && status.contains(&why), "{status}");
    cluster.apply(&account("doomed"));
    cluster.apply(&service("steady", "fresh", "10.96.60.10"));
    // Each token of the API server begins so.
    let old = fs::read_to_string(&file).expect("it is there");
    assert!(old.starts_with("eyJ"), "it is no JSON web token");
    for text in [&log, &status] {
        assert!(!text.contains(old.trim()) && !text.contains("eyJ"), "a token is told:\n{text}");
    }
    let token = token();
    folder.write("token", token);
    gateway.ask_until("fresh.steady.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    watchman.end(&gateway);
}

#[test]
fn a_kind_that_is_forbidden_is_named_and_the_others_go_on() {
    let cluster = steady();
    let gateway =
        gateway(&cluster.kubeconfig("reader-nopods"), "pods verified\n  startup_timeout 500ms");
    let line = gateway.line("forbidden");
    for word in ["[WARNING]", "\"pods\"", "\"watch\"", "all else goes on"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert_eq!(
        gateway.ask("10-96-60-201.steady.pod.cluster.local").rcode(),
        ResponseCode::ServFail
    );
    gateway.ask_until("web.steady.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    let web = service("steady", "late", "10.96.60.11");
    cluster.apply(&web);
    gateway.ask_until("late.steady.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    let metrics = gateway.metrics("metrics");
    let state = |kind: &str, state: &str| {
        let words = [format!("kind=\"{kind}\""), format!("state=\"{state}\"")];
        let found = metrics.iter().find(|(k, _)| {
            k.starts_with("causeway_kubernetes_watch_state")
                && words.iter().all(|w| k.contains(w.as_str()))
        });
        found.map(|(_, v)| *v)
    };
    assert_eq!(state("pods", "forbidden"), Some(1.0), "{metrics:#?}");
    assert_eq!(state("services", "watching"), Some(1.0), "{metrics:#?}");
    sleep(Duration::from_secs(6));
    assert_eq!(lines(&gateway, "forbidden"), 1, "{}", gateway.output());
    // The right is granted, and nothing has to be restarted.
    cluster.apply(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: late-right}, \
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dns-reader}, \
         subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: reader-nopods}]}",
    );
    gateway.ask_until("10-96-60-201.steady.pod.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    gateway.line("pods are followed again");
    let ready =
        tests::until(LIMIT, || gateway.get("ready", "/ready").filter(|(status, _)| *status == 200));
    assert!(ready.is_some());
}

#[test]
fn a_manifest_that_is_broken_for_a_while_changes_nothing() {
    let good = service("shop", "web", "10.96.1.1");
    let mut gateway =
        Gateway::new("cluster.local:@PORT@ {\n kubernetes {\n  manifests manifests\n }\n}")
            .file("manifests/web.yaml", &good)
            .file("manifests/db.yaml", &service("shop", "db", "10.96.1.2"))
            .start();
    let addresses = |gateway: &Gateway, name: &str| {
        gateway.ask(format!("{name}.shop.svc.cluster.local").as_str()).addresses().len()
    };
    assert_eq!((addresses(&gateway, "web"), addresses(&gateway, "db")), (1, 1));
    // Half of a file, as an editor may leave it, and a change beside it.
    gateway.write("manifests/web.yaml", &good[..good.len() / 2]);
    gateway.write("manifests/db.yaml", &service("shop", "db2", "10.96.1.3"));
    gateway.ask_until("db2.shop.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    let line = gateway.line("web.yaml");
    assert!(
        line.contains("[ERROR]") && line.contains("what it said before is served on"),
        "{line}"
    );
    for _ in 0..30 {
        assert_eq!((addresses(&gateway, "web"), addresses(&gateway, "db2")), (1, 1));
        sleep(Duration::from_millis(100));
    }
    assert_eq!(lines(&gateway, "web.yaml"), 1, "{}", gateway.output());
    gateway.write("manifests/web.yaml", &service("shop", "mended", "10.96.1.4"));
    gateway.ask_until("mended.shop.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    assert_eq!(addresses(&gateway, "web"), 0);
}

#[test]
fn a_corefile_that_is_broken_for_a_while_changes_nothing() {
    let kubeconfig = steady().kubeconfig("reader");
    let corefile = |ttl: &str| {
        format!(
            ".:@PORT@ {{\n reload 2s 0\n prometheus localhost:@PORT:metrics@\n kubernetes cluster.local {{\n  kubeconfig {}\n  ttl {ttl}\n }}\n}}",
            kubeconfig.display()
        )
    };
    let mut gateway = Gateway::new(&corefile("7")).start();
    let served = |gateway: &Gateway| gateway.ask("web.steady.svc.cluster.local").answers();
    let right = |ttl: &str| vec![format!("web.steady.svc.cluster.local. {ttl} IN A 10.96.60.1")];
    assert_eq!(served(&gateway), right("7"));
    let failed =
        |gateway: &Gateway| gateway.metrics("metrics").get("coredns_reload_failed_total").copied();
    assert_eq!(failed(&gateway), Some(0.0));
    // A wrong value, then half of a file: each is said once, however often it is looked at.
    for (number, broken) in [corefile("7777"), corefile("9")[..90].to_owned()].iter().enumerate() {
        gateway.write("Corefile", broken);
        let count = (number + 1) as f64;
        let seen = tests::until(LIMIT, || (failed(&gateway) >= Some(count)).then_some(()));
        assert!(seen.is_some(), "{}", gateway.output());
        let said = gateway.output().lines().filter(|l| l.starts_with("[ERROR]")).count();
        for _ in 0..25 {
            assert_eq!(served(&gateway), right("7"));
            sleep(Duration::from_millis(200));
        }
        assert_eq!(failed(&gateway), Some(count), "{}", gateway.output());
        let later = gateway.output().lines().filter(|l| l.starts_with("[ERROR]")).count();
        assert_eq!(said, later, "{}", gateway.output());
    }
    gateway.line("ttl must be in range [0, 3600]");
    gateway.write("Corefile", &corefile("9"));
    gateway.ask_until("web.steady.svc.cluster.local", LIMIT, |r| r.answers() == right("9"));
    assert_eq!(failed(&gateway), Some(2.0));
}
