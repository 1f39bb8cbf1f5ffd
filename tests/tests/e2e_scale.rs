//! Size and pace: a cluster far larger than one machine's API server can be, made up by a server of our own.
//!
//! The small form runs everywhere and checks what is answered; the long one (`tests/long/scale.sh`) states the sizes, and holds a
//! release build to the figures that the project promises.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::fake::{Fake, Shape, lists_until};
use tests::{Gateway, Query, Reply, stated, until};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// Clusters at once.
const CLUSTERS: [&str; 3] = ["first", "second", "third"];

/// The shape that the environment states, with so many pods.
fn shape(pods: u32) -> Shape {
    let services = stated("SCALE_SERVICES", 2000.0) as u32;
    Shape { services, endpoints: 5, pods, namespaces: (services / 50).clamp(1, 2000) }
}

/// Whether figures are held to what is promised, or only shown.
fn promised() -> bool {
    stated("SCALE_PROMISED", 0.0) > 0.0
}

/// A gateway of a cluster.
fn gateway(fake: &Fake, properties: &str) -> Gateway {
    Gateway::new(&format!(
        "cluster.local:@PORT@ {{\n errors\n kubernetes {{\n  endpoint {}\n  startup_timeout 0s\n  {properties}\n }}\n}}",
        fake.url()
    ))
    // As the unit and the image have it.
    .env("MALLOC_MMAP_THRESHOLD_", "131072")
    .launch()
}

/// Whether a reply has exactly these addresses.
fn right(reply: &Reply, wanted: &[Ipv4Addr]) -> bool {
    let mut addresses = reply.addresses();
    addresses.sort_unstable();
    addresses.iter().copied().eq(wanted.iter().map(|ip| std::net::IpAddr::from(*ip)))
}

/// The addresses that a service's name has.
fn addresses(shape: &Shape, service: u32) -> Vec<Ipv4Addr> {
    match Shape::headless(service) {
        true => (0..shape.endpoints).map(|number| shape.endpoint(service, number)).collect(),
        false => vec![Shape::cluster_ip(service)],
    }
}

/// A name of the cluster's own domain in another zone.
fn within(name: &str, zone: &str) -> String {
    name.replace("cluster.local", zone)
}

/// Asks for the last service of both sorts until they are right: everything before them is known then.
fn first_answers(gateway: &Gateway, shape: &Shape) {
    first_answers_in(gateway, shape, "cluster.local");
}

/// Does so in another zone.
fn first_answers_in(gateway: &Gateway, shape: &Shape, zone: &str) {
    for service in (0..shape.services).rev().take(10) {
        let wanted = addresses(shape, service);
        Query::from(&*within(&shape.name(service), zone))
            .patience(Duration::from_millis(500))
            .ask_until(gateway.address(), LIMIT, |reply| right(reply, &wanted));
    }
}

/// Checks a sample of all names.
fn check(gateway: &Gateway, shape: &Shape) {
    let step = (shape.services / 500).max(1) as usize;
    for service in (0..shape.services).step_by(step) {
        let reply = gateway.ask(&*shape.name(service));
        assert!(right(&reply, &addresses(shape, service)), "{service}: {reply:?}");
    }
}

/// Bytes as MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The memory of a gateway when it has come to rest.
fn settled(gateway: &Gateway) -> u64 {
    let mut last = gateway.resident();
    for _ in 0..20 {
        sleep(Duration::from_millis(250));
        let now = gateway.resident();
        if now.abs_diff(last) < 64 << 10 {
            return now;
        }
        last = now;
    }
    last
}

#[test]
fn a_very_large_cluster_is_known_soon_in_little_memory_that_is_given_back() {
    let shape = shape(0);
    let fake = Fake::start(shape);
    // It is built before anything is measured.
    tests::gateway::binary();
    let begin = Instant::now();
    let gateway = gateway(&fake, "");
    until(LIMIT, || gateway.usage().ports().contains(&gateway.address().port()).then_some(()))
        .expect("it listens");
    first_answers(&gateway, &shape);
    let (wall, cpu) = (begin.elapsed(), gateway.usage().processor_time());
    check(&gateway, &shape);
    let steady = settled(&gateway);
    let own = gateway.usage().size("RssAnon");

    // Everything is listed again, beside what is known.
    gateway.usage().forget_peak();
    let lists = fake.lists();
    fake.forget();
    lists_until(&fake, lists + 3, LIMIT);
    fake.change(9, Ipv4Addr::new(203, 0, 113, 9));
    gateway.ask_until(&*shape.name(9), LIMIT, |reply| {
        reply.addresses().contains(&Ipv4Addr::new(203, 0, 113, 9).into())
    });
    let peak = gateway.usage().size("VmHWM");
    let again = settled(&gateway);

    // Nine of ten services go.
    let rest = shape.services / 10;
    fake.delete(rest..shape.services, 0..0);
    let gone = shape.name(rest);
    gateway.ask_until(&*gone, LIMIT, |reply| reply.rcode() == ResponseCode::NXDomain);
    gateway.ask_until(&*shape.name(shape.services - 1), LIMIT, |reply| {
        reply.rcode() == ResponseCode::NXDomain
    });
    let kept = Shape { services: rest, ..shape };
    let sample = addresses(&kept, 19);
    assert!(right(&gateway.ask(&*kept.name(19)), &sample));
    let after = settled(&gateway);
    let own = gateway.usage().size("RssAnon") as f64 / own as f64;
    println!(
        "| {} services, {} endpoints | {:.2} s | {:.2} s | {:.1} MiB | {:.2} | {:.1} MiB | {:.1} MiB | {own:.2} |",
        shape.services,
        shape.services * shape.endpoints,
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        mib(steady),
        peak as f64 / steady as f64,
        mib(again),
        mib(after)
    );
    if promised() {
        assert!(cpu <= Duration::from_millis(1200), "{cpu:?} of CPU to the first right answers");
        assert!(steady <= 64_000_000, "{:.1} MiB", mib(steady));
        assert!(peak as f64 <= steady as f64 * 1.25, "the peak is {:.1} MiB", mib(peak));
        assert!(own < 0.7, "{own:.2} of the memory that is no file's is kept");
    }
}

#[test]
fn pods_take_little_memory_beside_that() {
    let pods = stated("SCALE_PODS", 5000.0) as u32;
    let shape = shape(pods);
    let fake = Fake::start(shape);
    let gateway = gateway(&fake, "pods verified");
    first_answers(&gateway, &shape);
    let last = Shape::pod(pods - 1);
    let dashed = last.to_string().replace('.', "-");
    let name = format!("{dashed}.team-{:04}.pod.cluster.local", (pods - 1) % shape.namespaces);
    gateway.ask_until(&*name, LIMIT, |reply| right(reply, &[last]));
    let cpu = gateway.usage().processor_time();
    let steady = settled(&gateway);
    println!(
        "| {} services, {} endpoints, {pods} pods | | {:.2} s | {:.1} MiB | | | | |",
        shape.services,
        shape.services * shape.endpoints,
        cpu.as_secs_f64(),
        mib(steady)
    );
    if promised() {
        assert!(steady <= 110_000_000, "{:.1} MiB", mib(steady));
    }
}

#[test]
fn several_clusters_take_no_more_than_one_of_their_size() {
    let whole = shape(stated("SCALE_PODS", 5000.0) as u32);
    let shape = Shape {
        services: whole.services / CLUSTERS.len() as u32,
        pods: whole.pods / CLUSTERS.len() as u32,
        ..whole
    };
    let fakes = CLUSTERS.map(|name| (name, Fake::start(shape)));
    let declared: String = fakes
        .iter()
        .map(|(name, fake)| {
            format!("cluster://{name} {{\n endpoint {}\n startup_timeout 0s\n}}\n", fake.url())
        })
        .collect();
    let served: String = CLUSTERS
        .iter()
        .map(|name| {
            format!(
                "{name}.test:@PORT@ {{\n errors\n kubernetes {{\n  cluster {name}\n  pods verified\n }}\n}}\n"
            )
        })
        .collect();
    let gateway = Gateway::new(&format!("{declared}{served}")).launch();
    let last = Shape::pod(shape.pods - 1);
    let dashed = last.to_string().replace('.', "-");
    let pod = format!("{dashed}.team-{:04}.pod.cluster.local", (shape.pods - 1) % shape.namespaces);
    for name in CLUSTERS {
        let zone = format!("{name}.test");
        first_answers_in(&gateway, &shape, &zone);
        gateway.ask_until(&*within(&pod, &zone), LIMIT, |reply| right(reply, &[last]));
    }
    let cpu = gateway.usage().processor_time();
    let steady = settled(&gateway);
    // What changes in one of them is not told of another.
    let moved = Ipv4Addr::new(203, 0, 113, 9);
    fakes[1].1.change(9, moved);
    let name = shape.name(9);
    gateway.ask_until(&*within(&name, "second.test"), LIMIT, |reply| {
        reply.addresses().contains(&moved.into())
    });
    for zone in ["first.test", "third.test"] {
        let reply = gateway.ask(&*within(&name, zone));
        assert!(right(&reply, &addresses(&shape, 9)), "{zone}: {reply:?}");
    }
    println!(
        "| {} clusters of {} services, {} endpoints, {} pods | | {:.2} s | {:.1} MiB | | | | |",
        CLUSTERS.len(),
        shape.services,
        shape.services * shape.endpoints,
        shape.pods,
        cpu.as_secs_f64(),
        mib(steady)
    );
    if promised() {
        assert!(steady <= 110_000_000, "{:.1} MiB", mib(steady));
    }
}

/// Times from a change to the answer that tells it, sorted.
fn programming(fake: &Fake, gateway: &Gateway, shape: &Shape, changes: u32) -> Vec<Duration> {
    let service = 9;
    let query = Query::from(&*shape.name(service)).encode();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    socket.connect(gateway.address()).expect("it is bound");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("it is a time");
    let mut times = Vec::new();
    let mut buffer = [0; 1500];
    for change in 0..changes {
        let address = Ipv4Addr::new(203, 0, (113 + (change >> 8)) as u8, change as u8);
        let begin = Instant::now();
        fake.change(service, address);
        loop {
            socket.send(&query).expect("it listens");
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            if buffer[..length].windows(4).any(|four| four == address.octets()) {
                break;
            }
            assert!(begin.elapsed() < LIMIT, "change {change} is not told");
        }
        times.push(begin.elapsed());
        sleep(Duration::from_millis(5));
    }
    times.sort_unstable();
    times
}

/// Asks for names at a pace (in queries a second; as fast as it goes if 0) until told to stop; counts replies.
fn load(server: SocketAddr, shape: Shape, pace: u64, stop: Arc<AtomicBool>, count: Arc<AtomicU64>) {
    let queries: Vec<_> =
        (0..1000).map(|i| Query::from(&*shape.name(i * 7 % shape.services)).encode()).collect();
    spawn(move || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        socket.connect(server).expect("it is bound");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a time");
        let (begin, mut sent, mut buffer) = (Instant::now(), 0u64, [0; 1500]);
        while !stop.load(Relaxed) {
            let due = match pace {
                0 => 32,
                pace => (begin.elapsed().as_secs_f64() * pace as f64) as u64 - sent,
            };
            for _ in 0..due.min(32) {
                drop(socket.send(&queries[sent as usize % queries.len()]));
                sent += 1;
            }
            for _ in 0..due.min(32) {
                if socket.recv(&mut buffer).is_err() {
                    break;
                }
                count.fetch_add(1, Relaxed);
            }
            if due == 0 {
                sleep(Duration::from_micros(500));
            }
        }
    });
}

/// The 50th and 99th of a hundred, and the last.
fn shown(times: &[Duration]) -> String {
    let at =
        |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    format!("{:.2} ms | {:.2} ms | {:.2} ms", at(50), at(99), at(100))
}

#[test]
fn changes_are_answered_at_once_under_load_too() {
    let shape = shape(0);
    let changes = stated("SCALE_CHANGES", 100.0) as u32;
    let rate = stated("SCALE_CHURN", 200.0);
    let seconds = stated("SCALE_SECONDS", 1.0);
    let fake = Fake::start(shape);
    let gateway = gateway(&fake, "");
    first_answers(&gateway, &shape);
    let idle = programming(&fake, &gateway, &shape, changes);
    println!("| idle | {} |", shown(&idle));

    // What it can answer at most, and then half of that, while slices change all the time.
    let run = |pace: u64| {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        load(gateway.address(), shape, pace, Arc::clone(&stop), Arc::clone(&count));
        (stop, count)
    };
    let (stop, count) = run(0);
    sleep(Duration::from_secs_f64(seconds));
    stop.store(true, Relaxed);
    let capacity = (count.load(Relaxed) as f64 / seconds) as u64;
    let (stop, count) = run((capacity / 2).max(1));
    let churning = fake.clone();
    let churned = Arc::new(AtomicU64::new(0));
    let (ended, changed) = (Arc::clone(&stop), Arc::clone(&churned));
    spawn(move || {
        let begin = Instant::now();
        while !ended.load(Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * rate) as u64;
            for number in changed.load(Relaxed)..due {
                let service = 10 + (number * 13 % u64::from(shape.services - 10)) as u32;
                let address = Ipv4Addr::from(0x0d00_0000 + (number as u32 & 0xff_ffff));
                churning.change(service, address);
                changed.fetch_add(1, Relaxed);
            }
            sleep(Duration::from_millis(1));
        }
    });
    let begin = Instant::now();
    let busy = programming(&fake, &gateway, &shape, changes);
    let passed = begin.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    println!(
        "| {:.0} changes of slices and {:.0} of at most {capacity} queries a second | {} |",
        churned.load(Relaxed) as f64 / passed,
        count.load(Relaxed) as f64 / passed,
        shown(&busy)
    );
    if promised() {
        let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
        assert!(p99(&idle) <= Duration::from_millis(1), "{:?}", p99(&idle));
        assert!(p99(&busy) <= Duration::from_millis(10), "{:?}", p99(&busy));
        // What was held up was not measured.
        let (churned, asked) = (churned.load(Relaxed) as f64, count.load(Relaxed) as f64);
        assert!(churned >= 0.95 * rate * passed, "{churned} changes in {passed} s");
        assert!(asked >= 0.45 * capacity as f64 * passed, "{asked} answers in {passed} s");
    }
}
