//! The roles that `causeway rbac` prints, on a real API server: they are enough, and nothing of them is too much.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::gateway::binary;
use tests::{Api, Cluster, Folder, Gateway, Query, Reply};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// In the place of what the directive says: the cluster is declared, and *clusterset* answers for it too.
const SET: &str = "clusterset";

/// EDE 14: not ready (RFC 8914 4.15).
const NOT_READY: u16 = 14;

/// What a name is answered: something, nothing, that it is not there, or that it can not be said for want of rights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    /// Records.
    Records,
    /// None, but the name is there.
    Nothing,
    /// NXDOMAIN.
    Denied,
    /// SERVFAIL with EDE 14.
    Failed,
}

use Told::{Denied, Failed, Nothing, Records};

/// A rule that takes a right, and what names are answered without it.
type Rule = (&'static str, &'static [(&'static str, Told)]);

/// What the gateway's account can be bound to, one row each: a name, what the directive says, and the rules that it takes: namespace,
/// resource and verbs.
const ROWS: &[(&str, &str, &[Rule])] = &[
    (
        "whole",
        "pods verified\n multicluster clusterset.local",
        &[
            (
                "- apiGroups: [\"\"] resources: [namespaces] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("ip.shop.svc.cluster.local", Records),
                    ("db.shop.svc.cluster.local", Records),
                    ("10-96-60-201.shop.pod.cluster.local", Records),
                    ("far.shop.svc.clusterset.local", Records),
                    ("1.60.96.10.in-addr.arpa PTR", Records),
                    ("shop.svc.cluster.local", Nothing),
                    ("nope.shop.svc.cluster.local", Denied),
                    ("nope.dns.svc.cluster.local", Denied),
                    // It is there, and nothing is in it.
                    ("dns.svc.cluster.local", Failed),
                    ("nosuch.svc.cluster.local", Failed),
                ],
            ),
            (
                "- apiGroups: [\"\"] resources: [pods] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("db.shop.svc.cluster.local", Records),
                    ("dns.svc.cluster.local", Nothing),
                    ("10-96-60-201.shop.pod.cluster.local", Failed),
                ],
            ),
            (
                "- apiGroups: [\"\"] resources: [services] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Failed),
                    ("db.shop.svc.cluster.local", Failed),
                    ("nope.shop.svc.cluster.local", Failed),
                    ("1.60.96.10.in-addr.arpa PTR", Failed),
                ],
            ),
            (
                "- apiGroups: [\"discovery.k8s.io\"] resources: [endpointslices] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("ip.shop.svc.cluster.local", Records),
                    ("ip.shop.svc.cluster.local AAAA", Nothing),
                    ("_http._tcp.ip.shop.svc.cluster.local SRV", Records),
                    ("1.60.96.10.in-addr.arpa PTR", Records),
                    ("10-96-60-201.shop.pod.cluster.local", Records),
                    ("far.shop.svc.clusterset.local", Records),
                    ("nope.shop.svc.cluster.local", Denied),
                    ("nosuch.svc.cluster.local", Denied),
                    ("db.shop.svc.cluster.local", Failed),
                    ("db-0.db.shop.svc.cluster.local", Failed),
                    ("201.60.96.10.in-addr.arpa PTR", Failed),
                    ("9.60.96.10.in-addr.arpa PTR", Failed),
                ],
            ),
            (
                "- apiGroups: [\"multicluster.x-k8s.io\"] resources: [serviceimports] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("db.shop.svc.cluster.local", Records),
                    ("far.shop.svc.clusterset.local", Failed),
                ],
            ),
        ],
    ),
    (
        "labels",
        "namespace_labels dns=on\n noendpoints",
        &[
            (
                "- apiGroups: [\"\"] resources: [namespaces] verbs: [list, watch]",
                // Which are to be seen is what namespaces say.
                &[
                    ("web.shop.svc.cluster.local CNAME", Failed),
                    ("web.edge.svc.cluster.local CNAME", Failed),
                ],
            ),
            (
                "- apiGroups: [\"\"] resources: [services] verbs: [list, watch]",
                &[("web.shop.svc.cluster.local CNAME", Failed)],
            ),
        ],
    ),
    (
        "set",
        SET,
        &[
            (
                "- apiGroups: [\"\"] resources: [namespaces] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("nope.shop.svc.cluster.local", Denied),
                ],
            ),
            (
                "- apiGroups: [\"\"] resources: [services] verbs: [list, watch]",
                &[("web.shop.svc.cluster.local CNAME", Failed)],
            ),
            (
                "- apiGroups: [\"discovery.k8s.io\"] resources: [endpointslices] verbs: [list, watch]",
                &[("ip.shop.svc.cluster.local", Records), ("db.shop.svc.cluster.local", Failed)],
            ),
            (
                "- apiGroups: [\"multicluster.x-k8s.io\"] resources: [serviceexports] verbs: [list, watch]",
                &[
                    ("db.shop.svc.cluster.local", Records),
                    ("far.shop.svc.clusterset.local", Records),
                ],
            ),
            (
                "- apiGroups: [\"multicluster.x-k8s.io\"] resources: [serviceimports] verbs: [list, watch]",
                &[("db.shop.svc.cluster.local", Records)],
            ),
        ],
    ),
    (
        "apart",
        "namespaces shop edge\n pods verified",
        &[
            (
                "edge - apiGroups: [\"\"] resources: [namespaces] verbs: [get] resourceNames: [edge]",
                &[
                    ("web.edge.svc.cluster.local CNAME", Records),
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("edge.svc.cluster.local", Nothing),
                    ("dns.svc.cluster.local", Denied),
                ],
            ),
            (
                "edge - apiGroups: [\"\"] resources: [pods] verbs: [list, watch]",
                &[
                    ("web.edge.svc.cluster.local CNAME", Records),
                    ("10-96-60-201.shop.pod.cluster.local", Records),
                    ("10-96-60-9.shop.pod.cluster.local", Denied),
                    ("10-96-60-202.edge.pod.cluster.local", Failed),
                ],
            ),
            (
                "edge - apiGroups: [\"\"] resources: [services] verbs: [list, watch]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("nope.shop.svc.cluster.local", Denied),
                    ("web.edge.svc.cluster.local CNAME", Failed),
                ],
            ),
            (
                "edge - apiGroups: [\"discovery.k8s.io\"] resources: [endpointslices] verbs: [list, watch]",
                &[
                    ("db.shop.svc.cluster.local", Records),
                    ("web.edge.svc.cluster.local CNAME", Failed),
                ],
            ),
            (
                "shop - apiGroups: [\"\"] resources: [namespaces] verbs: [get] resourceNames: [shop]",
                &[
                    ("web.shop.svc.cluster.local CNAME", Records),
                    ("shop.svc.cluster.local", Nothing),
                ],
            ),
            (
                "shop - apiGroups: [\"\"] resources: [pods] verbs: [list, watch]",
                &[
                    ("10-96-60-202.edge.pod.cluster.local", Records),
                    ("db.shop.svc.cluster.local", Records),
                    ("10-96-60-201.shop.pod.cluster.local", Failed),
                ],
            ),
            (
                "shop - apiGroups: [\"\"] resources: [services] verbs: [list, watch]",
                &[
                    ("web.edge.svc.cluster.local CNAME", Records),
                    ("web.shop.svc.cluster.local CNAME", Failed),
                ],
            ),
            (
                "shop - apiGroups: [\"discovery.k8s.io\"] resources: [endpointslices] verbs: [list, watch]",
                &[
                    ("web.edge.svc.cluster.local CNAME", Records),
                    ("db.shop.svc.cluster.local", Failed),
                ],
            ),
        ],
    ),
];

/// What is there.
const OBJECTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {dns: 'on'}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: edge}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: dns}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {type: ExternalName, externalName: www.example.org}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: edge}, spec: {type: ExternalName, externalName: www.example.org}}
---
{apiVersion: v1, kind: Service, metadata: {name: ip, namespace: shop}, spec: {clusterIP: 10.96.60.1, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.96.60.201], hostname: db-0}]
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: shop}
spec: {containers: [{name: c, image: 'registry.example/web:1'}]}
status: {phase: Running, podIP: 10.96.60.201, podIPs: [{ip: 10.96.60.201}]}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: edge}
spec: {containers: [{name: c, image: 'registry.example/web:1'}]}
status: {phase: Running, podIP: 10.96.60.202, podIPs: [{ip: 10.96.60.202}]}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: far, namespace: shop}, spec: {type: ClusterSetIP, ips: [10.96.61.1], ports: [{name: http, port: 80, protocol: TCP}]}}
";

/// The cluster of all tests of this file.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::start();
        cluster.add_multicluster();
        cluster.apply(OBJECTS);
        cluster
    })
}

/// The Corefile of a row.
fn corefile(properties: &str, kubeconfig: &str) -> String {
    if properties == SET {
        return format!(
            "cluster://it {{
    kubeconfig {kubeconfig}
}}
cluster.local:@PORT@ {{
    errors
    prometheus 127.0.0.1:@PORT:metrics@
    kubernetes {{
        cluster it
    }}
}}
clusterset.local:@PORT@ {{
    errors
    clusterset {{
        cluster it
    }}
}}
"
        );
    }
    format!(
        "cluster.local:@PORT@ clusterset.local:@PORT@ 10.in-addr.arpa:@PORT@ {{
    errors
    prometheus 127.0.0.1:@PORT:metrics@
    kubernetes {{
        kubeconfig {kubeconfig}
        {properties}
    }}
}}
"
    )
}

/// What `causeway rbac` prints for a Corefile and an account.
fn printed(properties: &str, account: &str) -> String {
    let folder = Folder::new("rbac");
    // It is printed before there is any kubeconfig.
    let text = corefile(properties, "nosuch.kubeconfig").replace("@PORT@", "53");
    let file = folder.write("Corefile", text.replace("@PORT:metrics@", "9153"));
    let output =
        Command::new(binary()).args(["rbac", "-account", account]).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Where a rule is in a manifest: its document's number and its lines there.
type Place = (usize, std::ops::Range<usize>);

/// The documents of a manifest, each in its lines, and the place of each rule in them: document and lines.
fn rules(manifest: &str) -> (Vec<Vec<String>>, Vec<Place>) {
    let documents: Vec<Vec<String>> = manifest
        .split("---\n")
        .map(|document| document.lines().map(str::to_owned).collect())
        .collect();
    let mut places = Vec::new();
    for (number, lines) in documents.iter().enumerate() {
        let starts: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].starts_with("- apiGroups:")).collect();
        for (at, start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(lines.len());
            places.push((number, *start..end));
        }
    }
    (documents, places)
}

/// Makes an account in the namespace `dns`; gives the text of its kubeconfig.
fn account(name: &str) -> String {
    let cluster = cluster();
    cluster.apply(&format!(
        "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {name}, namespace: dns}}}}"
    ));
    let body = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}"#;
    let path = format!("/api/v1/namespaces/dns/serviceaccounts/{name}/token");
    let (status, object) =
        Api::new(cluster, "admin").session().send("POST", &path, "application/json", body);
    assert_eq!(status, 201, "{object}");
    let token = object["status"]["token"].as_str().unwrap();
    format!(
        "apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: '{}', certificate-authority: '{}'}}}}]
users: [{{name: it, user: {{token: '{token}'}}}}]
",
        cluster.url(),
        cluster.ca().display()
    )
}

/// Waits until the gauges of a gateway say something.
fn until(gateway: &Gateway, what: &str, so: impl Fn(&BTreeMap<String, f64>) -> bool) {
    let said = tests::until(LIMIT, || so(&gateway.metrics("metrics")).then_some(()));
    if said.is_none() {
        let mut gauges = gateway.metrics("metrics");
        gauges.retain(|name, _| name.starts_with("causeway_kubernetes_"));
        panic!("{what}: not so in time: {gauges:#?}\n{}", gateway.output());
    }
}

/// The values of the gauge of rights whose labels hold all of these texts.
fn granted(gauges: &BTreeMap<String, f64>, labels: &[&str]) -> Vec<f64> {
    let ours = gauges.iter().filter(|(name, _)| {
        name.starts_with("causeway_kubernetes_granted{")
            && labels.iter().all(|label| name.contains(label))
    });
    ours.map(|(_, value)| *value).collect()
}

/// A gateway with these properties as an account.
fn gateway(properties: &str, kubeconfig: &str) -> Gateway {
    Gateway::new(&corefile(properties, "kubeconfig")).file("kubeconfig", kubeconfig).start()
}

/// What a reply tells, if it is one of what may be told.
fn read(reply: &Reply) -> Option<Told> {
    let unready = reply.extended().is_some_and(|(code, _)| code == NOT_READY);
    match (reply.rcode(), reply.answers().is_empty()) {
        (ResponseCode::ServFail, true) if unready => Some(Failed),
        _ if unready => None,
        (ResponseCode::NoError, false) => Some(Records),
        (ResponseCode::NoError, true) => Some(Nothing),
        (ResponseCode::NXDomain, true) => Some(Denied),
        _ => None,
    }
}

/// Goes through a row: what is printed, that it is enough, and that nothing of it can be left out.
fn row((name, properties, want): &(&str, &str, &[Rule])) {
    let kubeconfig = account(name);
    let manifest = printed(properties, &format!("dns/{name}"));
    let (documents, places) = rules(&manifest);
    let shown = places.iter().map(|(document, lines)| {
        let namespace =
            documents[*document].iter().find_map(|line| line.strip_prefix("  namespace: "));
        let rule: Vec<&str> =
            documents[*document][lines.clone()].iter().map(|line| line.trim()).collect();
        [namespace.unwrap_or_default(), &rule.join(" ")].join(" ").trim().to_owned()
    });
    let rules: Vec<&str> = want.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(shown.collect::<Vec<_>>(), rules, "{manifest}");

    cluster().apply(&manifest);
    let kinds = ["services"].iter().chain(if properties.contains("noendpoints") {
        &[][..]
    } else {
        &["endpointslices"]
    });
    let full = gateway(properties, &kubeconfig);
    until(&full, "all is followed", |gauges| {
        let watching = |kind: &str| {
            let mut states = gauges.iter().filter(|(name, _)| {
                name.contains("watch_state")
                    && name.contains("\"watching\"")
                    && name.contains(&format!("kind=\"{kind}\""))
            });
            states.next().is_some_and(|(_, value)| *value == 1.0)
        };
        let rights = granted(gauges, &[]);
        kinds.clone().all(|kind| watching(kind))
            && rights.len() >= want.len().min(2)
            && rights.iter().all(|right| *right == 1.0)
    });
    full.ask_until("web.shop.svc.cluster.local CNAME", LIMIT, |reply| !reply.aliases().is_empty());
    assert!(!full.output().contains("forbidden"), "{}", full.output());
    drop(full);

    for (left, (document, lines)) in places.iter().enumerate() {
        let mut less = documents.clone();
        less[*document].drain(lines.clone());
        // A role whose only rule is left out has none.
        let emptied = |line: &mut String| {
            if line == "rules:" {
                line.push_str(" []");
            }
        };
        if !less[*document].iter().any(|line| line.starts_with("- apiGroups:")) {
            less[*document].iter_mut().for_each(emptied);
        }
        let text: Vec<String> = less.iter().map(|lines| lines.join("\n") + "\n").collect();
        cluster().apply(&text.join("---\n"));
        let (rule, told) = want[left];
        let resource =
            rule.split("resources: [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        // The names of namespaces are found out for all of them at once.
        let namespace = match rule.split_once(' ').unwrap().0 {
            _ if resource == "namespaces" => "",
            "-" => "",
            namespace => namespace,
        };
        let poor = gateway(properties, &kubeconfig);
        let labels = [format!("kind=\"{resource}\""), format!("namespace=\"{namespace}\"")];
        until(&poor, rule, |gauges| granted(gauges, &[&labels[0], &labels[1]]).contains(&0.0));
        let log = poor.line("forbidden");
        assert!(log.contains(resource), "{rule}: {log}");
        // What is known first: the rest would fail at the start, too.
        for first in [true, false] {
            for (question, want) in told.iter().filter(|(_, want)| (*want != Failed) == first) {
                let query = Query::from(*question).bufsize(1232);
                let said = tests::until(LIMIT, || {
                    query.ask(poor.address()).filter(|reply| read(reply) == Some(*want))
                });
                let now = || format!("{:?}\n{}", query.ask(poor.address()), poor.output());
                assert!(said.is_some(), "without {rule}: {question}: {}", now());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        // It stays so.
        for (question, want) in told {
            let reply = poor.ask(Query::from(*question).bufsize(1232));
            assert_eq!(read(&reply), Some(*want), "without {rule}: {question}: {reply:?}");
        }
    }
    // What is missing comes back without a restart.
    let poor = gateway(properties, &kubeconfig);
    until(&poor, "a right is missing", |gauges| granted(gauges, &[]).contains(&0.0));
    cluster().apply(&manifest);
    until(&poor, "the right is there", |gauges| {
        let rights = granted(gauges, &["kind=\"endpointslices\""])
            .into_iter()
            .chain(granted(gauges, &["kind=\"services\""]));
        rights.clone().count() > 0 && rights.into_iter().all(|right| right == 1.0)
    });
}

#[test]
fn a_cluster_role_is_enough_and_nothing_of_it_too_much() {
    row(&ROWS[0]);
}

#[test]
fn less_is_followed_with_less() {
    row(&ROWS[1]);
}

#[test]
fn the_role_for_a_cluster_set_is_enough_and_nothing_of_it_too_much() {
    row(&ROWS[2]);
}

#[test]
fn roles_in_two_namespaces_are_enough_and_nothing_of_them_too_much() {
    row(&ROWS[3]);
}

#[test]
fn a_namespace_without_its_role_leaves_the_other() {
    let kubeconfig = account("half");
    let manifest = printed("namespaces shop edge", "dns/half");
    let (documents, _) = rules(&manifest);
    let shop =
        documents.iter().filter(|lines| lines.iter().any(|line| line == "  namespace: shop"));
    let text: Vec<String> = shop.map(|lines| lines.join("\n") + "\n").collect();
    cluster().apply(&text.join("---\n"));
    let gateway = gateway("namespaces shop edge", &kubeconfig);
    gateway
        .ask_until("web.shop.svc.cluster.local CNAME", LIMIT, |reply| !reply.aliases().is_empty());
    assert_eq!(gateway.ask("web.edge.svc.cluster.local CNAME").rcode(), ResponseCode::ServFail);
    assert_eq!(gateway.ask("web.other.svc.cluster.local CNAME").rcode(), ResponseCode::NXDomain);
    cluster().apply(&manifest);
    gateway
        .ask_until("web.edge.svc.cluster.local CNAME", LIMIT, |reply| !reply.aliases().is_empty());
}
