//! What is told of answers, and in which form.

use std::sync::Arc;

use engine::testing::Bench;
use engine::{Descriptor, ListenerId, Setup, Tls, Transport};
use wire::{Answer, Name, Section, rcode, rtype};

use super::{alt_svc, freshness, json};
use crate::desk::Desk;
use crate::limits::{Bounds, Limits};

/// A name.
fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn an_answer_holds_as_long_as_its_shortest_record_and_no_error_does() {
    let soa = |ttl, minimum| {
        move |answer: &mut Answer| {
            let owner = name("test");
            let numbers = [1, 2, 3, 4, minimum];
            answer.soa(Section::Authority, owner.wire(), ttl, owner.wire(), owner.wire(), numbers);
        }
    };
    let a =
        |ttl| move |answer: &mut Answer| answer.a(&name("a.test"), ttl, [203, 0, 113, 1].into());
    let beside = |answer: &mut Answer| {
        for section in [Section::Authority, Section::Additional] {
            answer.push(section, name("b.test").wire(), rtype::NS, 1, name("c.test").wire());
        }
    };
    let rcode = |code| move |answer: &mut Answer| answer.rcode = code;
    let ede = |code| move |answer: &mut Answer| answer.options.push_ede(code, "said");
    type Parts<'a> = &'a [&'a dyn Fn(&mut Answer)];
    let cases: &[(Parts<'_>, Option<u32>)] = &[
        (&[], None),
        (&[&beside], None),
        (&[&a(300), &a(30)], Some(30)),
        (&[&a(300), &beside], Some(300)),
        (&[&a(0)], Some(0)),
        // A time to live with its top bit set is none (RFC 2181 section 8).
        (&[&a(0x8000_0000)], Some(0)),
        (&[&soa(60, 90)], Some(60)),
        (&[&soa(600, 90)], Some(90)),
        (&[&soa(600, 90), &rcode(rcode::NXDOMAIN)], Some(90)),
        // An alias to a name that is not there.
        (&[&a(30), &soa(600, 90), &rcode(rcode::NXDOMAIN)], Some(30)),
        (&[&a(300), &soa(600, 90), &rcode(rcode::NXDOMAIN)], Some(90)),
        (&[&a(300), &rcode(rcode::SERVFAIL)], None),
        (&[&rcode(rcode::REFUSED)], None),
        (&[&a(300), &ede(3)], None),
        (&[&soa(600, 90), &rcode(rcode::NXDOMAIN), &ede(19)], None),
        (&[&a(300), &ede(4)], Some(300)),
    ];
    for (at, (parts, want)) in cases.iter().enumerate() {
        let mut answer = Answer::default();
        parts.iter().for_each(|part| part(&mut answer));
        assert_eq!(freshness(&answer), *want, "case {at}");
    }
}

#[test]
fn json_says_data_as_zone_files_do() {
    let mut query = Vec::new();
    json::query("name=a%5C034.test&type=TXT&do=true&cd=1", &mut query).unwrap();
    let mut request = wire::Request::default();
    let parts = request.read(&query).unwrap();
    assert!(request.edns.dnssec_ok());
    let mut answer = Answer::default();
    answer.flags = request.flags;
    let owner = request.name.clone();
    answer.txt(&owner, 1, 5, b"a\"b\\c\n\xff");
    answer.push(Section::Answer, owner.wire(), rtype::MX, 5, b"\0\x0a\x01m\0");
    answer.push(Section::Answer, owner.wire(), rtype::SRV, 5, b"\0\x01\0\x02\0\x03\x01s\0");
    answer.push(Section::Answer, owner.wire(), 65_280, 5, b"\x01\xab");
    answer.push(Section::Answer, owner.wire(), 65_280, 5, b"");
    answer.options.push_ede(18, "no \"entry\"");
    let reply = wire::Reply {
        query: &query,
        question_len: parts.question_len,
        limit: 65_535,
        edns: &request.edns,
        udp_size: 1232,
        reserve: 0,
        pad: 0,
    };
    let mut message = Vec::new();
    wire::encode(&answer, &reply, &mut message);
    let text = json::page(&message);
    for want in [
        r#""CD":true"#,
        r#""Question":[{"name":"a\\\".test.","type":16}]"#,
        r#""data":"\"a\\\"b\\\\c\\010\\255\"""#,
        r#""data":"10 m.""#,
        r#""data":"1 2 3 s.""#,
        r#""data":"\\# 2 01ab""#,
        r#""data":"\\# 0""#,
        r#""Comment":"EDE 18: no \"entry\"""#,
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
    assert_eq!(json::page(b"short"), "{}");
}

/// Has a listener have TLS, of no use.
static TLS: Descriptor = Descriptor {
    name: "tls",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        setup.listener().tls.push(Tls::new(Arc::new(())));
        Ok(())
    },
};

#[test]
fn doh_16_http3_is_told_of_where_it_is() {
    static PLUGINS: &[&Descriptor] = &[&TLS];
    for (keys, want) in [
        ("https://.:443", None),
        ("https://.:443 https3://.:443", Some("h3=\":443\"; ma=86400")),
        // Another port, but that of the listener first.
        ("https://.:443 https3://.:8443", Some("h3=\":8443\"; ma=86400")),
        ("https://.:443 https3://.:99 https3://.:443", Some("h3=\":443\"; ma=86400")),
        ("https://.:443 quic://.:443", None),
    ] {
        let bench = Bench::new(PLUGINS, &format!("{keys} {{\n tls\n}}\n"));
        let live = bench.gateway.live();
        let https = live.groups().find(|group| group.key.transport == Transport::Https).unwrap();
        let named: (ListenerId, _) = (https.id, https.key);
        let limits = Limits::new(Bounds::default());
        let desk = Desk::new(Arc::clone(&bench.gateway), named, limits, https.spec.clone(), None);
        let got = alt_svc(&live, &desk);
        assert_eq!(got.as_ref().map(|value| value.to_str().unwrap()), want, "{keys}");
    }
}
