//! Ranges of addresses that two clusters have in common.

use super::*;
use crate::shared::testing::logged;

/// A cluster of a service with an endpoint, and of a pod; pods are not followed if it has no address.
fn cluster(ip: &str, endpoint: &str, pod: &str) -> (k8s::Writer, Store) {
    let keep = k8s::Keep { endpoints: true, pods: !pod.is_empty(), ..k8s::Keep::default() };
    let pod = if pod.is_empty() { "203.0.113.9" } else { pod };
    let family = if endpoint.contains(':') { "IPv6" } else { "IPv4" };
    let yaml = format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: shop}}
spec: {{clusterIP: '{ip}'}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}
addressType: {family}
endpoints: [{{addresses: ['{endpoint}']}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: shop}}
status: {{phase: Running, podIP: '{pod}', podIPs: [{{ip: '{pod}'}}]}}
"
    );
    k8s::store_from_yaml(&yaml, keep).unwrap()
}

/// What a look at two clusters finds, of the first and of the second.
async fn found(one: &[&Store], other: &[&Store]) -> Option<[Found; 2]> {
    let (registry, mut seen) = (Registry::new(), Seen::default());
    look(&registry, &mut seen, one, other).await;
    let found = registry.found.lock().unwrap();
    let of = |one: &str, other: &str| found.get(&(one.into(), other.into())).copied();
    Some([of("a", "b")?, of("b", "a")?])
}

/// Looks at two clusters; one without stores is not known.
async fn look(registry: &Registry, seen: &mut Seen, one: &[&Store], other: &[&Store]) -> bool {
    let of = |stores: &[&Store]| stores.iter().map(|store| (*store).clone()).collect::<Vec<_>>();
    let mut known: Vec<Known> = vec![("a".into(), of(one)), ("b".into(), of(other))];
    known.retain(|(_, stores)| !stores.is_empty());
    let moved = seen.take(&known).await;
    if moved {
        registry.look(seen, &known).await;
    }
    moved
}

#[tokio::test]
async fn ranges_overlap_where_both_have_addresses_in_a_block() {
    let (_one, one) = cluster("10.96.0.10", "10.244.0.5", "10.244.0.5");
    let (_six, six) = cluster("fd00:10:96::a", "fd00:10:244:1::5", "fd00:10:244:1::6");
    for (first, ip, endpoint, pod, want) in [
        (&one, "10.96.0.77", "10.245.0.5", "10.245.0.5", [1, 0, 0, 0]),
        (&one, "10.97.0.10", "10.244.0.5", "10.245.0.6", [0, 1, 1, 1]),
        // Another address of the same range at this time.
        (&one, "10.97.0.10", "10.244.0.6", "10.245.0.6", [0, 1, 1, 0]),
        // Endpoints lie among pods, and pods among endpoints.
        (&one, "10.97.0.10", "10.245.0.6", "10.244.0.6", [0, 1, 1, 0]),
        (&one, "10.97.0.10", "10.245.0.6", "10.244.0.5", [0, 1, 1, 1]),
        (&one, "10.97.0.10", "10.244.0.6", "", [0, 1, 1, 0]),
        (&one, "10.97.0.10", "10.244.1.5", "10.244.1.5", [0, 0, 0, 0]),
        // What services have in common with endpoints is nothing: a range of another kind.
        (&one, "10.244.0.5", "10.96.0.10", "10.96.0.10", [0, 0, 0, 0]),
        (&one, "fd00:10:96::a", "fd00:10:244:1::5", "fd00:10:244:1::6", [0, 0, 0, 0]),
        (&six, "fd00:10:96::ff", "fd00:10:245::5", "fd00:10:245::6", [1, 0, 0, 0]),
        (&six, "fd00:10:96::1:a", "fd00:10:244:1:2::5", "fd00:10:245::6", [0, 1, 1, 0]),
        (&six, "fd00:10:97::a", "fd00:10:244:2::5", "fd00:10:244:1::6", [0, 1, 1, 1]),
    ] {
        let (_other, other) = cluster(ip, endpoint, pod);
        let [found, back] = found(&[first], &[&other]).await.unwrap();
        assert_eq!(found.map(|overlap| overlap.count), want, "{ip} {endpoint} {pod}");
        let any = |found: Found| found.map(|overlap| overlap.count > 0);
        let same = |found: Found| [any(found)[0], any(found)[1] || any(found)[2], any(found)[3]];
        assert_eq!(same(back), same(found), "{ip} {endpoint} {pod}, the other way");
    }
}

#[tokio::test]
async fn of_several_sets_of_a_cluster_the_one_that_sees_most_counts() {
    let (_one, one) = cluster("10.96.0.10", "10.244.0.5", "10.244.0.5");
    let (_same, same) = cluster("10.96.0.11", "10.244.0.6", "");
    let (_far, far) = cluster("10.97.0.11", "10.244.0.5", "");
    for others in [[&same, &far], [&far, &same]] {
        let [found, back] = found(&[&one, &one], &others).await.unwrap();
        assert_eq!(found.map(|overlap| overlap.count), [1, 1, 1, 1]);
        assert_eq!(back.map(|overlap| overlap.count), [1, 1, 0, 1]);
        assert_eq!(back[SERVICES].example, Some([10, 96, 0, 11].into()));
    }
}

#[tokio::test]
async fn what_is_known_of_blocks_is_bounded() {
    let mut blocks = Blocks::default();
    for number in 0..MOST as u32 + 10 {
        blocks.add(PODS, std::net::Ipv4Addr::from(number << 8).into());
    }
    assert_eq!(blocks.0[PODS].len(), MOST);
    blocks.add(PODS, [0, 0, 0, 1].into());
    assert_eq!(blocks.0[PODS][&0].count, 2, "a block that is known goes on");
    let mut more = Blocks::default();
    more.add(PODS, [203, 0, 113, 1].into());
    blocks.join(more);
    assert_eq!(blocks.0[PODS].len(), MOST);
}

#[tokio::test]
async fn an_overlap_is_told_once_and_its_end_too() {
    let (_one, one) = cluster("10.96.0.10", "10.244.0.5", "");
    let (_same, same) = cluster("10.96.0.11", "10.244.0.6", "");
    let (_equal, equal) = cluster("10.97.0.11", "10.244.0.5", "");
    let (_far, far) = cluster("10.97.0.11", "10.245.0.6", "");
    let (registry, mut seen) = (Registry::new(), Seen::default());
    logged();
    let mut lines = async |others: &[&Store], moves: bool| {
        assert_eq!(look(&registry, &mut seen, &[&one], others).await, moves);
        logged()
    };
    let [services, endpoints] = &lines(&[&same], true).await[..] else { panic!("not two lines") };
    assert_eq!(
        services,
        "[WARNING] plugin/kubernetes: clusters a and b overlap: 1 addresses of services of a lie where b has its own, such as 10.96.0.10; a client with routes to both reaches one of them"
    );
    assert_eq!(
        endpoints,
        "[WARNING] plugin/kubernetes: clusters a and b overlap: 1 addresses of endpoints of a lie where b has its own, such as 10.244.0.5; unless both are of one network, a client with routes to both reaches one of them"
    );
    let gauge = |kind: &str, one: &str, other: &str| {
        let name = "causeway_kubernetes_overlaps";
        let series = format!("{name}{{cluster=\"{one}\",kind=\"{kind}\",other=\"{other}\"}} ");
        let page = metrics::render();
        page.lines().find_map(|line| line.strip_prefix(&*series).map(str::to_owned))
    };
    for (kind, want) in [("services", "1"), ("endpoints", "1"), ("pods", "0"), ("equal", "0")] {
        assert_eq!(gauge(kind, "a", "b").as_deref(), Some(want), "{kind}");
        assert_eq!(gauge(kind, "b", "a").as_deref(), Some(want), "{kind}");
    }
    let status = registry.status("b").json();
    assert!(
        status.contains(
            r#"{"with":"a","kind":"services","addresses":1,"such_as":"10.96.0.11"},{"with":"a","kind":"endpoints","addresses":1,"such_as":"10.244.0.6"}"#
        ),
        "{status}"
    );
    // Nothing has changed.
    assert_eq!(lines(&[&same], false).await, <[String; 0]>::default());
    // One that sees more is there, and what is known is told no more.
    assert_eq!(lines(&[&same, &equal], true).await, <[String; 0]>::default());
    assert_eq!(gauge("equal", "a", "b").as_deref(), Some("1"));
    let ended = lines(&[&far], true).await;
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended[0].ends_with("addresses of services of clusters a and b no longer overlap"));
    assert_eq!(gauge("services", "a", "b").as_deref(), Some("0"));
    assert_eq!(registry.status("a").json(), "[]");
    let [line] = &lines(&[&equal], true).await[..] else { panic!("not one line") };
    assert!(
        line.ends_with(
            "; both have 10.244.0.5, and a client with routes to both reaches one of them"
        )
    );
    // One that is not known has no figures.
    lines(&[], true).await;
    assert_eq!(gauge("services", "a", "b"), None);
}
