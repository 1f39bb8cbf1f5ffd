//! Restarts while the API server is away: what was known is answered at once, and says that it may be out of date.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::{Cluster, Folder, Gateway, Query, Reply};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The cluster's objects.
const OBJECTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: kept}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: kept}, spec: {clusterIP: 10.96.90.1, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: kept}, spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: kept, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.96.90.101], hostname: db-0}, {addresses: [10.96.90.102], hostname: db-1}]
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: kept}
spec: {containers: [{name: c, image: 'registry.example/web:1'}]}
status: {phase: Running, podIP: 10.96.90.201, podIPs: [{ip: 10.96.90.201}]}
";

/// Names of those objects, and how many records their answers have.
const KNOWN: [(&str, usize); 6] = [
    ("web.kept.svc.cluster.local A", 1),
    ("db.kept.svc.cluster.local A", 2),
    ("db-1.db.kept.svc.cluster.local A", 1),
    ("_http._tcp.web.kept.svc.cluster.local SRV", 1),
    ("10-96-90-201.kept.pod.cluster.local A", 1),
    ("1.90.96.10.in-addr.arpa PTR", 1),
];

/// A gateway that keeps snapshots of the cluster in a folder.
fn gateway(cluster: &Cluster, folder: &Path) -> Gateway {
    Gateway::new(&format!(
        ".:@PORT@ {{\n errors\n prometheus localhost:@PORT:metrics@\n cache\n kubernetes cluster.local 10.96.0.0/16 {{\n  kubeconfig {}\n  pods verified\n  snapshot {}\n  startup_timeout 20s\n }}\n}}",
        cluster.kubeconfig("reader").display(),
        folder.display()
    ))
    .start()
}

/// The reply to a question with EDNS, and its extended error.
fn ask(gateway: &Gateway, question: &str) -> (Reply, Option<(u16, String)>) {
    let reply = gateway.ask(Query::from(question).bufsize(1232));
    let error = reply.extended();
    (reply, error)
}

/// Asks for everything that is known and for what is not; all of it, or nothing, is said to be out of date.
fn check(gateway: &Gateway, stale: bool) {
    for (question, count) in KNOWN {
        let (reply, error) = ask(gateway, question);
        assert_eq!(reply.answers().len(), count, "{question}: {reply:?}\n{}", gateway.output());
        assert_eq!(
            error.as_ref().map(|error| error.0),
            stale.then_some(3),
            "{question}: {error:?}"
        );
    }
    let (reply, error) = ask(gateway, "nothing.kept.svc.cluster.local A");
    assert_eq!(reply.rcode(), ResponseCode::NXDomain, "{reply:?}");
    // The reason is told as well, behind that.
    let error = error.filter(|(code, _)| *code != 0);
    assert_eq!(error.as_ref().map(|error| error.0), stale.then_some(19), "{error:?}");
}

/// The value of a figure of the cluster.
fn figure(gateway: &Gateway, name: &str) -> Option<f64> {
    let metrics = gateway.metrics("metrics");
    metrics.iter().find(|(key, _)| key.starts_with(name)).map(|(_, value)| *value)
}

/// Waits until a figure is as it should be.
fn figure_until(gateway: &Gateway, name: &str, good: impl Fn(f64) -> bool) {
    let found = tests::until(LIMIT, || figure(gateway, name).filter(|value| good(*value)));
    assert!(found.is_some(), "{name}: {:?}\n{}", figure(gateway, name), gateway.output());
}

#[test]
fn a_restart_during_an_outage_answers_all_that_was_known() {
    let mut cluster = Cluster::start();
    cluster.apply(OBJECTS);
    let folder = Folder::new("snapshot");
    let kept = folder.path().join("kept");
    let mut first = gateway(&cluster, &kept);
    first.ask_until("db.kept.svc.cluster.local", LIMIT, |reply| reply.addresses().len() == 2);
    check(&first, false);
    figure_until(&first, "causeway_kubernetes_snapshot_age_seconds", |age| age < 60.0);
    // The last change is on disk as well, however short it was before the end.
    cluster.apply("{apiVersion: v1, kind: Service, metadata: {name: late, namespace: kept}, spec: {clusterIP: 10.96.90.9, ports: [{port: 80}]}}");
    first.ask_until("late.kept.svc.cluster.local", LIMIT, |reply| reply.addresses().len() == 1);
    assert!(first.stop().success(), "{}", first.output());
    let files = || -> Vec<String> {
        let entries = fs::read_dir(&kept).expect("the folder is there");
        entries.map(|e| e.expect("it is read").file_name().into_string().expect("text")).collect()
    };
    assert_eq!(files().len(), 1, "{:?}", files());

    cluster.kill();
    let begin = Instant::now();
    let second = gateway(&cluster, &kept);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(10), "the start took {took:?}:\n{}", second.output());
    check(&second, true);
    let (reply, error) = ask(&second, "late.kept.svc.cluster.local A");
    assert_eq!(reply.answers().len(), 1, "{reply:?}");
    let text = error.expect("it says that it is out of date").1;
    assert!(
        text.starts_with("the cluster: known from ") && text.ends_with("read from disk"),
        "{text}"
    );
    figure_until(&second, "causeway_kubernetes_stale", |stale| stale == 1.0);
    println!("a start without the API server took {took:?}");

    cluster.restart();
    cluster.delete("{apiVersion: v1, kind: Service, metadata: {name: late, namespace: kept}}");
    second.ask_until("late.kept.svc.cluster.local", LIMIT, |reply| {
        reply.rcode() == ResponseCode::NXDomain
    });
    figure_until(&second, "causeway_kubernetes_stale", |stale| stale == 0.0);
    check(&second, false);

    // While it runs it says so too, ten seconds after the API server was lost.
    cluster.kill();
    figure_until(&second, "causeway_kubernetes_stale", |stale| stale == 1.0);
    let (_, error) = ask(&second, "db.kept.svc.cluster.local AAAA");
    let (code, text) = error.expect("it says that it is out of date");
    assert!(code == 3 && text.starts_with("the cluster: not heard of for "), "{code} {text}");
    cluster.restart();
    figure_until(&second, "causeway_kubernetes_stale", |stale| stale == 0.0);
    drop(second);

    // What is damaged is set aside, and the start goes on without it.
    let [name] = &files()[..] else { panic!("{:?}", files()) };
    let path = kept.join(name);
    let mut bytes = fs::read(&path).expect("it is read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).expect("it is written");
    let mut third = gateway(&cluster, &kept);
    third.line("is not used, for it is damaged");
    third.ask_until("db.kept.svc.cluster.local", LIMIT, |reply| reply.addresses().len() == 2);
    check(&third, false);
    assert!(files().iter().any(|name| name.ends_with(".refused")), "{:?}", files());

    // So is what anybody may have written. The folder alone is no reason, but is told of.
    assert!(third.stop().success(), "{}", third.output());
    for (file, mode) in [(&path, 0o666), (&kept, 0o777)] {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("the mode is set");
    }
    let fourth = gateway(&cluster, &kept);
    fourth.line("may be written by everybody, who can so take snapshots away");
    fourth.line("is not used, for it may be written by everybody");
    fourth.ask_until("db.kept.svc.cluster.local", LIMIT, |reply| reply.addresses().len() == 2);
}
