//! Names and messages there and back.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use crate::*;

/// A query for `name` and `rtype` with id 0x1234, RD, and an OPT record if a size is given.
fn query(name: &str, qtype: u16, size: Option<u16>) -> Vec<u8> {
    let mut request = Request { name: name.parse().unwrap(), rtype: qtype, ..Request::default() };
    request.flags = Flags::RD;
    request.edns.present = size.is_some();
    request.edns.size = size.unwrap_or(0);
    let mut out = Vec::new();
    encode_query(&request, 0x1234, &mut out);
    out
}

/// Encodes `answer` as the reply to `query`.
fn reply(answer: &Answer, query: &[u8], limit: usize) -> Vec<u8> {
    let mut request = Request::default();
    let parts = request.read(query).unwrap();
    let mut out = vec![0xee; 7];
    let how = Reply {
        query,
        question_len: parts.question_len,
        limit,
        edns: &request.edns,
        udp_size: request.edns.size,
        reserve: 0,
        pad: 0,
    };
    encode(answer, &how, &mut out);
    out.split_off(7)
}

#[test]
fn names_are_read_and_written_with_their_escapes() {
    for (text, shown) in [
        (".", "."),
        ("", "."),
        ("Example.ORG", "example.org."),
        (r"a\.b.example.", r"a\.b.example."),
        (r"\065\000.x", r"a\000.x."),
        ("*.x", "*.x."),
        (r"\\.x", r"\\.x."),
    ] {
        assert_eq!(Name::parse(text).unwrap().to_string(), shown, "{text}");
    }
    for bad in ["..", "a..b", ".a", r"\", r"\25", r"\999", &"a".repeat(64), &"abcdefg.".repeat(32)]
    {
        assert!(Name::parse(bad).is_none(), "{bad}");
    }
    assert!(Name::parse(&"abcdefg.".repeat(31)).is_some());
}

#[test]
fn suffixes_stop_at_label_boundaries() {
    let name = Name::parse("a.bc.example").unwrap();
    assert_eq!(name.below(&"bc.example".parse().unwrap()), Some(&b"\x01a"[..]));
    assert_eq!(name.below(&"c.example".parse().unwrap()), None);
    assert_eq!(name.below(&name), Some(&b""[..]));
    // A label that holds the bytes of another name's end.
    let sly = Name::read(b"\x0bx\x07example\x00x\x00").unwrap().0;
    assert_eq!(sly.below(&"example".parse().unwrap()), None);
}

#[test]
fn what_is_encoded_is_read_back() {
    let owner: Name = "web.shop.svc.cluster.local".parse().unwrap();
    let mut answer = Answer::default();
    answer.flags.set(Flags::RD, true);
    answer.set_authoritative(true);
    answer.a(&owner, 30, Ipv4Addr::new(198, 51, 100, 1));
    answer.a(&owner, 30, Ipv4Addr::new(198, 51, 100, 2));
    answer.srv(&owner, 30, Srv { priority: 0, weight: 50, port: 80 }, owner.wire());
    let zone: Name = "cluster.local".parse().unwrap();
    let mbox = zone.child(b"hostmaster").unwrap();
    answer.soa(Section::Authority, zone.wire(), 5, owner.wire(), mbox.wire(), [1, 2, 3, 4, 5]);
    answer.options.push_ede(15, "why");
    let wire = reply(&answer, &query("WEB.shop.svc.cluster.local", rtype::A, Some(1232)), 1232);
    let mut read = Answer::default();
    let head = scan::read(&wire, &mut read).unwrap();
    assert_eq!((head.id, head.edns.size), (0x1234, 1232));
    assert!(head.flags.has(Flags::AA.with(Flags::RD).with(Flags::QR)));
    assert_eq!(read.records().len(), 4);
    for (one, other) in answer.records().iter().zip(read.records()) {
        assert!(answer.owner(one).eq_ignore_ascii_case(read.owner(other)));
        assert!(answer.data(one).eq_ignore_ascii_case(read.data(other)));
        assert_eq!((one.rtype, one.ttl, one.section), (other.rtype, other.ttl, other.section));
    }
    assert_eq!(read.options.get(option::EDE), Some(&b"\x00\x0fwhy"[..]));
}

#[test]
fn short_room_drops_additional_sets_first_and_marks_only_real_loss() {
    let owner: Name = "mx.example.org".parse().unwrap();
    let mut answer = Answer::default();
    answer.a(&owner, 30, Ipv4Addr::LOCALHOST);
    for last in 0..40 {
        answer.address(
            Section::Additional,
            owner.parent().wire(),
            30,
            Ipv4Addr::new(198, 51, 100, last).into(),
        );
    }
    let wire = reply(&answer, &query("mx.example.org", rtype::A, None), 512);
    let mut read = Answer::default();
    let head = scan::read(&wire, &mut read).unwrap();
    assert!(!head.flags.has(Flags::TC));
    assert_eq!(read.records().len(), 1);
    answer.records_mut().iter_mut().for_each(|rr| rr.section = Section::Answer);
    let wire = reply(&answer, &query("mx.example.org", rtype::A, None), 512);
    let head = scan::read(&wire, &mut read).unwrap();
    assert!(head.flags.has(Flags::TC) && wire.len() <= 512 && read.records().len() > 20);
}

#[test]
fn malformed_queries_get_what_they_should() {
    let good = query("example.org", rtype::A, Some(1232));
    let mut request = Request::default();
    assert_eq!(request.read(&good[..11]), Err(Bad::Drop));
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    let question_len = 17;
    for (wire, want) in [
        (with(2, 0x80), Bad::Drop),
        (with(2, 0x10), Bad::Reply { rcode: rcode::NOTIMP, question_len: 0 }),
        (with(5, 0), Bad::Reply { rcode: rcode::FORMERR, question_len: 0 }),
        (with(5, 2), Bad::Reply { rcode: rcode::FORMERR, question_len: 0 }),
        (with(11, 2), Bad::Reply { rcode: rcode::FORMERR, question_len }),
        (with(12, 0x40), Bad::Reply { rcode: rcode::FORMERR, question_len: 0 }),
        (with(35, 1), Bad::Reply { rcode: rcode::BADVERS, question_len }),
    ] {
        assert_eq!(request.read(&wire), Err(want), "{wire:02x?}");
    }
}

#[test]
fn reading_never_runs_away() {
    let mut pointers = vec![0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1];
    assert!(scan::read(&pointers, &mut Answer::default()).is_err());
    pointers[13] = 14;
    assert!(scan::read(&pointers, &mut Answer::default()).is_err());
}

#[test]
fn a_message_is_as_long_as_its_parts_uncompressed() {
    let owner: Name = "x.a.test".parse().unwrap();
    let mut answer = Answer::default();
    assert_eq!(answer.message_len(14), 26);
    answer.a(&owner, 0, Ipv4Addr::LOCALHOST);
    assert_eq!(answer.message_len(14), 26 + 10 + 10 + 4);
    let wire = reply(&answer, &query("x.a.test", rtype::A, Some(1232)), 512);
    let mut read = Answer::default();
    scan::read(&wire, &mut read).unwrap();
    assert_eq!(read.message_len(14), 50 + 11);
    answer.copy_from(&read);
    assert_eq!(answer.message_len(14), 50);
    answer.options.push(option::NSID, b"ab");
    assert_eq!(answer.message_len(14), 50 + 11 + 6);
}

#[test]
fn data_has_the_form_of_its_type() {
    let read = |rtype: u16, class: u16, data: &[u8]| {
        let mut wire = vec![0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        wire.extend_from_slice(&rtype.to_be_bytes());
        wire.extend_from_slice(&class.to_be_bytes());
        wire.extend_from_slice(&[0, 0, 0, 60]);
        wire.extend_from_slice(&(data.len() as u16).to_be_bytes());
        wire.extend_from_slice(data);
        // Another record behind it must not be read into.
        wire.extend_from_slice(&[1, b'x', 0, 0]);
        scan::read(&wire, &mut Answer::default()).is_ok()
    };
    // Each with data that is right; an octet less or more is wrong unless the form has an open end.
    let right: &[(u16, &[u8], bool)] = &[
        (rtype::A, &[198, 51, 100, 1], false),
        (rtype::AAAA, &[0; 16], false),
        (rtype::NS, b"\x01a\x00", false),
        (rtype::CNAME, b"\x00", false),
        (rtype::PTR, b"\x01a\x00", false),
        (rtype::DNAME, b"\x01a\x00", false),
        (rtype::SOA, &[0; 22], false),
        (rtype::HINFO, b"\x01a\x01b", false),
        (rtype::MINFO, b"\x01a\x00\x01b\x00", false),
        (rtype::MX, b"\x00\x0a\x01a\x00", false),
        (rtype::TXT, b"\x01a\x02bc", true),
        (rtype::RP, b"\x00\x01a\x00", false),
        (rtype::AFSDB, b"\x00\x01\x01a\x00", false),
        (rtype::SRV, b"\x00\x00\x00\x00\x00\x50\x01a\x00", false),
        (rtype::NAPTR, b"\x00\x00\x00\x00\x01s\x00\x00\x01a\x00", false),
        (rtype::NSEC, b"\x01a\x00\x00\x01\x40", false),
        (rtype::NSEC3PARAM, b"\x01\x00\x00\x00\x01a", false),
        (rtype::NSEC3, b"\x01\x00\x00\x00\x00\x01a\x00\x01\x40", false),
        (rtype::HTTPS, b"\x00\x01\x00\x00\x03\x00\x02\x01\xbb", false),
        (rtype::SVCB, b"\x00\x01\x01a\x00", false),
        (29, &[0; 16], false),
        (42, &[0, 1, 24, 3, 198, 51, 100], false),
        (62, b"\x00\x00\x00\x01\x00\x03\x00\x01\x40", false),
        (104, &[0; 10], false),
        (105, &[0; 6], false),
        (107, b"\x00\x01\x01a\x00", false),
        (108, &[0; 6], false),
        (109, &[0; 8], false),
    ];
    for (rtype, data, open) in right {
        assert!(read(*rtype, 1, data), "TYPE{rtype} {data:?}");
        let more = [*data, &[0]].concat();
        let less = &data[..data.len() - 1];
        assert_eq!(read(*rtype, 1, &more), *open, "TYPE{rtype} more");
        assert!(!read(*rtype, 1, less), "TYPE{rtype} less");
        // RFC 3123 §4: a list of no prefix is one.
        assert_eq!(read(*rtype, 1, &[]), *rtype == 42, "TYPE{rtype} empty");
        assert!(read(*rtype, 255, &[]), "TYPE{rtype} of any class");
    }
    for (rtype, data, least) in [
        (rtype::RRSIG, &[0; 20][..], 19),
        (rtype::DNSKEY, &[0; 5], 4),
        (rtype::DS, &[0; 6], 4),
        (52, &[0; 4], 3),
        (256, b"\x00\x01\x00\x01x", 4),
        (257, b"\x00\x05issuex", 7),
    ] {
        assert!(read(rtype, 1, data), "TYPE{rtype}");
        assert!(read(rtype, 1, &data[..least]), "TYPE{rtype}");
        assert!(!read(rtype, 1, &data[..least - 1]), "TYPE{rtype}");
    }
    for (rtype, wrong) in [
        (rtype::NSEC, &b"\x01a\x00\x00\x00"[..]),
        (rtype::NSEC, b"\x01a\x00\x00\x21"),
        (rtype::NSEC, b"\x01a\x00\x01\x01\x40\x00\x01\x40"),
        (rtype::HTTPS, b"\x00\x01\xc0\x0c"),
        (rtype::HTTPS, b"\x00\x01\x00\x00\x03\x00\x09\x01"),
        (rtype::TXT, b"\x05a"),
        (rtype::MX, b"\x00\x0a\x02a\x00"),
    ] {
        assert!(!read(rtype, 1, wrong), "TYPE{rtype} {wrong:?}");
    }
    // What is not known, or of another class, has any form.
    for (rtype, class) in [(65280, 1), (10, 1), (61, 1), (rtype::A, 3)] {
        assert!(read(rtype, class, &[]) && read(rtype, class, &[1, 2, 3]), "TYPE{rtype}");
    }
}
