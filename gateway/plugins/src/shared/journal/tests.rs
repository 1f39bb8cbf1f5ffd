//! Units: packed and unpacked, and how they differ.

use wire::{Answer, Name, Section, Srv, rtype};

use super::{Stems, Unit};
use crate::shared::sheet::Sheet;

/// A name from its text.
fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// What the names of the tests end in.
fn stems() -> Stems {
    [name("web.shop.svc.cluster.local"), name("cluster.local")]
}

/// A unit of some addresses, and records of all other kinds.
fn unit(last: &[u8]) -> Unit {
    let mut answer = Answer::default();
    let mut sheet = Sheet::new(&mut answer, 5);
    let own = name("web.shop.svc.cluster.local");
    for last in last {
        sheet.address(Section::Answer, own.wire(), [198, 51, 100, *last].into());
    }
    let zone = name("cluster.local");
    sheet.add(Section::Answer, zone.wire(), rtype::NS, name("ns.dns.cluster.local").wire());
    sheet.add(Section::Answer, zone.wire(), rtype::CNAME, Name::ROOT.wire());
    sheet.add(Section::Answer, own.wire(), rtype::PTR, name("xcluster.local").wire());
    sheet.add(Section::Answer, name("example.org").wire(), rtype::TXT, b"\x03abc");
    let endpoint = own.child(b"web-0").unwrap();
    let numbers = Srv { priority: 0, weight: 50, port: 80 };
    sheet.srv(own.child(b"_tcp").unwrap().wire(), numbers, endpoint.wire());
    sheet.srv(own.wire(), numbers, own.wire());
    Unit::pack(b"\x03web\x04shop", &stems(), &answer)
}

/// The records of a unit, unpacked and in order.
fn unpacked<'u>(records: impl Iterator<Item = super::unit::Record<'u>>) -> Vec<String> {
    let mut buffer = Vec::new();
    let mut all: Vec<String> = records
        .map(|record| {
            record.with(&stems(), &mut buffer, |owner, data| {
                let data = engine::testing::show_data(record.rtype, &data.concat());
                format!("{} {} {} {data}", Name::read(owner).unwrap().0, record.ttl, record.rtype)
            })
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn records_come_out_as_they_went_in() {
    let unit = unit(&[1, 2]);
    assert_eq!(unit.key(), b"\x03web\x04shop");
    assert_eq!(
        unpacked(unit.records()),
        [
            "_tcp.web.shop.svc.cluster.local. 5 33 0 50 80 web-0.web.shop.svc.cluster.local.",
            "cluster.local. 5 2 ns.dns.cluster.local.",
            "cluster.local. 5 5 .",
            "example.org. 5 16 \"abc\"",
            "web.shop.svc.cluster.local. 5 1 198.51.100.1",
            "web.shop.svc.cluster.local. 5 1 198.51.100.2",
            "web.shop.svc.cluster.local. 5 12 xcluster.local.",
            "web.shop.svc.cluster.local. 5 33 0 50 80 web.shop.svc.cluster.local.",
        ]
    );
    assert_eq!(unit.len(), 8);
    // From any record on the rest is the same.
    let first = unit.records().next().unwrap().packed_len();
    assert_eq!(unit.records_from(first).count(), 7);
    assert!(!unit.is_empty() && Unit::empty(b"x").is_empty());
}

#[test]
fn units_differ_by_their_records() {
    let (old, new) = (unit(&[1, 2, 3]), unit(&[4, 3, 1]));
    let own = |last: u8| vec![format!("web.shop.svc.cluster.local. 5 1 198.51.100.{last}")];
    assert_eq!(unpacked(old.without(&new)), own(2));
    assert_eq!(unpacked(new.without(&old)), own(4));
    assert_eq!(new.without(&new).count(), 0);
    assert_eq!(new.without(&Unit::empty(b"")).count(), new.len());
    assert!(old == new && !old.has_same(&new) && old.has_same(&unit(&[3, 2, 1])));
}
