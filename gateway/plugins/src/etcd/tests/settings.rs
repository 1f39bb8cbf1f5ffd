//! What the directive says.

use engine::testing::Bench;

use super::stub::Stub;
use super::{NXDOMAIN, ask, bench, table};
use crate::CHAIN;

#[test]
fn wrong_words_are_refused() {
    for (line, want) in [
        ("endpoint", "endpoint"),
        ("endpoint ftp://127.0.0.1:2379", "is no address of etcd"),
        ("endpoint http://127.0.0.1:2379/path", "is no address of etcd"),
        ("endpoint http://user@127.0.0.1:2379", "is no address of etcd"),
        ("path", "path"),
        ("path /a /b", "/b"),
        ("credentials dns", "credentials"),
        ("credentials dns secret more", "more"),
        ("tls a b c d", "Wrong argument count"),
        ("min-lease-ttl", "min-lease-ttl"),
        ("min-lease-ttl -5", "not a time"),
        ("max-lease-ttl soon", "not a time"),
        ("nosuch", "is not a property"),
    ] {
        let told = Bench::refused(CHAIN, &format!("example.org {{\n etcd {{\n {line}\n }}\n}}\n"));
        assert!(told.contains(want), "{line}: {told}");
        assert!(!told.contains("secret "), "{told}");
    }
    let told = Bench::refused(
        CHAIN,
        "example.org {\n etcd {\n endpoint https://127.0.0.1:1\n tls nosuch.pem\n }\n}\n",
    );
    assert!(told.contains("nosuch.pem"), "{told}");
}

#[test]
fn a_start_does_not_need_etcd() {
    for block in [
        "etcd",
        "etcd {\n stubzones\n upstream\n debug\n}",
        "etcd {\n upstream 198.51.100.1 198.51.100.2\n endpoint 127.0.0.1:1 http://localhost:2 http://127.0.0.1:1\n}",
        "etcd example.org example.net {\n path skydns/\n credentials a b\n}",
        "etcd a.example.org\n etcd b.example.org",
    ] {
        Bench::new(CHAIN, &format!("example.org {{\n {block}\n}}\n"));
    }
    let odd =
        Bench::new(CHAIN, "example.org {\n etcd {\n endpoint http://127.0.0.1:1\n tls\n }\n}\n");
    assert!(odd.built.warnings[0].what.contains("has no effect"), "{:?}", odd.built.warnings);
}

#[tokio::test]
async fn keys_are_below_the_path() {
    let stub = Stub::new(&[
        ("/org/example/www", r#"{"host": "198.51.100.1", "port": 80}"#),
        ("/deep/er/org/example/www", r#"{"host": "198.51.100.2", "port": 80}"#),
    ])
    .await;
    let www = |host: u8| format!("NOERROR aa rd | www.example.org. 300 A 198.51.100.{host}");
    table(&bench(&stub, "path /skydns"), &[("www.example.org", &www(1))]).await;
    table(
        &bench(&stub, "path skydns/deep/er/"),
        &[
            ("www.example.org", &www(2)),
            (
                "www.example.org SRV",
                "NOERROR aa rd | www.example.org. 300 SRV 10 100 80 www.example.org. |  | www.example.org. 300 A 198.51.100.2",
            ),
        ],
    )
    .await;
    table(&bench(&stub, "path /other"), &[("www.example.org", NXDOMAIN)]).await;
}

#[tokio::test]
async fn zones_are_those_that_are_named() {
    let stub = Stub::new(&[
        ("/org/example/a/x", r#"{"host": "198.51.100.1"}"#),
        ("/org/example/b/x", r#"{"host": "198.51.100.2"}"#),
    ])
    .await;
    let endpoint = stub.endpoint();
    let corefile = format!(
        ". {{\n etcd a.example.org {{\n endpoint {endpoint}\n }}\n etcd b.example.org {{\n endpoint {endpoint}\n }}\n whoami\n}}\n"
    );
    let bench = Bench::new(CHAIN, &corefile);
    assert_eq!(
        ask(&bench, "x.a.example.org").await,
        "NOERROR aa rd | x.a.example.org. 300 A 198.51.100.1"
    );
    assert_eq!(
        ask(&bench, "x.b.example.org").await,
        "NOERROR aa rd | x.b.example.org. 300 A 198.51.100.2"
    );
    assert!(ask(&bench, "www.example.org").await.contains("127.0.0.1"));
}
