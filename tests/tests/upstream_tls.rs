//! Encrypted upstreams: unbound and dnsdist, which share no code with us, a scripted server that ends its connections, and other
//! gateways of ours.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::pki::Leaf;
use tests::scripted::{asked, reply};
use tests::{Folder, Gateway, Pki, Process, Query, Scripted, Upstream, free_port, until};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// The records of unbound.
const RECORDS: [&str; 2] = [
    "example.org. 60 IN SOA ns.example.org. h.example.org. 1 2 3 4 5",
    "www.example.org. 60 IN A 203.0.113.1",
];

/// A gateway that forwards to these.
fn forwarder(to: &str, properties: &str) -> Gateway {
    let corefile = format!(
        ".:@PORT@ {{\n errors\n prometheus 127.0.0.1:@PORT:metrics@\n forward . {to} {{\n {properties}\n }}\n}}"
    );
    Gateway::new(&corefile).start()
}

/// An unbound that speaks TLS at the first address and HTTPS at the second.
fn unbound(pki: &Pki) -> (Upstream, SocketAddr, SocketAddr) {
    let pair = pki.server("unbound", &["dns.example.org", "127.0.0.1"]);
    let [tls, https] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    let more = format!(
        "  interface: 127.0.0.1@{0}\n  interface: 127.0.0.1@{1}\n  tls-port: {0}\n  https-port: {1}\n  tls-service-pem: \"{2}\"\n  \
         tls-service-key: \"{3}\"\n  tcp-idle-timeout: 300\n",
        tls.port(),
        https.port(),
        pair.chain.display(),
        pair.key.display()
    );
    (Upstream::with(&RECORDS, &more), tls, https)
}

/// Asks for a name that is there, all by one client, so many times with a pause between; panics if one fails.
fn ask_all(gateway: &Gateway, times: usize, pause: Duration) {
    for at in 0..times {
        let reply = gateway.ask("www.example.org A");
        assert_eq!(reply.rcode(), ResponseCode::NoError, "{at}: {reply:?}\n{}", gateway.output());
        assert_eq!(reply.addresses().len(), 1, "{at}: {reply:?}");
        sleep(pause);
    }
}

// What a connection lasts, unbound says: it closes those that were idle for 300 ms.
#[test]
fn unbound_is_asked_by_tls_and_https_over_connections_that_it_closes() {
    let pki = Pki::new();
    let (upstream, tls, https) = unbound(&pki);
    let ca = pki.ca().display();
    for (to, properties) in [
        (format!("tls://{tls}"), "tls_servername dns.example.org"),
        (format!("tls://127.0.0.1%dns.example.org:{}", tls.port()), ""),
        (format!("tls://{tls}"), "expire 1s"),
        (format!("https://{https}"), "doh_method POST"),
        (format!("https://{https}"), "doh_method GET\n tls_servername dns.example.org"),
    ] {
        let gateway = forwarder(&to, &format!("tls {ca}\n {properties}"));
        ask_all(&gateway, 5, Duration::ZERO);
        ask_all(&gateway, 4, Duration::from_millis(400));
        ask_all(&gateway, 2, Duration::from_millis(280));
        let reply = gateway.ask(Query::from("no.example.org A").dnssec_ok());
        assert_eq!(reply.rcode(), ResponseCode::NXDomain, "{reply:?}");
    }
    // One that a connection has lost is asked again.
    assert!((60..80).contains(&upstream.queries().len()), "{} queries", upstream.queries().len());
}

// Whatever is under way when a server ends, the other one answers.
#[test]
fn an_upstream_that_is_restarted_under_load_costs_no_query() {
    let pki = Pki::new();
    let (mut first, tls, _) = unbound(&pki);
    let (_second, _, https) = unbound(&pki);
    let properties = format!("tls {}\n policy round_robin\n max_fails 1", pki.ca().display());
    let gateway = Arc::new(forwarder(&format!("tls://{tls} https://{https}"), &properties));
    let (done, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let (gateway, done, asked) =
                (Arc::clone(&gateway), Arc::clone(&done), Arc::clone(&asked));
            spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let number = asked.fetch_add(1, Ordering::Relaxed);
                    let name = format!("n{client}-{number}.example.org A");
                    let reply = gateway.ask(name.as_str());
                    assert_eq!(reply.rcode(), ResponseCode::NXDomain, "{}", gateway.output());
                }
            })
        })
        .collect();
    for _ in 0..3 {
        sleep(Duration::from_millis(500));
        first.stop();
        sleep(Duration::from_millis(700));
        first.restart();
    }
    done.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("no query was lost"));
    assert!(asked.load(Ordering::Relaxed) > 200, "{} queries", asked.load(Ordering::Relaxed));
}

// The retry for a kept connection that was closed must cost no query, and must not count as a failure.
#[test]
fn b25_connections_of_tls_that_are_closed_after_each_reply_cost_no_query() {
    let pki = Pki::new();
    let pair = pki.server("scripted", &["127.0.0.1"]);
    let upstream = Scripted::secure(&pair, 1, |query, _| {
        Some(reply(query, &[&format!("{}. 60 A 203.0.113.7", asked(query))]))
    });
    let properties = format!("tls {}\n max_fails 1", pki.ca().display());
    let gateway = forwarder(&format!("tls://{}", upstream.address()), &properties);
    for at in 1..=50 {
        let reply = gateway.ask(format!("n{at}.example.org A").as_str());
        assert_eq!(reply.rcode(), ResponseCode::NoError, "{at}: {reply:?}\n{}", gateway.output());
        if at % 2 == 0 {
            sleep(Duration::from_millis(20));
        }
    }
    assert_eq!(upstream.count(""), 0, "a health check");
    let metrics = gateway.metrics("metrics");
    let line = format!(
        "coredns_proxy_conn_cache_misses_total{{proto=\"tcp-tls\",proxy_name=\"forward\",to=\"{}\"}}",
        upstream.address()
    );
    assert!(metrics.get(&line).is_some_and(|misses| *misses >= 50.0), "{metrics:?}");
}

// A server that hangs and comes back: queries fail meanwhile, and none does any more soon after.
#[test]
fn an_outage_ends_when_the_upstream_is_back() {
    let pki = Pki::new();
    let (upstream, tls, https) = unbound(&pki);
    let ca = pki.ca().display();
    for to in [format!("tls://{tls}"), format!("https://{https}")] {
        let properties =
            format!("tls {ca}\n read_timeout 300ms\n max_fails 1\n health_check 100ms");
        let gateway = forwarder(&to, &properties);
        ask_all(&gateway, 3, Duration::ZERO);
        upstream.pause();
        let reply = gateway.ask("www.example.org A");
        assert_eq!(reply.rcode(), ResponseCode::ServFail, "{to}: {reply:?}");
        gateway.line("i/o timeout");
        upstream.resume();
        gateway
            .ask_until("www.example.org A", LIMIT, |reply| reply.rcode() == ResponseCode::NoError);
        ask_all(&gateway, 10, Duration::from_millis(50));
    }
}

// What is wrong with a certificate has to stand in the log: nobody can guess it.
#[test]
fn fwd_04_wrong_certificates_are_told_in_the_log() {
    let (pki, other) = (Pki::new(), Pki::new());
    let good = |query: &hickory_proto::op::Message, _| Some(reply(query, &[]));
    let named = pki.issue("named", Leaf::server(&["dns.example.org"]));
    let late = pki.issue("late", Leaf::server(&["127.0.0.1"]).expired());
    let (named, late) = (Scripted::secure(&named, 0, good), Scripted::secure(&late, 0, good));
    let plain = Scripted::start(good);
    for (to, ca, properties, want) in [
        (
            &named,
            &pki,
            "",
            "tls: the server's certificate is for dns.example.org, not for 127.0.0.1",
        ),
        (
            &named,
            &pki,
            "tls_servername dns.example.com",
            "tls: the server's certificate is for dns.example.org, not for dns.example.com",
        ),
        (
            &named,
            &other,
            "tls_servername dns.example.org",
            "tls: the server's certificate is signed by an unknown authority",
        ),
        (&late, &pki, "", "tls: the server's certificate has expired"),
    ] {
        let properties = format!("tls {}\n max_fails 0\n {properties}", ca.ca().display());
        let gateway = forwarder(&format!("tls://{}", to.address()), &properties);
        let reply = gateway.ask(Query::from("www.example.org A").dnssec_ok());
        assert_eq!(reply.rcode(), ResponseCode::ServFail, "{reply:?}");
        let line = gateway.line(want);
        assert!(line.contains(&format!("dial tcp-tls {}", to.address())), "{line}");
    }
    // TLS to a server that does not speak it: a query of 22 octets and more is waited for there.
    let properties = format!("tls {}\n max_fails 0\n read_timeout 300ms", pki.ca().display());
    let gateway = forwarder(&format!("tls://{}", plain.address()), &properties);
    assert_eq!(gateway.ask("www.example.org A").rcode(), ResponseCode::ServFail);
    gateway.line("dial tcp-tls");
}

// Certificates change while connections are made by them.
#[test]
fn an_authority_that_is_replaced_counts_for_the_next_connection() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (_upstream, tls, _) = unbound(&pki);
    let file = |pki: &Pki| std::fs::read_to_string(pki.ca()).expect("it is there");
    let corefile = format!(
        ".:@PORT@ {{\n root @DIR@\n errors\n forward . tls://{tls} {{\n tls ca.pem\n max_fails 0\n }}\n}}"
    );
    let mut gateway = Gateway::new(&corefile).file("ca.pem", &file(&other)).start();
    assert_eq!(gateway.ask("www.example.org A").rcode(), ResponseCode::ServFail);
    gateway.write("ca.pem", &file(&pki));
    gateway.ask_until("www.example.org A", LIMIT, |reply| reply.rcode() == ResponseCode::NoError);
}

/// A dnsdist before a server: DNS over TLS at the first address, DNS over HTTPS at the second.
fn dnsdist(pki: &Pki, behind: SocketAddr) -> (Folder, Process, SocketAddr, SocketAddr) {
    let pair = pki.server("dnsdist", &["dns.example.org", "127.0.0.1"]);
    let [own, tls, https] = [(); 3].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    let (chain, key) = (pair.chain.display(), pair.key.display());
    let folder = Folder::new("dnsdist");
    let text = format!(
        "setSecurityPollSuffix('')\nsetLocal('{own}')\naddTLSLocal('{tls}', '{chain}', '{key}')\naddDOHLocal('{https}', '{chain}', \
         '{key}', {{'/dns-query'}})\nnewServer({{address='{behind}', healthCheckMode='up'}})\n"
    );
    let mut command = Command::new("dnsdist");
    command.args(["--supervised", "--disable-syslog", "-C"]);
    command.arg(folder.write("dnsdist.conf", text));
    let mut process = Process::start("dnsdist", command);
    let up = until(LIMIT, || {
        let ports = process.ports();
        (!process.running() || [tls, https].iter().all(|at| ports.contains(&at.port())))
            .then(|| process.running())
    });
    assert_eq!(up, Some(true), "dnsdist did not start:\n{}", process.output());
    (folder, process, tls, https)
}

#[test]
fn dnsdist_is_asked_by_tls_and_https() {
    let pki = Pki::new();
    let behind = Upstream::start(&RECORDS);
    let (_folder, _process, tls, https) = dnsdist(&pki, behind.address());
    let ca = pki.ca().display();
    for (to, properties) in [
        (format!("tls://{tls}"), ""),
        (format!("https://{https}"), "doh_method POST"),
        (format!("https://{https}"), "doh_method GET"),
    ] {
        let gateway = forwarder(&to, &format!("tls {ca}\n {properties}"));
        ask_all(&gateway, 20, Duration::ZERO);
        let reply = gateway.ask(Query::from("no.example.org A").dnssec_ok());
        assert_eq!(reply.rcode(), ResponseCode::NXDomain, "{to}: {reply:?}");
    }
}

/// A gateway that speaks every protocol to its clients, and passes questions on in clear.
fn speaker(pki: &Pki, behind: SocketAddr) -> Gateway {
    let pair = pki.server("speaker", &["dns.example.org", "127.0.0.1"]);
    let blocks: String = ["tls", "https", "https3", "quic", "grpc"]
        .iter()
        .map(|scheme| {
            format!(
                "{scheme}://.:@PORT:{scheme}@ {{\n bind 127.0.0.1\n tls {pair}\n forward . {behind}\n}}\n"
            )
        })
        .collect();
    let clear = format!("grpc://.:@PORT:clear@ {{\n bind 127.0.0.1\n forward . {behind}\n}}\n");
    Gateway::new(&(blocks + &clear)).start()
}

/// What stands in a Corefile to ask a speaker by each of its protocols.
fn directives(speaker: &Gateway, pki: &Pki) -> Vec<(&'static str, String)> {
    let ca = pki.ca().display();
    let forward = |scheme: &'static str| {
        let to = speaker.address_of(scheme);
        (scheme, format!("forward . {scheme}://{to} {{\n tls {ca}\n max_fails 1\n }}"))
    };
    let grpc = |name: &'static str, tls: &str| {
        (name, format!("grpc . {} {{\n {tls}\n }}", speaker.address_of(name)))
    };
    vec![
        forward("tls"),
        forward("https"),
        forward("https3"),
        forward("quic"),
        grpc("grpc", &format!("tls {ca}")),
        grpc("clear", ""),
    ]
}

#[test]
fn our_own_servers_are_asked_by_every_protocol() {
    let pki = Pki::new();
    let behind = Scripted::start(|query, _| {
        if asked(query).starts_with("slow") {
            sleep(Duration::from_millis(300));
        }
        Some(reply(query, &[&format!("{}. 60 A 203.0.113.7", asked(query))]))
    });
    let speaker = speaker(&pki, behind.address());
    for (name, directive) in directives(&speaker, &pki) {
        let corefile =
            format!(".:@PORT@ {{\n errors\n prometheus 127.0.0.1:@PORT:metrics@\n {directive}\n}}");
        let gateway = Arc::new(Gateway::new(&corefile).start());
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let gateway = Arc::clone(&gateway);
                spawn(move || {
                    for at in 0..40 {
                        let query = Query::from(format!("{name}-{client}-{at}.test A").as_str());
                        let query = if at % 2 == 0 { query.dnssec_ok() } else { query };
                        let reply = gateway.ask(query);
                        let addresses = reply.addresses();
                        assert_eq!(addresses.len(), 1, "{name}: {reply:?}\n{}", gateway.output());
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("all are answered"));
        // FWD-07: equal questions are one, all the way.
        let slow = format!("slow-{name}.test");
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let (gateway, slow) = (Arc::clone(&gateway), format!("{slow} A"));
                spawn(move || assert_eq!(gateway.ask(slow.as_str()).addresses().len(), 1))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("all are answered"));
        let count = behind.count(&slow);
        assert!((1..=3).contains(&count), "{name}: {count} queries");
        let metrics = gateway.metrics("metrics");
        let keys: BTreeSet<&str> =
            metrics.keys().map(|key| key.split('{').next().unwrap_or("")).collect();
        let figure = match name {
            "grpc" | "clear" => "coredns_grpc_responses_total",
            _ => "coredns_proxy_conn_cache_hits_total",
        };
        assert!(keys.contains(figure), "{name}: {keys:?}");
    }
}

// A gateway drains when it ends: it takes leave of those who ask, and another one is there.
#[test]
fn restarts_of_our_own_servers_under_load_cost_no_query() {
    let pki = Pki::new();
    let behind = Scripted::start(|query, _| {
        Some(reply(query, &[&format!("{}. 60 A 203.0.113.7", asked(query))]))
    });
    let ca = pki.ca().display();
    for scheme in ["tls", "https", "https3", "quic"] {
        let (mut leaver, stayer) =
            (speaker(&pki, behind.address()), speaker(&pki, behind.address()));
        let to =
            [&leaver, &stayer].map(|gateway| format!("{scheme}://{}", gateway.address_of(scheme)));
        let properties = format!("tls {ca}\n max_fails 1\n policy round_robin\n read_timeout 1s");
        let gateway = Arc::new(forwarder(&to.join(" "), &properties));
        let done = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (gateway, done) = (Arc::clone(&gateway), Arc::clone(&done));
                spawn(move || {
                    let mut number = 0;
                    while !done.load(Ordering::Relaxed) {
                        let reply = gateway.ask(format!("n{client}-{number}.test A").as_str());
                        number += 1;
                        let addresses = reply.addresses();
                        assert_eq!(addresses.len(), 1, "{scheme}: {reply:?}\n{}", gateway.output());
                    }
                    number
                })
            })
            .collect();
        sleep(Duration::from_millis(400));
        let begun = Instant::now();
        leaver.stop();
        sleep(Duration::from_millis(1500).saturating_sub(begun.elapsed()));
        done.store(true, Ordering::Relaxed);
        let asked: usize =
            clients.into_iter().map(|client| client.join().expect("none is lost")).sum();
        assert!(asked > 8, "{scheme}: {asked} queries");
    }
}
