//! Starts while the API server is away.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::Descriptor;
use engine::testing::Bench;
use k8s::{Config, Keep, Snapshot, Source};

use super::CHAIN;
use crate::shared::testing::Folder;

/// The chain that the gateway has, as far as it matters here.
pub(super) static REAL: &[&Descriptor] =
    &[&crate::cache::PLUGIN, &super::super::PLUGIN, &crate::shared::testing::ANSWERS];

/// What the cluster had.
const CLUSTER: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 198.51.100.7, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: www.example.org}
";

/// Now, in Unix seconds.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Writes the snapshot of a cluster at 127.0.0.1:1, where nobody listens any more, into `kept` in a folder.
pub(super) fn keep(folder: &Folder, cluster: &str, taken: u64) {
    let keep = Keep { endpoints: true, ..Keep::default() };
    let (_writer, store) = k8s::store_from_yaml(cluster, keep.clone()).unwrap();
    let source = Source::Endpoint { url: "http://127.0.0.1:1".to_owned(), tls: None };
    let snapshot = Snapshot { dir: folder.path("kept"), max_age: Duration::from_secs(3600) };
    let config = Config { keep, snapshot: Some(snapshot), ..Config::new(source) };
    Snapshot::write(&config, &store, taken).unwrap();
}

/// A gateway with that cluster, after its start.
async fn started(folder: &Folder) -> Bench {
    let corefile = format!(
        "cluster.local {{
            cache 3600 {{
                success 100 3600 600
                denial 100 3600 600
            }}
            kubernetes {{
                endpoint http://127.0.0.1:1
                snapshot {} 1h
                ttl 600
                startup_timeout 0s
            }}
        }}",
        folder.path("kept").display()
    );
    let bench = Bench::new(REAL, &corefile);
    bench.built.waits.over().await.unwrap();
    bench
}

#[tokio::test]
async fn names_are_answered_from_the_snapshot_and_say_so() {
    let folder = Folder::new("");
    keep(&folder, CLUSTER, now() - 100);
    let bench = started(&folder).await;
    // Twice: what may be out of date is not kept by `cache`, nor made to live longer.
    for _ in 0..2 {
        let known = bench.ask("web.shop.svc.cluster.local +edns").await;
        let wanted = "NOERROR aa rd | web.shop.svc.cluster.local. 30 A 198.51.100.7 | \
                      EDE 3 the cluster: known from 10";
        assert!(known.starts_with(wanted), "{known}");
        assert!(known.ends_with(" s ago, read from disk"), "{known}");
        let alias = bench.ask("out.shop.svc.cluster.local +edns").await;
        assert!(alias.contains("CNAME www.example.org.") && alias.contains("EDE 3 "), "{alias}");
        let denied = bench.ask("nope.shop.svc.cluster.local +edns").await;
        assert!(denied.starts_with("NXDOMAIN aa rd |  | cluster.local. 30 SOA "), "{denied}");
        assert!(denied.contains("| EDE 19 the cluster: known from 10"), "{denied}");
        let nothing = bench.ask("web.shop.svc.cluster.local AAAA +edns").await;
        assert!(nothing.starts_with("NOERROR") && nothing.contains("| EDE 3 "), "{nothing}");
        let plain = bench.ask("web.shop.svc.cluster.local").await;
        assert!(!plain.contains("EDE"), "{plain}");
    }
}

#[tokio::test]
async fn an_old_snapshot_is_not_used_and_the_start_goes_on() {
    let folder = Folder::new("");
    keep(&folder, CLUSTER, now() - 4000);
    let bench = started(&folder).await;
    let failed = bench.ask("web.shop.svc.cluster.local").await;
    assert!(failed.starts_with("SERVFAIL"), "{failed}");
    let names: Vec<_> = std::fs::read_dir(folder.path("kept"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(matches!(&names[..], [name] if name.ends_with(".snapshot")), "{names:?}");
}

#[test]
fn wrong_words_are_refused() {
    for (words, wanted) in [
        ("snapshot", "DIR"),
        ("snapshot /dev/null", "is no folder"),
        ("snapshot . tomorrow", "is wrong"),
        ("snapshot . 1s", "less than a minute"),
        ("snapshot . 1h 2h", "2h"),
    ] {
        let corefile =
            format!("cluster.local {{\n kubernetes {{\n manifests .\n {words}\n }}\n}}\n");
        let refused = Bench::refused(CHAIN, &corefile);
        assert!(refused.contains(wanted), "{words}: {refused}");
    }
}
