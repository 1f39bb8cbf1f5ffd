//! Incremental transfers: applied to what a client has, they give what it would get whole.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::testing::Bench;
use k8s::{
    Endpoint, Event, Key, Kind, Meta, Object, Place, Port, Protocol, Service, ServiceKind, Slice,
};
use wire::{Answer, Section, rtype, scan};

use super::{apply, apply_in, bench, union};

/// A record: owner, type, time to live, data.
type Record = (Vec<u8>, u16, u32, Vec<u8>);

/// A small generator with a seed, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    /// Throws a number below `below`.
    fn throw(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Throws one of these.
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.throw(of.len() as u64) as usize]
    }

    /// Throws ports.
    fn ports(&mut self) -> Vec<Port<'static>> {
        let protocols = [Protocol::Tcp, Protocol::Udp];
        let mut port = |_| Port {
            name: self.one(&["", "http", "dns"]).into(),
            protocol: self.one(&protocols),
            number: self.one(&[80, 81]),
        };
        (0..2).map(&mut port).collect()
    }

    /// Throws an event.
    fn event(&mut self) -> Event<'static> {
        let namespace = self.one(&["shop", "edge"]);
        let name = self.one(&["web", "db", "api"]);
        let meta = |name: &'static str| Meta {
            namespace: namespace.into(),
            name: name.into(),
            version: 0,
        };
        match self.throw(20) {
            0 => Event::Delete(Key {
                kind: Kind::Namespaces,
                namespace: "".into(),
                name: namespace.into(),
            }),
            1..=2 => {
                Event::Apply(Object::Namespace(Meta { name: namespace.into(), ..Meta::default() }))
            }
            3..=4 => Event::Delete(Key {
                kind: Kind::Services,
                namespace: namespace.into(),
                name: name.into(),
            }),
            5..=6 => Event::Delete(Key {
                kind: Kind::Slices,
                namespace: namespace.into(),
                name: self.one(&["s1", "s2", "s3"]).into(),
            }),
            7..=12 => {
                let kind = self.one(&[
                    ServiceKind::ClusterIp,
                    ServiceKind::ClusterIp,
                    ServiceKind::Headless,
                    ServiceKind::ExternalName,
                ]);
                let own = format!("198.51.100.{}", self.throw(40)).parse().unwrap();
                // Each in a unit of its own.
                let external = format!("203.0.113.{}", 16 * self.throw(3)).parse().unwrap();
                let is_clustered = kind == ServiceKind::ClusterIp;
                Event::Apply(Object::Service(Service {
                    meta: meta(name),
                    kind,
                    selector: true,
                    cluster_ips: if is_clustered { vec![own] } else { Vec::new() },
                    external_name: match kind {
                        ServiceKind::ExternalName => {
                            self.one(&["www.example.org", "web.shop.svc.cluster.local"]).into()
                        }
                        _ => "".into(),
                    },
                    external_ips: if self.throw(2) == 0 { vec![external] } else { Vec::new() },
                    balancer_ips: Vec::new(),
                    balancer_names: Vec::new(),
                    ports: self.ports(),
                }))
            }
            _ => {
                let endpoints = (0..self.throw(4)).map(|_| Endpoint {
                    place: match self.throw(12) {
                        0 => Place::Name("node.example.org".into()),
                        _ => Place::Ip(format!("198.51.100.{}", self.throw(40)).parse().unwrap()),
                    },
                    ready: self.throw(4) > 0,
                    hostname: self.one(&["", "", "db-0"]).into(),
                    pod: "".into(),
                    zone: "".into(),
                });
                let endpoints = endpoints.collect();
                Event::Apply(Object::Slice(Slice {
                    meta: meta(self.one(&["s1", "s2", "s3"])),
                    service: name.into(),
                    cluster: "".into(),
                    ports: self.ports(),
                    endpoints,
                    triggered: "".into(),
                }))
            }
        }
    }
}

/// The records of a transfer, in order; since a serial if one is given.
pub(crate) async fn copied(bench: &Bench, zone: &str, since: Option<u32>) -> Vec<Record> {
    let kind = if since.is_some() { "IXFR" } else { "AXFR" };
    let mut x = bench.exchange(&format!("{zone} {kind} +tcp"));
    if let Some(since) = since {
        x.query.wire[9] = 1;
        let numbers = [since, 1, 1, 1, 1].map(u32::to_be_bytes);
        x.query.wire.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
        x.query.wire.extend_from_slice(numbers.as_flattened());
    }
    let mut records = Vec::new();
    let mut out = Vec::new();
    if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
        live.complete(&mut x, &mut out).await;
    }
    loop {
        let mut answer = Answer::default();
        scan::read(&out, &mut answer).unwrap();
        assert_eq!(answer.rcode, 0, "{zone}");
        for rr in answer.section(Section::Answer) {
            let (owner, data) = (answer.owner(rr).to_vec(), answer.data(rr).to_vec());
            records.push((owner, rr.rtype, rr.ttl, data));
        }
        out.clear();
        if !x.more(65535, &mut out) {
            return records;
        }
    }
}

/// The serial of an SOA record.
fn serial((_, _, _, data): &Record) -> u32 {
    u32::from_be_bytes(data[data.len() - 20..data.len() - 16].try_into().unwrap())
}

/// A zone as a client has it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Mirror {
    serial: u32,
    records: BTreeSet<Record>,
}

impl Mirror {
    /// A whole transfer.
    fn whole(transfer: &[Record]) -> Self {
        let [soa, records @ .., last] = transfer else { panic!("{transfer:?}") };
        assert!(soa.1 == rtype::SOA && soa == last);
        let set: BTreeSet<Record> = records.iter().cloned().collect();
        assert_eq!(set.len(), records.len(), "a record comes twice");
        assert!(records.iter().all(|record| record.1 != rtype::SOA));
        Self { serial: serial(soa), records: set }
    }

    /// Applies a transfer (RFC 1995 §4); says whether it was an incremental one.
    fn apply(&mut self, transfer: &[Record]) -> bool {
        if let [soa] = transfer {
            assert_eq!(serial(soa), self.serial);
            return false;
        }
        if transfer[1].1 != rtype::SOA {
            *self = Self::whole(transfer);
            return false;
        }
        let [soa, changes @ .., last] = transfer else { panic!("{transfer:?}") };
        assert_eq!(soa, last);
        assert_eq!(serial(&changes[0]), self.serial);
        let mut is_removing = false;
        for record in changes {
            if record.1 == rtype::SOA {
                is_removing = !is_removing;
                self.serial = serial(record);
            } else if is_removing {
                assert!(self.records.remove(record), "{record:?} was not there");
            } else {
                assert!(self.records.insert(record.clone()), "{record:?} was there");
            }
        }
        assert_eq!(self.serial, serial(soa));
        true
    }
}

/// The block of the tests: a zone of services, one of addresses, and one of what is shown outside.
const COREFILE: &str = "cluster.local 100.51.198.in-addr.arpa example.org {
 transfer {
  to *
 }
 k8s_external example.org {
  headless
 }
 kubernetes cluster.local 100.51.198.in-addr.arpa {
  manifests .
  ignore empty_service
 }
}
";

/// Something to begin with.
const START: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}";

/// A block over two clusters: a zone of services, one of addresses, and both of what is shown outside.
const UNION: &str = "k8s.test 100.51.198.in-addr.arpa example.org 113.0.203.in-addr.arpa {
 transfer {
  to *
 }
 k8s_external example.org 113.0.203.in-addr.arpa {
  headless
 }
 kubernetes k8s.test 100.51.198.in-addr.arpa {
  cluster prod stage
  ignore empty_service
 }
}
";

/// Has events come and follows the zones by differences; gives how many transfers were incremental, and how many were not.
async fn follow(
    bench: &Bench,
    zones: &[&'static str],
    (seed, dice): (u64, &mut Dice),
    apply: impl Fn(&mut Dice),
) -> (usize, usize) {
    let mut counts = (0, 0);
    // Enough that differences are smaller than the zones.
    (0..60).for_each(|_| apply(dice));
    let mut old: BTreeMap<&str, Vec<Mirror>> = BTreeMap::new();
    for zone in zones {
        old.insert(zone, vec![Mirror::whole(&copied(bench, zone, None).await)]);
    }
    for round in 0..40 {
        (0..dice.throw(4)).for_each(|_| apply(dice));
        tokio::time::advance(Duration::from_millis(1001)).await;
        for (zone, copies) in &mut old {
            let whole = Mirror::whole(&copied(bench, zone, None).await);
            let back = dice.one(&[1, 1, 1, 2, 5]);
            let mut own = copies[copies.len().saturating_sub(back)].clone();
            let is_incremental = own.apply(&copied(bench, zone, Some(own.serial)).await);
            assert!(own == whole, "{zone}, seed {seed}, round {round}:\n{own:?}\n{whole:?}");
            if is_incremental {
                counts.0 += 1
            } else {
                counts.1 += 1
            }
            let last = copies.last().unwrap();
            assert_eq!(last.records == whole.records, last.serial == whole.serial, "{zone}");
            if last.serial != whole.serial {
                copies.push(whole);
            }
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn differences_lead_from_any_copy_to_the_newest() {
    let mut incremental = 0;
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let zones = ["cluster.local", "100.51.198.in-addr.arpa", "example.org"];
        let bench = bench(START, COREFILE);
        let counts = follow(&bench, &zones, (seed, &mut dice), |dice| apply(&dice.event())).await;
        incremental += counts.0;
    }
    assert!(incremental > 300, "{incremental}");
}

#[tokio::test(start_paused = true)]
async fn so_do_those_of_several_clusters() {
    let mut incremental = 0;
    for seed in 0..6 {
        let mut dice = Dice(seed);
        let zones =
            ["k8s.test", "100.51.198.in-addr.arpa", "example.org", "113.0.203.in-addr.arpa"];
        let bench = union(&[("prod", Some(START)), ("stage", Some(START))], UNION);
        let counts = follow(&bench, &zones, (seed, &mut dice), |dice| {
            apply_in(dice.throw(2) as usize, &dice.event());
        });
        incremental += counts.await.0;
    }
    assert!(incremental > 200, "{incremental}");
}

#[tokio::test(start_paused = true)]
async fn a_serial_that_is_not_known_gets_the_whole_zone() {
    let bench = bench(START, COREFILE);
    let first = Mirror::whole(&copied(&bench, "cluster.local", None).await);
    let other = copied(&bench, "cluster.local", Some(first.serial.wrapping_sub(1))).await;
    assert_eq!(Mirror::whole(&other), first);
    // One from before the journal, one that is ahead.
    let same = copied(&bench, "cluster.local", Some(first.serial)).await;
    let ahead = copied(&bench, "cluster.local", Some(first.serial.wrapping_add(9))).await;
    assert!(same.len() == 1 && same == ahead, "{same:?} {ahead:?}");
}

/// Of the serial: every published state has its own, later than all before it.
#[tokio::test(start_paused = true)]
async fn two_changes_in_one_second_are_two_serials_or_one_publication() {
    let mut bench = bench(START, COREFILE);
    let first = Mirror::whole(&copied(&bench, "cluster.local", None).await);
    let mut dice = Dice(1);
    let mut last = first.clone();
    for _ in 0..30 {
        (0..3).for_each(|_| apply(&dice.event()));
        tokio::time::advance(Duration::from_millis(300)).await;
        let now = Mirror::whole(&copied(&bench, "cluster.local", None).await);
        assert_eq!(now.records == last.records, now.serial == last.serial);
        assert!(now.serial.wrapping_sub(last.serial) <= 1);
        last = now;
    }
    assert!((3..=10).contains(&last.serial.wrapping_sub(first.serial)), "{first:?} {last:?}");
    // A reload goes on, with other records too.
    bench.reload(COREFILE).unwrap();
    let same = Mirror::whole(&copied(&bench, "cluster.local", None).await);
    assert!(same.serial.wrapping_sub(last.serial) < 1 << 31);
    bench.reload(&COREFILE.replace("manifests .", "manifests .\n ttl 7")).unwrap();
    let other = Mirror::whole(&copied(&bench, "cluster.local", None).await);
    let ahead = other.serial.wrapping_sub(same.serial);
    assert!(ahead > 0 && ahead < 1 << 31, "{same:?} {other:?}");
}
