//! The limits on requests to the API server hold where they matter: at the server.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::api::{self, Api};
use tests::{Cluster, Gateway};

/// What the Corefile says.
const LIMITS: &str = "apiserver_qps 5\n  apiserver_burst 10\n  apiserver_max_inflight 2";
/// Its requests a second.
const QPS: f64 = 5.0;
/// The requests that may go out at once.
const BURST: usize = 10;
/// The requests that may be open.
const INFLIGHT: usize = 2;

/// How long a storm lasts.
const STORM: Duration = Duration::from_secs(8);

/// The cluster of all tests of this file; each is another user of it.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::with(&["--audit"]);
        cluster.add_multicluster();
        cluster.apply(include_str!("../testbed/manifests/10-base.yaml"));
        cluster.apply(include_str!("../testbed/manifests/20-mcs.yaml"));
        cluster
    })
}

/// The moment that times are counted from.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What a proxy has seen.
#[derive(Debug, Default)]
struct Tally {
    /// Requests whose response has not begun for the client.
    open: usize,
    /// The most of them at a time.
    most: usize,
    /// When each request came, in seconds from any moment.
    requests: Vec<f64>,
}

/// A proxy that takes plain HTTP and speaks to the API server as `reader`, under a name of its own: it holds the head of each response back for `delay`,
/// and breaks each connection off after `life`.
struct Proxy {
    /// Where it listens.
    address: SocketAddr,
    /// What it has seen.
    tally: Arc<Mutex<Tally>>,
}

impl Proxy {
    /// Starts one.
    fn start(name: &'static str, delay: Duration, life: Duration) -> Self {
        let api = Api::new(cluster(), "reader");
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let tally = Arc::new(Mutex::new(Tally::default()));
        let shared = Arc::clone(&tally);
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (api, tally) = (api.clone(), Arc::clone(&shared));
                // A connection that breaks is what storms are made of.
                spawn(move || serve(client, name, &api, &tally, delay, life));
            }
        });
        Self { address, tally }
    }

    /// What it has seen so far.
    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one request of a connection and closes it.
fn serve(
    client: TcpStream,
    name: &str,
    api: &Api,
    tally: &Mutex<Tally>,
    delay: Duration,
    life: Duration,
) -> Option<()> {
    let tally = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    let mut client = BufReader::new(client);
    let (_, request) = api::head(&mut client)?;
    {
        let mut tally = tally();
        tally.requests.push(BEGIN.elapsed().as_secs_f64());
        tally.open += 1;
        tally.most = tally.most.max(tally.open);
    }
    let request =
        closing(&request).replace("user-agent: Causeway/", &format!("user-agent: {name}/"));
    let begun = (|| {
        let mut server = BufReader::new(api.connect()?);
        server.get_mut().write_all(request.as_bytes()).ok()?;
        server.get_mut().flush().ok()?;
        let (_, response) = api::head(&mut server)?;
        Some((server, response))
    })();
    sleep(delay);
    tally().open -= 1;
    let (mut server, response) = begun?;
    let client = client.get_mut();
    client.write_all(closing(&response).as_bytes()).ok()?;
    let end = Instant::now() + life;
    let mut part = [0; 16 << 10];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        server.get_ref().get_ref().set_read_timeout(Some(left)).ok()?;
        let length = server.read(&mut part).ok().filter(|l| *l > 0)?;
        client.write_all(&part[..length]).ok()?;
    }
}

/// A head that says that the connection closes after the message.
fn closing(head: &str) -> String {
    let rest = head.strip_suffix("\r\n").unwrap_or(head);
    let kept =
        rest.split_inclusive("\r\n").filter(|l| !l.to_lowercase().starts_with("connection:"));
    format!("{}Connection: close\r\n\r\n", kept.collect::<String>())
}

/// A gateway with so many blocks that each follow all six kinds of objects through a proxy.
fn gateway(proxy: &Proxy, blocks: usize, limits: &str) -> Gateway {
    let mut corefile =
        String::from(".:@PORT@ {\n prometheus localhost:@PORT:metrics@\n whoami\n}\n");
    for block in 0..blocks {
        // Other labels make other watches; the address and its limits are shared.
        corefile += &format!(
            "c{block}.local s{block}.local:@PORT@ {{\n kubernetes {{\n  endpoint http://{}\n  {limits}\n  pods verified\n  multicluster s{block}.local\n  \
             labels nosuch notin (x{block})\n  startup_timeout 100ms\n }}\n}}\n",
            proxy.address
        )
        .replacen(&format!("c{block}.local "), &format!("c{block}.local:@PORT@ "), 1);
    }
    Gateway::new(&corefile).start()
}

/// The seconds at which the server got requests through a proxy, in their order.
fn requests(name: &str) -> Vec<f64> {
    let mut times = BTreeMap::new();
    for event in cluster().audit() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if text(&event["userAgent"]).starts_with(name) {
            times.insert(
                text(&event["auditID"]),
                seconds(&text(&event["requestReceivedTimestamp"])),
            );
        }
    }
    let mut times: Vec<f64> = times.into_values().collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The second of the hour in a time such as `2026-01-02T03:04:05.678901Z`.
fn seconds(time: &str) -> f64 {
    let part = |range: std::ops::Range<usize>| -> f64 {
        time.get(range).and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("{time:?}"))
    };
    part(11..13) * 3600.0 + part(14..16) * 60.0 + part(17..26)
}

/// The window with the most requests beyond `burst + qps · t`, as that surplus with its first request and its length.
fn surplus(times: &[f64]) -> (f64, usize, f64) {
    let mut worst = (f64::MIN, 0, 0.0);
    for (first, begin) in times.iter().enumerate() {
        for (last, end) in times.iter().enumerate().skip(first) {
            let length = end - begin;
            let beyond = (last - first + 1) as f64 - (BURST as f64 + QPS * length);
            if beyond > worst.0 {
                worst = (beyond, first, length);
            }
        }
    }
    worst
}

/// Lets all connections break again and again and looks at what the server got meanwhile.
fn storm(name: &'static str, blocks: usize) {
    let proxy = Proxy::start(name, Duration::from_millis(100), Duration::from_millis(150));
    let gateway = gateway(&proxy, blocks, LIMITS);
    sleep(STORM);
    let metrics = gateway.metrics("metrics");
    drop(gateway);
    let times = requests(name);
    let tally = proxy.tally();
    // What left in time may arrive closer together: a little at the proxy, more behind the TLS handshakes of a busy machine.
    for (place, times, late) in [("proxy", &tally.requests, 0.2), ("server", &times, 0.6)] {
        let (beyond, first, length) = surplus(times);
        assert!(
            beyond <= late * QPS,
            "at the {place} {beyond} requests too many in the {length} s from request {first} on: {times:?}"
        );
    }
    // They would be more without limits: requests waited for them.
    let waited: f64 = metrics
        .iter()
        .filter(|(k, _)| {
            k.starts_with("coredns_kubernetes_rest_client_rate_limiter_duration_seconds_sum")
        })
        .map(|(_, v)| v)
        .sum();
    assert!(waited > 1.0 && times.len() > BURST, "{waited} s, {} requests", times.len());
    assert!(tally.most <= INFLIGHT, "{} requests at a time", tally.most);
    assert!(tally.requests.len() >= times.len(), "{tally:?}, {} at the server", times.len());
}

#[test]
fn six_watches_that_break_again_and_again_keep_to_the_limits() {
    storm("Six", 1);
}

#[test]
fn server_blocks_with_one_api_server_share_its_limits() {
    storm("Shared", 4);
}

#[test]
fn no_more_requests_wait_for_a_slow_server_than_allowed_and_all_kinds_come() {
    let proxy = Proxy::start("Slow", Duration::from_millis(700), Duration::from_secs(60));
    let begin = Instant::now();
    let gateway = gateway(
        &proxy,
        1,
        "apiserver_qps 1000\n  apiserver_burst 1000\n  apiserver_max_inflight 2",
    );
    gateway
        .ask_until("web.shop.svc.c0.local", Duration::from_secs(30), |r| !r.addresses().is_empty());
    gateway
        .ask_until("web.shop.svc.s0.local", Duration::from_secs(30), |r| !r.addresses().is_empty());
    // Seven requests, of which one asks what version of imports there is: four rounds of two.
    assert!(begin.elapsed() >= Duration::from_millis(3 * 700), "{:?}", begin.elapsed());
    assert_eq!(proxy.tally().most, INFLIGHT);
}
