//! How soon a change in the cluster is answered: from the moment in which another watch sees it to the first new DNS answer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::api::{self, Api};
use tests::{Cluster, Gateway, Query, stated};

/// Updates a second: half of them of EndpointSlices, half of Services.
const RATE: f64 = 100.0;

/// How many Services of each sort there are; each is changed once in two seconds.
const SERVICES: usize = 100;

/// How long an answer may take before the update counts as lost.
const LOST: Duration = Duration::from_secs(10);

/// An update that the other watch has seen.
struct Seen {
    /// When it was.
    at: Instant,
    /// The question that it changes the answer of.
    question: String,
    /// The new answer.
    data: String,
}

/// Services without addresses of their own and their slices, and aliases.
fn objects() -> String {
    let mut text = String::from("{apiVersion: v1, kind: Namespace, metadata: {name: churn}}\n");
    for i in 0..SERVICES {
        text += &format!(
            "---\n{{apiVersion: v1, kind: Service, metadata: {{name: h{i}, namespace: churn}}, spec: {{clusterIP: None, ports: [{{port: 80}}]}}}}\n\
             ---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: h{i}, namespace: churn, \
             labels: {{kubernetes.io/service-name: h{i}}}}}, addressType: IPv4, endpoints: [{{addresses: [172.31.0.1]}}]}}\n\
             ---\n{{apiVersion: v1, kind: Service, metadata: {{name: x{i}, namespace: churn}}, spec: {{type: ExternalName, externalName: t.example.org}}}}\n"
        );
    }
    text
}

/// The path and the patch of the update with this number.
fn update(number: usize) -> (String, String) {
    let (i, high, low) = (number / 2 % SERVICES, number >> 8 & 255, number & 255);
    if number.is_multiple_of(2) {
        (
            format!("/apis/discovery.k8s.io/v1/namespaces/churn/endpointslices/h{i}"),
            format!("{{\"endpoints\": [{{\"addresses\": [\"172.30.{high}.{low}\"]}}]}}"),
        )
    } else {
        (
            format!("/api/v1/namespaces/churn/services/x{i}"),
            format!("{{\"spec\": {{\"externalName\": \"t{number}.example.org\"}}}}"),
        )
    }
}

/// Tells of each update that a watch of its own sees.
fn follow(api: &Api, path: &str, tell: &Sender<Seen>) {
    for event in api.watch(path) {
        let at = Instant::now();
        if event["type"] != "MODIFIED" {
            continue;
        }
        let object = &event["object"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&object["metadata"]["name"]);
        let (rtype, data) = match object["spec"]["externalName"].as_str() {
            Some(target) => ("CNAME", format!("{target}.")),
            None => ("A", text(&object["endpoints"][0]["addresses"][0])),
        };
        let question = format!("{name}.churn.svc.cluster.local {rtype}");
        if tell.send(Seen { at, question, data }).is_err() {
            return;
        }
    }
}

/// Asks until each update is answered; gives how long that took after the other watch saw it.
fn poll(server: SocketAddr, updates: &Receiver<Seen>) -> Vec<Duration> {
    let mut times = Vec::new();
    while let Ok(update) = updates.recv_timeout(Duration::from_secs(5)) {
        let query = Query::from(update.question.as_str());
        let data = format!(" {}", update.data);
        loop {
            let reply =
                query.ask(server).unwrap_or_else(|| panic!("no reply to {}", update.question));
            let waited = update.at.elapsed();
            if reply.answers().iter().any(|a| a.ends_with(&data)) {
                times.push(waited);
                break;
            }
            assert!(waited < LOST, "{} is not {data} after {waited:?}: {reply:?}", update.question);
            sleep(Duration::from_micros(100));
        }
    }
    times
}

#[test]
fn changes_are_answered_soon_under_a_churn() {
    let seconds = stated("LATENCY_SECONDS", 4.0);
    let limit = Duration::from_secs_f64(stated("LATENCY_LIMIT_MS", 1500.0) / 1000.0);
    let cluster = Cluster::start();
    cluster.apply(&objects());
    let kubeconfig = cluster.kubeconfig("reader");
    let gateway = Gateway::new(&format!(
        "cluster.local:@PORT@ {{\n kubernetes {{\n  kubeconfig {}\n }}\n}}",
        kubeconfig.display()
    ))
    .start();
    let server = gateway.address();
    let api = Api::new(&cluster, "admin");
    let mut pollers = Vec::new();
    for path in [
        "/api/v1/namespaces/churn/services",
        "/apis/discovery.k8s.io/v1/namespaces/churn/endpointslices",
    ] {
        let version = api.get(&format!("{path}?limit=1"))["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned();
        let (tell, hear) = channel();
        let api = api.clone();
        let path = format!("{path}?watch=true&resourceVersion={version}");
        spawn(move || follow(&api, &path, &tell));
        pollers.push(spawn(move || poll(server, &hear)));
    }

    let count = (RATE * seconds) as usize;
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut session = api.session();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= count {
                        return;
                    }
                    let due = begin + Duration::from_secs_f64(number as f64 / RATE);
                    sleep(due.saturating_duration_since(Instant::now()));
                    let (path, patch) = update(number);
                    let (status, object) = session.send("PATCH", &path, api::MERGE, &patch);
                    assert_eq!(status, 200, "{path}: {object}");
                }
            });
        }
    });
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let mut times: Vec<Duration> =
        pollers.into_iter().flat_map(|p| p.join().expect("it asks to the end")).collect();
    times.sort_unstable();
    assert_eq!(times.len(), count, "updates that were answered");
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!(
        "{count} updates, {rate:.0} a second: p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    assert!(
        at(0.99) <= limit.as_secs_f64() * 1000.0,
        "p99 is above {limit:?}:\n{}",
        gateway.output()
    );
}
