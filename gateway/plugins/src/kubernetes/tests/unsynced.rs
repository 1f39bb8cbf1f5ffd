//! Before the first list is complete.

use super::{table, unsynced};

#[test]
fn nothing_is_denied_or_passed_on_before_the_cluster_is_known() {
    let failed = "SERVFAIL aa rd |  | SOA(cluster.local. 5)";
    let bench = unsynced(
        "cluster.local in-addr.arpa {\n kubernetes {\n manifests .\n fallthrough\n }\n answers\n}\n",
    );
    table(
        &bench,
        &[
            ("web.shop.svc.cluster.local", failed),
            ("shop.svc.cluster.local", failed),
            ("1-2-3-4.shop.pod.cluster.local", failed),
            (
                "web.shop.svc.cluster.local +edns",
                &format!("{failed} | EDE 14 the cluster's objects are not known yet"),
            ),
            ("1.1.16.172.in-addr.arpa PTR", "SERVFAIL aa rd |  | SOA(in-addr.arpa. 5)"),
            // What does not depend on the cluster's objects.
            ("cluster.local", "NOERROR aa rd |  | SOA(cluster.local. 5)"),
            ("cluster.local SOA", "NOERROR aa rd | SOA(cluster.local. 5)"),
            (
                "dns-version.cluster.local TXT",
                "NOERROR aa rd | dns-version.cluster.local. 28800 TXT \"1.1.0\"",
            ),
        ],
    );
}

#[test]
fn reverse_zones_that_fallthrough_names_are_others_too() {
    let bench = unsynced(
        "cluster.local in-addr.arpa {\n kubernetes {\n manifests .\n fallthrough in-addr.arpa\n }\n answers\n}\n",
    );
    let passed = bench.now("1.1.16.172.in-addr.arpa PTR");
    assert!(passed.starts_with("NOERROR") && !passed.contains("SOA"), "{passed}");
    table(&bench, &[("nope.shop.svc.cluster.local", "SERVFAIL aa rd |  | SOA(cluster.local. 5)")]);
}
