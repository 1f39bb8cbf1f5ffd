//! Everything at once for a long time: names of a cluster that changes, cached and forwarded names, denials, over UDP and TCP,
//! with reloads. No answer is lost or wrong, and memory and open files stay level.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::client::PATIENCE;
use tests::watchman::Asker;
use tests::{Api, Cluster, Gateway, Query, Reply, Stream, Upstream, Watchman, api, stated};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// How long after the API server said that it knows a change the old answer is still right.
const LATE: Duration = Duration::from_secs(5);

/// Names that change, and names of the upstream of each sort.
const NAMES: usize = 50;

/// Changes in the cluster a second.
const RATE: f64 = 50.0;

/// The values that a name of the cluster has had, each with the time at which the API server acknowledged it.
#[derive(Default)]
struct History(Mutex<Vec<(IpAddr, Option<Instant>)>>);

impl History {
    /// Notes that a value is on its way.
    fn begin(&self, value: IpAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((value, None));
    }

    /// Notes that the last value is known to the API server.
    fn done(&self) {
        if let Some(last) = self.0.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            last.1 = Some(Instant::now());
        }
    }

    /// Whether the answer to a question asked at a time may be this value: no later one was known long before.
    fn allows(&self, value: IpAddr, asked: Instant) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = all.iter().rposition(|v| v.0 == value) else { return false };
        all[at + 1..].iter().all(|(_, known)| known.is_none_or(|k| k + LATE > asked))
    }
}

/// What the right answer to a question is.
#[derive(Clone, Copy, Debug)]
enum Right {
    /// This address.
    Address(IpAddr),
    /// One address, that of the name with this number that changes.
    Changing(usize),
    /// The response code NXDOMAIN.
    Missing,
}

/// The clients' questions and the right answers.
struct World {
    /// What the names that change have been.
    histories: Vec<History>,
}

impl World {
    /// The question of a sort that a client asks in a round, and its answer.
    fn question(sort: usize, client: usize, round: usize) -> (String, Right) {
        let i = round % NAMES;
        let octet = i as u8 + 1;
        match sort {
            0 => (
                "web.soak.svc.cluster.local".to_owned(),
                Right::Address(IpAddr::from([10, 96, 71, 1])),
            ),
            1 => (format!("h{i}.soak.svc.cluster.local"), Right::Changing(i)),
            2 => (format!("w{i}.example.org"), Right::Address(IpAddr::from([203, 0, 113, octet]))),
            3 => (format!("l{i}.example.net"), Right::Address(IpAddr::from([198, 51, 100, octet]))),
            4 => (format!("n{round}-{client}.example.org"), Right::Missing),
            _ => (format!("n{round}-{client}.soak.svc.cluster.local"), Right::Missing),
        }
    }

    /// Says what is wrong with the reply to a question.
    fn judge(
        &self,
        (name, right): &(String, Right),
        asked: Instant,
        reply: Option<Reply>,
    ) -> Result<(), String> {
        let Some(reply) = reply else { return Err(format!("{name} is lost")) };
        let addresses = reply.addresses();
        let good = match (right, addresses.as_slice()) {
            (Right::Address(wanted), [one]) => one == wanted,
            (Right::Changing(i), [one]) => self.histories[*i].allows(*one, asked),
            (Right::Missing, []) => reply.rcode() == ResponseCode::NXDomain,
            _ => false,
        };
        if good { Ok(()) } else { Err(format!("{name} is {right:?}, not {reply:?}")) }
    }
}

/// How many sorts of questions there are.
const SORTS: usize = 6;

/// The clients: one of each sort over UDP, one with a TCP connection for each query, one with a connection that stays.
fn askers(world: &Arc<World>, server: SocketAddr) -> Vec<Asker> {
    let mut askers: Vec<Asker> = Vec::new();
    for sort in 0..SORTS {
        let world = Arc::clone(world);
        let mut round = 0;
        askers.push(Box::new(move || {
            round += 1;
            let question = World::question(sort, sort, round);
            let asked = Instant::now();
            let reply = Query::from(question.0.as_str()).ask(server);
            world.judge(&question, asked, reply)
        }));
    }
    // One with a connection for each query and one with a connection that stays, of all sorts in turn.
    for (client, stays) in [(SORTS, false), (SORTS + 1, true)] {
        let world = Arc::clone(world);
        let mut stream: Option<Stream> = None;
        let mut number = 0;
        askers.push(Box::new(move || {
            number += 1;
            // The ports of connections that ended are not free at once.
            sleep(Duration::from_millis(if stays { 0 } else { 4 }));
            let question = World::question(number % SORTS, client, number / SORTS);
            let asked = Instant::now();
            let mut open = match stream.take() {
                Some(open) => open,
                None => Stream::open(server, None).ok_or("the port is closed")?,
            };
            open.send(&Query::from(question.0.as_str()));
            let reply = open.receive(PATIENCE);
            if stays && reply.is_some() {
                stream = Some(open);
            }
            world.judge(&question, asked, reply)
        }));
    }
    askers
}

/// What is in the cluster at the beginning.
fn objects(world: &World) -> String {
    let mut text = String::from(
        "{apiVersion: v1, kind: Namespace, metadata: {name: soak}}\n\
         ---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: soak}, spec: {clusterIP: 10.96.71.1, ports: [{port: 80}]}}\n",
    );
    for (i, history) in world.histories.iter().enumerate() {
        let first = address(i);
        history.begin(first);
        history.done();
        text += &format!(
            "---\n{{apiVersion: v1, kind: Service, metadata: {{name: h{i}, namespace: soak}}, spec: {{clusterIP: None, ports: [{{port: 80}}]}}}}\n\
             ---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: h{i}, namespace: soak, \
             labels: {{kubernetes.io/service-name: h{i}}}}}, addressType: IPv4, endpoints: [{{addresses: [{first}]}}]}}\n"
        );
    }
    text
}

/// The address that a change with this number gives; no two have the same.
fn address(number: usize) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 0)) + number as u32).into()
}

/// Changes addresses, and makes and deletes Services, at a steady rate until it shall end.
fn churn(api: &Api, world: &World, over: &AtomicBool) {
    let mut session = api.session();
    let begin = Instant::now();
    let services = "/api/v1/namespaces/soak/services";
    for number in NAMES.. {
        let due = begin + Duration::from_secs_f64((number - NAMES) as f64 / RATE);
        sleep(due.saturating_duration_since(Instant::now()));
        if over.load(Ordering::SeqCst) {
            return;
        }
        let (i, new) = (number % NAMES, address(number));
        // Each tenth change is a Service that comes, and the next one has it go.
        let (status, object) = match number % 10 {
            8 => {
                let body = format!(
                    "{{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {{\"name\": \"g{number}\"}}, \
                     \"spec\": {{\"type\": \"ExternalName\", \"externalName\": \"g{number}.example.org\"}}}}"
                );
                session.send("POST", services, "application/json", &body)
            }
            9 => session.send("DELETE", &format!("{services}/g{}", number - 1), "", ""),
            _ => {
                let path = format!("/apis/discovery.k8s.io/v1/namespaces/soak/endpointslices/h{i}");
                let patch = format!("{{\"endpoints\": [{{\"addresses\": [\"{new}\"]}}]}}");
                world.histories[i].begin(new);
                let done = session.send("PATCH", &path, api::MERGE, &patch);
                world.histories[i].done();
                done
            }
        };
        assert!((200..300).contains(&status), "change {number}: {status} {object}");
    }
}

/// The records of the upstream.
fn records() -> Vec<String> {
    let zones = ["example.org", "example.net"];
    let soa = zones.map(|z| format!("{z}. 60 IN SOA ns.{z}. h.{z}. 1 2 3 4 60"));
    let names = (0..NAMES).flat_map(|i| {
        let octet = i + 1;
        [
            format!("w{i}.example.org. 60 IN A 203.0.113.{octet}"),
            format!("l{i}.example.net. 60 IN A 198.51.100.{octet}"),
        ]
    });
    soa.into_iter().chain(names).collect()
}

/// The mean of some figures.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_mixed_load_loses_nothing_and_stays_level() {
    let whole = Duration::from_secs_f64(stated("SOAK_SECONDS", 4.0));
    let interval = Duration::from_secs_f64(stated("SOAK_RELOAD_SECONDS", 1.0));
    let growth = 1.0 + stated("SOAK_GROWTH_PERCENT", 50.0) / 100.0;
    let world = Arc::new(World { histories: (0..NAMES).map(|_| History::default()).collect() });
    let cluster = Cluster::start();
    cluster.apply(&objects(&world));
    let records = records();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    let upstream = Upstream::with(&records, "  log-queries: no\n");
    let (kubeconfig, to) = (cluster.kubeconfig("reader"), upstream.address());
    let corefile = |ttl: usize| {
        format!(
            "cluster.local:@PORT@ {{\n errors\n prometheus localhost:@PORT:metrics@\n kubernetes {{\n  kubeconfig {}\n  ttl {ttl}\n }}\n}}\n\
             example.org:@PORT@ {{\n errors\n cache 60 {{\n  success 2000\n  denial 2000\n }}\n forward . {to}\n}}\n\
             example.net:@PORT@ {{\n errors\n forward . {to}\n}}\n",
            kubeconfig.display()
        )
    };
    let mut gateway = Gateway::new(&corefile(5)).start();
    gateway.ask_until("h0.soak.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);

    let over = Arc::new(AtomicBool::new(false));
    let churning = {
        let (api, world, over) =
            (Api::new(&cluster, "admin"), Arc::clone(&world), Arc::clone(&over));
        spawn(move || churn(&api, &world, &over))
    };
    let watchman = Watchman::start(askers(&world, gateway.address()));
    let begin = Instant::now();
    let (mut reloads, mut samples) = (0, Vec::new());
    while begin.elapsed() < whole {
        if begin.elapsed() >= interval * (reloads + 1) {
            reloads += 1;
            let ttl = 5 + reloads as usize % 20;
            gateway.write("Corefile", &corefile(ttl));
            gateway.reload();
            let right = vec![format!("web.soak.svc.cluster.local. {ttl} IN A 10.96.71.1")];
            gateway.ask_until("web.soak.svc.cluster.local", LIMIT, |r| r.answers() == right);
        }
        samples.push((gateway.resident() as f64, gateway.usage().descriptors() as f64));
        sleep(Duration::from_millis(250));
    }
    over.store(true, Ordering::SeqCst);
    churning.join().expect("it changes things to the end");
    let metrics = gateway.metrics("metrics");
    let count = watchman.end(&gateway);

    let third = samples.len() / 3;
    let (second, last) = (&samples[third..2 * third], &samples[2 * third..]);
    let memory = [second, last].map(|s| mean(&s.iter().map(|v| v.0).collect::<Vec<_>>()));
    let files = [second, last].map(|s| mean(&s.iter().map(|v| v.1).collect::<Vec<_>>()));
    let mib = |octets: f64| octets / f64::from(1 << 20);
    println!(
        "{count} answers in {whole:?} with {reloads} reloads, none lost or wrong; in the second and the last third {:.1} and {:.1} MiB \
         resident, {:.1} and {:.1} files open",
        mib(memory[0]),
        mib(memory[1]),
        files[0],
        files[1]
    );
    assert!(memory[1] <= memory[0] * growth, "memory grows:\n{}", gateway.output());
    // Of a few files one more is many per cent.
    assert!(files[1] <= files[0] * growth + 1.0, "open files grow:\n{}", gateway.output());
    let panics: f64 =
        metrics.iter().filter(|(k, _)| k.starts_with("coredns_panics_total")).map(|(_, v)| v).sum();
    assert_eq!(panics, 0.0, "{}", gateway.output());
    assert!(!gateway.output().contains("[ERROR]"), "{}", gateway.output());
}
