//! What changes while a query is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use k8s::{Endpoint, Event, Meta, Object, Place, Slice};

use super::exports::{EAST, WEST};
use super::{JUDGED, MADE, TWO, ask, bench};

#[test]
fn a_cluster_is_judged_once_for_a_query() {
    let clusters = [("east", Some(EAST)), ("west", Some(WEST))];
    let bench = bench(&clusters, TWO);
    for line in ["web.shop.svc", "_http._tcp.web.shop.svc", "idle.shop.svc", "nothing.shop.svc"] {
        for kind in ["A", "SRV"] {
            JUDGED.take();
            ask(&bench, &format!("{line}.clusterset.local {kind}"));
            let judged: Vec<_> = JUDGED.take().into_iter().collect();
            assert_eq!(judged, [("east".to_owned(), 1), ("west".to_owned(), 1)], "{line} {kind}");
        }
    }
}

/// Ends what goes on beside a test, also if the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The endpoint of a service that has no others.
fn endpoint(ready: bool) -> Event<'static> {
    let place = Place::Ip([10, 1, 0, 1].into());
    Event::Apply(Object::Slice(Slice {
        meta: Meta { namespace: "shop".into(), name: "idle-1".into(), version: 0 },
        service: "idle".into(),
        cluster: "".into(),
        ports: Vec::new(),
        endpoints: vec![Endpoint {
            place,
            ready,
            hostname: "".into(),
            pod: "".into(),
            zone: "".into(),
        }],
        triggered: "".into(),
    }))
}

#[test]
fn an_exported_service_is_there_while_its_addresses_come_and_go() {
    let bench = bench(&[("east", Some(EAST))], &TWO.replace(" west", ""));
    let taken = MADE.with_borrow_mut(|made| made.get_mut("east").unwrap().writers.pop());
    let (mut writer, _) = taken.unwrap();
    let stop = AtomicBool::new(false);
    let wrong = thread::scope(|scope| {
        scope.spawn(|| {
            let mut ready = false;
            while !stop.load(Ordering::Relaxed) {
                ready = !ready;
                writer.apply(&endpoint(ready));
            }
        });
        let _stop = Stop(&stop);
        let replies = (0..20_000).map(|_| ask(&bench, "idle.shop.svc.clusterset.local A"));
        replies.filter(|reply| !reply.starts_with("NOERROR")).collect::<Vec<_>>()
    });
    assert!(wrong.is_empty(), "{} replies such as {}", wrong.len(), wrong[0]);
}
