//! Words of the directive.

use engine::testing::Bench;

use super::{CHAIN, NXDOMAIN, bench, prepare, table};

#[test]
fn wrong_words_are_refused_with_a_remedy() {
    prepare(&[("east", None), ("west", None)]);
    for (zone, lines, want) in [
        ("clusterset.local", "", "names no cluster"),
        ("clusterset.local", "cluster", "NAME"),
        ("clusterset.local", "cluster east east", "stands there twice"),
        ("clusterset.local", "cluster north", "'north' is not known"),
        ("clusterset.local", "cluster East", "'East' is no cluster ID"),
        ("clusterset.local", "cluster east.example", "'east.example' is no cluster ID"),
        ("clusterset.local", "cluster east_1", "'east_1' is no cluster ID"),
        ("clusterset.local", "cluster -east", "'-east' is no cluster ID"),
        ("clusterset.local", "cluster east-", "'east-' is no cluster ID"),
        ("clusterset.local", "cluster öst", "'öst' is no cluster ID"),
        ("10.in-addr.arpa", "cluster east", "non-reverse zone name must be used"),
        ("clusterset.local", "cluster east\nsource", "imports|exports"),
        ("clusterset.local", "cluster east\nsource export", "'export' is no source of services"),
        ("clusterset.local", "cluster east\nsource exports exports", "comes twice"),
        ("clusterset.local", "cluster east\nkeep", "DURATION"),
        ("clusterset.local", "cluster east\nkeep long", "long"),
        ("clusterset.local", "cluster east\nlabel", "EXPRESSION"),
        ("clusterset.local", "cluster east\nlabel a==b==c", "is wrong"),
        ("clusterset.local", "cluster east\nsource imports\nlabel a=b", "stands for exports"),
        ("clusterset.local", "cluster east\nreach", "KIND"),
        (
            "clusterset.local",
            "cluster east\nreach endpoint",
            "'endpoint' is no kind of addresses (did you mean 'endpoints'?",
        ),
        ("clusterset.local", "cluster east\nreach endpoints endpoints", "comes twice"),
        ("clusterset.local", "cluster east\nttl 3601", "ttl must be in range [0, 3600]"),
        ("clusterset.local", "clusters east", "clusters"),
        (
            "clusterset.local",
            "cluster east\nreach endpoints\nreach clusterip",
            "'reach' comes twice",
        ),
        ("clusterset.local", "cluster east\nttl 5\nttl 6", "'ttl' comes twice"),
        ("clusterset.local", "cluster east\nkeep 1h\nkeep 2h", "'keep' comes twice"),
        (
            "clusterset.local",
            "cluster east\nsource imports\nsource exports",
            "'source' comes twice",
        ),
        ("clusterset.local", "cluster east\nnamespaces shop Pay", "'Pay' is no namespace"),
        ("clusterset.local", "cluster east\nnamespaces shop ../a", "'../a' is no namespace"),
    ] {
        let corefile = format!("{zone} {{\n clusterset {{\n{lines}\n }}\n}}\n");
        let refused = Bench::refused(CHAIN, &corefile);
        assert!(refused.contains(want), "{lines}: {refused}");
    }
    let long =
        format!("clusterset.local {{\n clusterset {{\n  cluster {}\n }}\n}}\n", "e".repeat(64));
    assert!(Bench::refused(CHAIN, &long).contains("is no cluster ID"));
    let twice = "clusterset.local {\n clusterset {\n  cluster east\n }\n clusterset {\n  cluster west\n }\n}\n";
    assert!(Bench::refused(CHAIN, twice).contains("clusterset"));
}

#[test]
fn zones_of_addresses_are_passed_over_with_a_warning() {
    let corefile = "clusterset.local 10.in-addr.arpa {\n clusterset {\n  cluster east\n }\n}\n";
    let bench = bench(&[("east", None)], corefile);
    let warnings: Vec<_> = bench.built.warnings.iter().map(|odd| &*odd.what).collect();
    assert!(
        warnings.iter().any(|odd| odd.contains("has nothing in zones of addresses")),
        "{warnings:?}"
    );
}

#[test]
fn names_that_are_not_there_fall_through_if_they_may() {
    let yaml = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}";
    let corefile = "clusterset.local {\n clusterset {\n  cluster east\n  fallthrough a.svc.clusterset.local\n }\n answers\n}\n";
    let bench = bench(&[("east", Some(yaml))], corefile);
    table(&bench, &[("web.shop.svc.clusterset.local A", NXDOMAIN)]);
    let passed = super::ask(&bench, "web.a.svc.clusterset.local A");
    assert!(!passed.contains("SOA(clusterset.local"), "{passed}");
}

#[test]
fn a_label_stands_for_exports() {
    let yaml = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: None}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], hostname: web-0}]
";
    let corefile =
        "clusterset.local {\n clusterset {\n  cluster east\n  label share=everywhere\n }\n}\n";
    let bench = bench(&[("east", Some(yaml))], corefile);
    let wants = super::wants();
    let [want] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(want.labels.as_ref().map(ToString::to_string).as_deref(), Some("share=everywhere"));
    assert!(!want.keep.exports && !want.keep.multicluster && want.keep.endpoints);
    table(
        &bench,
        &[
            (
                "web.shop.svc.clusterset.local A",
                "NOERROR aa rd | web.shop.svc.clusterset.local. 5 A 10.1.0.1",
            ),
            (
                "web-0.east.web.shop.svc.clusterset.local A",
                "NOERROR aa rd | web-0.east.web.shop.svc.clusterset.local. 5 A 10.1.0.1",
            ),
        ],
    );

    let both = "clusterset.local {\n clusterset {\n  cluster east\n  source imports exports\n  label share\n }\n}\n";
    super::bench(&[("east", Some(yaml))], both);
    let keeps: Vec<_> =
        super::wants().iter().map(|want| (want.keep.multicluster, want.labels.is_some())).collect();
    assert_eq!(keeps, [(false, true), (true, false)]);
}
