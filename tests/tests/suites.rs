//! Load generators, and suites that judge TLS, HTTP/2 and DNS, against a gateway that serves over all seven transports.
#![allow(clippy::unwrap_used)]

use tests::Edge;

/// The query `www.example.test A` with ID 0, as GET takes it.
const GET: &str = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlBHRlc3QAAAEAAQ";

/// A number that stands before a word in a text, or fails with the text.
fn before(text: &str, word: &str) -> u64 {
    let at = text.find(word).unwrap_or_else(|| panic!("no {word:?} in:\n{text}"));
    let number = text[..at].split_whitespace().next_back().unwrap_or_default();
    number.parse().unwrap_or_else(|e| panic!("{number:?} before {word:?}: {e}:\n{text}"))
}

#[test]
fn dnsperf() {
    let edge = Edge::start();
    edge.shell("for i in $(seq 200); do echo q$i.load.test A; done >q.txt");
    for (mode, port, scheme) in [
        ("udp", "DNS", "dns"),
        ("tcp", "DNS", "dns"),
        ("dot", "TLS", "tls"),
        ("doh", "HTTPS", "https"),
    ] {
        let before = edge.asked(scheme);
        // Over HTTPS one query at a time: before 2.16 it loses all but one of the answers that it reads at once.
        let more = match mode {
            "doh" => "-O doh-uri=https://127.0.0.1/dns-query -c 1 -q 1 -n 1",
            _ => "-c 4 -Q 2000 -n 10",
        };
        let seen = edge
            .shell(&format!("dnsperf -m {mode} -s 127.0.0.1 -p ${port} {more} -d q.txt -T 1 -t 5"));
        let line = |name: &str| {
            let found = seen.lines().map(str::trim).find(|l| l.starts_with(name));
            found.unwrap_or_else(|| panic!("{mode}: no {name:?} in:\n{seen}")).to_owned()
        };
        let count = if mode == "doh" { 200 } else { 2000 };
        let all = format!("NOERROR {count} (100.00%)");
        assert!(line("Response codes:").ends_with(&all), "{mode}:\n{seen}");
        assert!(line("Queries lost:").ends_with(" 0 (0.00%)"), "{mode}:\n{seen}");
        assert_eq!(edge.asked(scheme), before + count, "{mode}");
    }
}

#[test]
fn h2load() {
    let edge = Edge::start();
    edge.shell("echo AAABAAABAAAAAAAAA3d3dwdleGFtcGxlBHRlc3QAAAEAAQ== | base64 -d >q.bin");
    let mut sum = 0;
    for (version, how) in [
        ("", format!("'https://dns.test:'$HTTPS'{GET}'")),
        (
            "",
            "-d q.bin -H content-type:application/dns-message https://dns.test:$HTTPS/dns-query"
                .to_owned(),
        ),
        ("--h1", format!("'https://dns.test:'$HTTPS'{GET}'")),
    ] {
        let seen = edge.shell(&format!(
            "h2load {version} -n 2000 -c 20 -m 20 --connect-to=127.0.0.1:$HTTPS {how}"
        ));
        assert_eq!(before(&seen, "2xx"), 2000, "{seen}");
        assert!(
            seen.contains(if version.is_empty() {
                "Application protocol: h2"
            } else {
                "Application protocol: http/1.1"
            }),
            "{seen}"
        );
        sum += 2000;
        assert_eq!(edge.asked("https"), sum);
    }
}

#[test]
fn h2spec() {
    let edge = Edge::start();
    let (_, seen) = edge.attempt(&format!("h2spec -h 127.0.0.1 -p $HTTPS -t -k -P '{GET}' -o 3"));
    let last = seen.lines().rfind(|l| l.contains("tests,")).unwrap_or_default();
    assert_eq!(
        last,
        "145 tests, 145 passed, 0 skipped, 0 failed",
        "{seen}\n{}",
        edge.gateway.output()
    );
    assert_eq!(edge.shell("kdig @127.0.0.1 -p $HTTPS +https +tls-ca=$CA +tls-hostname=$NAME www.example.test +short").trim(), "127.0.0.80");
}

#[test]
fn dnsdiag() {
    let edge = Edge::start();
    for words in ["", "-T"] {
        let seen = edge
            .shell(&format!("dnsping -c 3 -i 0.1 -s 127.0.0.1 -p $DNS {words} www.example.test"));
        assert!(seen.contains("3 requests transmitted, 3 responses received"), "{seen}");
    }
    assert_eq!(edge.asked("dns"), 6);
}

#[test]
fn dnsviz() {
    let edge = Edge::start();
    edge.shell("dnsviz probe -A -4 -x \"example.test+:ns1.example.test=127.0.0.1:$DNS\" -o o.json example.test");
    let seen = edge.shell("dnsviz print -r o.json; dnsviz grok -r o.json -l error");
    assert!(seen.contains("example.test [-]"), "{seen}");
    assert!(seen.contains("NXDOMAIN") && seen.contains("NODATA"), "{seen}");
    assert!(!seen.contains("[!]") && !seen.contains("\"error\""), "{seen}");
    assert!(edge.asked("dns") > 5);
}

#[test]
fn sslscan() {
    let edge = Edge::start();
    for port in ["TLS", "HTTPS", "GRPC"] {
        let seen = edge.shell(&format!("sslscan --no-colour --sni-name=$NAME 127.0.0.1:${port}"));
        for (version, state) in [
            ("SSLv2", "disabled"),
            ("SSLv3", "disabled"),
            ("TLSv1.0", "disabled"),
            ("TLSv1.1", "disabled"),
            ("TLSv1.2", "enabled"),
            ("TLSv1.3", "enabled"),
        ] {
            let line = seen
                .lines()
                .find(|l| l.starts_with(version))
                .unwrap_or_else(|| panic!("{version}: {seen}"));
            assert!(line.trim_end().ends_with(state), "{line}");
        }
        let ciphers: Vec<&str> = seen
            .lines()
            .filter(|l| l.starts_with("Preferred") || l.starts_with("Accepted"))
            .collect();
        assert!(ciphers.len() >= 3, "{seen}");
        for cipher in &ciphers {
            let old = cipher.contains("TLSv1.2") && !cipher.contains("ECDHE");
            assert!(
                !old && (cipher.contains("GCM") || cipher.contains("CHACHA20")),
                "TLS-01: {cipher}"
            );
        }
    }
}

#[test]
fn openssl_s_client() {
    let edge = Edge::start();
    let ask = "openssl s_client -connect 127.0.0.1:$TLS -servername $NAME -verify_return_error -CAfile $CA";
    let seen = edge.shell(&format!("{ask} -alpn dot </dev/null"));
    assert!(
        seen.contains("ALPN protocol: dot") && seen.contains("Verify return code: 0 (ok)"),
        "{seen}"
    );
    let seen = edge.shell(&format!("{ask} </dev/null"));
    assert!(seen.contains("No ALPN negotiated"), "DOT-02: a client without ALPN is served: {seen}");
    let (good, seen) = edge.attempt(&format!("{ask} -alpn foo </dev/null"));
    assert!(!good && seen.contains("no application protocol"), "DOT-02: {seen}");
    let (good, seen) = edge.attempt(&format!("{ask} -tls1_1 -cipher ALL:@SECLEVEL=0 </dev/null"));
    assert!(!good, "TLS-01: {seen}");
    let seen =
        edge.shell(&format!("{} -noservername </dev/null", ask.replace("-servername $NAME", "")));
    assert!(seen.contains("Verify return code: 0 (ok)"), "TLS-05: {seen}");
    // A ticket comes with the first answer at the latest; the next connection resumes by it.
    for version in ["-tls1_2", "-tls1_3"] {
        let seen = edge.shell(&format!(
            "(sleep 0.5) | {ask} {version} -sess_out s.pem; (sleep 0.5) | {ask} {version} -sess_in s.pem"
        ));
        assert!(seen.contains("Reused, TLSv1."), "TLS-03 {version}: {seen}");
        assert!(
            !seen.contains("Max Early Data: 1") && !seen.contains("Early data was accepted"),
            "TLS-02: {seen}"
        );
    }
    for protocol in ["h2", "http/1.1"] {
        let seen =
            edge.shell(&format!("{} -alpn {protocol} </dev/null", ask.replace("$TLS", "$HTTPS")));
        assert!(seen.contains(&format!("ALPN protocol: {protocol}")), "{seen}");
    }
    let (good, seen) =
        edge.attempt(&format!("{} -alpn dot </dev/null", ask.replace("$TLS", "$HTTPS")));
    assert!(!good && seen.contains("no application protocol"), "TLS-10: {seen}");
}

#[test]
fn slowhttptest() {
    let edge = Edge::start();
    for slow in [
        "-H -i 2",
        "-B -i 2 -s 4096 -t POST -f application/dns-message",
        "-X -w 1 -y 4 -n 2 -z 4 -k 3",
    ] {
        let seen = edge.shell(&format!(
            "slowhttptest {slow} -c 50 -r 50 -l 8 -p 3 -u 'https://127.0.0.1:'$HTTPS'{GET}'"
        ));
        let plain: String = seen.replace("\x1b[", "\n\x1b[");
        let states: Vec<&str> = plain.lines().filter(|l| l.contains("service available")).collect();
        assert!(
            !plain.contains("service available:   NO") && plain.contains("YES"),
            "{slow}: {states:?}\n{seen}"
        );
    }
    let seen = edge.shell(
        "kdig @127.0.0.1 -p $HTTPS +https +tls-ca=$CA +tls-hostname=$NAME www.example.test +short",
    );
    assert_eq!(seen.trim(), "127.0.0.80");
}
