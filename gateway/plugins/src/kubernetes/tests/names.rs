//! Names and labels, without a store.

use std::net::IpAddr;

use wire::Name;

use crate::shared::cluster::address::{
    Label, Reverse, pod_address, reverse, reverse_name, undashed,
};
use crate::shared::cluster::name::{Part, Rules, Wanted, spells};

/// Reads a name below `z`.
fn read(text: &str, rules: Rules) -> String {
    let zone = Name::parse("z").unwrap();
    let name =
        if text.is_empty() { zone.clone() } else { Name::parse(&format!("{text}.z")).unwrap() };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match Wanted::read(name.below(&zone).unwrap(), rules) {
        Wanted::Apex => "apex".to_owned(),
        Wanted::Branch => "branch".to_owned(),
        Wanted::Version => "version".to_owned(),
        Wanted::NameServer => "server".to_owned(),
        Wanted::Namespace { name, pods } => format!("namespace {} {pods}", text(name)),
        Wanted::Pod { address, namespace } => format!("pod {} {}", text(address), text(namespace)),
        Wanted::Nothing => "nothing".to_owned(),
        Wanted::Service { key, at, part } => {
            assert!(name.wire()[at..].starts_with(key));
            let part = match part {
                Part::Whole => "whole".to_owned(),
                Part::Port { name, protocol } => format!("port {} {}", text(name), protocol.word()),
                Part::Ports(protocol) => format!("ports {}", protocol.word()),
                Part::Endpoint { label, cluster } => {
                    format!("endpoint {} {}", text(label), text(cluster))
                }
                Part::Cluster(cluster) => format!("cluster {}", text(cluster)),
                Part::Zone { zone, prefer } => {
                    format!("zone {} {prefer}", text(zone).escape_default())
                }
                Part::Zones => "zones".to_owned(),
            };
            format!("{} {part}", text(key).escape_default())
        }
    }
}

#[test]
fn a_name_is_read_from_the_zone_on() {
    let plain = Rules::default();
    let zonal = Rules { zonal: true, multicluster: false };
    let set = Rules { zonal: true, multicluster: true };
    let key = "\\u{3}web\\u{4}shop";
    for (text, rules, want) in [
        ("", plain, "apex".to_owned()),
        ("svc", plain, "branch".to_owned()),
        ("pod", plain, "branch".to_owned()),
        ("dns", plain, "branch".to_owned()),
        ("ns.dns", plain, "server".to_owned()),
        ("x.ns.dns", plain, "nothing".to_owned()),
        ("dns-version", plain, "version".to_owned()),
        ("x.dns-version", plain, "nothing".to_owned()),
        ("shop.svc", plain, "namespace shop false".to_owned()),
        ("shop.pod", plain, "namespace shop true".to_owned()),
        ("1-2-3-4.shop.pod", plain, "pod 1-2-3-4 shop".to_owned()),
        ("x.1-2-3-4.shop.pod", plain, "nothing".to_owned()),
        ("web.shop.svc", plain, format!("{key} whole")),
        ("web.shop.foo", plain, "nothing".to_owned()),
        ("_tcp.web.shop.svc", plain, format!("{key} ports tcp")),
        ("_icmp.web.shop.svc", plain, "nothing".to_owned()),
        ("_http._tcp.web.shop.svc", plain, format!("{key} port http tcp")),
        ("_._tcp.web.shop.svc", plain, "nothing".to_owned()),
        ("web-0.web.shop.svc", plain, format!("{key} endpoint web-0 ")),
        ("web-0.east.web.shop.svc", plain, "nothing".to_owned()),
        ("east.web.shop.svc", set, format!("{key} cluster east")),
        ("web-0.east.web.shop.svc", set, format!("{key} endpoint web-0 east")),
        ("_http._tcp.web.shop.svc", set, format!("{key} port http tcp")),
        ("_zone.web.shop.svc", plain, "nothing".to_owned()),
        ("_zone.web.shop.svc", zonal, format!("{key} zones")),
        ("pin._zone.web.shop.svc", zonal, format!("{key} zones")),
        ("foo._zone.web.shop.svc", zonal, "nothing".to_owned()),
        ("a.pin._zone.web.shop.svc", zonal, format!("{key} zone \\u{{1}}a false")),
        ("a.b.prefer._zone.web.shop.svc", zonal, format!("{key} zone \\u{{1}}a\\u{{1}}b true")),
        ("a.foo._zone.web.shop.svc", zonal, "nothing".to_owned()),
        ("a.pin._zone.web.shop.svc", plain, "nothing".to_owned()),
        ("a.pin._zone.web.shop.svc", set, "nothing".to_owned()),
    ] {
        assert_eq!(read(text, rules), want, "{text} {rules:?}");
    }
}

#[test]
fn addresses_are_written_with_dashes_and_read_back() {
    for (address, label) in [
        ("172.16.1.1", "172-16-1-1"),
        ("fd00:b::3:1", "fd00-b--3-1"),
        ("fd00::", "fd00--0"),
        ("::1", "--1"),
        ("::ffff:198.51.100.1", "--ffff-198-51-100-1"),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(Label::dashed(address).bytes(), label.as_bytes());
    }
    assert_eq!(undashed(b"172-16-1-1"), Some([172, 16, 1, 1].into()));
    assert_eq!(undashed(b"fd00--0"), Some("fd00::".parse().unwrap()));
    // Only the shortest form is a name of an endpoint.
    assert_eq!(undashed(b"fd00-0--0"), None);
    assert_eq!(pod_address(b"fd00-b-0-0-0-0-7-1"), Some("fd00:b::7:1".parse().unwrap()));
    for wrong in ["999-16-7-1", "p1", "1-2-3", "", "1-2-3-4-5", "01-2-3-4"] {
        assert_eq!(pod_address(wrong.as_bytes()), None, "{wrong}");
    }
    assert_eq!(Label::of(b"WEB-0").unwrap().bytes(), b"web-0");
    assert!(Label::of(&[b'a'; 63]).is_some());
    assert!(Label::of(&[b'a'; 64]).is_none());
    assert!(Label::of(b"").is_none());
}

#[test]
fn reverse_names_are_read_and_written() {
    let read = |text: &str| reverse(&Name::parse(text).unwrap());
    for text in ["198.51.100.7", "0.0.0.0", "2001:db8::1:2"] {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(reverse(&reverse_name(address).unwrap()), Reverse::Address(address));
    }
    assert_eq!(read("96.10.in-addr.arpa"), Reverse::Part);
    assert_eq!(read("in-addr.arpa"), Reverse::Part);
    assert_eq!(read("8.b.d.0.1.0.0.2.ip6.arpa"), Reverse::Part);
    for wrong in [
        "256.1.1.1.in-addr.arpa",
        "01.1.1.1.in-addr.arpa",
        "x.1.1.1.in-addr.arpa",
        "1.1.1.1.1.in-addr.arpa",
        "10.ip6.arpa",
        "g.ip6.arpa",
        "1.2.3.4.example.org",
    ] {
        assert_eq!(read(wrong), Reverse::Nothing, "{wrong}");
    }
    let long = format!("{}ip6.arpa", "0.".repeat(33));
    assert_eq!(read(&long), Reverse::Nothing);
}

#[test]
fn a_zone_is_spelled_label_by_label() {
    assert!(spells(b"\x04corp\x07example", b"corp.example"));
    assert!(!spells(b"\x04corp", b"corp.example"));
    assert!(!spells(b"\x0ccorp.example", b"corp.example"));
    assert!(!spells(b"\x01a", b""));
}
