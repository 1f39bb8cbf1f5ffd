//! Zones that are copied.

use engine::Keyring as _;

use super::*;
use crate::CHAIN;
use crate::shared::testing::logged;
use crate::shared::tsig;

/// A gateway that copies example.org from these servers.
fn bench(from: &[&Primary], more: &str) -> Bench {
    let from: Vec<String> = from.iter().map(|one| one.scripted.addr.to_string()).collect();
    let from = from.join(" ");
    Bench::new(
        CHAIN,
        &format!(
            "example.org {{\n transfer {{\n  to *\n }}\n secondary {{\n  transfer from {from}\n {more}\n }}\n}}\n"
        ),
    )
}

/// A primary that has example.org with serial 1.
async fn primary() -> Primary {
    let primary = Primary::start().await;
    primary.put(zone("example.org", 1, "www A 198.51.100.1\n*.w A 198.51.100.2\nsub NS ns.sub"));
    primary
}

/// The facts `secondary.axfr`, `.out`, `.start`, `file.apexonly`.
#[tokio::test]
async fn a_zone_is_copied_served_and_handed_on() {
    let primary = primary().await;
    logged();
    let bench = bench(&[&primary], "");
    assert_eq!(bench.now("www.example.org +edns"), "SERVFAIL rd | EDE 14 the zone is not loaded");
    until(&bench, "www.example.org", "198.51.100.1").await;
    assert_eq!(address(&bench, "x.w.example.org"), "198.51.100.2");
    assert_eq!(address(&bench, "nope.example.org"), "NXDOMAIN");
    assert_eq!(address(&bench, "x.sub.example.org"), "NOERROR");
    let whole = bench.ask("example.org AXFR +tcp").await;
    assert_eq!(whole.matches("; ").count(), 5, "{whole}");
    assert_eq!(primary.scripted.seen(), ["example.org. AXFR tcp"]);
    let line =
        format!("[INFO] plugin/file: Transferred: example.org. from {}", primary.scripted.addr);
    assert!(logged().contains(&line), "{:?}", logged());
    let text = engine::metrics::render();
    assert!(text.contains("causeway_secondary_serial{zone=\"example.org.\"} 1"), "{text}");
}

/// The facts `secondary.notify` and `secondary.refresh`.
#[tokio::test]
async fn a_notice_has_the_changes_copied() {
    let primary = primary().await;
    let mut bench = bench(&[&primary], "");
    until(&bench, "www.example.org", "198.51.100.1").await;
    primary.scripted.seen();
    primary.put(zone("example.org", 2, "www A 198.51.100.3\n*.w A 198.51.100.2\nsub NS ns.sub"));
    // Others are not heard.
    logged();
    bench.from([127, 0, 0, 99].into());
    assert_eq!(notify(&bench, "example.org"), "(none)");
    assert!(logged()[0].contains("Dropping notify from 127.0.0.99:40000 for example.org."));
    assert_eq!(notify(&bench, "example.org"), "(none)");
    assert_eq!(logged(), [""; 0], "said once a second");
    bench.from([127, 0, 0, 1].into());
    assert_eq!(notify(&bench, "www.example.org"), "NOTAUTH");
    assert_eq!(notify(&bench, "example.org"), "NOERROR aa");
    until(&bench, "www.example.org", "198.51.100.3").await;
    assert_eq!(primary.scripted.seen(), ["example.org. SOA tcp", "example.org. IXFR tcp"]);
    assert_eq!(address(&bench, "x.w.example.org"), "198.51.100.2");
    // The same serial, and one that is behind, are nothing new.
    for serial in [2, 1] {
        primary.put(zone("example.org", serial, "www A 198.51.100.9"));
        assert_eq!(notify(&bench, "example.org"), "NOERROR aa");
        for _ in 0..500 {
            if primary.scripted.seen() == ["example.org. SOA tcp"] {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(address(&bench, "www.example.org"), "198.51.100.3");
    }
    // A primary that does not know changes is asked for the zone.
    primary.be(Mood::NoChanges);
    primary.put(zone("example.org", 3, "www A 198.51.100.4"));
    assert_eq!(notify(&bench, "example.org"), "NOERROR aa");
    until(&bench, "www.example.org", "198.51.100.4").await;
    let seen = primary.scripted.seen();
    assert!(seen.ends_with(&["example.org. AXFR tcp".to_owned()]), "{seen:?}");
}

/// The facts `secondary.axfr` and `secondary.multi`: what does not come whole changes nothing.
#[test]
fn half_a_zone_is_none() {
    let moods = [
        Mood::Half,
        Mood::Garbage,
        Mood::WrongId,
        Mood::WrongQuestion,
        Mood::OtherEnd,
        Mood::WrongChanges,
        Mood::Refused,
    ];
    each(moods, |mood| {
        Box::pin(async move {
            let (first, second) = (primary().await, Primary::start().await);
            second.be(Mood::Refused);
            let bench = bench(&[&first, &second], "");
            until(&bench, "www.example.org", "198.51.100.1").await;
            first.put(zone(
                "example.org",
                2,
                "www A 198.51.100.2\na A 198.51.100.3\nb A 198.51.100.4",
            ));
            first.be(mood);
            logged();
            assert_eq!(notify(&bench, "example.org"), "NOERROR aa");
            let failed = async {
                if mood == Mood::Half {
                    // The connection stays open: nobody waits for that here.
                    return tokio::time::sleep(Duration::from_secs(2)).await;
                }
                let mut log = String::new();
                while !log.contains("All 'example.org.' masters failed to transfer, retrying in ") {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    log.push_str(&logged().join("\n"));
                }
            };
            assert!(
                tokio::time::timeout(Duration::from_secs(10), failed).await.is_ok(),
                "{mood:?}"
            );
            assert_eq!(address(&bench, "www.example.org"), "198.51.100.1", "{mood:?}");
            assert_eq!(address(&bench, "a.example.org"), "NXDOMAIN", "{mood:?}");
            if mood != Mood::Half {
                let text = engine::metrics::render();
                assert!(
                    text.contains("causeway_secondary_failing{zone=\"example.org.\"}"),
                    "{text}"
                );
                // The next server has it.
                second.put(zone("example.org", 2, "www A 198.51.100.5"));
                second.be(Mood::Changes);
                until(&bench, "www.example.org", "198.51.100.5").await;
                assert_eq!(address(&bench, "a.example.org"), "NXDOMAIN", "{mood:?}");
            }
        })
    });
}

/// The facts `secondary.expire`, `file.expired`, `secondary.soa.timers`.
#[tokio::test]
async fn a_zone_that_cannot_be_renewed_expires() {
    let short = |serial: u32| {
        let text = format!(
            "@ 60 SOA ns1 hostmaster {serial} 1 1 2 30\n@ 60 NS ns1\nwww 60 A 198.51.100.1"
        );
        read(text.as_bytes(), "db", &Name::parse("example.org").unwrap(), &NoFiles).unwrap().zone
    };
    let primary = Primary::start().await;
    primary.put(short(5));
    let bench = bench(&[&primary], "");
    until(&bench, "www.example.org", "198.51.100.1").await;
    primary.be(Mood::Refused);
    logged();
    until(&bench, "www.example.org", "SERVFAIL").await;
    assert_eq!(bench.now("www.example.org +edns"), "SERVFAIL rd | EDE 24 the zone has expired");
    assert!(logged().contains(&"[ERROR] plugin/file: Zone example.org. is expired".to_owned()));
    assert!(bench.ask("example.org AXFR +tcp").await.starts_with("SERVFAIL"));
    let text = engine::metrics::render();
    assert!(text.contains("causeway_secondary_expired{zone=\"example.org.\"}"), "{text}");
    // Whatever its serial is, it is taken up again.
    primary.put(short(4));
    primary.be(Mood::Changes);
    until(&bench, "www.example.org", "198.51.100.1").await;
}

/// The fact `secondary.fallthrough`, and the last of two directives.
#[tokio::test]
async fn names_go_on_if_that_is_said() {
    use crate::shared::testing::ANSWERS;
    static PLUGINS: &[&engine::Descriptor] = &[&crate::secondary::PLUGIN, &ANSWERS];
    let primary = primary().await;
    let addr = primary.scripted.addr;
    let bench = Bench::new(
        PLUGINS,
        &format!(
            "org {{\n secondary example.org {{\n  transfer from 127.0.0.9\n }}\n secondary example.org {{\n  transfer from {addr}\n  fallthrough\n }}\n answers\n}}\n"
        ),
    );
    until(&bench, "x.w.example.org", "198.51.100.2").await;
    assert!(bench.now("nope.example.org").contains(" 30 A "));
    assert!(bench.now("www.elsewhere.org").contains(" 30 A "));
}

/// A zone is kept over reloads of the configuration, and renewed by the new one.
#[tokio::test]
async fn a_zone_outlives_the_configuration() {
    let primary = primary().await;
    let text = |more: &str| {
        let addr = primary.scripted.addr;
        format!("example.org {{\n {more}\n secondary {{\n  transfer from {addr}\n }}\n}}\n")
    };
    let mut bench = Bench::new(CHAIN, &text(""));
    until(&bench, "www.example.org", "198.51.100.1").await;
    primary.scripted.seen();
    bench.reload(&text("log")).unwrap();
    assert_eq!(address(&bench, "www.example.org"), "198.51.100.1");
    primary.put(zone("example.org", 2, "www A 198.51.100.2"));
    assert_eq!(notify(&bench, "example.org"), "NOERROR aa");
    until(&bench, "www.example.org", "198.51.100.2").await;
    assert_eq!(primary.scripted.seen(), ["example.org. SOA tcp", "example.org. IXFR tcp"]);
}

/// The fact `secondary.tsig`, and what we do beyond it.
#[tokio::test]
async fn transfers_are_signed_with_a_key() {
    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    // How many of the messages are signed.
    for (signed, want) in [(usize::MAX, "198.51.100.1"), (1, "SERVFAIL"), (0, "SERVFAIL")] {
        let versions = [Arc::new(zone("example.org", 1, "www A 198.51.100.1"))];
        let scripted = Scripted::start(move |asked, answer| {
            let keys = tsig::testing(SECRET);
            let name = asked.request.name.wire().len();
            let mut seal = keys.check(&asked.wire, 12 + name + 4, std::time::SystemTime::now());
            let seal = seal.as_mut().expect("the query is signed");
            assert_eq!(seal.broken(), None);
            let mut messages = match say(asked, answer, Mood::Whole, &versions) {
                Say::Raw(messages) => messages,
                _ => vec![encode(asked, answer)],
            };
            messages.iter_mut().take(signed).for_each(|message| seal.sign(message, 0));
            Say::Raw(messages)
        });
        let addr = scripted.await.addr;
        let bench = Bench::new(
            CHAIN,
            &format!(
                "example.org {{\n tsig {{\n  secret key.test {SECRET}\n }}\n secondary {{\n  transfer from {addr}\n  key key.test hmac-sha384\n }}\n}}\n"
            ),
        );
        if want == "SERVFAIL" {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        until(&bench, "www.example.org", want).await;
    }
}

/// A primary that says nothing is left for the next one, and `secondary.start` tries again.
#[tokio::test]
async fn a_server_that_comes_late_is_found() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let primary = Primary::start().await;
    logged();
    let bench = Bench::new(
        CHAIN,
        &format!(
            "example.org {{\n secondary {{\n  transfer from {gone} {}\n }}\n}}\n",
            primary.scripted.addr
        ),
    );
    tokio::time::sleep(Duration::from_millis(400)).await;
    let log = logged().join("\n");
    assert!(
        log.contains("All 'example.org.' masters failed to transfer, retrying in 250ms: "),
        "{log}"
    );
    assert!(log.contains("connection refused") && log.contains("rcode was REFUSED"), "{log}");
    primary.put(zone("example.org", 1, "www A 198.51.100.1"));
    until(&bench, "www.example.org", "198.51.100.1").await;
}

#[tokio::test]
async fn a_zone_that_is_copied_is_told_of() {
    let primary = primary().await;
    let server = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (addr, to) = (primary.scripted.addr, server.local_addr().unwrap());
    let bench = Bench::new(
        CHAIN,
        &format!(
            "example.org {{\n transfer {{\n  to {to}\n }}\n secondary {{\n  transfer from {addr}\n }}\n}}\n"
        ),
    );
    let mut message = [0; 512];
    let told = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
    let (len, _) = told.await.unwrap().unwrap();
    assert_eq!(&message[12..len], b"\x07example\x03org\0\0\x06\0\x01");
    assert_eq!(address(&bench, "www.example.org"), "198.51.100.1");
}
