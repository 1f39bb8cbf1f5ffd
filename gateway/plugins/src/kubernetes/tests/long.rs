//! Zones longer than the cluster's own domain.

use engine::testing::show;

use super::{ask, union};
use crate::shared::testing::{logged, logged_by_any};

/// Services that stand for names of the cluster's own domain, which have no room in a long zone.
const LONG: &str = "
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.web.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: cloud, namespace: shop}
spec: {clusterIP: 10.96.10.12, ports: [{name: http, port: 80}]}
status: {loadBalancer: {ingress: [{hostname: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.web.shop.svc.cluster.local}]}}
---
apiVersion: v1
kind: Service
metadata: {name: named, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: named-1, namespace: shop, labels: {kubernetes.io/service-name: named}}
addressType: FQDN
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.web.shop.svc.cluster.local]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.10}
";

#[tokio::test]
async fn a_name_whose_target_has_no_room_is_there() {
    logged();
    let zone = format!("{0}.{0}", "z".repeat(57));
    let corefile = format!(
        "cluster://k {{\n}}\n{zone} {{\n transfer {{\n to *\n }}\n kubernetes {{\n cluster k\n reach loadbalancer clusterip endpoints\n }}\n}}\n"
    );
    let bench = union(&[("k", Some(LONG))], &corefile);
    let said = "EDE 0 the name that it stands for is too long in this zone";
    let nodata = format!("NOERROR aa rd |  | SOA({zone}. 5)");
    for name in ["out", "cloud", "named"] {
        for rtype in ["A", "AAAA", "CNAME", "MX"] {
            let reply = ask(&bench, &format!("{name}.shop.svc.{zone} {rtype} +edns"));
            assert_eq!(reply, format!("{nodata} | {said}"), "{name} {rtype}");
        }
    }
    let below = format!("_http._tcp.cloud.shop.svc.{zone}");
    assert_eq!(ask(&bench, &format!("{below} SRV +edns")), format!("{nodata} | {said}"));
    assert_eq!(ask(&bench, &below), nodata);
    let args = [format!("out.shop.svc.{zone}")];
    let inquiry = engine::explain::Inquiry::read(&args).unwrap();
    let report = engine::explain::explain(&bench.gateway.live(), &inquiry).await.unwrap();
    let told = report.to_text();
    assert!(told.contains("there, but the name that it stands for is too long"), "{told}");
    // A copy has what there is, and the log the rest.
    for _ in 0..2 {
        let copy = bench.messages(&format!("{zone} AXFR +tcp")).await;
        let copy = copy.iter().map(|message| show(message)).collect::<String>();
        assert!(copy.contains("A 10.96.0.10") && !copy.contains("CNAME"), "{copy}");
    }
    let lines = logged_by_any("shop.svc.zzz");
    assert!(matches!(&lines[..], [one] if one.contains(&said[6..])), "{lines:?}");
}
