//! Faults of comparable servers that their users reported: upstreams that misbehave, the cache, rewriting, templates and files
//! of hosts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};
use rustix::net::sockopt::set_socket_linger;
use tests::client::PATIENCE;
use tests::scripted::{asked, denial, record, reply};
use tests::{Gateway, Query, Reply, Scripted, Stream, until};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// A gateway that forwards to an upstream, with these lines beside the directive and these in its block.
fn forwarder(upstream: SocketAddr, beside: &str, properties: &str) -> Gateway {
    let forward = format!("forward . {upstream} {{\n {properties}\n }}");
    Gateway::new(&format!(".:@PORT@ {{\n errors\n {beside}\n {forward}\n}}")).start()
}

/// The TTL of the only record of a section.
fn ttl(records: &[hickory_proto::rr::Record]) -> u32 {
    let [record] = records else { panic!("one record, not {records:?}") };
    record.ttl
}

/// Waits until so much time has gone by since a moment: what TTLs do not show otherwise.
fn at(begin: Instant, seconds: f64) {
    sleep(Duration::from_secs_f64(seconds).saturating_sub(begin.elapsed()));
}

/// How a connection of an upstream ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// In good order, when the first query is answered.
    Closed,
    /// At once, then.
    Reset,
    /// When the second query has been read.
    Unanswered,
}

/// Reads a query from a connection.
fn read(stream: &mut TcpStream) -> Option<Message> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).ok()?;
    Message::from_vec(&bytes).ok()
}

/// An upstream over TCP that answers one query a connection; counts connections that have ended, and queries for the root.
fn one_a_connection(end: End) -> (SocketAddr, Arc<[AtomicUsize; 2]>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let shared = Arc::clone(&counts);
    spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counts = Arc::clone(&shared);
            spawn(move || {
                let query = read(&mut stream)?;
                if asked(&query).is_empty() {
                    counts[1].fetch_add(1, Ordering::SeqCst);
                }
                let text = format!("{}. 60 A 203.0.113.7", asked(&query));
                let message = reply(&query, &[&text]).to_vec().ok()?;
                let length = u16::try_from(message.len()).ok()?;
                stream.write_all(&[&length.to_be_bytes()[..], &message].concat()).ok()?;
                match end {
                    End::Closed => {}
                    // The reply must have arrived: a reset takes what has not.
                    End::Reset => {
                        sleep(Duration::from_millis(100));
                        set_socket_linger(&stream, Some(Duration::ZERO)).ok()?;
                    }
                    End::Unanswered => {
                        read(&mut stream)?;
                    }
                }
                drop(stream);
                counts[0].fetch_add(1, Ordering::SeqCst);
                Some(())
            });
        }
    });
    (address, counts)
}

// The retry for a kept connection that the upstream had closed never ran, and clients got SERVFAIL now and then.
#[test]
fn b25_a_kept_connection_that_was_closed_costs_no_query() {
    for end in [End::Closed, End::Reset, End::Unanswered] {
        let (upstream, counts) = one_a_connection(end);
        let properties = "force_tcp\n max_fails 1\n health_check 5s";
        let gateway = forwarder(upstream, "prometheus 127.0.0.1:@PORT:metrics@", properties);
        // A worker keeps connections for itself, and this is the same one for all queries.
        let mut client = Stream::open(gateway.address(), None).expect("the port is open");
        for i in 1..=10 {
            client.send(&Query::from(format!("n{i}.example.test A").as_str()));
            let reply = client.receive(PATIENCE).expect("there is a reply");
            assert_eq!(reply.rcode(), ResponseCode::NoError, "{end:?}: {reply:?}");
            assert!(reply.took < Duration::from_secs(1), "{end:?}: {reply:?}");
            let ended = if end == End::Unanswered { i - 1 } else { i };
            until(LIMIT, || (counts[0].load(Ordering::SeqCst) >= ended).then_some(()))
                .unwrap_or_else(|| panic!("{end:?}: connection {i} did not end"));
        }
        // The upstream did not fail: nobody asks whether it is well.
        assert_eq!(counts[1].load(Ordering::SeqCst), 0, "{end:?}");
        let failures = gateway.metrics("metrics");
        let failures =
            failures.iter().find(|(k, v)| k.contains("healthcheck_failures") && **v > 0.0);
        assert_eq!(failures, None, "{end:?}");
    }
}

// A socket had the port of one just closed, got the late reply to another query, and the client got FORMERR.
#[test]
fn b26_replies_to_other_queries_are_passed_over() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let foreign = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let address = socket.local_addr().expect("it has an address");
    let count = Arc::new(AtomicUsize::new(0));
    let queries = Arc::clone(&count);
    spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            queries.fetch_add(1, Ordering::SeqCst);
            let query = Message::from_vec(&buffer[..length]).expect("a query");
            let send = |socket: &UdpSocket, bytes: &[u8]| {
                socket.send_to(bytes, peer).expect("the gateway is there");
            };
            let right = reply(&query, &["www.example.test. 60 A 203.0.113.7"]);
            let mut other_id = reply(&query, &["www.example.test. 60 A 203.0.113.66"]);
            other_id.metadata.id ^= 0xffff;
            let mut other_name = Query::from("other.example.test A").message().clone();
            other_name.metadata.id = query.metadata.id;
            let other_name = reply(&other_name, &["other.example.test. 60 A 203.0.113.66"]);
            let forged = reply(&query, &["www.example.test. 60 A 203.0.113.66"]);
            send(&foreign, &forged.to_vec().expect("a message"));
            send(&socket, &other_id.to_vec().expect("a message"));
            send(&socket, &other_name.to_vec().expect("a message"));
            send(&socket, &right.to_vec().expect("a message")[..5]);
            sleep(Duration::from_millis(50));
            send(&socket, &right.to_vec().expect("a message"));
        }
    });
    let gateway = forwarder(address, "", "");
    let reply = gateway.ask("www.example.test A");
    assert_eq!(reply.rcode(), ResponseCode::NoError);
    assert_eq!(reply.addresses(), [Ipv4Addr::new(203, 0, 113, 7)]);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

// With stale answers on, a passing SERVFAIL was kept, looked up first, and hid the good entry even when the upstream was back.
#[test]
fn b27_a_failure_does_not_hide_what_is_out_of_date() {
    let phase = Arc::new(AtomicUsize::new(0));
    let script = Arc::clone(&phase);
    let upstream = Scripted::start(move |query, _| {
        let phase = script.load(Ordering::SeqCst);
        Some(match (asked(query).as_str(), phase) {
            ("s.example.test", 0) => reply(query, &["s.example.test. 2 A 203.0.113.1"]),
            ("s.example.test", 1) => denial(query, ResponseCode::ServFail, &[]),
            ("s.example.test", _) => reply(query, &["s.example.test. 2 A 203.0.113.2"]),
            (_, 0) => denial(
                query,
                ResponseCode::NXDomain,
                &["example.test. 2 SOA ns.example.test. h.example.test. 1 2 3 4 2"],
            ),
            _ => reply(query, &["n.example.test. 2 A 203.0.113.3"]),
        })
    });
    let cache =
        "cache {\n  success 1024 3600 0\n  denial 1024 3600 0\n  serve_stale 1h immediate\n }";
    let gateway = forwarder(upstream.address(), cache, "");
    let [old, new, late] = [1, 2, 3].map(|last| Ipv4Addr::new(203, 0, 113, last));
    assert_eq!(gateway.ask("s.example.test A").addresses(), [old]);
    assert_eq!(gateway.ask("n.example.test A").rcode(), ResponseCode::NXDomain);

    phase.store(1, Ordering::SeqCst);
    let begin = Instant::now();
    let mut stale = 0;
    while begin.elapsed() < Duration::from_secs(4) {
        let reply = gateway.ask("s.example.test A");
        assert_eq!((reply.rcode(), reply.addresses()), (ResponseCode::NoError, vec![old.into()]));
        let left = ttl(&reply.message.answers);
        assert!(left == 0 || stale == 0, "it is never fresh again: {reply:?}");
        stale += usize::from(left == 0);
        sleep(Duration::from_millis(200));
    }
    assert!(stale > 3 && upstream.count("s.example.test") >= 2, "{stale}");
    // The first who asked for the other name after its time had it refreshed.
    gateway.ask_until("n.example.test A", LIMIT, |r| r.addresses() == [late]);
    assert!(upstream.count("n.example.test") <= 3);

    phase.store(2, Ordering::SeqCst);
    // The failure that is remembered holds the refresh back for five seconds.
    gateway.ask_until("s.example.test A", LIMIT, |r| {
        assert_eq!(r.rcode(), ResponseCode::NoError);
        r.addresses() == [new]
    });
}

/// Sends so many equal queries at once from one socket and gives the replies.
fn volley(server: SocketAddr, name: &str, count: u16) -> Vec<Reply> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    socket.connect(server).expect("a datagram socket can be connected");
    socket.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    let query = Query::from(name);
    let begin = Instant::now();
    for id in 0..count {
        let query = query.clone().with(|m| m.metadata.id = id);
        socket.send(&query.encode()).expect("the gateway is there");
    }
    let mut buffer = [0; 4096];
    let mut replies: Vec<Reply> = std::iter::from_fn(|| {
        let length = socket.recv(&mut buffer).ok()?;
        Some(Reply::decode(buffer[..length].to_vec(), begin.elapsed()))
    })
    .take(usize::from(count))
    .collect();
    replies.sort_by_key(|r| r.message.metadata.id);
    replies.dedup_by_key(|r| r.message.metadata.id);
    replies
}

// Each client's query within the time of a refresh asked the upstream again; those above its limit were kept as SERVFAIL.
#[test]
fn b28_a_refresh_asks_once_however_many_clients_there_are() {
    const COUNT: u16 = 100;
    /// The time that the upstream takes, in seconds.
    const SLOW: f64 = 1.2;
    let upstream = Scripted::start(|query, _| {
        sleep(Duration::from_secs_f64(SLOW));
        Some(reply(query, &["p.example.test. 5 A 203.0.113.1"]))
    });
    let cache = "cache {\n  prefetch 2 1m 50%\n  serve_stale 1h\n }";
    let gateway = forwarder(upstream.address(), cache, "max_concurrent 10");
    let good = |replies: &[Reply]| {
        assert_eq!(replies.len(), usize::from(COUNT));
        assert!(replies.iter().all(|r| r.addresses().len() == 1), "{replies:?}");
    };
    let at_once = |replies: &[Reply]| {
        let slowest = replies.iter().map(|r| r.took).max().expect("there are some");
        assert!(slowest < Duration::from_secs_f64(SLOW), "nobody waits: {slowest:?}");
    };
    let cold = Instant::now();
    good(&volley(gateway.address(), "p.example.test A", COUNT));
    assert_eq!(upstream.count("p.example.test"), 1);

    // An entry ages from when its question came. Three of its five seconds are over.
    at(cold, 3.0);
    let warm = Instant::now();
    let replies = volley(gateway.address(), "p.example.test A", COUNT);
    good(&replies);
    at_once(&replies);
    until(LIMIT, || (upstream.count("p.example.test") == 2).then_some(()))
        .expect("it is refreshed");

    // All five of the refreshed one are over.
    at(warm, SLOW + 6.0);
    assert_eq!(upstream.count("p.example.test"), 2);
    let replies = volley(gateway.address(), "p.example.test A", COUNT);
    good(&replies);
    at_once(&replies);
    gateway.ask_until("p.example.test A", LIMIT, |r| ttl(&r.message.answers) > 0);
    assert_eq!(upstream.count("p.example.test"), 3);
}

// Denials were kept for a fixed time, not for the smaller of the SOA record's TTL and minimum; NXDOMAIN became SERVFAIL.
#[test]
fn b29_a_denial_lives_as_long_as_its_soa_record_says() {
    let soa = |ttl: u32, minimum: u32| {
        format!("example.test. {ttl} SOA ns.example.test. h.example.test. 1 2 3 4 {minimum}")
    };
    let upstream = Scripted::start(move |query, _| {
        let nxdomain = |authority: &[&str]| denial(query, ResponseCode::NXDomain, authority);
        Some(match asked(query).as_str() {
            "n1.example.test" => nxdomain(&[&soa(900, 3)]),
            "n2.example.test" => denial(query, ResponseCode::NoError, &[&soa(3, 3600)]),
            "n3.example.test" => nxdomain(&[]),
            _ => {
                let mut message = nxdomain(&[&soa(8, 8)]);
                message.add_answer(record("n4.example.test. 300 CNAME gone.example.test."));
                message
            }
        })
    });
    let gateway = forwarder(upstream.address(), "cache {\n  denial 1024 3600 0\n }", "");
    let names = ["n1", "n2", "n3", "n4"].map(|n| format!("{n}.example.test"));
    let begin = Instant::now();
    for (moment, counts) in
        [(0.0, [1, 1, 1, 1]), (1.5, [1, 1, 2, 1]), (4.0, [2, 2, 3, 1]), (9.0, [3, 3, 4, 2])]
    {
        at(begin, moment);
        let replies = names.each_ref().map(|n| gateway.ask(n.as_str()));
        assert_eq!(names.each_ref().map(|n| upstream.count(n)), counts, "at {moment} s");
        let [n1, n2, n3, n4] = &replies;
        let codes = replies.each_ref().map(Reply::rcode);
        let denied = ResponseCode::NXDomain;
        assert_eq!(codes, [denied, ResponseCode::NoError, denied, denied]);
        for reply in [n1, n2] {
            let left = ttl(&reply.message.authorities);
            assert!(left <= if moment == 1.5 { 2 } else { 3 }, "at {moment} s: {reply:?}");
        }
        assert!(n3.authorities().is_empty(), "{n3:?}");
        assert_eq!(n4.aliases(), ["n4.example.test. -> gone.example.test."]);
        assert_eq!(n4.authorities().len(), 1, "{n4:?}");
    }
}

// Only the owners of answers were turned back: targets of SRV records and the addresses beside them kept the inner names.
#[test]
fn b30_targets_and_additional_names_are_turned_back() {
    let upstream = Scripted::start(|query, _| {
        Some(match asked(query).as_str() {
            "_db._tcp.pg.svc.corp.test" => {
                let mut message = reply(
                    query,
                    &[
                        "_db._tcp.pg.svc.corp.test. 60 SRV 0 50 5432 pg-0.pg.svc.corp.test.",
                        "_db._tcp.pg.svc.corp.test. 60 SRV 0 50 5432 elsewhere.example.test.",
                    ],
                );
                message.add_additional(record("pg-0.pg.svc.corp.test. 60 A 10.1.1.1"));
                message
            }
            _ => denial(query, ResponseCode::NXDomain, &[]),
        })
    });
    let rewrite = "rewrite stop {\n  name regex (.*)\\.edge\\.test {1}.svc.corp.test\n  \
                   answer name (.*)\\.svc\\.corp\\.test {1}.edge.test\n }";
    let gateway = forwarder(upstream.address(), rewrite, "");
    for name in ["_db._tcp.pg.edge.test.", "_dB._TCP.Pg.eDGe.tESt."] {
        let reply = gateway.ask(format!("{name} SRV").as_str());
        assert_eq!(reply.message.queries[0].name.to_string(), name);
        assert_eq!(reply.answers().len(), 2, "{reply:?}");
        let records = [reply.answers(), reply.additionals()].concat().join("\n").to_lowercase();
        assert!(!records.contains("corp.test"), "{records}");
        for wanted in [
            "_db._tcp.pg.edge.test. 60 in srv 0 50 5432 pg-0.pg.edge.test.",
            "_db._tcp.pg.edge.test. 60 in srv 0 50 5432 elsewhere.example.test.",
            "pg-0.pg.edge.test. 60 in a 10.1.1.1",
        ] {
            assert!(records.contains(wanted), "{wanted}: {records}");
        }
    }
    let reply = gateway.ask("nope.pg.edge.test A");
    assert_eq!(reply.rcode(), ResponseCode::NXDomain);
    assert_eq!(reply.message.queries[0].name.to_string(), "nope.pg.edge.test.");
}

// A name in the zone that the pattern does not match got no reply at all.
#[test]
fn b31_a_name_that_no_pattern_matches_is_told_so_at_once() {
    let corefile = |more: &str| {
        let answer = "answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.n }}\"";
        format!(
            ".:@PORT@ {{\n errors\n template IN A lan.test {{\n  match \"^host-(?P<n>[0-9]+)[.]lan[.]test[.]$\"\n  {answer}\n  {more}\n }}\n whoami\n}}"
        )
    };
    let gateway = Gateway::new(&corefile("")).start();
    for name in ["host-7.lan.test", "HOST-7.lan.test"] {
        let reply = gateway.ask(name);
        assert_eq!(reply.addresses(), [Ipv4Addr::new(10, 0, 0, 7)]);
        let owner = &reply.message.answers[0].name;
        assert_eq!(owner.to_lowercase().to_string(), "host-7.lan.test.");
    }
    let reply = gateway.ask("foo.lan.test A");
    assert_eq!((reply.rcode(), reply.answers().len()), (ResponseCode::ServFail, 0));
    assert!(reply.took < Duration::from_secs(1), "{reply:?}");
    // What the template makes is no record.
    assert_eq!(gateway.ask("host-999.lan.test A").rcode(), ResponseCode::ServFail);
    gateway.line("host-999.lan.test");
    let told = |l: &&str| l.contains("[ERROR]") && l.contains("host-999.lan.test");
    assert_eq!(gateway.output().lines().filter(told).count(), 1, "{}", gateway.output());
    assert_eq!(gateway.ask("host-7.lan.test A").answers().len(), 1);

    let gateway = Gateway::new(&corefile("fallthrough")).start();
    let reply = gateway.ask("foo.lan.test A");
    assert_eq!(reply.rcode(), ResponseCode::NoError);
    assert!(reply.additionals().iter().any(|r| r.contains("127.0.0.1")), "{reply:?}");
}

// A name with an IPv4 line alone was forwarded for AAAA and came back NXDOMAIN; the lines of a changed file were added to the
// old ones.
#[test]
fn b36_names_of_a_hosts_file_are_its_own_and_a_change_replaces_them() {
    let upstream = Scripted::start(|query, _| Some(denial(query, ResponseCode::NXDomain, &[])));
    let corefile = format!(
        ".:@PORT@ {{\n hosts hosts.txt {{\n  203.0.113.10 Inline.lan\n  reload 1s\n  fallthrough\n }}\n forward . {}\n}}",
        upstream.address()
    );
    let rest = "::ffff:203.0.113.5 mapped.lan\n2001:db8::1 six.lan\n";
    let mut gateway = Gateway::new(&corefile)
        .file("hosts.txt", &format!("203.0.113.1 db.lan DB2.lan # note\n{rest}"))
        .start();
    let answer = |question: &str| {
        let reply = gateway.ask(question);
        let data: Vec<String> = reply.message.answers.iter().map(|r| r.data.to_string()).collect();
        format!("{} {}", reply.rcode(), data.join(" ")).trim_end().to_owned()
    };
    for (question, wanted) in [
        ("db.lan AAAA", "No Error"),
        ("six.lan A", "No Error"),
        ("db.lan TXT", "No Error"),
        ("DB.LAN A", "No Error 203.0.113.1"),
        ("inline.lan A", "No Error 203.0.113.10"),
        ("mapped.lan A", "No Error 203.0.113.5"),
        ("six.lan AAAA", "No Error 2001:db8::1"),
        ("none.lan A", "Non-Existent Domain"),
        ("1.113.0.203.in-addr.arpa PTR", "No Error db.lan. db2.lan."),
    ] {
        assert_eq!(answer(question), wanted, "{question}");
    }
    for name in ["db.lan", "six.lan", "mapped.lan", "inline.lan"] {
        assert_eq!(upstream.count(name), 0, "{name}");
    }
    assert_eq!(upstream.count("none.lan"), 1);

    gateway.write("hosts.txt", &format!("203.0.113.2 db.lan\n{rest}"));
    let changed = Ipv4Addr::new(203, 0, 113, 2);
    gateway.ask_until("db.lan A", LIMIT, |r| r.addresses() != [Ipv4Addr::new(203, 0, 113, 1)]);
    assert_eq!(gateway.ask("db.lan A").addresses(), [changed]);
    assert_eq!(gateway.ask("db2.lan A").rcode(), ResponseCode::NXDomain);
    std::fs::remove_file(gateway.folder().join("hosts.txt")).expect("it is there");
    // It is looked for each second.
    sleep(Duration::from_millis(2500));
    assert_eq!(gateway.ask("inline.lan A").addresses(), [Ipv4Addr::new(203, 0, 113, 10)]);
}
