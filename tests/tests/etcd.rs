//! *etcd* with the real one: success, errors, outage, restart.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::etcd::Etcd;
use tests::pki::{Leaf, Pair};
use tests::{Folder, Gateway, Pki, Query, free_port};

/// How long a change may take to be seen.
const SOON: Duration = Duration::from_secs(10);

/// A gateway for `example.org`, with what the directive says; `here.test` needs nobody.
fn gateway(lines: &str) -> Gateway {
    let corefile = format!(
        "example.org:@PORT@ 100.51.198.in-addr.arpa:@PORT@ {{\n bind 127.0.0.1\n errors\n etcd {{\n {lines}\n }}\n}}\n\
         here.test:@PORT@ {{\n bind 127.0.0.1\n hosts {{\n 203.0.113.1 www.here.test\n }}\n}}\n"
    );
    Gateway::new(&corefile).start()
}

/// The response code of a question.
fn code(gateway: &Gateway, query: &str) -> ResponseCode {
    gateway.ask(query).rcode()
}

/// Waits until a question has this response code.
fn becomes(gateway: &Gateway, query: &str, code: ResponseCode) {
    gateway.ask_until(query, SOON, |reply| reply.rcode() == code);
}

#[test]
fn keys_are_answered_as_they_are_now() {
    let etcd = Etcd::start();
    for (key, value) in [
        ("/org/example/web/1", r#"{"host": "198.51.100.1", "port": 443, "ttl": 60}"#),
        ("/org/example/web/2", r#"{"host": "2001:db8::2", "port": 8443, "weight": 300}"#),
        ("/org/example/alias", r#"{"host": "www.here.test"}"#),
        ("/org/example/text", r#"{"text": "from etcd"}"#),
        ("/org/example/mail/mx1", r#"{"host": "198.51.100.25", "mail": true}"#),
        ("/org/example/dns/ns/ns1", r#"{"host": "198.51.100.53"}"#),
        ("/arpa/in-addr/198/51/100/1", r#"{"host": "web.example.org"}"#),
    ] {
        etcd.put(&format!("/skydns{key}"), value);
    }
    let gateway = gateway(&format!("endpoint {}", etcd.endpoint()));
    for (query, want) in [
        ("web.example.org A", &["web.example.org. 60 IN A 198.51.100.1"][..]),
        ("web.example.org AAAA", &["web.example.org. 300 IN AAAA 2001:db8::2"]),
        (
            "web.example.org SRV",
            &[
                "web.example.org. 300 IN SRV 10 75 8443 2.web.example.org.",
                "web.example.org. 60 IN SRV 10 25 443 1.web.example.org.",
            ],
        ),
        (
            "alias.example.org A",
            &[
                "alias.example.org. 300 IN CNAME www.here.test.",
                "www.here.test. 3600 IN A 203.0.113.1",
            ],
        ),
        ("text.example.org TXT", &["text.example.org. 300 IN TXT from etcd"]),
        ("mail.example.org MX", &["mail.example.org. 300 IN MX 10 mx1.mail.example.org."]),
        ("example.org NS", &["example.org. 300 IN NS ns1.ns.dns.example.org."]),
        (
            "1.100.51.198.in-addr.arpa PTR",
            &["1.100.51.198.in-addr.arpa. 300 IN PTR web.example.org."],
        ),
        ("1.*.example.org A", &["1.*.example.org. 60 IN A 198.51.100.1"]),
    ] {
        let reply = gateway.ask(query);
        let mut answers = reply.answers();
        answers.sort();
        assert_eq!(
            (reply.rcode(), answers),
            (ResponseCode::NoError, want.iter().map(|&record| record.to_owned()).collect()),
            "{query}"
        );
    }
    assert_eq!(code(&gateway, "nope.example.org A"), ResponseCode::NXDomain);
    assert!(gateway.ask("text.example.org A").answers().is_empty());
    // No watch and no memory: what changes is answered at once.
    etcd.put("/skydns/org/example/nope", r#"{"host": "198.51.100.9"}"#);
    assert_eq!(
        gateway.ask("nope.example.org A").answers(),
        ["nope.example.org. 300 IN A 198.51.100.9"]
    );
    etcd.ctl(&["del", "/skydns/org/example/nope"]);
    assert_eq!(code(&gateway, "nope.example.org A"), ResponseCode::NXDomain);
    etcd.put("/skydns/org/example/bad", "{");
    assert_eq!(code(&gateway, "bad.example.org A"), ResponseCode::ServFail);
    gateway.line("/skydns/org/example/bad: ");
}

#[test]
fn a_lease_bounds_the_time_to_live() {
    let etcd = Etcd::start();
    let said = etcd.ctl(&["lease", "grant", "600"]);
    let lease = said.split_whitespace().nth(1).unwrap();
    for (key, ttl) in [("leased", 0), ("both", 100)] {
        let key = format!("/skydns/org/example/{key}");
        etcd.ctl(&[
            "put",
            &key,
            &format!(r#"{{"host": "198.51.100.1", "ttl": {ttl}}}"#),
            "--lease",
            lease,
        ]);
    }
    let ttl = |gateway: &Gateway, name: &str| {
        let answers = gateway.ask(&*format!("{name}.example.org A")).answers();
        answers[0].split(' ').nth(1).unwrap().parse::<u32>().unwrap()
    };
    let wide = gateway(&format!("endpoint {}", etcd.endpoint()));
    assert!((590..=600).contains(&ttl(&wide, "leased")));
    assert_eq!(ttl(&wide, "both"), 100);
    let narrow = gateway(&format!("endpoint {}\n max-lease-ttl 40s", etcd.endpoint()));
    assert_eq!((ttl(&narrow, "leased"), ttl(&narrow, "both")), (40, 40));
    // What the lease held is gone with it.
    etcd.ctl(&["lease", "revoke", lease]);
    assert_eq!(code(&wide, "leased.example.org A"), ResponseCode::NXDomain);
}

#[test]
fn an_outage_is_a_failure_and_ends_by_itself() {
    let mut etcd = Etcd::start();
    etcd.put("/skydns/org/example/www", r#"{"host": "198.51.100.1"}"#);
    let endpoint = etcd.endpoint();
    etcd.stop();
    // The start does not need it.
    let gateway = gateway(&format!("endpoint {endpoint}"));
    let begun = Instant::now();
    assert_eq!(code(&gateway, "www.example.org A"), ResponseCode::ServFail);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "nobody is waited for: {:?}",
        begun.elapsed()
    );
    gateway.line("plugin/errors: 2 www.example.org. A: http://127.0.0.1:");
    gateway.line("Connection refused");
    etcd.resume();
    becomes(&gateway, "www.example.org A", ResponseCode::NoError);
    for _ in 0..2 {
        etcd.stop();
        becomes(&gateway, "www.example.org A", ResponseCode::ServFail);
        etcd.resume();
        // A kept connection is closed by now: the first question after that has its answer all the same.
        assert_eq!(code(&gateway, "www.example.org A"), ResponseCode::NoError);
    }
}

#[test]
fn a_frozen_etcd_holds_nobody_else_up() {
    let etcd = Etcd::start();
    etcd.put("/skydns/org/example/www", r#"{"host": "198.51.100.1"}"#);
    let gateway = gateway(&format!("endpoint {}", etcd.endpoint()));
    assert_eq!(code(&gateway, "www.example.org A"), ResponseCode::NoError);
    etcd.freeze();
    let address = gateway.address();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            std::thread::spawn(move || {
                let begun = Instant::now();
                let query = Query::from("www.example.org A").patience(Duration::from_secs(9));
                (query.ask(address).map(|reply| reply.rcode()), begun.elapsed())
            })
        })
        .collect();
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(code(&gateway, "www.here.test A"), ResponseCode::NoError);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    for one in waiting {
        let (code, took) = one.join().unwrap();
        assert_eq!(code, Some(ResponseCode::ServFail), "{took:?}");
        assert!(took < Duration::from_secs(8), "{took:?}");
    }
    etcd.thaw();
    becomes(&gateway, "www.example.org A", ResponseCode::NoError);
}

#[test]
fn another_server_is_asked_where_one_is_away() {
    let etcd = Etcd::start();
    etcd.put("/skydns/org/example/www", r#"{"host": "198.51.100.1"}"#);
    let gone = format!("http://127.0.0.1:{}", free_port());
    let gateway = gateway(&format!("endpoint {gone} {}", etcd.endpoint()));
    for _ in 0..3 {
        assert_eq!(code(&gateway, "www.example.org A"), ResponseCode::NoError);
    }
}

/// The words of `tls` for a pair and a CA's file.
fn tls(client: &Pair, ca: &std::path::Path) -> String {
    format!("tls {} {} {}", client.chain.display(), client.key.display(), ca.display())
}

#[test]
fn both_sides_show_certificates() {
    let (pki, other) = (Pki::new(), Pki::new());
    let client = pki.issue("client", Leaf::client("dns", &["dns.example.org"]));
    let stranger = other.issue("client", Leaf::client("dns", &["dns.example.org"]));
    let server = || pki.server("etcd", &["localhost", "127.0.0.1"]);
    let mut etcd = Etcd::encrypted(
        server(),
        pki.issue("control", Leaf::client("root", &[])),
        pki.ca().to_owned(),
    );
    etcd.put("/skydns/org/example/www", r#"{"host": "198.51.100.1"}"#);
    let endpoint = etcd.endpoint();
    let good = gateway(&format!("endpoint {endpoint}\n {}", tls(&client, pki.ca())));
    assert_eq!(code(&good, "www.example.org A"), ResponseCode::NoError);
    for (words, why) in [
        (tls(&client, other.ca()), "certificate"),
        (tls(&stranger, pki.ca()), "ertificate"),
        (format!("tls {}", pki.ca().display()), "ertificate"),
    ] {
        let wrong = gateway(&format!("endpoint {endpoint}\n {words}"));
        assert_eq!(code(&wrong, "www.example.org A"), ResponseCode::ServFail, "{words}");
        let line = wrong.line("plugin/errors: 2 www.example.org. A: https://127.0.0.1:");
        assert!(line.contains(why), "{words}: {line}");
    }
    // Without https nobody is asked by TLS, and etcd says nothing in clear text.
    let clear = gateway(&format!("endpoint {}", endpoint.replace("https", "http")));
    assert_eq!(code(&clear, "www.example.org A"), ResponseCode::ServFail);
    etcd.stop();
    becomes(&good, "www.example.org A", ResponseCode::ServFail);
    etcd.resume();
    becomes(&good, "www.example.org A", ResponseCode::NoError);
}

#[test]
fn a_certificate_that_changes_is_shown_from_then_on() {
    let (pki, other) = (Pki::new(), Pki::new());
    let etcd = Etcd::encrypted(
        pki.server("etcd", &["127.0.0.1"]),
        pki.issue("control", Leaf::client("root", &[])),
        pki.ca().to_owned(),
    );
    etcd.put("/skydns/org/example/www", r#"{"host": "198.51.100.1"}"#);
    let folder = Folder::new("etcd-client");
    let show = |pair: &Pair| {
        for (name, file) in [("client.key", &pair.key), ("client.pem", &pair.chain)] {
            folder.write(name, std::fs::read(file).unwrap());
        }
    };
    show(&other.issue("client", Leaf::client("dns", &["dns.example.org"])));
    let here = folder.path().display();
    let words = format!("tls {here}/client.pem {here}/client.key {}", pki.ca().display());
    let gateway = gateway(&format!("endpoint {}\n {words}", etcd.endpoint()));
    assert_eq!(code(&gateway, "www.example.org A"), ResponseCode::ServFail);
    show(&pki.issue("client", Leaf::client("dns", &["dns.example.org"])));
    becomes(&gateway, "www.example.org A", ResponseCode::NoError);
}

#[test]
fn users_log_in_and_again_after_a_restart() {
    let mut etcd = Etcd::start();
    etcd.put("/skydns/org/example/www", r#"{"host": "198.51.100.1"}"#);
    etcd.put("/other/org/example/www", r#"{"host": "198.51.100.2"}"#);
    for words in [
        "role add root",
        "user add root:first",
        "user grant-role root root",
        "role add reader",
        "role grant-permission reader read --prefix=true /skydns/",
        "user add dns:s3cret-word",
        "user grant-role dns reader",
        "auth enable",
    ] {
        etcd.ctl(&words.split(' ').collect::<Vec<_>>());
    }
    etcd.log_in("root:first");
    let endpoint = etcd.endpoint();
    let good = gateway(&format!("endpoint {endpoint}\n credentials dns s3cret-word"));
    assert_eq!(code(&good, "www.example.org A"), ResponseCode::NoError);
    let nobody = gateway(&format!("endpoint {endpoint}"));
    assert_eq!(code(&nobody, "www.example.org A"), ResponseCode::ServFail);
    nobody.line("user name is empty");
    let wrong = gateway(&format!("endpoint {endpoint}\n credentials dns n0t-that"));
    assert_eq!(code(&wrong, "www.example.org A"), ResponseCode::ServFail);
    wrong.line("authentication failed");
    assert!(!wrong.output().contains("n0t-that"));
    // What the role does not let him read is an error, and no denial.
    let barred =
        gateway(&format!("endpoint {endpoint}\n path /other\n credentials dns s3cret-word"));
    assert_eq!(code(&barred, "www.example.org A"), ResponseCode::ServFail);
    barred.line("permission denied");
    // Tokens do not outlive the server, nor a change of users.
    etcd.stop();
    etcd.resume();
    assert_eq!(code(&good, "www.example.org A"), ResponseCode::NoError);
    etcd.ctl(&["user", "add", "third:word"]);
    assert_eq!(code(&good, "www.example.org A"), ResponseCode::NoError);
}
