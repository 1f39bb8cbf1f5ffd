//! Two real API servers that both call themselves cluster.local and have the same namespaces and services: each answers under a zone
//! of its own, and both under one; when one is killed nobody notices but those who are told.

use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::watchman::{self, Watchman};
use tests::{Cluster, Gateway, Reply};

/// How long a change may take to be answered on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// What both clusters have, with other addresses: `net` is of the services, `pods` of the endpoints.
fn objects(net: &str, pods: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: shop}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: shop}}
spec: {{clusterIP: {net}.10, ports: [{{name: http, port: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: front, namespace: shop}}
spec: {{type: ExternalName, externalName: web.shop.svc.cluster.local}}
---
apiVersion: v1
kind: Service
metadata: {{name: db, namespace: shop}}
spec: {{clusterIP: None, ports: [{{name: sql, port: 5432}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: db-1, namespace: shop, labels: {{kubernetes.io/service-name: db}}}}
addressType: IPv4
ports: [{{name: sql, port: 5432, protocol: TCP}}]
endpoints: [{{addresses: [{pods}.5], hostname: db-0, conditions: {{ready: true}}}}]
"
    )
}

/// A service that only one cluster has.
fn service(name: &str, ip: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, spec: {{clusterIP: {ip}, ports: [{{name: http, port: 80}}]}}}}"
    )
}

/// A gateway with a zone for each cluster, and one for both.
fn gateway(prod: &Cluster, stage: &Cluster) -> Gateway {
    let kubeconfig = |cluster: &Cluster| cluster.kubeconfig("reader").display().to_string();
    Gateway::new(&format!(
        "cluster://prod {{
    kubeconfig {}
}}
cluster://stage {{
    kubeconfig {}
}}
prod.test:@PORT@ 10.96.0.0/16:@PORT@ {{
    errors
    ready localhost:@PORT:ready@
    prometheus localhost:@PORT:metrics@
    kubernetes {{
        cluster prod
    }}
}}
stage.test:@PORT@ {{
    errors
    kubernetes {{
        cluster stage
    }}
}}
all.test:@PORT@ 10.0.0.0/8:@PORT@ {{
    errors
    kubernetes {{
        cluster prod stage
    }}
}}
",
        kubeconfig(prod),
        kubeconfig(stage)
    ))
    .start()
}

/// Asks for a name with EDNS.
fn asked(gateway: &Gateway, name: &str) -> Reply {
    gateway.ask(tests::Query::from(name).bufsize(1232))
}

/// The slowest of many answers, and the one that 99 of 100 are not slower than.
fn latency(gateway: &Gateway, name: &str) -> (Duration, Duration) {
    let mut all: Vec<Duration> = (0..400)
        .map(|_| {
            let begin = Instant::now();
            let reply = gateway.ask(name);
            assert_eq!(reply.rcode(), ResponseCode::NoError, "{name}: {reply:?}");
            begin.elapsed()
        })
        .collect();
    all.sort_unstable();
    (all[399], all[395])
}

#[test]
fn clusters_of_one_name_answer_each_its_own_and_one_that_is_killed_takes_nobody_along() {
    let prod = Cluster::start();
    let mut stage = Cluster::start();
    prod.apply(&objects("10.96.70", "10.244.7"));
    stage.apply(&objects("10.96.80", "10.245.7"));
    stage.apply(&service("only", "10.96.80.30"));
    let gateway = gateway(&prod, &stage);
    gateway.ask_until("only.shop.svc.all.test", LIMIT, |r| r.addresses().len() == 1);

    // Each its own, and no name of the clusters' domain.
    for (zone, net, pods) in [
        ("prod.test", "10.96.70", "10.244.7"),
        ("stage.test", "10.96.80", "10.245.7"),
        ("all.test", "10.96.70", "10.244.7"),
    ] {
        let answers = |question: &str| {
            let reply = gateway.ask(format!("{question}.shop.svc.{zone}").as_str());
            let mut all = reply.answers();
            all.extend(reply.additionals());
            all.join("; ")
        };
        let ip = format!("{net}.10");
        assert_eq!(
            gateway.ask(format!("web.shop.svc.{zone}").as_str()).addresses(),
            [ip.parse::<std::net::IpAddr>().unwrap()]
        );
        let db = gateway.ask(format!("db-0.db.shop.svc.{zone}").as_str());
        assert_eq!(db.addresses(), [format!("{pods}.5").parse::<std::net::IpAddr>().unwrap()]);
        let front = gateway.ask(format!("front.shop.svc.{zone}").as_str());
        let alias = format!("front.shop.svc.{zone}. -> web.shop.svc.{zone}.");
        assert_eq!(front.aliases(), [alias], "{front:?}");
        assert!(!answers("front").contains("cluster.local"));
        let srv = gateway.ask(format!("_sql._tcp.db.shop.svc.{zone} SRV").as_str());
        assert!(srv.answers()[0].contains(&format!("db-0.db.shop.svc.{zone}")), "{srv:?}");
    }
    let ptr = gateway.ask("10.70.96.10.in-addr.arpa PTR");
    assert!(ptr.answers()[0].ends_with("web.shop.svc.prod.test."), "{ptr:?}");
    let ptr = gateway.ask("5.7.245.10.in-addr.arpa PTR");
    assert_eq!(ptr.rcode(), ResponseCode::NXDomain, "prod answers for db in the union: {ptr:?}");
    let none = gateway.ask("only.shop.svc.prod.test");
    assert_eq!(none.rcode(), ResponseCode::NXDomain);
    let objects = gateway.metrics("metrics");
    for name in ["prod", "stage"] {
        let has = |key: &&String| {
            key.starts_with("causeway_kubernetes_objects")
                && key.contains(&format!("cluster=\"{name}\""))
        };
        assert!(objects.keys().any(|key| has(&key)), "{objects:?}");
    }

    // One is killed.
    let names: Vec<String> = ["prod.test", "stage.test", "all.test"]
        .iter()
        .flat_map(|zone| {
            [
                format!("web.shop.svc.{zone} A"),
                format!("db-0.db.shop.svc.{zone} A"),
                format!("_sql._tcp.db.shop.svc.{zone} SRV"),
            ]
        })
        .chain(["only.shop.svc.all.test A".to_owned(), "only.shop.svc.stage.test A".to_owned()])
        .collect();
    let watchman = Watchman::start(vec![watchman::steady(gateway.address(), &names)]);
    let (before, p99_before) = latency(&gateway, "web.shop.svc.prod.test");
    stage.kill();
    gateway.line("refused");
    let (after, p99_after) = latency(&gateway, "web.shop.svc.prod.test");
    // What the other one gains is answered at once.
    prod.apply(&service("fresh", "10.96.70.40"));
    let begin = Instant::now();
    gateway.ask_until("fresh.shop.svc.prod.test", LIMIT, |r| r.addresses().len() == 1);
    let fresh = begin.elapsed();
    assert_eq!(gateway.ask("fresh.shop.svc.all.test").addresses().len(), 1);
    // The one that is away says so, and what it was known to have is answered.
    let begin = Instant::now();
    let stale = loop {
        let reply = asked(&gateway, "only.shop.svc.all.test");
        assert_eq!(reply.addresses().len(), 1, "{reply:?}");
        match reply.extended() {
            Some(told) => break told,
            None => assert!(begin.elapsed() < LIMIT, "nothing is told:\n{}", gateway.output()),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(stale.0 == 3 && stale.1.starts_with("cluster stage: not heard of for "), "{stale:?}");
    assert_eq!(asked(&gateway, "web.shop.svc.prod.test").extended(), None);
    assert_eq!(asked(&gateway, "web.shop.svc.all.test").extended(), None, "prod answers");
    let denied = asked(&gateway, "nope.shop.svc.all.test");
    assert_eq!(denied.rcode(), ResponseCode::NXDomain);
    assert_eq!(denied.extended().map(|told| told.0), Some(19), "one of them may have it now");
    let count = watchman.end(&gateway);
    println!(
        "{count} answers over the death of a cluster, none wrong; of the other p99 {p99_before:?} before and {p99_after:?} after, most {before:?} and {after:?}; a new service after {fresh:?}"
    );
    let limit = p99_before.max(Duration::from_millis(5)) * 4;
    assert!(p99_after < limit, "{p99_after:?} after, {p99_before:?} before");
    assert_eq!(gateway.get("ready", "/ready").map(|page| page.0), Some(200));

    // It comes back, and is followed again.
    stage.restart();
    stage.apply(&service("later", "10.96.80.50"));
    gateway.ask_until("later.shop.svc.all.test", LIMIT, |r| r.addresses().len() == 1);
    let only = tests::Query::from("only.shop.svc.stage.test").bufsize(1232);
    gateway.ask_until(only, LIMIT, |r| r.addresses().len() == 1 && r.extended().is_none());
}

#[test]
fn a_cluster_that_is_away_at_the_start_fails_its_own_names_alone() {
    let prod = Cluster::start();
    let mut stage = Cluster::start();
    prod.apply(&objects("10.96.70", "10.244.7"));
    stage.apply(&service("only", "10.96.80.30").replace("namespace: shop", "namespace: default"));
    stage.kill();
    let gateway = gateway(&prod, &stage);
    gateway.ask_until("web.shop.svc.prod.test", LIMIT, |r| r.addresses().len() == 1);
    assert_eq!(gateway.ask("web.shop.svc.all.test").addresses().len(), 1);
    let failed = asked(&gateway, "only.default.svc.all.test");
    assert_eq!(failed.rcode(), ResponseCode::ServFail);
    let told = failed.extended().expect("it says why");
    assert_eq!(told, (14, "cluster stage: its objects are not known yet".to_owned()));
    stage.restart();
    gateway.ask_until("only.default.svc.all.test", LIMIT, |r| r.addresses().len() == 1);
}

#[test]
fn ranges_that_two_clusters_have_in_common_are_told() {
    let folder = tests::Folder::new("ranges");
    let declare = |name: &str, objects: &str| {
        let file = folder.write(&format!("{name}/shop.yaml"), objects);
        let manifests = file.parent().expect("it is in a folder").display().to_string();
        format!("cluster://{name} {{\n manifests {manifests}\n}}\n")
    };
    // One range of services, and one of pods, in which they have different addresses now.
    let clusters = [
        declare("east", &objects("10.96.70", "10.244.7")),
        declare("west", &objects("10.96.70", "10.244.7").replace("10.244.7.5", "10.244.7.6")),
        declare("far", &objects("10.97.70", "10.245.7")),
    ];
    let gateway = Gateway::new(&format!(
        "{}cluster.local:@PORT@ {{\n prometheus localhost:@PORT:metrics@\n kubernetes {{\n  cluster east west far\n }}\n}}",
        clusters.concat()
    ))
    .env("CAUSEWAY_RUN_DIR", &folder.path().join("run").display().to_string())
    .start();
    gateway.line(
        "clusters east and west overlap: 1 addresses of services of east lie where west has its own, such as 10.96.70.10; a client with routes to both reaches one of them",
    );
    gateway.line(
        "clusters east and west overlap: 1 addresses of endpoints of east lie where west has its own, such as 10.244.7.5; unless both are of one network,",
    );
    let found = gateway.metrics("metrics");
    for (one, other, kind, want) in [
        ("east", "west", "services", 1.0),
        ("west", "east", "services", 1.0),
        ("east", "west", "endpoints", 1.0),
        ("east", "west", "equal", 0.0),
        ("east", "far", "services", 0.0),
        ("far", "west", "endpoints", 0.0),
    ] {
        let series = format!(
            "causeway_kubernetes_overlaps{{cluster=\"{one}\",kind=\"{kind}\",other=\"{other}\"}}"
        );
        assert_eq!(found.get(&series), Some(&want), "{series}: {found:?}");
    }
    let status = std::process::Command::new(tests::gateway::binary())
        .args(["status", "--json", "--socket"])
        .arg(folder.path().join("run/causeway.sock"))
        .output()
        .expect("it can be run");
    let status = String::from_utf8_lossy(&status.stdout);
    let of = |name: &str| {
        let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
        let mut clusters = status["clusters"].as_array().expect("a list").iter();
        let cluster = clusters.find(|one| one["name"] == name).expect("it is there");
        cluster["overlaps"].to_string()
    };
    assert_eq!(
        of("west"),
        r#"[{"addresses":1,"kind":"services","such_as":"10.96.70.10","with":"east"},{"addresses":1,"kind":"endpoints","such_as":"10.244.7.6","with":"east"}]"#
    );
    assert_eq!(of("far"), "[]");
    assert!(!gateway.output().contains("far overlap"), "{}", gateway.output());
}

#[test]
fn check_counts_clusters_and_finds_what_is_wrong_with_unused_ones() {
    let corefile = "cluster://desk {\n manifests .\n}\n.:@PORT@ {\n whoami\n}\n";
    let check = |corefile: &str| {
        let folder = tests::Folder::new("corefile");
        let file = folder.write("Corefile", corefile.replace("@PORT@", "1053"));
        let done = std::process::Command::new(tests::gateway::binary())
            .env_remove("CAUSEWAY_BIN")
            .arg("check")
            .arg(&file)
            .output()
            .expect("it starts");
        format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        )
    };
    let said = check(corefile);
    assert!(said.contains("is right: 1 block and 1 cluster, and one warning"), "{said}");
    assert!(said.contains("'cluster://desk' is declared, but nothing uses it"), "{said}");
    let said = check(&corefile.replace("manifests .", "manifest ."));
    assert!(
        said.contains("'manifest' is not a property") && said.contains("did you mean 'manifests'?"),
        "{said}"
    );
    let said = check(&corefile.replace("manifests .", "domain a.test"));
    assert!(said.contains("says no way to connect to the cluster"), "{said}");
}
