//! A store that shrinks takes less memory, and tells the same.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use crate::{
    Endpoint, Event, Keep, Key, Kind, Meta, Object, Place, Pod, Quiet, Service, Slice, Store,
    Writer,
};

/// How many services there are at first.
const SERVICES: u32 = 20_000;

/// An address.
fn ip(base: u8, number: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(base) << 24 | number).into()
}

/// The name and namespace of an object.
fn meta(name: String) -> Meta<'static> {
    Meta { namespace: "shop".into(), name: name.into(), version: 1 }
}

/// A store of many services with a slice and a pod each.
fn full() -> (Writer, Store) {
    let keep = Keep { endpoints: true, pods: true, ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    let shop = Meta { name: "shop".into(), ..Meta::default() };
    writer.apply(&Event::Apply(Object::Namespace(shop)));
    for number in 0..SERVICES {
        add(&mut writer, number);
    }
    (writer, store)
}

/// Adds a service with its slice and pod.
fn add(writer: &mut Writer, number: u32) {
    let name = format!("svc-{number}");
    let endpoint = Endpoint {
        place: Place::Ip(ip(11, number)),
        ready: true,
        hostname: "".into(),
        pod: "".into(),
        zone: "".into(),
    };
    writer.apply(&Event::Apply(Object::Service(Service {
        meta: meta(name.clone()),
        cluster_ips: vec![ip(10, number)],
        ..Service::default()
    })));
    writer.apply(&Event::Apply(Object::Slice(Slice {
        meta: meta(format!("{name}-x")),
        service: name.into(),
        endpoints: vec![endpoint],
        ..Slice::default()
    })));
    writer.apply(&Event::Apply(Object::Pod(Pod {
        meta: meta(format!("pod-{number}")),
        ips: vec![ip(12, number)],
        ..Pod::default()
    })));
}

/// Deletes what [`add`] added.
fn remove(writer: &mut Writer, number: u32) {
    for (kind, name) in [
        (Kind::Services, format!("svc-{number}")),
        (Kind::Slices, format!("svc-{number}-x")),
        (Kind::Pods, format!("pod-{number}")),
    ] {
        let key = Key { kind, namespace: "shop".into(), name: name.into() };
        writer.apply(&Event::Delete(key));
    }
}

/// Checks that all is told of these numbers, and nothing of the others.
fn check(store: &Store, there: impl Fn(u32) -> bool) {
    let reader = store.read();
    for number in 0..SERVICES {
        let name = format!("svc-{number}");
        let key = [&[name.len() as u8], name.as_bytes(), b"\x04shop"].concat();
        let service = reader.service(&key);
        assert_eq!(service.is_some(), there(number), "{number}");
        assert_eq!(
            service.map_or(0, |service| service.endpoints().count()),
            usize::from(there(number))
        );
        assert_eq!(reader.services_by_ip(ip(10, number)).count(), usize::from(there(number)));
        assert_eq!(reader.endpoints_by_ip(ip(11, number)).count(), usize::from(there(number)));
        assert_eq!(reader.pods_by_ip(ip(12, number)).count(), usize::from(there(number)));
    }
}

/// Bytes that the blocks of a store take.
fn held(store: &Store) -> usize {
    store.read().content.arena.held()
}

#[test]
fn memory_is_given_back_after_deletions_and_nothing_else_changes() {
    let (mut writer, store) = full();
    let before = held(&store);
    (0..SERVICES).filter(|number| number % 10 != 0).for_each(|number| remove(&mut writer, number));
    assert!(held(&store) < before / 3, "{} of {before} bytes", held(&store));
    check(&store, |number| number % 10 == 0);
    // Everything comes back, and goes again from the front.
    (0..SERVICES).filter(|number| number % 10 != 0).for_each(|number| add(&mut writer, number));
    check(&store, |_| true);
    (0..SERVICES - 100).for_each(|number| remove(&mut writer, number));
    check(&store, |number| number >= SERVICES - 100);
}

#[test]
fn a_list_that_names_little_gives_memory_back() {
    let (mut writer, store) = full();
    let before = held(&store);
    for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
        writer.apply(&Event::Restart(kind));
    }
    (0..50).for_each(|number| add(&mut writer, number));
    for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
        writer.apply(&Event::Synced(kind));
    }
    assert!(held(&store) < before / 3, "{} of {before} bytes", held(&store));
    check(&store, |number| number < 50);
    assert!(store.read().content.pods.end() <= 50, "numbers at the end are free");
}
