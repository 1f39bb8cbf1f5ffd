//! Exports that do not go together: the eldest decides, and the conflict is counted.

use std::sync::Arc;
use std::time::Duration;

use super::super::conflicts::{Seen, Watch};
use super::super::member::unix_time;
use super::{NODATA, ask, bench, refuse, table};

/// Manifests of one service and its export.
macro_rules! cluster {
    ($ip:literal, $ports:literal, $created:literal, $endpoint:literal) => {
        concat!(
            "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: ", $ip, ", ports: ", $ports,
            "}, status: {loadBalancer: {ingress: [{ip: ", $endpoint, "}]}}}\n---\n",
            "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}, ",
            "addressType: IPv4, endpoints: [{addresses: [", $endpoint, "]}], ports: ", $ports, "}\n---\n",
            "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: web, namespace: shop, creationTimestamp: '", $created, "'}}\n"
        )
    };
}

/// An old export.
pub(super) const OLD: &str = cluster!(
    "10.96.0.1",
    "[{name: http, port: 80}, {name: dns, port: 53}]",
    "2026-01-01T00:00:00Z",
    "203.0.113.1"
);
/// A newer one with other ports.
pub(super) const PORTS: &str = cluster!(
    "10.96.0.2",
    "[{name: http, port: 8080}, {name: domain, port: 53}, {name: sctp, port: 132, protocol: SCTP}]",
    "2026-01-02T00:00:00Z",
    "203.0.113.2"
);
/// A newer one that is headless.
pub(super) const HEADLESS: &str = cluster!(
    "None",
    "[{name: http, port: 80}, {name: dns, port: 53}]",
    "2026-01-03T00:00:00Z",
    "203.0.113.3"
);
/// One that goes with the old one.
const SAME: &str = cluster!(
    "10.96.0.4",
    "[{name: dns, port: 53}, {name: http, port: 80}]",
    "2026-01-04T00:00:00Z",
    "203.0.113.4"
);

/// One that goes with it too: a port stands there twice.
const TWICE: &str = cluster!(
    "10.96.0.5",
    "[{name: dns, port: 53}, {name: http, port: 80}, {name: http, port: 80}]",
    "2026-01-05T00:00:00Z",
    "203.0.113.5"
);

/// A Corefile for these clusters.
fn corefile(zone: &str, names: &str, reach: &str) -> String {
    format!("{zone} {{\n clusterset {{\n  cluster {names}\n  {reach}\n }}\n}}\n")
}

#[test]
fn ports_are_united_and_the_elder_wins() {
    let clusters = [("new", Some(PORTS)), ("old", Some(OLD))];
    let bench = bench(&clusters, &corefile("clusterset.local", "new old", "reach loadbalancer"));
    let glue = " |  | web.shop.svc.clusterset.local. 5 A 203.0.113.1; web.shop.svc.clusterset.local. 5 A 203.0.113.2";
    let srv = |name: &str, port: u16| {
        format!(
            "NOERROR aa rd | {name}.web.shop.svc.clusterset.local. 5 SRV 0 100 {port} web.shop.svc.clusterset.local.{glue}"
        )
    };
    table(
        &bench,
        &[
            (
                "web.shop.svc.clusterset.local A",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 203.0.113.1; web.shop.svc.clusterset.local. 5 A 203.0.113.2",
            ),
            ("_http._tcp.web.shop.svc.clusterset.local SRV", &srv("_http._tcp", 80)),
            ("_dns._tcp.web.shop.svc.clusterset.local SRV", &srv("_dns._tcp", 53)),
            ("_sctp._sctp.web.shop.svc.clusterset.local SRV", &srv("_sctp._sctp", 132)),
            // The number is that of the elder's port of another name.
            ("_domain._tcp.web.shop.svc.clusterset.local SRV", super::NXDOMAIN),
        ],
    );
    let all = ask(&bench, "web.shop.svc.clusterset.local SRV");
    assert_eq!(all.matches(" SRV 0 33 ").count(), 3, "{all}");
}

#[test]
fn the_eldest_says_whether_the_service_is_headless() {
    let clusters = [("bare", Some(HEADLESS)), ("old", Some(OLD))];
    let reach = "reach clusterip";
    let first = bench(&clusters, &corefile("clusterset.local", "bare old", reach));
    table(
        &first,
        &[(
            "web.shop.svc.clusterset.local A",
            "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.96.0.1",
        )],
    );
    let later = bench(
        &[("bare", Some(HEADLESS)), ("same", Some(SAME))],
        &corefile("clusterset.local", "same bare", reach),
    );
    table(
        &later,
        &[(
            "web.shop.svc.clusterset.local A",
            "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 203.0.113.3; web.shop.svc.clusterset.local. 5 A 203.0.113.4",
        )],
    );
}

#[test]
fn ways_are_tried_in_order_over_all_clusters() {
    let clusters = [("bare", Some(HEADLESS)), ("old", Some(OLD))];
    for (reach, want) in [
        ("reach externalip clusterip", "10.96.0.1"),
        (
            "reach externalip loadbalancer",
            "203.0.113.1; web.shop.svc.clusterset.local. 5 A 203.0.113.3",
        ),
    ] {
        let bench = bench(&clusters, &corefile("clusterset.local", "bare old", reach));
        let want = format!("NOERROR aa rd | web.shop.svc.clusterset.local. 5 A {want}");
        table(&bench, &[("web.shop.svc.clusterset.local A", &want)]);
    }
    let none = bench(&clusters, &corefile("clusterset.local", "bare old", "reach externalip"));
    table(
        &none,
        &[
            ("web.shop.svc.clusterset.local A", NODATA),
            ("_http._tcp.web.shop.svc.clusterset.local SRV", NODATA),
            ("_x._tcp.web.shop.svc.clusterset.local SRV", super::NXDOMAIN),
        ],
    );
}

/// What the metrics say of conflicts in a zone.
fn counted(zone: &str, kind: &str) -> Option<f64> {
    let start = format!("causeway_clusterset_conflicts{{kind=\"{kind}\",zone=\"{zone}.\"}} ");
    let text = engine::metrics::render();
    text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
}

#[tokio::test]
async fn conflicts_are_counted_and_told() {
    for (zone, other, types, ports, told) in [
        ("a.example.org", SAME, 0.0, 0.0, None),
        ("d.example.org", TWICE, 0.0, 0.0, None),
        (
            "b.example.org",
            PORTS,
            0.0,
            1.0,
            Some("exports of shop/web by old, other differ in ports"),
        ),
        (
            "c.example.org",
            HEADLESS,
            1.0,
            0.0,
            Some(
                "exports of shop/web by old, other differ in type: it is not headless, as the eldest has it, that of old",
            ),
        ),
    ] {
        let set = super::made(
            &[("old", Some(OLD)), ("other", Some(other))],
            &corefile(zone, "old other", ""),
        );
        let mut watch = Watch::new(Arc::clone(&set));
        watch.look().await;
        assert_eq!(
            (counted(zone, "type"), counted(zone, "port")),
            (Some(types), Some(ports)),
            "{zone}"
        );
        let known: Vec<_> = watch.told().collect();
        match told {
            None => assert!(known.is_empty(), "{known:?}"),
            Some(start) => assert!(known.len() == 1 && known[0].starts_with(start), "{known:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_kept_from_us_and_then_gone_is_looked_at_each_time() {
    let zone = corefile("e.example.org", "old same", "namespaces shop other");
    let set = super::made(&[("old", Some(OLD)), ("same", Some(SAME))], &zone);
    let began = unix_time();
    let member = &set.members[0];
    let hour = || Seen::of(member, Duration::from_secs(3600));
    let live = hour();
    refuse("old", "shop");
    assert_eq!(hour(), live);
    tokio::time::advance(Duration::from_secs(11)).await;
    let kept = hour();
    assert_ne!(kept, live);
    assert_eq!(hour(), kept);
    // That is a matter of the system's clock.
    while unix_time() <= began {
        std::thread::sleep(Duration::from_millis(20));
    }
    let gone = Seen::of(member, Duration::ZERO);
    assert!(gone != kept && gone != live, "{gone:?}");
}
