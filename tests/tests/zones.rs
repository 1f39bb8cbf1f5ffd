//! Zones that go from the gateway to other name servers, and come from them: Knot, NSD and BIND.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::spawn;
use std::time::{Duration, Instant};

use hickory_proto::rr::RecordType;
use tests::nameserver::{KEY, Make, Nameserver, Terms, records, serial};
use tests::pki::Pki;
use tests::{Gateway, Query, Scripted, free_port, stated, until};

/// How long a zone may take to go from one server to another; a slow machine under load is no reason to fail.
const LIMIT: Duration = Duration::from_secs(300);

/// How many records a large zone has.
fn large() -> usize {
    stated("ZONE_RECORDS", 100_000.0) as usize
}

/// A zone file with this serial and so many records of many types, and these lines.
fn text(serial: u32, count: usize, more: &str) -> String {
    let mut text = format!(
        "$TTL 60\n@ SOA ns1 hostmaster {serial} 3600 1 3600 30\n@ NS ns1\nns1 A 127.0.0.1\n*.w A 198.51.100.7\nsub NS ns.sub\nns.sub A 198.51.100.8\n"
    );
    for n in 0..count.saturating_sub(6) {
        let data = match n % 8 {
            0 => format!("AAAA 2001:db8::{:x}", n % 65_536),
            1 => format!("TXT \"text {n}\" \"\\200\\\"x\""),
            2 => format!("MX {} ns1", n % 100),
            3 => "CNAME ns1".to_owned(),
            4 => format!("SRV 1 2 {} ns1", n % 65_536),
            5 => format!("TYPE65280 \\# 4 {n:08x}"),
            _ => format!("A 198.51.{}.{}", n / 256 % 256, n % 256),
        };
        text.push_str(&format!("h{n} {data}\n"));
    }
    text.push_str(more);
    text.push('\n');
    text
}

/// The words of `dig` that sign with the key.
fn signed() -> [String; 2] {
    ["-y".to_owned(), format!("hmac-sha256:{}:{}", KEY.0, KEY.1)]
}

/// The line of `tsig` with the key.
fn tsig() -> String {
    format!("tsig {{\n  secret {} {}\n  require AXFR IXFR\n }}", KEY.0, KEY.1)
}

/// An address of its own on 127.0.0.1.
fn local() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

#[test]
fn a_large_zone_goes_out_to_knot_nsd_and_bind_with_its_changes() {
    let (at, count) = (local(), large());
    let terms = Terms { gateway: Some(at), signed: true, ..Terms::default() };
    let secondaries =
        Make::ALL.map(|make| (make, Nameserver::secondary(make, "example.org", &terms)));
    let to: Vec<String> = secondaries.iter().map(|(_, one)| one.address().to_string()).collect();
    let mut gateway = Gateway::new(&format!(
        "example.org:{} {{\n {}\n transfer {{\n  to {}\n }}\n file db {{\n  reload 500ms\n }}\n}}",
        at.port(),
        tsig(),
        to.join(" ")
    ))
    .file("db", &text(1, count, ""))
    .start();
    let begun = Instant::now();
    // What is asked without the key is refused.
    assert_eq!(records(at, "example.org", &[]), [""; 0]);
    let key = signed();
    let key = [&*key[0], &key[1]];
    // The servers look for the zone when they are told that it is there.
    for (_, secondary) in &secondaries {
        secondary.has("example.org", 1, LIMIT);
    }
    println!("{count} records to Knot, NSD and BIND in {:.1} s", begun.elapsed().as_secs_f64());
    // A changed zone is told of, and its changes are all that goes.
    let before = gateway.output().len();
    gateway.write("db", &text(2, count - 1, "new A 198.51.100.9\nns1 A 127.0.0.2"));
    for (_, secondary) in &secondaries {
        secondary.has("example.org", 2, LIMIT);
    }
    // All of it is compared once, after the changes: they are right only if what was before them is.
    let own = records(at, "example.org", &key);
    assert_eq!(own.len(), count + 1, "each record once");
    for (make, secondary) in &secondaries {
        let theirs = records(secondary.address(), "example.org", &[]);
        assert!(theirs == own, "{}: {} of {}", make.name(), theirs.len(), own.len());
    }
    let log = gateway.output().split_off(before);
    let small = log
        .lines()
        .filter_map(|line| {
            line.split_once("Outgoing incremental transfer of ")?.1.split(' ').next()?.parse().ok()
        })
        .filter(|records: &usize| *records < 20);
    assert!(small.count() >= 3, "not by IXFR:\n{log}");
}

#[test]
fn large_zones_come_in_from_knot_nsd_and_bind_with_their_changes() {
    let (at, count) = (local(), large());
    let terms = Terms { gateway: Some(at), signed: true, ..Terms::default() };
    let primaries = Make::ALL.map(|make| {
        let zone = format!("{}.test", make.name());
        let server = Nameserver::primary(make, &zone, &text(1, count, ""), &terms);
        (zone, server)
    });
    let blocks = primaries.iter().map(|(zone, server)| {
        format!(
            "{zone}:{} {{\n debug\n {}\n transfer {{\n  to *\n }}\n secondary {{\n  transfer from {}\n  key {}\n }}\n}}\n",
            at.port(),
            tsig(),
            server.address(),
            KEY.0
        )
    });
    let gateway = Gateway::new(&blocks.collect::<String>()).start();
    let begun = Instant::now();
    let key = signed();
    let key = [&*key[0], &key[1]];
    for (zone, _) in &primaries {
        assert!(until(LIMIT, || (serial(at, zone) == Some(1)).then_some(())).is_some(), "{zone}");
    }
    println!(
        "{count} records from each of Knot, NSD and BIND in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    // Each tells the gateway, which asks for what has changed.
    for (_, server) in &primaries {
        server.change(&text(2, count - 1, "new A 198.51.100.9"));
    }
    // All of it is compared once, after the changes: they are right only if what was before them is.
    for (zone, server) in &primaries {
        let come = until(LIMIT, || (serial(at, zone) == Some(2)).then_some(()));
        assert!(come.is_some(), "{zone}:\n{}\n{}", gateway.output(), server.output());
        let (own, theirs) = (records(at, zone, &key), records(server.address(), zone, &key));
        assert!(own == theirs, "{zone}: {} of {}", own.len(), theirs.len());
        assert_eq!(own.len(), count, "{zone}");
    }
    for (zone, _) in &primaries {
        gateway.line(&format!("{zone}.: IXFR of "));
    }
}

#[test]
fn zones_go_out_over_tls_to_bind_and_nsd() {
    let pki = Pki::new();
    let pair = pki.server("dns", &["dns.example.org"]);
    let at = local();
    let terms = Terms { gateway: Some(at), trusts: Some(pki.ca()), ..Terms::default() };
    let secondaries = [Make::Bind, Make::Nsd]
        .map(|make| (make, Nameserver::secondary(make, "example.org", &terms)));
    let to: Vec<String> = secondaries.iter().map(|(_, one)| one.address().to_string()).collect();
    let gateway = Gateway::new(&format!(
        "tls://example.org:{} {{\n tls {pair}\n transfer {{\n  to {}\n }}\n file db\n}}",
        at.port(),
        to.join(" ")
    ))
    .file("db", &text(1, 500, ""))
    .start();
    for (make, secondary) in &secondaries {
        let come = until(LIMIT, || (secondary.serial("example.org") == Some(1)).then_some(()));
        assert!(come.is_some(), "{}:\n{}\n{}", make.name(), secondary.output(), gateway.output());
        let theirs = records(secondary.address(), "example.org", &[]);
        assert_eq!(theirs.len(), 500, "{}", make.name());
    }
}

#[test]
fn zones_come_in_over_tls_from_bind_and_nsd() {
    let pki = Pki::new();
    let pair = pki.server("dns", &["ns1.example.org"]);
    let terms = Terms { shows: Some(&pair), ..Terms::default() };
    let primaries = [Make::Bind, Make::Nsd].map(|make| {
        let zone = format!("{}.test", make.name());
        let server = Nameserver::primary(make, &zone, &text(1, 500, ""), &terms);
        (zone, server)
    });
    let ca = pki.ca().display();
    let blocks = primaries.iter().map(|(zone, server)| {
        let at = server.tls();
        format!(
            "{zone}:@PORT@ {{\n transfer {{\n  to *\n }}\n secondary {{\n  transfer from tls://{at}%ns1.example.org\n  tls {ca}\n }}\n}}\n\
{zone}:@PORT:wrong@ {{\n secondary {{\n  transfer from tls://{at}\n  tls {ca}\n  tls_servername ns2.example.org\n }}\n}}\n"
        )
    });
    let gateway = Gateway::new(&blocks.collect::<String>()).start();
    for (zone, server) in &primaries {
        let come = until(LIMIT, || (serial(gateway.address(), zone) == Some(1)).then_some(()));
        assert!(come.is_some(), "{zone}:\n{}\n{}", server.output(), gateway.output());
        let own = records(gateway.address(), zone, &[]);
        assert_eq!(own, records(server.address(), zone, &[]), "{zone}");
        // A certificate of another name is none.
        assert_eq!(serial(gateway.address_of("wrong"), zone), None, "{zone}");
    }
    gateway.line("is for ns1.example.org, not for ns2.example.org");
}

/// A zone file with what the dialect has, and with most types.
const DIALECT: &str = r#"$TTL 1h
@ IN SOA ns1 hostmaster.example.org. ( 1 ; the serial, and more behind it )
    2h30m 1800
    2w 300 )
    NS ns1
ns1 A 127.0.0.1
$ORIGIN sub.example.org.
a 5m IN A 198.51.100.1
  TXT "one" two "th\"ree" "\065\200;" ; a comment
b CNAME a
$ORIGIN example.org.
c IN 60 A 198.51.100.2
d 60 IN AAAA 2001:db8::1
MiXed A 198.51.100.3
a\.dot A 198.51.100.4
*.wild MX 10 a.sub
empty.non.terminal TXT ""
caa CAA 0 issue "ca.example.net; policy=x"
srv SRV 1 2 3 a.sub
naptr NAPTR 100 10 "u" "sip+E2U" "!^.*$!sip:info@example.org!" .
sshfp SSHFP 1 1 ( dd465c09cfa51fb45020
                  cc83316fff21b9ec74ac )
tlsa TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
child NS ns.child
ns.child A 198.51.100.5
child DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
loc LOC 51 30 12.748 N 0 7 39.612 W 0.00m 1m 10000m 10m
uri URI 10 1 "https://www.example.org/"
hinfo HINFO "PC" "Linux"
rp RP a.b c.d
afsdb AFSDB 1 a.sub
dname DNAME other.example.net.
https HTTPS 1 . alpn="h2,h3" port=8443 ipv4hint=198.51.100.9
svcb SVCB 2 a.sub alpn=dot port=853
cert CERT 1 0 0 aGVsbG8gd29ybGQ=
eui EUI48 00-00-5e-00-53-2a
eui EUI64 00-00-5e-ef-10-00-00-2a
unknown TYPE65281 \# 3 010203
none TYPE65282 \# 0
known TYPE1 \# 4 c6336406
part A 198.51.100.10
$INCLUDE part inner.example.org.
behind A 198.51.100.11
"#;

#[test]
fn a_zone_file_means_the_same_to_knot_nsd_and_bind() {
    let part = "x A 198.51.100.12\n$ORIGIN deep.example.org.\ny A 198.51.100.13\n";
    let generate = "$GENERATE 1-20/3 host$ A 198.51.100.$\n$GENERATE 1-4 g${10,3,x} TXT n-$\n$INCLUDE part relative\n";
    let terms = Terms { files: &[("part", part)], ..Terms::default() };
    // Only BIND knows $GENERATE, and relative origins of $INCLUDE.
    for (make, more) in [(Make::Knot, ""), (Make::Nsd, ""), (Make::Bind, generate)] {
        let text = format!("{DIALECT}{more}");
        let server = Nameserver::primary(make, "example.org", &text, &terms);
        let gateway = Gateway::new("example.org:@PORT@ {\n transfer {\n  to *\n }\n file db\n}")
            .file("db", &text)
            .file("part", part)
            .start();
        let own = records(gateway.address(), "example.org", &[]);
        let theirs = records(server.address(), "example.org", &[]);
        assert!(theirs.len() > 35, "{}:\n{}", make.name(), server.output());
        let is_new = |all: &[String], line: &&String| !all.contains(line);
        let ours: Vec<_> = own.iter().filter(|line| is_new(&theirs, line)).collect();
        let missing: Vec<_> = theirs.iter().filter(|line| is_new(&own, line)).collect();
        assert!(own == theirs, "{}: {ours:#?} instead of {missing:#?}", make.name());
    }
}

#[test]
fn the_members_of_a_catalog_come_from_knot_and_go() {
    let at = local();
    let terms = |members| Terms { gateway: Some(at), members, ..Terms::default() };
    let (few, other) = (terms(&["one.test", "two.test"]), terms(&["two.test", "three.test"]));
    let primary = Nameserver::primary(Make::Knot, "catalog.test", &text(1, 20, ""), &few);
    let gateway = Gateway::new(&format!(
        "test:{} {{\n transfer {{\n  to *\n }}\n secondary catalog.test {{\n  transfer from {}\n  catalog\n }}\n}}",
        at.port(),
        primary.address()
    ))
    .start();
    let has = |zone: &str, wanted: bool| {
        let come = until(LIMIT, || (serial(at, zone).is_some() == wanted).then_some(()));
        assert!(come.is_some(), "{zone}:\n{}\n{}", primary.output(), gateway.output());
    };
    has("one.test", true);
    has("two.test", true);
    assert_eq!(serial(at, "three.test"), None);
    assert_eq!(records(at, "two.test", &[]), records(primary.address(), "two.test", &[]));
    gateway.line("Parsed catalog zone catalog.test. with 2 member zones");
    // Knot tells of the catalog's change, not otherwise than of another zone's.
    primary.list("catalog.test", &other);
    has("three.test", true);
    has("one.test", false);
    has("two.test", true);
}

/// Forwards connections, and ends each after so many octets of the server's.
fn cutter(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (at, most) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(usize::MAX)));
    let limit = Arc::clone(&most);
    spawn(move || {
        for client in listener.incoming().flatten() {
            let limit = Arc::clone(&limit);
            spawn(move || {
                let Ok(server) = TcpStream::connect(server) else { return };
                let (mut up, mut down) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                spawn(move || std::io::copy(&mut &client, &mut up));
                let (mut part, mut sent) = ([0; 8192], 0);
                while let Ok(len @ 1..) = (&server).read(&mut part) {
                    sent += len;
                    if sent > limit.load(Ordering::SeqCst) || down.write_all(&part[..len]).is_err()
                    {
                        break;
                    }
                }
                // Either side may be gone already.
                drop(down.shutdown(Shutdown::Both));
                drop(server.shutdown(Shutdown::Both));
            });
        }
    });
    (at, most)
}

#[test]
fn a_primary_that_dies_in_the_middle_leaves_the_old_zone_whole() {
    let mut primary =
        Nameserver::primary(Make::Knot, "example.org", &text(1, 20_000, ""), &Terms::default());
    let (at, most) = cutter(primary.address());
    let gateway = Gateway::new(&format!(
        "example.org:@PORT@ {{\n transfer {{\n  to *\n }}\n secondary {{\n  transfer from {at}\n }}\n}}"
    ))
    .start();
    let here = gateway.address();
    assert!(until(LIMIT, || (serial(here, "example.org") == Some(1)).then_some(())).is_some());
    let old = records(here, "example.org", &[]);
    // Every name has another address, so that the changes are many; a third of them comes.
    most.store(100_000, Ordering::SeqCst);
    primary.change(&text(2, 20_000, "").replace("198.51.", "203.0."));
    primary.has("example.org", 2, LIMIT);
    let notify = || {
        let query = Query::new("example.org.", RecordType::SOA).with(|message| {
            message.metadata.op_code = hickory_proto::op::OpCode::Notify;
        });
        assert!(query.ask(here).is_some());
    };
    notify();
    gateway.line("All 'example.org.' masters failed to transfer, retrying in ");
    assert!(gateway.output().contains("the connection was closed"), "{}", gateway.output());
    assert!(records(here, "example.org", &[]) == old, "the old zone is not whole");
    // Then it is gone for good, and comes back.
    primary.process().signal(rustix::process::Signal::STOP);
    notify();
    assert!(records(here, "example.org", &[]) == old, "the old zone is not whole");
    most.store(usize::MAX, Ordering::SeqCst);
    primary.process().signal(rustix::process::Signal::CONT);
    assert!(until(LIMIT, || (serial(here, "example.org") == Some(2)).then_some(())).is_some());
    assert!(records(here, "example.org", &[]) == records(primary.address(), "example.org", &[]));
}

#[test]
fn a_primary_that_returns_garbage_changes_nothing() {
    use tests::scripted::{asked, reply};
    // The zone once, then each time something else that is no zone.
    let soa = "example.org. 60 SOA ns1.example.org. h.example.org. 1 1 1 3600 30";
    let newer = "example.org. 60 SOA ns1.example.org. h.example.org. 2 1 1 3600 30";
    let (ns, www) = ("example.org. 60 NS ns1.example.org.", "www.example.org. 60 A 198.51.100.1");
    let primary = Scripted::start(move |query, before| {
        let kind = query.queries[0].query_type();
        if kind == RecordType::SOA {
            return Some(reply(query, &[newer]));
        }
        assert_eq!(asked(query), "example.org");
        if before == 0 {
            return Some(reply(query, &[soa, ns, www, soa]));
        }
        let mut message = match before % 6 {
            0 => reply(query, &[www, newer]),
            1 => reply(query, &[newer, "www.example.org. 60 A 198.51.100.9", soa]),
            2 => reply(query, &[newer, "example.net. 60 SOA a. b. 1 2 3 4 5", newer]),
            3 => reply(query, &[newer, newer, newer]),
            _ => reply(query, &[newer, "www.example.org. 60 A 198.51.100.9", newer]),
        };
        if before % 6 == 4 {
            message.metadata.id = message.metadata.id.wrapping_add(1);
        }
        if before % 6 == 5 {
            message.queries = Query::new("www.example.org.", kind).message().queries.clone();
        }
        Some(message)
    });
    // One that says what is no message at all.
    let noise = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let second = noise.local_addr().unwrap();
    spawn(move || {
        for mut stream in noise.incoming().flatten() {
            let mut query = [0; 64];
            // The gateway may have gone.
            drop(stream.read(&mut query));
            drop(stream.write_all(&[&[0, 40][..], &query[2..4], &[0xff; 200]].concat()));
        }
    });
    let gateway = Gateway::new(&format!(
        "example.org:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@\n secondary {{\n  transfer from {} {second}\n }}\n}}",
        primary.address()
    ))
    .start();
    let here = gateway.address();
    assert!(until(LIMIT, || (serial(here, "example.org") == Some(1)).then_some(())).is_some());
    let tried = until(LIMIT, || (primary.count("example.org") > 20).then_some(()));
    assert!(tried.is_some(), "{}", gateway.output());
    assert_eq!(gateway.ask("www.example.org A").addresses(), [Ipv4Addr::new(198, 51, 100, 1)]);
    assert_eq!(serial(here, "example.org"), Some(1));
    let metrics = gateway.metrics("metrics");
    assert_eq!(metrics["causeway_secondary_failing{zone=\"example.org.\"}"], 1.0);
    assert_eq!(metrics["causeway_secondary_serial{zone=\"example.org.\"}"], 1.0);
}

#[test]
fn a_secondary_that_reads_slowly_gets_all_of_a_zone() {
    let mut text = text(1, 10, "");
    for n in 0..40_000 {
        text.push_str(&format!("t{n} TXT {}\n", "x".repeat(250)));
    }
    let gateway = Gateway::new(
        "example.org:@PORT@ {\n timeouts {\n  write 3s\n }\n transfer {\n  to *\n }\n file db\n}",
    )
    .file("db", &text)
    .start();
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let query = Query::new("example.org.", RecordType::AXFR).message().to_vec().unwrap();
    let len = u16::try_from(query.len()).unwrap().to_be_bytes();
    stream.write_all(&[&len[..], &query].concat()).unwrap();
    // 300 kB a second, for longer than a client may take nothing at all; then as fast as it can.
    let (begun, mut part, mut all) = (Instant::now(), vec![0; 30_000], Vec::new());
    let ends = |all: &[u8]| {
        // The SOA record at the end is the second one with this name.
        all.windows(11).rev().take(200).any(|window| window == b"\x0ahostmaster")
    };
    while all.len() < 1000 || !ends(&all) {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "cut after {} octets and {:?}", all.len(), begun.elapsed());
        all.extend_from_slice(&part[..read]);
        if begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert!(all.len() > 10_000_000, "{}", all.len());
}
