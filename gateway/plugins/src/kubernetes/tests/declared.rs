//! Clusters that the Corefile declares.

use engine::testing::Bench;

use crate::shared::testing::Folder;

/// A block that declares a cluster, and one that uses it.
fn corefile(declared: &str, uses: &str) -> String {
    format!(
        "cluster://prod {{\n {declared}\n}}\ncluster.local {{\n kubernetes {{\n {uses}\n }}\n}}\n"
    )
}

#[test]
fn wrong_declarations_are_refused_with_a_remedy() {
    let good = "manifests .";
    for (declared, uses, want) in [
        (good, "cluster", "cluster NAME..."),
        (good, "cluster prodd", "did you mean 'prod'?"),
        (good, "cluster prod prod", "'prod' stands there twice"),
        (good, "cluster prod\n endpoint a", "'endpoint' stands beside the declared cluster 'prod'"),
        (good, "cluster prod\n startup_timeout 1s", "(write it in the block cluster://prod)"),
        ("", "cluster prod", "'cluster://prod' says no way to connect to the cluster"),
        (
            "domain a.test",
            "cluster prod",
            "write: kubeconfig FILE, endpoint URL, in_cluster, or manifests DIR",
        ),
        ("manifests .\n in_cluster", "cluster prod", "'in_cluster' is a second way to connect"),
        ("kubeconfig a\n kubeconfig b", "cluster prod", "'kubeconfig' comes twice"),
        ("manifests .\n domain a.test\n domain b.test", "cluster prod", "'domain' comes twice"),
        ("kubeconfig a\n endpoint b", "cluster prod", "is a second way to connect"),
        ("manifests .\n tls a b c", "cluster prod", "tls stands without the address"),
        ("manifests nosuch", "cluster prod", "'nosuch' is not a folder"),
        ("in_cluster", "cluster prod", "this process does not run in a cluster"),
        ("manifests .\n ttl 5", "cluster prod", "'ttl' is not a property"),
        ("manifests .\n domian x", "cluster prod", "did you mean 'domain'?"),
        ("manifests .\n domain .", "cluster prod", "'.' is no domain"),
        ("manifests .\n snapshot", "cluster prod", "write: snapshot DIR [MAX_AGE]"),
        ("manifests .\n snapshot /var x", "cluster prod", "is wrong"),
        ("manifests .\n apiserver_qps -1", "cluster prod", "0 or more"),
        ("manifests .\n manifests . .", "cluster prod", "one too many"),
    ] {
        let refused = Bench::refused(crate::CHAIN, &corefile(declared, uses));
        assert!(refused.contains(want), "{declared} | {uses}: {refused}");
        assert!(refused.starts_with("plugin/kubernetes: "), "{refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
    let in_block = "a.test {\n kubernetes {\n manifests .\n in_cluster\n }\n}\n";
    assert!(Bench::refused(crate::CHAIN, in_block).contains("stands beside the address"));
    let in_block = "a.test {\n kubernetes {\n in_cluster\n }\n}\n";
    assert!(Bench::refused(crate::CHAIN, in_block).contains("does not run in a cluster"));
}

#[test]
fn a_wrong_declaration_is_told_once_however_many_use_it() {
    let corefile = "cluster://prod {\n manifests . .\n domian x\n}\na.test {\n kubernetes {\n cluster prod\n }\n}\nb.test {\n kubernetes {\n cluster prod\n }\n}\n";
    assert_eq!(Bench::refused(crate::CHAIN, corefile).lines().count(), 2);
}

#[tokio::test]
async fn declared_clusters_answer_under_any_zone_and_outlive_a_reload() {
    let folder = Folder::new("");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.96.0.9}\n";
    folder.write("objects/shop.yaml", service);
    let corefile = format!(
        "(uses) {{\n kubernetes {{\n cluster prod\n }}\n}}\na.test {{\n import uses\n}}\nb.test {{\n import uses\n}}\ncluster://prod {{\n manifests {}\n startup_timeout 10s\n}}\n",
        folder.path("objects").display()
    );
    let mut bench = Bench::new(crate::CHAIN, &corefile);
    assert!(bench.built.warnings.is_empty(), "{:?}", bench.built.warnings);
    bench.built.waits.over().await.unwrap();
    let reply = |zone: &str| format!("NOERROR aa rd | web.shop.svc.{zone}. 5 A 10.96.0.9");
    assert_eq!(bench.now("web.shop.svc.a.test"), reply("a.test"));
    assert_eq!(bench.now("web.shop.svc.b.test"), reply("b.test"));
    bench.reload(&corefile.replace("b.test", "c.test")).unwrap();
    assert_eq!(bench.now("web.shop.svc.c.test"), reply("c.test"), "the watches went on");
    let page = engine::metrics::render();
    let own = "causeway_kubernetes_objects{cluster=\"prod\",kind=\"services\"} 1";
    assert!(page.contains(own), "{page}");
}

#[tokio::test]
async fn two_sets_of_a_cluster_have_figures_together() {
    let folder = Folder::new("");
    let service = |name: &str, tier: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop, labels: {{tier: {tier}}}}}\nspec: {{clusterIP: 10.96.0.9}}\n---\n"
        )
    };
    let services = [service("a", "web"), service("b", "web"), service("c", "data")].concat();
    folder.write("objects/shop.yaml", &services);
    let block = |zone: &str, more: &str| {
        format!("{zone} {{\n kubernetes {{\n cluster twice\n {more}\n }}\n}}\n")
    };
    let declared = format!(
        "cluster://twice {{\n manifests {}\n startup_timeout 10s\n}}\n",
        folder.path("objects").display()
    );
    let (web, data) = (block("a.test", "labels tier=web"), block("b.test", "labels tier=data"));
    let mut bench = Bench::new(crate::CHAIN, &[&*declared, &web, &data].concat());
    bench.built.waits.over().await.unwrap();
    let objects = || {
        let own = "causeway_kubernetes_objects{cluster=\"twice\",kind=\"services\"} ";
        let page = engine::metrics::render();
        page.lines().find_map(|line| line.strip_prefix(own).map(str::to_owned))
    };
    assert_eq!(objects().as_deref(), Some("3"));
    // One of them ends with its block.
    bench.reload(&[&*declared, &data].concat()).unwrap();
    for _ in 0..100 {
        if objects().as_deref() == Some("1") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(objects().as_deref(), Some("1"));
}

#[tokio::test]
async fn clusters_without_a_name_are_told_apart_where_their_contexts_are_not() {
    let folder = Folder::new("");
    let context = "kubernetes-admin@kubernetes";
    let block = |file: &str, port: u16| {
        folder.write(
            file,
            &format!(
                "clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\ncontexts: [{{name: {context}, context: {{cluster: c, user: u}}}}]\n"
            ),
        );
        let file = folder.path(file);
        format!(
            "{port}.test {{\n kubernetes {{\n kubeconfig {} {context}\n startup_timeout 0s\n }}\n}}\n",
            file.display()
        )
    };
    let (one, two) = (block("one", 1), block("two", 2));
    let word = |file: &str| format!("{}#{context}", folder.path(file).display());
    let mut bench = Bench::new(crate::CHAIN, &[&*one, &two].concat());
    // Whichever comes first.
    for turn in 0..2 {
        let live = bench.gateway.live();
        let mut subjects: Vec<_> = live.controls("verify").map(|one| one.subject.clone()).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, [word("one"), word("two")], "{turn}");
        let told = || {
            let page = engine::metrics::render();
            let own = |file| format!("causeway_kubernetes_stale{{cluster=\"{}\"}} 1", word(file));
            page.contains(&own("one")) && page.contains(&own("two"))
        };
        for _ in 0..100 {
            if told() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(told(), "{turn}: {}", engine::metrics::render());
        bench.reload(&[&*two, &one].concat()).unwrap();
    }
}
