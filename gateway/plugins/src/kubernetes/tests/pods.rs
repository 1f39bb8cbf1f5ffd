//! Names of pods in the three modes, what pods say in metadata, and their search path.

use super::{NODATA, NXDOMAIN, bench, table};

/// Pods in two namespaces.
const APPS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: bare}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: apps}
spec: {clusterIP: 10.96.30.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p1, namespace: apps, labels: {app: x, tier: front}}
status: {phase: Running, podIP: 172.16.7.1, podIPs: [{ip: 172.16.7.1}, {ip: 'fd00:b::7:1'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p2, namespace: other}
status: {phase: Running, podIP: 172.16.7.2, podIPs: [{ip: 172.16.7.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: apps}
status: {phase: Succeeded, podIP: 172.16.7.3, podIPs: [{ip: 172.16.7.3}]}
";

/// A block with a mode of pods.
fn corefile(mode: &str) -> String {
    format!("cluster.local {{\n metadata\n kubernetes {{\n manifests .\n {mode}\n }}\n}}\n")
}

#[test]
fn pods_have_no_names_unless_that_is_wanted() {
    for mode in ["", "pods disabled"] {
        let bench = bench(APPS, &corefile(mode));
        table(
            &bench,
            &[
                ("172-16-7-1.apps.pod.cluster.local", NXDOMAIN),
                ("apps.pod.cluster.local", NXDOMAIN),
                ("pod.cluster.local", NODATA),
            ],
        );
    }
}

#[test]
fn insecure_names_give_any_address_of_a_namespace_that_is_there() {
    let bench = bench(APPS, &corefile("pods insecure"));
    table(
        &bench,
        &[
            (
                "172-16-7-1.apps.pod.cluster.local",
                "NOERROR aa rd | 172-16-7-1.apps.pod.cluster.local. 5 A 172.16.7.1",
            ),
            ("172-16-7-1.apps.pod.cluster.local AAAA", NODATA),
            (
                "172-16-7-9.bare.pod.cluster.local",
                "NOERROR aa rd | 172-16-7-9.bare.pod.cluster.local. 5 A 172.16.7.9",
            ),
            ("172-16-7-1.nope.pod.cluster.local", NXDOMAIN),
            ("fd00-b--7-1.apps.pod.cluster.local", NODATA),
            (
                "fd00-b-0-0-0-0-7-1.apps.pod.cluster.local AAAA",
                "NOERROR aa rd | fd00-b-0-0-0-0-7-1.apps.pod.cluster.local. 5 AAAA fd00:b::7:1",
            ),
            ("999-16-7-1.apps.pod.cluster.local", NXDOMAIN),
            ("172.16.7.1.apps.pod.cluster.local", NXDOMAIN),
            ("p1.apps.pod.cluster.local", NXDOMAIN),
            ("apps.pod.cluster.local", NODATA),
            ("nope.pod.cluster.local", NXDOMAIN),
            // Neither do labels in front of an address count, nor has a pod ports.
            ("x.172-16-7-1.apps.pod.cluster.local", NXDOMAIN),
            ("172-16-7-1.apps.pod.cluster.local SRV", NODATA),
        ],
    );
}

#[test]
fn verified_names_give_the_addresses_of_pods() {
    let bench = bench(APPS, &corefile("pods verified"));
    table(
        &bench,
        &[
            (
                "172-16-7-1.apps.pod.cluster.local",
                "NOERROR aa rd | 172-16-7-1.apps.pod.cluster.local. 5 A 172.16.7.1",
            ),
            (
                "fd00-b--7-1.apps.pod.cluster.local AAAA",
                "NOERROR aa rd | fd00-b--7-1.apps.pod.cluster.local. 5 AAAA fd00:b::7:1",
            ),
            ("172-16-7-1.other.pod.cluster.local", NXDOMAIN),
            (
                "172-16-7-2.other.pod.cluster.local",
                "NOERROR aa rd | 172-16-7-2.other.pod.cluster.local. 5 A 172.16.7.2",
            ),
            ("172-16-7-3.apps.pod.cluster.local", NXDOMAIN),
            ("172-16-7-9.bare.pod.cluster.local", NXDOMAIN),
            ("apps.pod.cluster.local", NODATA),
            ("172-16-7-1.apps.pod.cluster.local SRV", NODATA),
        ],
    );
}

#[test]
fn metadata_tells_what_a_name_means_and_who_asks() {
    let corefile = "cluster.local in-addr.arpa {\n metadata\n kubernetes {\n manifests .\n pods verified\n zonal\n }\n}\n";
    let mut bench = bench(APPS, corefile);
    let pod = "172.16.7.1".parse().unwrap();
    let none = "127.0.0.1".parse().unwrap();
    let values = |bench: &engine::testing::Bench, line: &str| {
        let mut x = bench.exchange(line);
        bench.serve(&mut x);
        let live = bench.gateway.live();
        let mut all = Vec::new();
        live.sites()[0].metadata.each(&x, &mut |label, value| {
            all.push(format!("{}={value}", label.strip_prefix("kubernetes/").unwrap()));
        });
        all.join(" ")
    };
    for (line, from, want) in [
        (
            "web.apps.svc.cluster.local",
            pod,
            "endpoint= kind=svc namespace=apps port-name= protocol= service=web zone= client-namespace=apps client-pod-name=p1",
        ),
        (
            "_http._tcp.web.apps.svc.cluster.local SRV",
            none,
            "endpoint= kind=svc namespace=apps port-name=http protocol=tcp service=web zone=",
        ),
        (
            "h0.web.apps.svc.cluster.local",
            none,
            "endpoint=h0 kind=svc namespace=apps port-name= protocol= service=web zone=",
        ),
        (
            "corp.example.pin._zone.web.apps.svc.cluster.local",
            none,
            "endpoint= kind=svc namespace=apps port-name= protocol= service=web zone=corp.example",
        ),
        (
            "172-16-7-1.apps.pod.cluster.local",
            none,
            "endpoint= kind=pod namespace=apps port-name= protocol= service=172-16-7-1 zone=",
        ),
        (
            "cluster.local SOA",
            none,
            "endpoint= kind= namespace= port-name= protocol= service= zone=",
        ),
        ("foo.cluster.local", none, "parse-error=invalid query name"),
        ("1.1.16.172.in-addr.arpa PTR", none, "parse-error=invalid query name"),
    ] {
        bench.from(from);
        assert_eq!(values(&bench, line), want, "{line}");
    }
    bench.from(pod);
    let mut x = bench.exchange("web.apps.svc.cluster.local");
    bench.serve(&mut x);
    let metadata = bench.gateway.live().sites()[0].metadata.clone();
    let mut out = String::new();
    assert!(metadata.value(&x, "kubernetes/client-label/tier", &mut out).is_some());
    assert_eq!(out, "front");
    assert!(metadata.value(&x, "kubernetes/client-label/nope", &mut out).is_none());
}
