//! Rights that end in one of the namespaces that are followed one by one.

use std::time::Duration;

use k8s::{Event, Kind};

use super::{apply, bench};

/// A service in each of two namespaces.
const BOTH: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.1}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: edge}, spec: {clusterIP: 10.96.0.2}}
---
{apiVersion: v1, kind: Service, metadata: {name: out, namespace: edge}, spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}}
";

#[tokio::test(start_paused = true)]
async fn what_was_known_of_a_namespace_without_rights_is_told_and_said_to_be_that() {
    let bench = bench(
        BOTH,
        "cluster.local in-addr.arpa {\n kubernetes {\n manifests .\n namespaces shop edge\n }\n}\n",
    );
    let questions = [
        ("web.edge.svc.cluster.local", "NOERROR", Some("EDE 3 ")),
        ("edge.svc.cluster.local", "NOERROR", Some("EDE 3 ")),
        ("nope.edge.svc.cluster.local", "NXDOMAIN", Some("EDE 19 ")),
        ("out.edge.svc.cluster.local", "NOERROR", Some("EDE 3 ")),
        ("2.0.96.10.in-addr.arpa PTR", "NOERROR", Some("EDE 3 ")),
        ("9.0.96.10.in-addr.arpa PTR", "NXDOMAIN", Some("EDE 19 ")),
        ("web.shop.svc.cluster.local", "NOERROR", None),
        ("nope.shop.svc.cluster.local", "NXDOMAIN", None),
        ("nope.other.svc.cluster.local", "NXDOMAIN", None),
        ("cluster.local SOA", "NOERROR", None),
        ("dns-version.cluster.local TXT", "NOERROR", None),
    ];
    let said = "the cluster: the rights are missing, known from ";
    for (question, code, _) in questions {
        let reply = bench.now(&format!("{question} +edns"));
        assert!(reply.starts_with(code) && !reply.contains("rights"), "{question}: {reply}");
    }
    apply(&Event::Refused(Kind::Services, "edge".into()));
    // Rights that are back within ten seconds are no trouble.
    assert!(!bench.now("web.edge.svc.cluster.local +edns").contains("rights"));
    tokio::time::advance(Duration::from_secs(11)).await;
    for (question, code, want) in questions {
        let reply = bench.now(&format!("{question} +edns"));
        assert!(reply.starts_with(code), "{question}: {reply}");
        match want {
            Some(want) => assert!(reply.contains(&format!("{want}{said}")), "{question}: {reply}"),
            None => assert!(!reply.contains("rights"), "{question}: {reply}"),
        }
    }
    // It is listed anew.
    apply(&Event::RestartIn(Kind::Services, "edge".into()));
    apply(&Event::SyncedIn(Kind::Services, "edge".into()));
    let reply = bench.now("web.edge.svc.cluster.local +edns");
    assert!(reply.starts_with("NXDOMAIN") && !reply.contains("rights"), "{reply}");
}
