//! What is touched by changes: everything that has changed, and after too much of it, everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::IpAddr,
    sync::Arc,
};

use super::store::{Dice, all};
use crate::{Event, Kind, Quiet, Reader, ServiceRef, Store, Touched, Writer};

/// What readers see of a service.
fn shown(service: &ServiceRef<'_>) -> String {
    let ips: Vec<_> = service
        .cluster_ips()
        .chain(service.external_ips())
        .chain(service.load_balancer().ips())
        .collect();
    let names: Vec<_> = service.load_balancer().hostnames().map(<[u8]>::to_vec).collect();
    let mut endpoints: Vec<_> = service
        .endpoints()
        .map(|endpoint| format!("{endpoint:?} {:?}", endpoint.ports().collect::<Vec<_>>()))
        .collect();
    endpoints.sort();
    let (kind, external, ports) = (service.kind(), service.external_name(), service.ports());
    format!("{kind:?} {ips:?} {external:?} {names:?} {:?} {endpoints:?}", ports.collect::<Vec<_>>())
}

/// What readers see of an address.
fn at(reader: &Reader<'_>, ip: IpAddr) -> String {
    let mut found: Vec<String> = reader
        .services_by_ip(ip)
        .chain(reader.services_by_external_ip(ip))
        .map(|service| {
            format!("{service:?} {:?} {}", service.kind(), service.has_ready_endpoints())
        })
        .chain(
            reader
                .endpoints_by_ip(ip)
                .map(|(service, one)| format!("{service:?} {:?} {one:?}", service.kind())),
        )
        .collect();
    found.sort();
    found.join("; ")
}

/// Everything that readers see, by what would be touched if it were another.
fn view(store: &Store) -> BTreeMap<String, String> {
    let reader = store.read();
    let mut view = BTreeMap::new();
    for service in reader.services() {
        let mut key = vec![service.name().len() as u8];
        key.extend(service.name());
        key.push(service.namespace().len() as u8);
        key.extend(service.namespace());
        view.insert(format!("{:?}", Touched::Service(key.into())), shown(&service));
    }
    let v4 = (0..12).map(|last| IpAddr::from([198, 51, 100, last]));
    let v6 = (0..12).map(|last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
    for ip in v4.chain(v6) {
        view.insert(format!("{:?}", Touched::Address(ip)), at(&reader, ip));
    }
    view
}

#[test]
fn whatever_has_changed_was_touched() {
    let mut precise = 0;
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
        let mut mark = store.follow();
        assert_eq!(store.changes(mark), (Some(Vec::new()), mark));
        let mut before = view(&store);
        for _ in 0..30 {
            let told = store.told();
            let mut events = String::new();
            for _ in 0..=dice.throw(3) {
                let kind = Kind::ALL[dice.throw(Kind::COUNT as u64) as usize];
                let event = match dice.throw(12) {
                    0 => Event::Restart(kind),
                    1 => Event::Synced(kind),
                    2..=4 => Event::Delete(dice.key(kind)),
                    _ => Event::Apply(dice.object(kind)),
                };
                writer.apply(&event);
                writeln!(events, "{event:?}").unwrap();
            }
            let after = view(&store);
            let (touched, end) = store.changes(mark);
            if let Some(touched) = touched {
                precise += 1;
                let touched: BTreeSet<String> =
                    touched.iter().map(|one| format!("{one:?}")).collect();
                for key in before.keys().chain(after.keys()) {
                    let is_same = before.get(key) == after.get(key);
                    assert!(is_same || touched.contains(key), "seed {seed}: {key} by {events}");
                }
            }
            assert!(before == after || store.told() != told, "seed {seed}: {events}");
            (before, mark) = (after, end);
        }
    }
    assert!(precise > 4000, "{precise}");
}

#[test]
fn a_mark_that_is_too_old_or_of_another_store_is_not_known() {
    let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
    let (_, other) = Writer::new(all(), Arc::new(Quiet));
    let mark = store.follow();
    assert_eq!(store.changes(other.follow()).0, None);
    assert_ne!(store.id(), other.id());
    let mut dice = Dice(1);
    let mut last = mark;
    // Each event touches few things, and a quarter of a million are kept.
    while store.changes(mark).0.is_some() {
        for _ in 0..2_000 {
            writer.apply(&Event::Apply(dice.object(Kind::Services)));
            writer.apply(&Event::Apply(dice.object(Kind::Slices)));
        }
        assert!(store.changes(last).0.is_some());
        last = store.changes(last).1;
    }
}
