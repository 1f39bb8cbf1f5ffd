//! `forward` against scripted upstreams.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use engine::testing::Bench;
use engine::{Provider, metrics};
use wire::{Flags, rcode, rtype};

use super::handler::Told;
use crate::CHAIN;
use crate::shared::scripted::{Asked, Say, Scripted, encode};

mod rules;

/// Answers A queries by the first label of their name; see the table.
async fn upstream() -> Scripted {
    Scripted::start(|asked, answer| {
        let name = asked.request.name.clone();
        match &*asked.label() {
            "refused" => answer.rcode = rcode::REFUSED,
            "fail" => {
                answer.rcode = rcode::SERVFAIL;
                answer.options.push_ede(9, "no key");
                answer.options.push(wire::option::COOKIE, &[1; 16]);
                answer.options.push(65001, &[1]);
            }
            "silent" => return Say::Nothing,
            "once" if asked.number == 0 => return Say::Nothing,
            "slow" => return Say::Nothing,
            "garbage" => return Say::Raw(vec![vec![0x81, 0x80, 0, 0, 1]]),
            "cut" => {
                answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 1));
                let mut message = encode(asked, answer);
                message.truncate(message.len() - 2);
                return Say::Raw(vec![message]);
            }
            "wrong" | "late" => {
                let mut wrong = encode(asked, answer);
                wrong[13] ^= 1;
                let mut foreign = encode(asked, answer);
                foreign[0] ^= 1;
                answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 1));
                let right = encode(asked, answer);
                let mut all = vec![foreign, wrong, right[..5].to_vec()];
                if asked.label() == "late" {
                    all.push(right);
                }
                return Say::Raw(all);
            }
            "large" if !asked.tcp => {
                answer.flags.set(Flags::TC, true);
            }
            "large" => {
                for last in 0..60 {
                    answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, last));
                }
            }
            "over" => {
                for last in 0..60 {
                    answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, last));
                }
            }
            "secure" => {
                answer.flags.set(Flags::AD.with(Flags::AA), true);
                answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 1));
            }
            "empty" => {}
            _ => answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 1)),
        }
        Say::Answer
    })
    .await
}

/// A gateway with one block for the root.
fn bench(body: &str) -> Bench {
    Bench::new(CHAIN, &format!(". {{\n{body}\n}}\n"))
}

#[tokio::test]
async fn queries_and_replies_pass_through() {
    let up = upstream().await;
    let bench = bench(&format!("forward . {} {{\n max_fails 0\n}}", up.addr));
    for (line, want, seen) in [
        ("www.test", "NOERROR rd ra | www.test. 60 A 198.51.100.1", "www.test. A udp rd"),
        ("www.test +norec", "NOERROR ra | www.test. 60 A 198.51.100.1", "www.test. A udp"),
        (
            "www.test +cd +ad",
            "NOERROR rd ra cd | www.test. 60 A 198.51.100.1",
            "www.test. A udp rd ad cd",
        ),
        (
            "www.test +do",
            "NOERROR rd ra | www.test. 60 A 198.51.100.1",
            "www.test. A udp rd do size=1232",
        ),
        ("www.test +tcp", "NOERROR rd ra | www.test. 60 A 198.51.100.1", "www.test. A tcp rd"),
        ("www.test CH A", "NOERROR rd ra | www.test. 60 A 198.51.100.1", "www.test. A udp rd"),
        ("refused.test", "REFUSED rd ra", "refused.test. A udp rd"),
        // AA and, over loopback, AD are the upstream's.
        (
            "secure.test",
            "NOERROR aa rd ra ad | secure.test. 60 A 198.51.100.1",
            "secure.test. A udp rd",
        ),
        // Options of one hop stay where they are.
        (
            "fail.test +edns",
            "SERVFAIL rd ra | EDE 9 no key | OPT 65001 01",
            "fail.test. A udp rd size=1232",
        ),
        (
            "www.test +opt=10:0102030405060708 +opt=3 +opt=11 +opt=12:00 +opt=65001:ca +opt=8:00010000",
            "NOERROR rd ra | www.test. 60 A 198.51.100.1",
            "www.test. A udp rd size=1232 OPT 65001 OPT 8",
        ),
        (
            "www.test +bufsize=65000",
            "NOERROR rd ra | www.test. 60 A 198.51.100.1",
            "www.test. A udp rd size=4096",
        ),
        ("late.test", "NOERROR rd ra | late.test. 60 A 198.51.100.1", "late.test. A udp rd"),
        // A client of UDP is told to ask by TCP; one of TCP has room.
        ("large.test", "NOERROR tc rd ra", "large.test. A udp rd"),
        ("over.test", "NOERROR tc rd ra", "over.test. A udp rd"),
    ] {
        assert_eq!(bench.ask(line).await, want, "{line}");
        assert_eq!(up.seen(), [seen], "{line}");
    }
    for meta in ["TYPE0", "OPT", "TYPE128", "AXFR", "TSIG"] {
        let want = "NOTIMP rd | EDE 21 the type cannot be forwarded";
        assert_eq!(bench.ask(&format!("www.test {meta} +edns")).await, want);
    }
    assert_eq!(up.count(), 0);
}

#[tokio::test]
async fn names_are_matched_as_from_and_except_say() {
    let (first, second) = (upstream().await, upstream().await);
    let text = format!(
        "forward b.test {} {{\n except x.b.test b.test\n}}\nforward test {} {{\n except ex.test\n}}\nwhoami",
        first.addr, second.addr
    );
    let bench = bench(&text);
    for (name, asked) in [
        ("b.test", (1, 0)),
        ("a.b.test", (0, 1)),
        ("x.b.test", (0, 1)),
        ("test", (0, 1)),
        ("ex.test", (0, 0)),
        ("q.EX.test", (0, 0)),
        ("other.example", (0, 0)),
        ("xb.test", (0, 1)),
    ] {
        bench.ask(name).await;
        assert_eq!((first.count(), second.count()), asked, "{name}");
    }
}

#[tokio::test]
async fn what_does_not_answer_is_tried_again_and_told() {
    let up = upstream().await;
    let options = "max_fails 0\n read_timeout 100ms";
    let bench = bench(&format!("forward . {} {{\n {options}\n}}", up.addr));
    assert_eq!(bench.ask("once.test").await, "NOERROR rd ra | once.test. 60 A 198.51.100.1");
    assert_eq!(up.count(), 2);
    let edes = [("silent", "SERVFAIL", 2), ("garbage", "SERVFAIL", 2), ("cut", "SERVFAIL", 2)];
    for (name, code, tries) in edes {
        let got = bench.ask(&format!("{name}.test +edns")).await;
        let ede = match name {
            "cut" => "24 no upstream gave a usable reply",
            _ => "23 no upstream replied",
        };
        assert_eq!(got, format!("{code} rd | EDE {ede}"), "{name}");
        assert_eq!(up.count(), tries, "{name}");
    }
    assert_eq!(bench.ask("wrong.test").await, "FORMERR rd");
    assert_eq!(up.count(), 1);
    let mut x = bench.exchange("silent.test");
    let mut out = Vec::new();
    let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) else { panic!() };
    live.complete(&mut x, &mut out).await;
    assert!(x.detail().starts_with("read udp 127.0.0.1:"), "{}", x.detail());
    assert!(x.detail().ends_with(&format!("->{}: i/o timeout", up.addr)), "{}", x.detail());
}

#[tokio::test]
async fn the_protocol_is_the_clients_unless_said_otherwise() {
    let up = upstream().await;
    let with = |option: &str| bench(&format!("forward . {} {{\n {option}\n}}", up.addr));
    for (option, line, seen) in [
        ("force_tcp", "www.test", &["www.test. A tcp rd"][..]),
        ("prefer_udp", "www.test +tcp", &["www.test. A udp rd"]),
        ("prefer_udp", "large.test", &["large.test. A udp rd", "large.test. A tcp rd"]),
        ("prefer_udp\n force_tcp", "www.test", &["www.test. A tcp rd"]),
        ("expire 1s", "large.test +tcp", &["large.test. A tcp rd"]),
    ] {
        let bench = with(option);
        assert!(bench.ask(line).await.contains("198.51.100.1"), "{option} {line}");
        assert_eq!(up.seen(), seen, "{option} {line}");
    }
    let bench = with("source_address 127.0.0.77");
    assert_eq!(bench.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
}

#[tokio::test]
async fn policies_say_which_upstream_is_first() {
    let all = [upstream().await, upstream().await, upstream().await];
    let to = all.each_ref().map(|up| up.addr.to_string()).join(" ");
    let counts = async |policy: &str, asks: usize| {
        let bench = bench(&format!("forward . {to} {{\n policy {policy}\n}}"));
        for _ in 0..asks {
            bench.ask("www.test").await;
        }
        all.each_ref().map(Scripted::count)
    };
    assert_eq!(counts("sequential", 5).await, [5, 0, 0]);
    assert_eq!(counts("round_robin", 1).await, [0, 1, 0]);
    assert_eq!(counts("round_robin", 6).await, [2, 2, 2]);
    let random = counts("random", 90).await;
    assert!(random.iter().all(|count| *count > 10), "{random:?}");
    // The same server twice is one.
    let bench = bench(&format!("forward . {0} dns://{0} {{\n policy round_robin\n}}", all[0].addr));
    assert_eq!(bench.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
}

#[tokio::test]
async fn response_codes_go_on_to_the_next_upstream_or_directive() {
    let first = upstream().await;
    let second = Scripted::start(|asked, answer| {
        let name = asked.request.name.clone();
        answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 2));
        Say::Answer
    })
    .await;
    let two = |one: &str, other: &str| {
        let (a, b) = (first.addr, second.addr);
        bench(&format!("forward . {a} {{\n {one}\n}}\nforward . {b} {{\n {other}\n}}"))
    };
    let bench_next = two("next REFUSED SERVFAIL", "next NOERROR");
    let nodata = two("next_on_nodata", "expire 1s");
    let order = "policy sequential\n failover SERVFAIL REFUSED";
    let failover = bench(&format!("forward . {} {} {{\n {order}\n}}", first.addr, second.addr));
    let only = bench(&format!("forward . {} {{\n failover REFUSED\n next REFUSED\n}}", first.addr));
    let from_second = |name: &str| format!("NOERROR rd ra | {name}.test. 60 A 198.51.100.2");
    let from_first = |name: &str| format!("NOERROR rd ra | {name}.test. 60 A 198.51.100.1");
    for (bench, name, want) in [
        (&bench_next, "refused", from_second("refused")),
        (&bench_next, "fail", from_second("fail")),
        (&bench_next, "www", from_first("www")),
        (&bench_next, "empty", "NOERROR rd ra".to_owned()),
        (&nodata, "empty", from_second("empty")),
        (&nodata, "refused", "REFUSED rd ra".to_owned()),
        (&failover, "refused", from_second("refused")),
        (&failover, "www", from_first("www")),
        (&only, "refused", "REFUSED rd ra".to_owned()),
    ] {
        assert_eq!(bench.ask(&format!("{name}.test")).await, want, "{name}");
    }
}

#[tokio::test]
async fn upstreams_that_are_down_are_passed_over() {
    let up = upstream().await;
    let dead = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = "policy sequential\n max_fails 1\n health_check 10ms\n read_timeout 200ms";
    let both = bench(&format!("forward . {dead} {} {{\n {options}\n}}", up.addr));
    assert_eq!(both.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
    let failfast = format!("{options}\n failfast_all_unhealthy_upstreams");
    let alone = bench(&format!("forward . {dead} {{\n {failfast}\n}}"));
    assert_eq!(alone.ask("www.test +edns").await, "SERVFAIL rd | EDE 23 no upstream replied");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = metrics::render();
    assert!(
        before.contains(&format!(
            "coredns_proxy_healthcheck_failures_total{{proxy_name=\"forward\",to=\"{dead}\"}}"
        )),
        "{before}"
    );
    assert_eq!(alone.ask("www.test +edns").await, "SERVFAIL rd | EDE 22 no healthy proxies");
    assert!(metrics::render().contains("coredns_forward_healthcheck_broken_total"));
}

#[tokio::test]
async fn equal_questions_under_way_are_asked_once() {
    let up = Scripted::start(|asked, answer| {
        std::thread::sleep(Duration::from_millis(30));
        answer.a(&asked.request.name.clone(), 60, Ipv4Addr::new(198, 51, 100, 1));
        Say::Answer
    })
    .await;
    let bench = Arc::new(bench(&format!("forward . {} {{\n max_concurrent 2\n}}", up.addr)));
    let asks = async |lines: &[&str], times: usize| {
        let mut tasks = Vec::new();
        for at in 0..times {
            let (bench, line) = (Arc::clone(&bench), lines[at % lines.len()].to_owned());
            tasks.push(tokio::spawn(async move { bench.ask(&line).await }));
        }
        let mut replies = Vec::new();
        for task in tasks {
            replies.push(task.await.unwrap());
        }
        replies
    };
    let replies = asks(&["www.test", "WWW.test +opt=10:0102030405060708"], 200).await;
    assert!(replies.iter().all(|reply| reply.ends_with("60 A 198.51.100.1")), "{replies:?}");
    assert_eq!(up.count(), 2);
    // What differs is not the same, and counts.
    let replies =
        asks(&["a.test", "a.test AAAA", "a.test +do", "a.test +cd", "a.test +tcp"], 5).await;
    let refused = replies.iter().filter(|reply| reply.starts_with("REFUSED")).count();
    assert_eq!((refused, up.count()), (3, 2), "{replies:?}");
    assert!(metrics::render().contains("coredns_forward_max_concurrent_rejects_total"));
}

#[tokio::test]
async fn who_waits_asks_when_the_one_who_asked_is_gone() {
    let up = Scripted::start(|asked, answer| {
        if asked.number == 0 {
            return Say::Nothing;
        }
        answer.a(&asked.request.name.clone(), 60, Ipv4Addr::new(198, 51, 100, 1));
        Say::Answer
    })
    .await;
    let bench = Arc::new(bench(&format!("forward . {}", up.addr)));
    let ask = |bench: &Arc<Bench>| {
        let bench = Arc::clone(bench);
        tokio::spawn(async move { bench.ask("www.test").await })
    };
    let first = ask(&bench);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = ask(&bench);
    tokio::time::sleep(Duration::from_millis(50)).await;
    first.abort();
    assert_eq!(second.await.unwrap(), "NOERROR rd ra | www.test. 60 A 198.51.100.1");
    assert_eq!(up.count(), 2);
}

#[tokio::test]
async fn the_clients_letter_case_goes_up_and_comes_back() {
    let up = upstream().await;
    let bench = bench(&format!("forward . {}", up.addr));
    let mut x = bench.exchange("www.test");
    x.query.wire[13..16].copy_from_slice(b"wWw");
    let mut out = Vec::new();
    let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) else { panic!() };
    live.complete(&mut x, &mut out).await;
    assert_eq!(up.seen(), ["wWw.test. A udp rd"]);
    assert_eq!(engine::testing::show(&out), "NOERROR rd ra | wWw.test. 60 A 198.51.100.1");
}

#[tokio::test]
async fn the_letter_case_of_what_is_left_of_a_name_goes_up() {
    let up = upstream().await;
    let bench = bench(&format!("rewrite name suffix .local.test. .test.\nforward . {}", up.addr));
    let mut x = bench.exchange("www.local.test");
    x.query.wire[13..16].copy_from_slice(b"wWw");
    let mut out = Vec::new();
    let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) else { panic!() };
    live.complete(&mut x, &mut out).await;
    assert_eq!(up.seen(), ["wWw.test. A udp rd"]);
}

#[tokio::test]
async fn the_upstream_is_known_to_metadata_and_metrics() {
    let up = upstream().await;
    let bench = bench(&format!("forward . {}", up.addr));
    let mut x = bench.exchange("www.test");
    let mut out = Vec::new();
    let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) else { panic!() };
    live.complete(&mut x, &mut out).await;
    let mut value = String::new();
    Told.metadata(&x, "upstream", &mut value).unwrap();
    assert_eq!(value, up.addr.to_string());
    assert_eq!(Told.metadata(&x, "other", &mut value), None);
    for _ in 0..40 {
        bench.ask("www.test").await;
    }
    let text = metrics::render();
    let to = up.addr;
    for line in [
        format!(
            "coredns_proxy_request_duration_seconds_count{{proxy_name=\"forward\",rcode=\"NOERROR\",to=\"{to}\"}} 41"
        ),
        format!(
            "coredns_proxy_conn_cache_misses_total{{proto=\"udp\",proxy_name=\"forward\",to=\"{to}\"}} 32"
        ),
        format!(
            "coredns_proxy_conn_cache_hits_total{{proto=\"udp\",proxy_name=\"forward\",to=\"{to}\"}} 9"
        ),
    ] {
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[tokio::test]
async fn upstreams_may_stand_in_a_file_or_behind_a_name() {
    let up = upstream().await;
    let file = std::env::temp_dir().join(format!("causeway-forward-{}", up.addr.port()));
    std::fs::write(&file, format!("# servers\nsearch test\nnameserver {}\n", up.addr)).unwrap();
    let found = bench(&format!("forward . {}", file.display()));
    assert_eq!(found.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
    std::fs::write(&file, "search test\n").unwrap();
    let text = format!(". {{\n forward . {}\n}}\n", file.display());
    assert!(Bench::refused(CHAIN, &text).contains("names no upstream"));
    std::fs::remove_file(file).unwrap();
    // A resolver that says where `dns.test` is; it answers while set-up waits.
    let resolver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = resolver.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        for _ in 0..2 {
            let (len, peer) = resolver.recv_from(&mut buffer).unwrap();
            let mut request = wire::Request::default();
            request.read(&buffer[..len]).unwrap();
            let mut answer = wire::Answer::default();
            if request.rtype == rtype::A {
                answer.a(&request.name, 5, Ipv4Addr::LOCALHOST);
            }
            let asked = Asked { request, wire: buffer[..len].to_vec(), tcp: false, number: 0 };
            resolver.send_to(&encode(&asked, &answer), peer).unwrap();
        }
    });
    let named = bench(&format!("forward . dns.test:{} {{\n resolver {addr}\n}}", up.addr.port()));
    assert_eq!(named.ask("www.test").await, "NOERROR rd ra | www.test. 60 A 198.51.100.1");
}

#[test]
fn a_wrong_directive_is_refused_with_its_place() {
    let many: String = (1..=16).map(|port| format!(" 127.0.0.1:{port}")).collect();
    for (line, want) in [
        ("forward", "Wrong argument count"),
        ("forward .", "Wrong argument count"),
        ("forward . ./nofile", "neither an address nor a file nor a host"),
        ("forward . 127.0.0.1:99999", "has no port between 1 and 65535"),
        ("forward . 127.0.0", "it is no host name"),
        ("forward . ftp://127.0.0.1", "a scheme that cannot be forwarded to"),
        ("forward . https://127.0.0.1/dns-query", "has a path"),
        ("forward . https3://127.0.0.1/", "has a path"),
        ("forward . https://127.0.0.1 {\n doh_method PUT\n}", "is not known here"),
        ("forward . https://127.0.0.1 {\n doh_method\n}", "Wrong argument count"),
        ("forward . grpc://127.0.0.1", "a scheme that cannot be forwarded to"),
        ("forward . tls://no_such_host..", "nor a host that can be found"),
        ("forward . 127.0.0.1%dns.example", "has a server name"),
        ("forward . tls://127.0.0.1 {\n tls a b c d\n}", "'d' is one too many"),
        ("forward . tls://127.0.0.1 {\n tls nofile.pem\n}", "tls: nofile.pem: "),
        ("forward . 127.0.0.1 {\n tls nofile.pem\n}", "tls: nofile.pem: "),
        ("root /nowhere\n forward . tls://127.0.0.1 {\n tls a.pem\n}", "tls: /nowhere/a.pem: "),
        ("forward . tls://127.0.0.1 {\n tls_servername\n}", "Wrong argument count"),
        ("forward . tls://127.0.0.1 {\n tls_servername a b\n}", "'b' is one too many"),
        ("forward . tls://127.0.0.1 {\n tls_servername a..b\n}", "cannot be the name"),
        ("forward . tls://127.0.0.1%a..b", "cannot be the name"),
        (
            "forward . tls://127.0.0.1%a.example {\n tls_servername b.example\n}",
            "exclude each other",
        ),
        ("forward . 127.0.0.1 {\n max_concurrent many\n}", "not a number"),
        ("forward . 127.0.0.1 {\n max_fails -1\n}", "not a number of 0 or more"),
        ("forward . 127.0.0.1 {\n next BOGUS\n}", "not a response code"),
        ("forward . 127.0.0.1 {\n next\n}", "Wrong argument count"),
        ("forward . 127.0.0.1 {\n failover NOERROR\n}", "cannot be for NOERROR"),
        ("forward . 127.0.0.1 {\n policy best\n}", "is not known here"),
        ("forward . 127.0.0.1 {\n force_tcp now\n}", "one too many"),
        ("forward . 127.0.0.1 {\n read_timeout 0\n}", "must be more than 0"),
        ("forward . 127.0.0.1 {\n expire -1s\n}", "cannot be negative"),
        ("forward . 127.0.0.1 {\n max_age 5s\n}", "max_age must not be less than expire"),
        ("forward . 127.0.0.1 {\n health_check 1s often\n}", "is unknown here"),
        ("forward . 127.0.0.1 {\n nonsense\n}", "is not a property"),
    ] {
        let got = Bench::refused(CHAIN, &format!(". {{\n {line}\n}}\n"));
        assert!(got.starts_with("plugin/forward: ") && got.contains(want), "{line}: {got}");
    }
    let got = Bench::refused(CHAIN, &format!(". {{\n forward .{many}\n}}\n"));
    assert!(got.contains("more than 15 TOs configured: 16"), "{got}");
}

#[test]
fn encrypted_upstreams_can_be_written_as_in_coredns() {
    for line in [
        "tls://127.0.0.1",
        "tls://127.0.0.1:853 127.0.0.1",
        "tls://127.0.0.1%dns.example.org",
        "tls://127.0.0.1%dns.example.org:8853 tls://127.0.0.1:8853%dns.example.org",
        "tls://[::1]:853 tls://::1 {\n tls\n tls_servername dns.example.org.\n}",
        "127.0.0.1 {\n tls_servername dns.example.org\n}",
        "https://127.0.0.1",
        "https://127.0.0.1:8443 {\n doh_method GET\n}",
        "https://127.0.0.1%dns.example.org {\n doh_method POST\n}",
        "https3://127.0.0.1 quic://127.0.0.1 tls://127.0.0.1 dns://127.0.0.1",
    ] {
        Bench::new(CHAIN, &format!(". {{\n forward . {line}\n}}\n"));
    }
}

#[tokio::test]
async fn upstreams_are_kept_over_a_reload_when_nothing_changes() {
    let up = upstream().await;
    let text = |option: &str| format!(". {{\n forward . {} {{\n {option}\n }}\n}}\n", up.addr);
    let mut bench = Bench::new(CHAIN, &text("expire 5s"));
    bench.ask("www.test +tcp").await;
    let misses = || {
        let text = metrics::render();
        let line = format!(
            "coredns_proxy_conn_cache_misses_total{{proto=\"tcp\",proxy_name=\"forward\",to=\"{}\"}} ",
            up.addr
        );
        let rest = text.split(&line).nth(1).unwrap().to_owned();
        rest.lines().next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(misses(), 1);
    bench.reload(&text("expire 5s\n policy sequential")).unwrap();
    bench.ask("www.test +tcp").await;
    assert_eq!(misses(), 1);
    bench.reload(&text("expire 6s")).unwrap();
    bench.ask("www.test +tcp").await;
    assert_eq!(misses(), 2);
}

#[tokio::test]
async fn a_network_stands_for_its_first_zone() {
    let up = upstream().await;
    let bench = bench(&format!("forward 10.0.0.0/15 {}\nwhoami", up.addr));
    let warnings: Vec<_> = bench.built.warnings.iter().map(|one| &*one.what).collect();
    assert!(warnings[0].contains("of which only 0.10.in-addr.arpa. is forwarded"), "{warnings:?}");
    for (name, count) in [("1.0.10.in-addr.arpa", 1), ("1.1.10.in-addr.arpa", 0)] {
        bench.ask(name).await;
        assert_eq!(up.count(), count, "{name}");
    }
}

#[tokio::test]
async fn attempts_to_connect_are_bounded() {
    let up = upstream().await;
    let ups = |count: usize| vec![up.addr.to_string(); count].join(" ");
    for (to, lines, count) in [
        (ups(1), "max_connect_attempts 1", 1),
        (ups(1), "max_connect_attempts 3", 3),
        // Twice the number of upstreams; the same one twice is one.
        (ups(2), "", 2),
    ] {
        let text = format!("forward . {to} {{\n max_fails 0\n read_timeout 50ms\n {lines}\n}}");
        assert!(bench(&text).ask("silent.test").await.starts_with("SERVFAIL"));
        assert_eq!(up.count(), count, "{lines}");
    }
}
