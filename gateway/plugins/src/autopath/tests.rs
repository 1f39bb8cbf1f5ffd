//! The facts `autopath.*`.

use std::fs;

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Fault, Plugin, Step};
use wire::rcode;

use crate::kubernetes::tests::{CHAIN, bench, shorten};

/// Two namespaces, each with a pod.
const APPS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: apps}
spec: {clusterIP: 10.96.90.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: other}
spec: {clusterIP: 10.96.90.2, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: apps}
spec: {type: ExternalName, externalName: a.example.org}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: apps}
status: {phase: Running, podIP: 127.5.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: client2, namespace: other}
status: {phase: Running, podIP: 127.5.0.2}
---
apiVersion: v1
kind: Pod
metadata: {name: host1, namespace: apps}
spec: {hostNetwork: true}
status: {phase: Running, podIP: 127.5.0.3}
---
apiVersion: v1
kind: Pod
metadata: {name: host2, namespace: other}
spec: {hostNetwork: true}
status: {phase: Running, podIP: 127.5.0.3}
";

/// The cluster, and another server for everything else.
const COREFILE: &str = "cluster.local . {
    autopath @kubernetes
    kubernetes cluster.local {
        manifests .
        pods verified
    }
    answers
}
";

#[test]
fn the_path_of_a_pod_is_walked() {
    let mut bench = bench(APPS, COREFILE);
    let (apps, other, host) = ("127.5.0.1", "127.5.0.2", "127.5.0.3");
    let nxdomain = "NXDOMAIN aa rd |  | SOA(cluster.local. 5)";
    let found = |asked: &str, name: &str, rest: &str| {
        format!("NOERROR aa rd | {asked} CNAME {name}; {name} {rest}")
    };
    for (line, from, want) in [
        ("web.apps.svc.cluster.local", apps, "NOERROR aa rd | web.apps.svc.cluster.local. 5 A 10.96.90.1".to_owned()),
        (
            "www.example.org.apps.svc.cluster.local",
            apps,
            found("www.example.org.apps.svc.cluster.local. 30", "www.example.org.", "30 A 198.51.100.1"),
        ),
        (
            "api.other.apps.svc.cluster.local",
            apps,
            found("api.other.apps.svc.cluster.local. 5", "api.other.svc.cluster.local.", "5 A 10.96.90.2"),
        ),
        (
            "api.other.svc.apps.svc.cluster.local",
            apps,
            found("api.other.svc.apps.svc.cluster.local. 5", "api.other.svc.cluster.local.", "5 A 10.96.90.2"),
        ),
        // A client that is no pod, one of another namespace, and one of whom nobody knows the namespace.
        ("www.example.org.apps.svc.cluster.local", "127.0.0.1", nxdomain.to_owned()),
        ("www.example.org.apps.svc.cluster.local", other, nxdomain.to_owned()),
        ("www.example.org.apps.svc.cluster.local", host, nxdomain.to_owned()),
        (
            "www.example.org.other.svc.cluster.local",
            other,
            found("www.example.org.other.svc.cluster.local. 30", "www.example.org.", "30 A 198.51.100.1"),
        ),
        // Nothing on the path: the reply to the first name.
        ("nx.example.org.apps.svc.cluster.local", apps, nxdomain.to_owned()),
        // A name that is there ends the walk, records or not.
        ("nodata.example.org.apps.svc.cluster.local", apps, "NOERROR rd |  | . 30 SOA . . 0 0 0 0 0".to_owned()),
        ("web.apps.svc.cluster.local MX", apps, "NOERROR aa rd |  | SOA(cluster.local. 5)".to_owned()),
        // An alias comes once.
        (
            "outside.apps.svc.cluster.local",
            apps,
            "NOERROR aa rd | outside.apps.svc.cluster.local. 5 CNAME a.example.org.; a.example.org. 30 A 198.51.100.1".to_owned(),
        ),
        // The first search domain itself, and names elsewhere, are no business of it.
        ("apps.svc.cluster.local", apps, "NOERROR aa rd |  | SOA(cluster.local. 5)".to_owned()),
        ("www.example.org.svc.cluster.local", apps, nxdomain.to_owned()),
        ("www.example.org", apps, "NOERROR aa rd | www.example.org. 30 A 198.51.100.1".to_owned()),
        // Faults, silence and refusals on the way.
        ("fail.example.org.apps.svc.cluster.local", apps, "SERVFAIL rd".to_owned()),
        ("drop.example.org.apps.svc.cluster.local", apps, "(none)".to_owned()),
    ] {
        bench.from(from.parse().unwrap());
        let mut x = bench.exchange(line);
        let reply = shorten(&engine::testing::show(&bench.serve(&mut x)));
        assert_eq!(reply, want, "{line} from {from}");
        assert_eq!(format!("{}", x.request().name), format!("{}.", line.split(' ').next().unwrap()), "{line}");
    }
    let page = engine::metrics::render();
    assert!(page.contains("coredns_autopath_success_total{server=\"dns://:53\"}"), "{page}");
}

/// Refuses `shut`, and `closed` below other names, as `acl` might.
#[derive(Debug)]
struct Refuse;

impl Plugin for Refuse {
    fn query(&self, x: &mut Exchange) -> Step {
        let name = &x.request().name;
        let first = name.each_label().next();
        if first == Some(b"shut") || first == Some(b"closed") && name.labels() > 2 {
            return Step::Fail(Fault { rcode: rcode::REFUSED, ede: None, why: "closed" });
        }
        Step::Next
    }
}

/// The plugin above.
static REFUSE: Descriptor = Descriptor {
    name: "refuse",
    readme: "",
    setup: |setup| {
        setup.install(Refuse);
        Ok(())
    },
};

/// A chain without clusters.
static PLAIN: &[&Descriptor] = &[&super::PLUGIN, &REFUSE, &crate::shared::testing::ANSWERS];

#[test]
fn a_file_gives_everybody_the_same_path() {
    let file = std::env::temp_dir().join(format!("causeway-autopath-{}", std::process::id()));
    fs::write(&file, "search first.test second.test\n").unwrap();
    let corefile = format!("test . {{\n autopath test {}\n refuse\n answers\n}}\n", file.display());
    let bench = Bench::new(PLAIN, &corefile);
    let denied = "NXDOMAIN rd |  | . 30 SOA . . 0 0 0 0 0";
    for (line, want) in [
        ("a.first.test", "NOERROR aa rd | a.first.test. 30 A 198.51.100.1"),
        ("nx.first.test", denied),
        // A refusal is no reason to give up; at the end it is the first one that counts.
        (
            "closed.first.test",
            "NOERROR aa rd | closed.first.test. 30 CNAME closed.; closed. 30 A 198.51.100.1",
        ),
        ("shut.first.test", "REFUSED rd"),
        // Outside the zones of the directive.
        ("nx.first.example", denied),
        ("nx.second.test", denied),
    ] {
        assert_eq!(bench.now(line), want, "{line}");
    }
    fs::remove_file(&file).unwrap();
}

#[test]
fn a_source_that_can_not_be_is_refused() {
    for (autopath, want) in [
        ("autopath", "no search path is stated"),
        ("autopath nosuch.conf", "'nosuch.conf' cannot be read"),
        ("autopath test nosuch.conf", "'nosuch.conf' cannot be read"),
        ("autopath @answers", "is a plugin that knows no search paths"),
        ("autopath @kubernetes {\n }", "takes no block"),
        ("autopath @kubernetes\n autopath @kubernetes", "can only be used once per Server Block"),
    ] {
        let refused = Bench::refused(CHAIN, &format!("test {{\n {autopath}\n answers\n}}\n"));
        assert!(refused.contains(want), "{autopath}: {refused}");
    }
}

#[test]
fn a_source_that_is_not_there_does_nothing() {
    let bench = Bench::new(CHAIN, "test {\n autopath @kubernetes\n answers\n}\n");
    assert!(bench.now("a.test").starts_with("NOERROR"));
    let bench = crate::kubernetes::tests::bench(
        APPS,
        "cluster.local {\n autopath @kubernetes\n kubernetes {\n manifests .\n }\n}\n",
    );
    assert!(bench.now("nope.apps.svc.cluster.local").starts_with("NXDOMAIN"));
}
