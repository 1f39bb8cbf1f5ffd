//! A gateway for a cluster, clients that ask all the time, and what the API server saw of the credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tests::api::Session;
use tests::{
    Api, Cluster, Folder, Gateway, Relay, Watchman, api, gateway, stated, until, watchman,
};

/// How long something may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How long watches may go on with credentials that were replaced.
const TAKEN: Duration = Duration::from_secs(10);

/// How many kinds of objects are watched: namespaces, services and slices.
pub(crate) const KINDS: usize = 3;

/// How often credentials are replaced.
pub(crate) fn rotations() -> usize {
    stated("ROTATIONS", 3.0) as usize
}

/// The cluster of all tests of this file, which takes note of who asks.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::with(&["--audit"]))
}

/// A namespace with what clients ask for, an alias that each rotation changes, and an account; the account, and a user with the
/// name of the namespace, may read what a gateway has to.
pub(crate) fn objects(namespace: &str) -> String {
    format!(
        "
{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: {namespace}}}, spec: {{type: ExternalName, externalName: www.example.org}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: db, namespace: {namespace}}}, spec: {{clusterIP: None, ports: [{{name: pg, port: 5432}}]}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: turn, namespace: {namespace}}}, spec: {{type: ExternalName, externalName: t0.example.org}}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: db-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: db}}}}
addressType: IPv4
ports: [{{name: pg, port: 5432, protocol: TCP}}]
endpoints: [{{addresses: [172.16.70.1], hostname: db-0}}, {{addresses: [172.16.70.2], hostname: db-1}}]
---
{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: gateway, namespace: {namespace}}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dns-reader}}
subjects:
- {{kind: ServiceAccount, name: gateway, namespace: {namespace}}}
- {{kind: User, apiGroup: rbac.authorization.k8s.io, name: {namespace}}}
"
    )
}

/// A way to the cluster that can be cut, and a gateway with clients.
pub(crate) struct Bench {
    /// The namespace.
    pub(crate) namespace: &'static str,
    /// The clients.
    pub(crate) watchman: Watchman,
    /// The gateway.
    pub(crate) gateway: Gateway,
    /// The way.
    pub(crate) relay: Relay,
    /// Changes things.
    session: Session,
    /// The turns so far.
    turns: usize,
}

impl Bench {
    /// Starts a gateway whose kubeconfig has a user as this YAML says; clients begin when it knows the cluster.
    pub(crate) fn start(namespace: &'static str, folder: &Folder, user: &str) -> Self {
        let relay = Relay::start(cluster().address());
        let text = cluster().kubeconfig_at("reader", relay.address());
        let (before, _) = text.split_once("users:").expect("it has users");
        let text = format!("{before}users:\n- name: reader\n  user: {user}\n");
        let kubeconfig = folder.write("kubeconfig", text);
        Self::behind(namespace, relay, serving(&format!("kubeconfig {}", kubeconfig.display())))
    }

    /// The same for a gateway that finds the cluster at a way.
    pub(crate) fn behind(
        namespace: &'static str,
        relay: Relay,
        gateway: gateway::Builder<'_>,
    ) -> Self {
        let gateway = gateway.start();
        let names: Vec<String> = ["db A", "db-0.db A", "_pg._tcp.db SRV", "web CNAME", "nothing A"]
            .iter()
            .map(|n| n.replace(' ', &format!(".{namespace}.svc.cluster.local ")))
            .collect();
        gateway.ask_until(names[0].as_str(), LIMIT, |r| r.addresses().len() == 2);
        let watchman = Watchman::start(vec![watchman::steady(gateway.address(), &names)]);
        let session = Api::new(cluster(), "admin").session();
        Self { namespace, watchman, gateway, relay, session, turns: 0 }
    }

    /// Changes something in the cluster and waits until it is answered.
    pub(crate) fn turn(&mut self) {
        self.turns += 1;
        let target = format!("t{}.example.org", self.turns);
        let patch = format!("{{\"spec\": {{\"externalName\": \"{target}\"}}}}");
        let path = format!("/api/v1/namespaces/{}/services/turn", self.namespace);
        let (status, object) = self.session.send("PATCH", &path, api::MERGE, &patch);
        assert_eq!(status, 200, "{object}");
        let ends = format!("-> {target}.");
        let name = format!("turn.{}.svc.cluster.local CNAME", self.namespace);
        let seen = until(LIMIT, || {
            let reply = self.gateway.ask(name.as_str());
            reply.aliases().iter().any(|a| a.ends_with(&ends)).then_some(())
        });
        assert!(seen.is_some(), "{target} is not answered:\n{}", self.gateway.output());
    }

    /// Waits until all watches have moved to new credentials.
    pub(crate) fn moves(&self, moved: impl Fn() -> bool) {
        let moved = until(TAKEN, || moved().then_some(()));
        assert!(moved.is_some(), "watches stay as they were:\n{}", self.gateway.output());
    }

    /// How many requests to the API server failed.
    pub(crate) fn failures(&self) -> f64 {
        let failed = |(name, value): (String, f64)| {
            let hit = name.starts_with("coredns_kubernetes_rest_client_requests_total")
                && name.contains("<error>");
            hit.then_some(value)
        };
        self.gateway.metrics("metrics").into_iter().filter_map(failed).sum()
    }
}

/// A gateway for a cluster that these lines lead to, not yet started.
pub(crate) fn serving<'a>(properties: &str) -> gateway::Builder<'a> {
    Gateway::new(&format!(
        "cluster.local:@PORT@ {{\n errors\n prometheus localhost:@PORT:metrics@\n kubernetes {{\n  {properties}\n }}\n}}"
    ))
}

/// The API server's own name for the credentials of a request.
fn credential(event: &serde_json::Value) -> String {
    let id = &event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    id.as_str().unwrap_or_else(|| panic!("no credentials: {event}")).to_owned()
}

/// Which credentials of a user the API server saw.
pub(crate) fn seen(user: &str) -> BTreeSet<String> {
    cluster().audit_of(user).iter().map(credential).collect()
}

/// The name of the account of a namespace.
pub(crate) fn account(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:gateway")
}

/// A token of that account.
pub(crate) fn issue(session: &mut Session, namespace: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/gateway/token");
    let body = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}"#;
    let (status, object) = session.send("POST", &path, "application/json", body);
    assert_eq!(status, 201, "{object}");
    object["status"]["token"].as_str().expect("it has a token").to_owned()
}

/// Replaces a file in one step.
pub(crate) fn replace(folder: &Folder, name: &str, text: &str) {
    let new = folder.write(&format!("{name}.new"), text);
    fs::rename(new, folder.path().join(name)).expect("it can be replaced");
}

/// Puts files where the kubelet puts them in a pod: each is a link into a folder that a link leads to, which is replaced.
pub(crate) fn project(folder: &Folder, number: usize, files: &[(&str, &str)]) {
    for (name, text) in files {
        folder.write(&format!("..{number}/{name}"), text);
    }
    let (new, data) = (folder.path().join("..data_tmp"), folder.path().join("..data"));
    symlink(format!("..{number}"), &new).expect("a link can be made");
    fs::rename(&new, &data).expect("a link can be replaced");
    if number == 0 {
        for (name, _) in files {
            symlink(format!("..data/{name}"), folder.path().join(name))
                .expect("a link can be made");
        }
    } else {
        fs::remove_dir_all(folder.path().join(format!("..{}", number - 1))).expect("it is there");
    }
}

/// How many credentials of a user the API server saw, and with how many of them all kinds were watched.
fn watched(user: &str) -> (usize, usize) {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in cluster().audit_of(user) {
        let kinds = all.entry(credential(&event)).or_default();
        if event["verb"] == "watch" {
            kinds.extend(event["objectRef"]["resource"].as_str().map(str::to_owned));
        }
    }
    (all.len(), all.values().filter(|kinds| kinds.len() >= KINDS).count())
}

/// Replaces credentials again and again; each time all kinds have to be watched with the new ones in time, though no connection is
/// broken, and then something changes. `replace` gives what tells that they are. Prints what came of it.
pub(crate) fn rotate<M: Fn() -> bool>(
    bench: &mut Bench,
    what: &str,
    mut replace: impl FnMut(&Bench, usize) -> M,
) {
    let mut longest = Duration::ZERO;
    for number in 1..=rotations() {
        let moved = replace(bench, number);
        let begun = Instant::now();
        bench.moves(moved);
        longest = longest.max(begun.elapsed());
        bench.turn();
    }
    let log = bench.gateway.output();
    assert!(!log.contains("eyJ") && !log.contains("PRIVATE KEY"), "a secret is in the log");
    println!(
        "{} rotations of a {what} without a break: {} answers, none failed; watches moved within {:.1} s",
        rotations(),
        bench.watchman.count(),
        longest.as_secs_f64()
    );
}

/// The same for what the API server knows a user by.
pub(crate) fn rotate_user(mut bench: Bench, what: &str, user: &str, mut replace: impl FnMut()) {
    rotate(&mut bench, what, |_, _| {
        let (before, _) = watched(user);
        replace();
        move || watched(user).1 > before
    });
    bench.watchman.end(&bench.gateway);
}
