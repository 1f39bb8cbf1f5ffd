//! *route53* against an API that is not ours: moto, filled by Amazon's own library.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::gateway::Builder;
use tests::moto::Moto;
use tests::{Gateway, until};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A gateway with these words and lines of `route53`.
fn gateway<'a>(moto: &Moto, words: &str, lines: &str) -> Builder<'a> {
    let corefile = format!(
        "example.org:@PORT@ {{\n bind 127.0.0.1\n errors\n prometheus 127.0.0.1:@PORT:metrics@\n route53 {words} {{\n  aws_endpoint {}\n  refresh 1\n  {lines}\n }}\n}}",
        moto.url()
    );
    Gateway::new(&corefile)
}

/// The same with a key in the environment.
fn with_key<'a>(builder: Builder<'a>, key: &str) -> Builder<'a> {
    let (id, secret) = key.split_once(' ').unwrap();
    builder.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret)
}

/// A figure of the gateway, summed over its labels.
fn figure(gateway: &Gateway, name: &str) -> f64 {
    let all = gateway.metrics("metrics");
    all.iter()
        .filter(|(key, _)| key.starts_with(&format!("{name}{{")))
        .map(|(_, value)| value)
        .sum()
}

/// The facts `route53.endpoint`, `route53.refresh`, `route53.load`, `route53.bg`.
#[test]
fn hosted_zones_of_a_real_api_are_copied() {
    let mut moto = Moto::start();
    let id = moto.admin(&["create", "example.org"]);
    moto.admin(&["put", &id, "www.example.org", "A", "198.51.100.1", "198.51.100.2"]);
    moto.admin(&["put", &id, "txt.example.org", "TXT", r#""a \"b\" \344" "c""#]);
    moto.admin(&["put", &id, "*.wild.example.org", "A", "198.51.100.3"]);
    moto.admin(&["weigh", &id, "weighted.example.org", "A", "198.51.100.4", "198.51.100.5"]);
    moto.admin(&["alias", &id, "lb.example.org", "lb.example.net"]);
    // More than a page.
    moto.admin(&["fill", &id, "example.org", "1200"]);
    let gateway = with_key(gateway(&moto, &format!("example.org:{id}"), ""), "admin admin").start();
    let count = |name: &str| gateway.ask(&*format!("{name}.example.org A")).addresses().len();
    for (name, wanted) in [
        ("www", 2),
        ("x.wild", 1),
        ("weighted", 2),
        ("lb", 0),
        ("h0", 1),
        ("h999", 1),
        ("h1199", 1),
    ] {
        assert_eq!(count(name), wanted, "{name}:\n{}", gateway.output());
    }
    let reply = gateway.ask("www.example.org A");
    assert!(reply.flags().contains("aa"), "{}", reply.flags());
    assert_eq!(gateway.ask("none.example.org A").rcode(), ResponseCode::NXDomain);
    let texts = gateway.ask("txt.example.org TXT").answers().join("\n");
    assert!(texts.contains(r#"a "b" "#) || texts.contains(r#"a \"b\" "#), "{texts}");
    assert!((figure(&gateway, "causeway_route53_records") - 1211.0).abs() < 0.1);
    assert!(figure(&gateway, "causeway_route53_broken").abs() < 0.1);
    // Changes come with the next refresh.
    moto.admin(&["put", &id, "www.example.org", "A", "198.51.100.9"]);
    moto.admin(&["delete", &id, "*.wild.example.org", "A", "198.51.100.3"]);
    gateway.ask_until("www.example.org A", LIMIT, |reply| {
        reply.addresses() == ["198.51.100.9".parse::<std::net::IpAddr>().unwrap()]
    });
    gateway
        .ask_until("x.wild.example.org A", LIMIT, |reply| reply.rcode() == ResponseCode::NXDomain);
    // An outage, and then an API that knows nothing of the zone: what was loaded stays.
    moto.pause();
    gateway.line("Failed to update zones [example.org.]: ");
    assert_eq!(count("h1199"), 1);
    assert!(
        until(LIMIT, || (figure(&gateway, "causeway_route53_broken") > 0.5).then_some(()))
            .is_some()
    );
    moto.resume();
    gateway.line("NoSuchHostedZone");
    assert_eq!(count("h1199"), 1);
}

/// The fact `route53.keys`.
#[test]
fn a_real_api_is_asked_by_all_forms_of_keys() {
    let moto = Moto::start();
    let id = moto.admin(&["create", "example.org"]);
    moto.admin(&["put", &id, "www.example.org", "A", "198.51.100.1"]);
    let zone = format!("example.org:{id}");
    let serves = |gateway: &Gateway| {
        assert_eq!(gateway.ask("www.example.org A").addresses().len(), 1);
    };
    serves(&with_key(gateway(&moto, &zone, ""), "AKID s3cretkey").start());
    let stated = gateway(&moto, &zone, "aws_access_key AKID s3cretkey").start();
    serves(&stated);
    let output = stated.output();
    assert!(output.contains("is not recommended") && !output.contains("s3cretkey"), "{output}");
    let file = "[dns]\naws_access_key_id = AKID\naws_secret_access_key = s3cretkey\n";
    serves(&gateway(&moto, &zone, "credentials dns keys").file("keys", file).start());
    let none = gateway(&moto, &zone, "credentials other keys").file("keys", file);
    let (_, output) = none.refused();
    assert!(output.contains("no AWS credentials: there is no profile 'other'"), "{output}");
    // From now on moto knows its users, and there are none.
    moto.admin(&["check"]);
    let (status, output) = with_key(gateway(&moto, &zone, ""), "NOBODY s3cretkey").refused();
    assert!(!status.success() && output.contains("InvalidClientTokenId"), "{output}");
    assert!(output.contains("cannot load zones: example.org.: the API says 403"), "{output}");
    assert!(!output.contains("s3cretkey"), "{output}");
}

/// The fact `route53.start`.
#[test]
fn what_a_real_api_refuses_stops_the_start() {
    let moto = Moto::start();
    let (status, output) = with_key(gateway(&moto, "example.org:Z0NONE", ""), "a b").refused();
    assert!(!status.success(), "{output}");
    assert!(output.contains("404 Not Found: NoSuchHostedZone"), "{output}");
}
