//! Hosted zones from an API that a test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::testing::Bench;

use super::api::{Page, unescaped};
use crate::CHAIN;
use crate::shared::cloud::stub::{Asked, Reply, Stub};
use crate::shared::testing::logged;

/// A record set in XML.
fn set(name: &str, rtype: &str, values: &[&str]) -> String {
    let records: String = values
        .iter()
        .map(|value| format!("<ResourceRecord><Value>{value}</Value></ResourceRecord>"))
        .collect();
    format!(
        "<ResourceRecordSet><Name>{name}</Name><Type>{rtype}</Type><TTL>300</TTL>\
         <ResourceRecords>{records}</ResourceRecords></ResourceRecordSet>"
    )
}

/// The SOA and NS sets of a zone.
fn apex(zone: &str) -> String {
    set(zone, "SOA", &["ns-1.awsdns-1.org. awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400"])
        + &set(zone, "NS", &["ns-1.awsdns-1.org."])
}

/// A page of record sets, and where the next one begins.
fn page(sets: &str, next: &str) -> String {
    let truncated = !next.is_empty();
    format!(
        "<?xml version=\"1.0\"?>\n<ListResourceRecordSetsResponse xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
         <ResourceRecordSets>{sets}</ResourceRecordSets><IsTruncated>{truncated}</IsTruncated>{next}<MaxItems>1000</MaxItems>\
         </ListResourceRecordSetsResponse>"
    )
}

/// The reply to a look for hosted zones; none for another request.
fn zones(asked: &Asked) -> Option<Reply> {
    let text = "<ListHostedZonesByNameResponse><HostedZones></HostedZones></ListHostedZonesByNameResponse>";
    asked.path.starts_with("/2013-04-01/hostedzonesbyname?").then(|| Reply::ok(text))
}

/// An API whose hosted zones have these sets, each on one page.
fn api(all: &'static [(&'static str, &'static str)], extra: fn(&str) -> String) -> Stub {
    Stub::new(move |asked| {
        if let Some(reply) = zones(asked) {
            return reply;
        }
        let found =
            all.iter().find(|(id, _)| asked.path.contains(&format!("/hostedzone/{id}/rrset?")));
        match found {
            Some((id, zone)) => Reply::ok(page(&(apex(zone) + &extra(id)), "")),
            None => Reply::Status(404, "<ErrorResponse><Error><Code>NoSuchHostedZone</Code><Message>No hosted zone</Message></Error></ErrorResponse>".to_owned()),
        }
    })
}

/// A Corefile with these words and lines of `route53`, whose API is this.
fn corefile(stub: &Stub, words: &str, lines: &str) -> String {
    format!(
        "example.org {{\n metadata\n route53 {words} {{\n  aws_access_key AKIDEXAMPLE s3cretkey\n  aws_endpoint {}\n  {lines}\n }}\n whoami\n}}",
        stub.url()
    )
}

/// A gateway that has started.
async fn started(text: &str) -> Bench {
    let bench = Bench::new(CHAIN, text);
    bench.built.waits.over().await.unwrap();
    bench
}

/// The facts `route53.form`, `route53.words`, `route53.refresh`.
#[test]
fn words_are_checked() {
    for (line, wrong) in [
        ("route53", "needs a hosted zone"),
        ("route53 example.org", "is no hosted zone"),
        ("route53 example.org:", "is no hosted zone"),
        ("route53 :Z1", "does not begin with a domain name"),
        ("route53 example.org:Z1/2", "has an ID that is none"),
        ("route53 example.org:Z1 EXAMPLE.org.:Z1", "is stated twice"),
        ("route53 example.org:Z1\n route53 example.org:Z1", "is stated twice"),
        ("route53 example.org:Z1 {\n wat\n }", "is not a property"),
        ("route53 example.org:Z1 {\n refresh 0\n }", "is no interval"),
        ("route53 example.org:Z1 {\n refresh -1m\n }", "is wrong"),
        ("route53 example.org:Z1 {\n refresh soon\n }", "is wrong"),
        ("route53 example.org:Z1 {\n refresh\n }", "Wrong argument count"),
        ("route53 example.org:Z1 {\n credentials\n }", "Wrong argument count"),
        ("route53 example.org:Z1 {\n aws_endpoint localhost\n }", "is no address"),
        ("route53 example.org:Z1 {\n aws_access_key A\n }", "has wrong words"),
        ("route53 example.org:Z1 {\n aws_access_key A \"\"\n }", "has wrong words"),
    ] {
        let told = Bench::refused(CHAIN, &format!("example.org {{\n {line}\n}}"));
        assert!(told.contains(wrong), "{line}: {told}");
    }
    for line in [
        "refresh 90s",
        "refresh 90",
        "upstream",
        "upstream 127.0.0.1",
        "credentials dns",
        "credentials dns file",
        "fallthrough",
    ] {
        Bench::new(
            CHAIN,
            &format!("example.org {{\n route53 example.org.:Z1 {{\n {line}\n }}\n}}"),
        );
    }
}

/// The fact `route53.keys`: a key in the Corefile is warned of, and shown nowhere.
#[test]
fn keys_are_not_shown() {
    let bench = Bench::new(
        CHAIN,
        "example.org {\n route53 example.org:Z1 {\n aws_access_key AKID s3cret\n }\n}",
    );
    let warning = &bench.built.warnings[0];
    assert!(warning.what.contains("not recommended") && warning.hides);
    assert!(!format!("{bench:?}").contains("s3cret"));
    let text = "example.org {\n route53 example.org:Z1 {\n aws_access_key AKID s3cret more\n }\n}";
    let wrong = Bench::try_new(CHAIN, text).unwrap_err();
    let shown = wrong[0].render(&|_| Some(text.to_owned()));
    assert!(!shown.contains("s3cret") && !format!("{wrong:?}").contains("s3cret"), "{shown}");
}

/// The facts `route53.answer`, `route53.zonekey`, `route53.endpoint`.
#[tokio::test]
async fn answers_are_those_of_a_zone() {
    let stub = api(&[("Z1", "example.org.")], |_| {
        set("www.example.org.", "A", &["198.51.100.1", "198.51.100.2"])
            + &set("\\052.wild.example.org.", "A", &["198.51.100.3"])
            + &set("alias.example.org.", "CNAME", &["www.example.org."])
            + &set("out.example.org.", "CNAME", &["www.example.net."])
            + &set("sub.example.org.", "NS", &["ns.sub.example.org."])
            + &set("ns.sub.example.org.", "A", &["198.51.100.4"])
            + &set("txt.example.org.", "TXT", &["&quot;a\\\\b \\344&quot; \"c\""])
            + "<ResourceRecordSet><Name>lb.example.org.</Name><Type>A</Type><AliasTarget><HostedZoneId>Z2</HostedZoneId>\
               <DNSName>lb.example.net.</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget></ResourceRecordSet>"
    });
    let bench = started(&corefile(&stub, "EXAMPLE.org:Z1", "")).await;
    let asked = stub.asked();
    assert_eq!(asked[0].path, "/2013-04-01/hostedzonesbyname?dnsname=example.org.&hostedzoneid=Z1");
    assert_eq!(asked[1].path, "/2013-04-01/hostedzone/Z1/rrset?maxitems=1000");
    let signed = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/";
    assert!(asked.iter().all(|asked| asked.header("authorization").starts_with(signed)));
    for (query, parts) in [
        ("www.example.org A", &["NOERROR", "aa", "198.51.100.1", "198.51.100.2"][..]),
        ("WWW.example.ORG A", &["198.51.100.1"]),
        ("x.wild.example.org A", &["198.51.100.3"]),
        ("alias.example.org A", &["CNAME", "198.51.100.2"]),
        ("out.example.org A", &["CNAME", "www.example.net"]),
        ("www.example.org MX", &["NOERROR", "SOA"]),
        ("none.example.org A", &["NXDOMAIN", "SOA"]),
        ("x.sub.example.org A", &["ns.sub.example.org", "198.51.100.4"]),
        ("txt.example.org TXT", &["\"a\\b ", "\"c\""]),
        ("lb.example.org A", &["NXDOMAIN"]),
        ("example.org AXFR +tcp", &["REFUSED"]),
    ] {
        let answer = bench.now(query);
        assert!(parts.iter().all(|part| answer.contains(part)), "{query}: {answer}");
    }
    assert!(!bench.now("x.sub.example.org A").contains(" aa"));
}

/// The facts `route53.multi`, `route53.fallthrough`.
#[tokio::test]
async fn several_zones_of_a_name_are_tried_in_their_order() {
    let extra = |id: &str| match id {
        "Z1" => {
            set("both.example.org.", "A", &["198.51.100.1"])
                + &set("nodata.example.org.", "TXT", &["\"x\""])
        }
        _ => {
            set("both.example.org.", "A", &["198.51.100.2"])
                + &set("nodata.example.org.", "A", &["198.51.100.2"])
                + &set("two.example.org.", "A", &["198.51.100.2"])
                + &set("deep.hollow.example.org.", "A", &["198.51.100.2"])
        }
    };
    let stub = api(&[("Z1", "example.org."), ("Z2", "example.org.")], extra);
    let bench = started(&corefile(&stub, "example.org:Z1 example.org:Z2", "")).await;
    let through =
        started(&corefile(&stub, "example.org:Z1 example.org:Z2", "fallthrough next.example.org"))
            .await;
    for (query, part) in [
        ("both.example.org A", "198.51.100.1"),
        ("two.example.org A", "198.51.100.2"),
        ("nodata.example.org A", "NOERROR"),
        ("hollow.example.org A", "NOERROR"),
        ("none.example.org A", "NXDOMAIN"),
    ] {
        for bench in [&bench, &through] {
            let answer = bench.now(query);
            assert!(answer.contains(part), "{query}: {answer}");
        }
    }
    assert!(!bench.now("nodata.example.org A").contains("198.51.100.2"));
    assert!(bench.now("next.example.org A").contains("NXDOMAIN"));
    assert!(through.now("next.example.org A").contains("_udp."));
}

/// The fact `route53.load`: all pages are read, by what the one before says.
#[tokio::test]
async fn all_pages_are_read() {
    let next = "<NextRecordName>b.example.org.</NextRecordName><NextRecordType>A</NextRecordType><NextRecordIdentifier>one two</NextRecordIdentifier>";
    let stub = Stub::new(move |asked| {
        zones(asked).unwrap_or_else(|| {
            if asked.path.contains("name=") {
                Reply::ok(page(&set("b.example.org.", "A", &["198.51.100.2"]), ""))
            } else {
                Reply::ok(page(
                    &(apex("example.org.") + &set("a.example.org.", "A", &["198.51.100.1"])),
                    next,
                ))
            }
        })
    });
    let bench = started(&corefile(&stub, "example.org:Z1", "")).await;
    assert_eq!(
        stub.asked()[2].path,
        "/2013-04-01/hostedzone/Z1/rrset?identifier=one%20two&maxitems=1000&name=b.example.org.&type=A"
    );
    assert!(bench.now("a.example.org A").contains("198.51.100.1"));
    assert!(bench.now("b.example.org A").contains("198.51.100.2"));
}

/// The fact `route53.start`: what the API refuses stops the start, with its reason and without the key.
#[tokio::test]
async fn a_start_that_is_refused_says_why() {
    for (status, body, told) in [
        (
            403,
            "<ErrorResponse><Error><Code>AccessDenied</Code><Message>key s3cretkey may not</Message></Error></ErrorResponse>",
            "403 Forbidden: AccessDenied: key … may not",
        ),
        (
            403,
            "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error></ErrorResponse>",
            "SignatureDoesNotMatch",
        ),
        (404, "", "404 Not Found"),
    ] {
        let stub = Stub::new(move |_| Reply::Status(status, body.to_owned()));
        let bench = Bench::new(CHAIN, &corefile(&stub, "example.org:Z1", ""));
        let wrong = bench.built.waits.over().await.unwrap_err();
        assert!(wrong.starts_with("plugin/route53: cannot load zones: example.org.: "), "{wrong}");
        assert!(wrong.contains(told) && !wrong.contains("s3cret"), "{wrong}");
    }
    // A hosted zone of another name.
    let stub = api(&[("Z1", "example.net.")], |_| String::new());
    let bench = Bench::new(CHAIN, &corefile(&stub, "example.org:Z1", ""));
    assert!(bench.built.waits.over().await.unwrap_err().contains("no SOA record"));
}

/// The facts `route53.start`, `route53.bg`: an API that is away holds up the start for a while, and the zone comes later.
#[tokio::test]
async fn a_start_without_the_api_serves_what_comes_later() {
    logged();
    let stub = Stub::new(|_| Reply::Close);
    let text = corefile(&stub, "example.org:Z1", "fallthrough");
    let mut bench = Bench::new(CHAIN, &text);
    bench.built.waits.over().await.unwrap();
    let told = logged().join("\n");
    assert!(
        told.contains("[ERROR] plugin/route53: Failed to load zones: example.org.: "),
        "{told}"
    );
    assert!(bench.now("next.example.org A +edns").contains("SERVFAIL"));
    // A reload with such a zone is worse than what there is.
    assert!(bench.reload(&text.replace("Z1", "Z2")).is_ok());
    assert!(bench.built.waits.over().await.unwrap_err().contains("cannot be asked"));
    bench.reload(&text).unwrap();
    stub.answer(|asked| {
        let sets = apex("example.org.") + &set("www.example.org.", "A", &["198.51.100.1"]);
        zones(asked).unwrap_or_else(|| Reply::ok(page(&sets, "")))
    });
    for _ in 0..100 {
        if bench.now("www.example.org A").contains("198.51.100.1") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(bench.now("www.example.org A").contains("198.51.100.1"), "{:?}", logged());
    assert!(bench.now("next.example.org A").contains("_udp."));
}

/// A throttled API is not asked again at once, and a token that has ended is replaced.
#[tokio::test]
async fn credentials_that_are_not_taken_are_looked_for_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let stub = Stub::new(move |asked| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            let body = "<ErrorResponse><Error><Code>ExpiredToken</Code></Error></ErrorResponse>";
            return Reply::Status(403, body.to_owned());
        }
        zones(asked).unwrap_or_else(|| Reply::ok(page(&apex("example.org."), "")))
    });
    started(&corefile(&stub, "example.org:Z1", "")).await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// The fact `route53.escape`.
#[test]
fn escapes_are_those_of_zone_files() {
    for (text, plain) in [
        ("www.example.org.", Some("www.example.org.")),
        ("\\052.example.org.", Some("\\042.example.org.")),
        ("\\100\\344", Some("\\064\\228")),
        ("\"a\\\\b\\\"c\"", Some("\"a\\\\b\\\"c\"")),
        ("\\400", None),
        ("\\08", None),
        ("\\8", None),
        ("\\", None),
    ] {
        assert_eq!(unescaped(text).as_deref(), plain, "{text}");
    }
}

/// The fact `route53.load`: a set that cannot be read is told, a page that cannot be read is none.
#[test]
fn garbled_pages_are_none() {
    let odd = page(&(set("a.", "A", &["\\9"]) + &set("b.", "A", &["198.51.100.1"])), "");
    let read = Page::read(&odd).unwrap();
    assert_eq!((read.listing.sets.len(), read.listing.odd.len()), (1, 1));
    let good = page(&set("b.", "A", &["198.51.100.1"]), "");
    for text in [
        String::new(),
        "<html>sign in</html>".to_owned(),
        good.replace("<IsTruncated>false</IsTruncated>", ""),
        good.replace("false", "true"),
        good.replace("ResourceRecordSets>", "Other>"),
        good[..good.len() - 5].to_owned(),
    ] {
        assert!(Page::read(&text).is_err(), "{text}");
    }
}
