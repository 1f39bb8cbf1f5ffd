//! What a directive may say, and what is refused.

use engine::testing::Bench;

use super::{CHAIN, MADE, Made, WRITER, bench};

/// Any cluster.
const ANY: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

/// A block with a property.
fn corefile(zones: &str, properties: &str) -> String {
    format!("{zones} {{\n kubernetes {{\n manifests .\n {properties}\n }}\n}}\n")
}

#[test]
fn every_property_is_taken() {
    let all = "tls a.pem b.pem c.pem
        apiserver_qps 0.5
        apiserver_burst 0
        apiserver_max_inflight 3
        namespaces shop
        namespaces billing office
        labels environment in (staging, qa),application=nginx
        pods insecure
        endpoint_pod_names
        ttl 3600
        fallthrough in-addr.arpa ip6.arpa
        ignore empty_service
        multicluster clusterset.local
        zonal
        startup_timeout 2m
        verify 12h";
    bench(ANY, &corefile("cluster.local clusterset.local", all));
    WRITER.with_borrow(|kept| {
        let (_, keep) = kept.as_ref().unwrap();
        assert_eq!(keep.namespaces, ["shop", "billing", "office"]);
        assert!(keep.endpoints && keep.multicluster && keep.zones && keep.pod_names);
        assert!(!keep.pods && !keep.pod_labels);
    });
    bench(
        ANY,
        &corefile(
            "cluster.local",
            "namespace_labels istio-injection=enabled\n pods verified\n noendpoints",
        ),
    );
    WRITER.with_borrow(|kept| {
        let (_, keep) = kept.as_ref().unwrap();
        assert!(keep.pods && !keep.endpoints && !keep.zones);
    });
}

#[test]
fn wrong_words_are_refused_with_a_remedy() {
    MADE.set(Made::Yaml(ANY));
    for (zones, properties, want) in [
        ("cluster.local", "foo", "'foo' is not a property"),
        ("cluster.local", "endpoint https://[::1", "is no URL of http or https"),
        ("cluster.local", "endpoint \"\"", "write: endpoint https://198.51.100.1:6443"),
        ("cluster.local", "endpoint ftp://198.51.100.1", "is no URL of http or https"),
        ("cluster.local", "endpoint https://:6443", "is no URL of http or https"),
        ("cluster.local", "endpoint https://198.51.100.1:66443", "is no URL of http or https"),
        ("cluster.local", "endpoint \"https://a b\"", "is no URL of http or https"),
        ("cluster.local", "snapshot \"\"", "'' is no folder (write: snapshot /"),
        ("cluster.local", "reach clusterip\n reach endpoints", "'reach' comes twice"),
        ("cluster.local", "ptr one\n ptr all", "'ptr' comes twice (keep the line that is meant)"),
        ("cluster.local", "snapshot a\n snapshot b", "'snapshot' comes twice"),
        ("cluster.local", "verify 1h\n verify off", "'verify' comes twice"),
        ("cluster.local", "domain a.test\n domain b.test", "'domain' comes twice"),
        ("cluster.local", "manifests .", "'manifests' comes twice"),
        ("cluster.local", "endpoint", "Wrong argument count"),
        ("cluster.local", "tls a.pem b.pem", "tls CERT KEY CACERT"),
        ("cluster.local", "tls a.pem b.pem c.pem d.pem", "one too many"),
        ("cluster.local", "kubeconfig", "kubeconfig FILE [CONTEXT]"),
        ("cluster.local", "kubeconfig a b c", "one too many"),
        ("cluster.local", "manifests", "manifests DIR"),
        ("cluster.local", "apiserver_qps -1", "0 or more"),
        ("cluster.local", "apiserver_qps nan", "0 or more"),
        ("cluster.local", "apiserver_burst -1", "0 or more"),
        ("cluster.local", "apiserver_max_inflight 1.5", "0 or more"),
        ("cluster.local", "namespaces", "namespaces NAMESPACE..."),
        ("cluster.local", "labels =bad=", "selector"),
        ("cluster.local", "labels", "labels EXPRESSION"),
        (
            "cluster.local",
            "namespaces a\n namespace_labels b=c",
            "and namespaces cannot both be set",
        ),
        ("cluster.local", "pods giant", "known: disabled, insecure, verified"),
        ("cluster.local", "pods", "disabled|insecure|verified"),
        ("cluster.local", "endpoint_pod_names yes", "one too many"),
        ("cluster.local", "ttl 3601", "range [0, 3600]"),
        ("cluster.local", "ttl -1", "range [0, 3600]"),
        ("cluster.local", "ttl 5s", "range [0, 3600]"),
        ("cluster.local", "noendpoints yes", "one too many"),
        ("cluster.local", "zonal\n noendpoints", "needs endpoints"),
        ("cluster.local", "ignore full_service", "empty_service"),
        ("cluster.local", "multicluster clusterset.local", "not authoritative for"),
        ("cluster.local", "startup_timeout 5", "is wrong"),
        ("cluster.local", "verify", "verify DURATION|off"),
        ("cluster.local", "verify never", "is wrong"),
        ("cluster.local", "verify 59s", "is too often"),
        ("cluster.local", "verify off 6h", "6h"),
        ("cluster.local", "startup_timeout -5s", "is wrong"),
        ("in-addr.arpa", "", "non-reverse zone name must be used"),
        ("10.0.0.0/8 ip6.arpa", "", "non-reverse zone name must be used"),
    ] {
        let refused = Bench::refused(CHAIN, &corefile(zones, properties));
        assert!(refused.contains(want), "{properties}: {refused}");
        assert!(refused.starts_with("plugin/kubernetes: "), "{properties}: {refused}");
    }
    let twice =
        "cluster.local {\n kubernetes {\n manifests .\n }\n kubernetes {\n manifests .\n }\n}\n";
    assert!(Bench::refused(CHAIN, twice).contains("can only be used once per Server Block"));
}

/// Words that no namespace is called by, and what to write in place of each.
const NO_NAMESPACES: [(&str, &str); 9] = [
    ("Shop", "write: shop"),
    ("*", "lower-case letters"),
    ("a.b", "lower-case letters"),
    ("shöp", "lower-case letters"),
    ("../../../version", "lower-case letters"),
    ("shop?x=y", "lower-case letters"),
    ("a/b", "lower-case letters"),
    ("-shop", "lower-case letters"),
    ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "at most 63"),
];

#[test]
fn words_that_are_no_namespaces_are_passed_over() {
    for (word, remedy) in NO_NAMESPACES {
        let bench = bench(ANY, &corefile("cluster.local", &format!("namespaces {word} shop")));
        let [warning] = &bench.built.warnings[..] else { panic!("{:?}", bench.built.warnings) };
        assert!(warning.what.contains(&format!("'{word}' is no namespace")), "{warning}");
        assert!(warning.help.as_ref().unwrap().contains(remedy), "{warning:?}");
        assert!(warning.place.is_some());
        WRITER.with_borrow(|kept| assert_eq!(kept.as_ref().unwrap().1.namespaces, ["shop"]));
        // Without a good one nothing would be there.
        let properties = format!("namespaces {word}");
        let refused = Bench::refused(CHAIN, &corefile("cluster.local", &properties));
        assert!(refused.contains("is no namespace") && refused.contains(remedy), "{refused}");
    }
    bench(ANY, &corefile("cluster.local", "namespaces shop shop\n namespaces shop"));
    WRITER.with_borrow(|kept| assert_eq!(kept.as_ref().unwrap().1.namespaces, ["shop"]));
}

#[test]
fn odd_words_are_warned_of() {
    for (properties, want) in [
        ("endpoint https://198.51.100.1:6443 https://198.51.100.2:6443", "is passed over"),
        ("endpoint kube-apiserver", "has neither scheme nor port"),
        ("ptr all", "all has no effect"),
        ("multicluster", "names no zone"),
        ("noendpoints\n ignore empty_service", "makes every service an empty one"),
    ] {
        let bench = bench(ANY, &corefile("cluster.local", properties));
        let [warning] = &bench.built.warnings[..] else { panic!("{:?}", bench.built.warnings) };
        assert!(warning.what.contains(want), "{warning}");
    }
    for properties in [
        "endpoint https://[2001:db8::1]",
        "endpoint https://[2001:db8::1]:6443/path",
        "endpoint kube-apiserver:6443",
        "endpoint http://kube-apiserver",
        "endpoint https://user:word@kube-apiserver",
        "ptr one",
    ] {
        let bench = bench(ANY, &corefile("cluster.local", properties));
        assert!(bench.built.warnings.is_empty(), "{:?}", bench.built.warnings);
    }
    // Of CoreDNS's own words the last one counts.
    let bench = bench(ANY, &corefile("cluster.local", "ttl 5\n ttl 30"));
    let reply = bench.now("shop.svc.cluster.local");
    assert!(reply.contains("SOA") && reply.ends_with(" 30"), "{reply}");
}

#[test]
fn a_password_in_a_wrong_address_is_not_told() {
    let wrong = corefile("cluster.local", "endpoint https://user:secret@[::1");
    let refused = Bench::refused(CHAIN, &wrong);
    assert!(refused.contains("is no URL") && !refused.contains("secret"), "{refused}");
}

#[test]
fn a_password_in_an_address_is_shown_by_nothing_that_is_said_of_it() {
    let source = "https://me:hunter2@198.51.100.1:6443";
    let shown = |odd: &config::Diagnostic, text: &str| {
        let lines = |_: &std::path::Path| Some(text.to_owned());
        odd.render(&lines) + &odd.render_warning(&lines)
    };
    for properties in [
        format!("endpoint {source} https://198.51.100.2:6443"),
        format!("endpoint https://198.51.100.2:6443 {source}"),
    ] {
        let text = corefile("cluster.local", &properties);
        let bench = bench(ANY, &text);
        let [warning] = &bench.built.warnings[..] else { panic!("{:?}", bench.built.warnings) };
        let shown = shown(warning, &text);
        assert!(shown.contains("is passed over") && !shown.contains("hunter2"), "{shown}");
    }
    for (declared, want) in [
        (format!("manifests .\n endpoint {source}"), "a second way to connect"),
        (format!("endpoint {source}\n endpoint {source}"), "'endpoint' comes twice"),
    ] {
        let text = format!(
            "cluster://prod {{\n {declared}\n}}\ncluster.local {{\n kubernetes {{\n cluster prod\n }}\n}}\n"
        );
        let wrong = Bench::try_new(crate::CHAIN, &text).err().unwrap();
        let shown: String = wrong.iter().map(|wrong| shown(wrong, &text)).collect();
        assert!(shown.contains(want) && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_place_of_a_cluster_that_is_none_is_refused() {
    let chain = crate::CHAIN;
    for (properties, want) in [
        ("", "no cluster is stated"),
        ("kubeconfig nosuch.kubeconfig", "'nosuch.kubeconfig' cannot be read"),
        // It is stronger than an address.
        (
            "endpoint https://198.51.100.1\n kubeconfig nosuch.kubeconfig",
            "'nosuch.kubeconfig' cannot be read",
        ),
        (
            "endpoint https://198.51.100.1\n tls nosuch.pem b.pem c.pem",
            "'nosuch.pem' cannot be read",
        ),
        ("manifests nosuch", "'nosuch' is not a folder"),
        ("manifests .\n endpoint https://198.51.100.1", "stands beside the address of a cluster"),
        ("manifests .\n kubeconfig a", "stands beside the address of a cluster"),
    ] {
        let refused = Bench::refused(
            chain,
            &format!("cluster.local {{\n kubernetes {{\n {properties}\n }}\n}}\n"),
        );
        assert!(refused.contains(want), "{properties}: {refused}");
    }
}

#[tokio::test]
async fn blocks_that_see_the_same_share_their_watches() {
    let folder = std::env::temp_dir().join(format!("causeway-kubernetes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.96.0.9}\n";
    std::fs::write(folder.join("shop.yaml"), service).unwrap();
    let block = |zone: &str, properties: &str| {
        format!(
            "{zone} {{\n kubernetes {{\n manifests {}\n {properties}\n }}\n}}\n",
            folder.display()
        )
    };
    let corefile = [
        block("a.test", ""),
        block("b.test", "ttl 30\n fallthrough"),
        block("c.test", "pods verified"),
    ]
    .concat();
    let mut bench = Bench::new(crate::CHAIN, &corefile);
    for _ in 0..200 {
        if bench.now("web.shop.svc.c.test").starts_with("NOERROR") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let serials = |bench: &Bench| {
        ["a.test", "b.test", "c.test"].map(|zone| bench.now(&format!("web.shop.svc.{zone}")))
    };
    assert_eq!(serials(&bench)[1], "NOERROR aa rd | web.shop.svc.b.test. 30 A 10.96.0.9");
    // The new configuration has the same watches, so that it knows the cluster at once.
    bench.reload(&corefile.replace("ttl 30", "ttl 60")).unwrap();
    assert_eq!(serials(&bench)[0], "NOERROR aa rd | web.shop.svc.a.test. 5 A 10.96.0.9");
    assert_eq!(serials(&bench)[1], "NOERROR aa rd | web.shop.svc.b.test. 60 A 10.96.0.9");
    std::fs::remove_dir_all(&folder).unwrap();
}
