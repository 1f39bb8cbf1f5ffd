//! Real clients of all kinds, each with its own implementation of DNS, TLS, HTTP or QUIC, against a gateway that serves over
//! all seven transports. `tests/clients/setup` installs them; one that is missing fails here.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::time::Duration;

use tests::{Edge, Namespace, Reply};

/// What `www.example.test` has.
const WWW: &str = "127.0.0.80";

/// The query `www.example.test A` with ID 0, in the alphabet for URLs and files and without its two `=`.
const QUESTION: &str = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlBHRlc3QAAAEAAQ";

/// How the words begin with which kdig and dig ask over TLS.
const TLS: &str = "@127.0.0.1 -p $TLS +tls-ca=$CA +tls-hostname=$NAME";

/// The same for HTTPS.
const HTTPS: &str = "@127.0.0.1 -p $HTTPS +tls-ca=$CA +tls-hostname=$NAME";

/// Fails unless a client's lines hold one of its own that is exactly this.
fn has(output: &str, line: &str) {
    assert!(output.lines().any(|l| l.trim() == line), "no line {line:?} in:\n{output}");
}

/// Fails if dig complains of anything but that there is no recursion.
fn fine(output: &str) {
    let complaint = |l: &&str| {
        l.to_lowercase().contains("warning") && !l.contains("recursion requested but not available")
    };
    let complaints: Vec<_> = output.lines().filter(complaint).collect();
    assert!(complaints.is_empty(), "{output}");
}

/// The addresses in the message of the file `a.bin`, as hickory-proto reads it.
fn answer(edge: &Edge<'_>) -> Vec<IpAddr> {
    let message = std::fs::read(edge.gateway.folder().join("a.bin")).unwrap();
    Reply::decode(message, Duration::ZERO).addresses()
}

#[test]
fn dig() {
    let edge = Edge::start();
    for words in ["", "+tcp", "+cookie +padding=128", "+tcp +keepalive", "+ednsopt=65001:abcd"] {
        let seen = edge.shell(&format!("dig @127.0.0.1 -p $DNS www.example.test {words}"));
        assert!(seen.contains("status: NOERROR") && seen.contains(WWW), "{words}: {seen}");
        fine(&seen);
    }
    assert_eq!(edge.asked("dns"), 5);
    for words in ["+tls", "+tls +keepalive +padding=468", "+tls +dnssec +nocookie"] {
        let seen = edge.shell(&format!("dig {TLS} www.example.test {words}"));
        assert!(seen.contains(WWW) && seen.contains("(TLS)"), "{words}: {seen}");
        fine(&seen);
    }
    assert_eq!(edge.asked("tls"), 3);
    for words in ["+https", "+https-get", "+https-post", "+https +padding=468"] {
        let seen = edge.shell(&format!("dig {HTTPS} www.example.test {words}"));
        assert!(seen.contains(WWW) && seen.contains("(HTTPS"), "{words}: {seen}");
    }
    assert_eq!(edge.asked("https"), 4);
    for bad in [
        format!("dig {TLS}.wrong www.example.test +tls"),
        format!("dig {HTTPS}.wrong www.example.test +https"),
    ] {
        let (_, seen) = edge.attempt(&bad);
        assert!(seen.contains("hostname mismatch") && !seen.contains(WWW), "{bad}: {seen}");
    }
}

#[test]
fn kdig() {
    let edge = Edge::start();
    for words in ["", "+tcp", "+tcp +keepopen www.example.test"] {
        let seen = edge.shell(&format!("kdig @127.0.0.1 -p $DNS www.example.test {words}"));
        assert!(seen.contains(WWW), "{seen}");
    }
    assert_eq!(edge.asked("dns"), 4);
    let seen = edge.shell(&format!("kdig {TLS} www.example.test +padding=128 +tls"));
    assert!(seen.contains(WWW) && seen.contains("TLS1.3") && seen.contains("PADDING"), "{seen}");
    assert_eq!(edge.asked("tls"), 1);
    for words in ["+https", "+https +https-get"] {
        let seen = edge.shell(&format!("kdig {HTTPS} www.example.test {words}"));
        assert!(seen.contains(WWW) && seen.contains("HTTP/2"), "{seen}");
    }
    assert_eq!(edge.asked("https"), 2);
}

#[test]
fn drill() {
    let edge = Edge::start();
    for words in ["", "-t", "-b 4096", "-D"] {
        let seen = edge.shell(&format!("drill {words} -p $DNS www.example.test @127.0.0.1"));
        assert!(seen.contains(WWW) && seen.contains("rcode: NOERROR"), "{seen}");
    }
    assert_eq!(edge.asked("dns"), 4);
}

#[test]
fn dnspython_on_all_transports() {
    let edge = Edge::start();
    let all = ["udp", "tcp", "tls", "h1", "h1-get", "h2", "h2-get", "h3", "h3-get", "quic"];
    let words = all.join(" ");
    let seen = edge.shell(&format!("python $SCRIPTS/python/ask.py www.example.test A {words}"));
    for transport in all {
        has(&seen, &format!("{transport} NOERROR qr,aa,rd {WWW}"));
    }
    for (scheme, queries) in [("dns", 2), ("tls", 1), ("https", 4), ("https3", 2), ("quic", 1)] {
        assert_eq!(edge.asked(scheme), queries, "{scheme}");
    }
    // The EDNS size binds UDP alone: the rest carries 4 kB whole (RFC 8484 6, RFC 9250 4.6).
    let seen = edge.shell(&format!("python $SCRIPTS/python/ask.py big.example.test TXT {words}"));
    has(&seen, "udp NOERROR qr,aa,tc,rd");
    for transport in &all[1..] {
        has(&seen, &format!("{transport} NOERROR qr,aa,rd 2023 2027"));
    }
    let seen = edge.shell(&format!("python $SCRIPTS/python/ask.py x.gone.test A {words}"));
    for transport in all {
        has(&seen, &format!("{transport} NXDOMAIN qr,aa,rd"));
    }
}

#[test]
fn dnspython_finds_the_encrypted_resolvers() {
    let edge = Edge::with("ddr", None);
    let seen = edge.shell("python $SCRIPTS/python/ddr.py");
    for kind in ["DoT", "DoH", "DoQ"] {
        let good = |l: &str| l.starts_with(kind) && l.ends_with(WWW);
        assert!(seen.lines().any(good), "no {kind} in:\n{seen}");
    }
}

#[test]
fn curl() {
    let edge = Edge::start();
    // With an answer of one address and nobody there, curl says where it wanted to go.
    let line = "curl -sv --max-time 20 --doh-url https://$NAME:$HTTPS/dns-query --resolve $NAME:$HTTPS:127.0.0.1 --cacert $CA http://www.example.test:$METRICS/metrics 2>&1 || true";
    let seen = edge.shell(line);
    assert!(seen.contains(WWW), "{seen}");
    assert!(edge.asked("https") >= 1);
    let url = "https://$NAME:$HTTPS/dns-query";
    edge.shell(&format!("echo {QUESTION}== | base64 -d >q.bin"));
    for version in ["1.1", "2"] {
        let before = edge.asked("https");
        for how in [
            format!("-H content-type:application/dns-message --data-binary @q.bin {url}"),
            format!("{url}?dns={QUESTION}"),
        ] {
            let seen = edge.shell(&format!(
                "curl -sS --max-time 20 --cacert $CA --resolve $NAME:$HTTPS:127.0.0.1 --http{version} -o a.bin -w '%{{http_version}} %{{http_code}} %{{content_type}}\\n' {how}"
            ));
            has(&seen, &format!("{version} 200 application/dns-message"));
            assert_eq!(answer(&edge), [WWW.parse::<IpAddr>().unwrap()]);
        }
        assert_eq!(edge.asked("https"), before + 2);
    }
}

#[test]
fn http_clients_with_stacks_of_their_own() {
    let edge = Edge::start();
    let seen = edge.shell("python $SCRIPTS/python/web.py");
    for line in [
        "niquests 11 200",
        "niquests 20 200",
        "niquests 30 200",
        "curl_cffi get 1 2 200",
        "curl_cffi post 1 2 200",
        "curl_cffi get 2 3 200",
        "curl_cffi post 2 3 200",
        "curl_cffi get 3 30 200",
        "curl_cffi post 3 30 200",
    ] {
        has(&seen, &format!("{line} {WWW}"));
    }
    for line in ["head 1 2", "head 2 3", "head 3 30"] {
        has(&seen, &format!("curl_cffi {line} 200 50 0"));
    }
    assert_eq!((edge.asked("https"), edge.asked("https3")), (8, 4));
}

#[test]
fn node() {
    let edge = Edge::start();
    let seen = edge.shell(
        "cp $SCRIPTS/node/ask.mjs $TOOLS/node/; NODE_EXTRA_CA_CERTS=$CA node $TOOLS/node/ask.mjs",
    );
    for line in [
        "dohdec post=false",
        "dohdec post=true",
        "dohdec tls",
        "dohjs GET",
        "dohjs POST",
        "dns-query",
    ] {
        has(&seen, &format!("{line} {WWW}"));
    }
    has(&seen, &format!("undici 200 application/dns-message {WWW}"));
    assert_eq!((edge.asked("https"), edge.asked("tls")), (6, 1));
}

#[test]
fn java() {
    let edge = Edge::start();
    let seen = edge.shell("java -cp \"$TOOLS/java/classes:$TOOLS/java/lib/*\" Doh");
    has(&seen, "okhttp speaks h2");
    for how in ["post=false", "post=true"] {
        has(&seen, &format!("okhttp {how} [/{WWW}]"));
    }
    for how in ["post=false", "post=true", "tcp=false", "tcp=true"] {
        assert!(
            seen.lines()
                .any(|l| l.starts_with(&format!("dnsjava {how} [www.example.test."))
                    && l.contains(WWW)),
            "{seen}"
        );
    }
    assert_eq!((edge.asked("https"), edge.asked("dns")), (6, 2));
}

#[test]
fn grpcurl_and_ghz() {
    let edge = Edge::start();
    let call = "-proto $SCRIPTS/grpc/dns.proto";
    let query = format!("'{{\"msg\":\"{QUESTION}==\"}}'");
    edge.shell(&format!(
        "grpcurl -cacert $CA -authority $NAME {call} -import-path / -d {query} 127.0.0.1:$GRPC coredns.dns.DnsService/Query | jq -r .msg | base64 -d >a.bin"
    ));
    assert_eq!(edge.asked("grpc"), 1);
    assert_eq!(answer(&edge), [WWW.parse::<IpAddr>().unwrap()]);
    let seen = edge.shell(&format!(
        "ghz --cacert $CA --cname $NAME -{call} --call coredns.dns.DnsService.Query -d {query} -n 2000 -c 20 -O summary 127.0.0.1:$GRPC"
    ));
    assert!(seen.contains("[OK]") && seen.contains("2000 responses"), "{seen}");
    assert_eq!(edge.asked("grpc"), 2001);
}

#[test]
fn getdns_query() {
    let edge = Edge::start();
    // -L is DNS over TLS alone; -m demands that the name on the certificate is right.
    let seen = edge.shell(
        "getdns_query -s -A -L -m \"{ tls_ca_file: \\\"$CA\\\" }\" \"@127.0.0.1#$TLS~$NAME\" www.example.test",
    );
    assert!(seen.contains(WWW), "{seen}");
    assert_eq!(edge.asked("tls"), 2, "A and AAAA");
}

#[test]
fn forwarding_resolvers() {
    // One that forgot what it was told would ask the root.
    let namespace = Namespace::new();
    let edge = Edge::within(&namespace);
    let resolvers = ["stubby dot", "unbound dot", "kresd dot", "dnsdist dot", "dnsdist doh"];
    for (number, resolver) in resolvers.into_iter().enumerate() {
        // Each asks for names of its own, which the log then has; all but the first at the same time.
        let names: Vec<String> = (0..6).map(|n| format!("r{number}q{n}.load.test")).collect();
        let seen =
            edge.shell(&format!("SERVER=$NAME $SCRIPTS/forward {resolver} {}", names.join(" ")));
        has(&seen, &format!("{resolver} 127.0.0.55"));
        for name in &names[1..] {
            has(&seen, &format!("{resolver} {name} 127.0.0.55"));
        }
        let log = edge.gateway.output();
        assert!(names.iter().all(|n| log.contains(&format!("asked {n}. A "))), "{resolver}: {log}");
    }
    assert!(edge.asked("tls") >= 24 && edge.asked("https") >= 6 && edge.asked("dns") == 0);
}
