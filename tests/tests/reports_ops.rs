//! Faults of comparable servers that their users reported: reloading and stopping.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, sleep};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use rustix::process::Signal;
use tests::client::{PATIENCE, http_get};
use tests::{Gateway, Query, Stream, until};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Asks all along, over UDP, over connections of one query and over one connection, until told to stop; each query has to be
/// answered with one address.
fn ask_all_along<'s>(
    scope: &'s Scope<'s, '_>,
    server: SocketAddr,
    over: &'s AtomicBool,
    asked: &'s AtomicUsize,
) {
    let good = |reply: Option<tests::Reply>| {
        let reply = reply.expect("no query is lost");
        assert_eq!(reply.rcode(), ResponseCode::NoError, "{reply:?}");
        assert_eq!(reply.addresses().len(), 1, "{reply:?}");
        asked.fetch_add(1, Ordering::SeqCst);
    };
    for query in [Query::from("www.example.test"), Query::from("www.example.test").tcp()] {
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                good(query.ask(server));
                sleep(Duration::from_millis(40));
            }
        });
    }
    scope.spawn(move || {
        let mut stream = Stream::open(server, None).expect("the port is open");
        while !over.load(Ordering::SeqCst) {
            stream.send(&Query::from("www.example.test"));
            good(stream.receive(PATIENCE));
            sleep(Duration::from_millis(40));
        }
    });
}

/// Sets a flag when it goes, so that threads end also where a test fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// A wrong file ended the process, or left it with its health page closed; after a reload by signal those by file never worked
// again.
#[test]
fn b37_broken_files_change_nothing_however_often_they_come() {
    let corefile = |health: &str, last: u8| {
        format!(
            ".:@PORT@ {{\n reload 2s 1s\n health 127.0.0.1:{health}\n ready 127.0.0.1:@PORT:ready@\n \
             prometheus 127.0.0.1:@PORT:metrics@\n template IN A {{\n  answer \"{{{{ .Name }}}} 5 IN A 203.0.113.{last}\"\n }}\n}}\n"
        )
    };
    let free = "@PORT:health@";
    let mut gateway = Gateway::new(&corefile(free, 1)).start();
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let taken = other.local_addr().map(|a| a.port().to_string()).expect("it has an address");
    let descriptors = format!("/proc/{}/fd", gateway.process().id());
    let descriptors = || std::fs::read_dir(&descriptors).expect("it runs").count();
    gateway.ask("www.example.test A");
    let before = descriptors();
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failed = |gateway: &Gateway| {
        gateway.metrics("metrics").get("coredns_reload_failed_total").copied().unwrap_or_default()
    };
    std::thread::scope(|scope| {
        let _end = AtEnd(&over);
        ask_all_along(scope, gateway.address(), &over, &asked);
        for round in 1..=6_u8 {
            // By turns by a signal and by what is seen in the file.
            let by_signal = round % 2 == 0;
            let broken = match round {
                5 | 6 => corefile(&taken, round),
                _ => corefile(free, round) + "forward . {",
            };
            gateway.write("Corefile", &broken);
            if by_signal {
                gateway.reload();
            }
            let count = f64::from(round);
            let told = until(LIMIT, || (failed(&gateway) >= count).then_some(()));
            told.unwrap_or_else(|| panic!("round {round}: {}", gateway.output()));
            assert_eq!(failed(&gateway), count, "{}", gateway.output());
            assert_eq!(gateway.get("health", "/health").map(|p| p.0), Some(200));
            assert_eq!(gateway.get("ready", "/ready").map(|p| p.0), Some(200));
            let old = Ipv4Addr::new(203, 0, 113, round);
            assert_eq!(gateway.ask("www.example.test A").addresses(), [old]);

            gateway.write("Corefile", &corefile(free, round + 1));
            if by_signal {
                gateway.reload();
            }
            let new = Ipv4Addr::new(203, 0, 113, round + 1);
            gateway.ask_until("www.example.test A", LIMIT, |r| r.addresses() == [new]);
        }
    });
    assert!(asked.load(Ordering::SeqCst) > 100, "{asked:?}");
    // Whoever reads the file tells what is wrong, once: the signal's reload, and the watch.
    let told = |l: &&str| l.starts_with("[ERROR]") || l.starts_with("[WARNING]");
    let lines = gateway.output().lines().filter(told).count();
    assert!(failed(&gateway) == 6.0 && lines <= 14, "{lines}: {}", gateway.output());
    let after = until(LIMIT, || (descriptors().abs_diff(before) <= 2).then_some(()));
    after.unwrap_or_else(|| panic!("{before} descriptors before, {} after", descriptors()));
}

/// The status of the next response on an HTTP connection that is kept.
fn status(stream: &mut TcpStream, path: &str) -> u16 {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("the connection is open");
    let mut text = Vec::new();
    let mut octet = [0];
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut octet).expect("there is a response");
        text.push(octet[0]);
    }
    let head = String::from_utf8_lossy(&text).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|l| l.split('\r').next());
    let length = length.and_then(|l| l.parse().ok()).expect("a length");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("there is a body");
    head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status")
}

/// A gateway that goes on for so long when it is told to stop.
fn lingering(lameduck: &str) -> String {
    format!(
        ".:@PORT@ {{\n reload 2s 1s\n health 127.0.0.1:@PORT:health@ {{\n  lameduck {lameduck}\n }}\n ready 127.0.0.1:@PORT:ready@\n \
         prometheus 127.0.0.1:@PORT:metrics@\n hosts {{\n  203.0.113.1 www.example.test\n }}\n}}\n"
    )
}

// A reload took the instance out of service for as long as a stop does, all replicas at once.
#[test]
fn b38_a_reload_is_not_a_stop() {
    let mut gateway = Gateway::new(&lingering("10s")).start();
    let version = |gateway: &Gateway| {
        let samples = gateway.metrics("metrics");
        samples.keys().find(|k| k.starts_with("coredns_reload_version_info")).cloned()
    };
    let first = version(&gateway).expect("the version is told");
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (ready, server) = (gateway.address_of("ready"), gateway.address());
    std::thread::scope(|scope| {
        let _end = AtEnd(&over);
        ask_all_along(scope, server, &over, &asked);
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                assert_eq!(http_get(ready, "/ready").map(|p| p.0), Some(200));
                sleep(Duration::from_millis(40));
            }
        });
        gateway.write("Corefile", &lingering("11s"));
        let begin = Instant::now();
        let changed = until(LIMIT, || (version(&gateway)? != first).then_some(()));
        changed.unwrap_or_else(|| panic!("{}", gateway.output()));
        // Not after the old lame-duck time.
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        // What the old one still did would show within a second.
        sleep(Duration::from_secs(1));
    });
    assert!(asked.load(Ordering::SeqCst) > 20, "{asked:?}");
}

// A balancer that kept its connection open was told that all is well until the end.
#[test]
fn b38_a_stop_is_told_on_open_connections_and_queries_are_answered_meanwhile() {
    let mut gateway = Gateway::new(&lingering("4s")).start();
    let mut kept = TcpStream::connect(gateway.address_of("ready")).expect("the port is open");
    kept.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    assert_eq!(status(&mut kept, "/ready"), 200);
    gateway.signal(Signal::TERM);
    let begin = Instant::now();
    until(Duration::from_secs(2), || (status(&mut kept, "/ready") == 503).then_some(()))
        .expect("it says at once that it stops");
    let mut asked = 0;
    while begin.elapsed() < Duration::from_millis(3500) {
        for query in [Query::from("www.example.test"), Query::from("www.example.test").tcp()] {
            let reply = query.ask(gateway.address()).expect("it is answered");
            assert_eq!(reply.addresses().len(), 1, "{reply:?}");
            asked += 1;
        }
        assert_eq!(gateway.get("health", "/health").map(|p| p.0), Some(200));
        sleep(Duration::from_millis(100));
    }
    assert!(asked > 10, "{asked}");
    assert_eq!(status(&mut kept, "/ready"), 503);
    let ended = gateway.process().wait(LIMIT).expect("it ends");
    assert!(ended.success() && begin.elapsed() >= Duration::from_millis(3900), "{ended}");
}

// Someone who asked a second time had to wait for the lame-duck time all the same.
#[test]
fn b38_a_second_signal_ends_the_wait() {
    let mut gateway = Gateway::new(&lingering("60s")).start();
    gateway.signal(Signal::TERM);
    let ready = gateway.address_of("ready");
    until(LIMIT, || (http_get(ready, "/ready")?.0 == 503).then_some(())).expect("it stops");
    assert_eq!(gateway.ask("www.example.test A").addresses().len(), 1);
    let begin = Instant::now();
    gateway.signal(Signal::TERM);
    let ended = gateway.process().wait(LIMIT).expect("it ends");
    assert!(ended.success(), "{ended}: {}", gateway.output());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}
