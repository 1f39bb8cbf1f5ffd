//! Credentials that are replaced again and again while clients ask: no answer fails, and each new one is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::api::Session;
use tests::meddler::{self, Meddler};
use tests::{Api, Cluster, Folder, Gateway, Pki, Relay, Watchman, api, stated, until, watchman};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// How long watches may go on with credentials that were replaced.
const TAKEN: Duration = Duration::from_secs(10);

/// How many kinds of objects are watched: namespaces, services and slices.
const KINDS: usize = 3;

/// How long the certificate is good that ends while it is in use, in seconds.
const SHORT: u64 = 8;

/// How long other certificates are good, in seconds.
const LONG: u64 = 86_400;

/// How often credentials are replaced.
fn rotations() -> usize {
    stated("ROTATIONS", 3.0) as usize
}

/// The cluster of all tests of this file, which takes note of who asks.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::with(&["--audit"]))
}

/// A namespace with what clients ask for, an alias that each rotation changes, and an account; the account, and a user with the
/// name of the namespace, may read what a gateway has to.
fn objects(namespace: &str) -> String {
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
struct Bench {
    /// The namespace.
    namespace: &'static str,
    /// The clients.
    watchman: Watchman,
    /// The gateway.
    gateway: Gateway,
    /// The way.
    relay: Relay,
    /// Changes things.
    session: Session,
    /// The turns so far.
    turns: usize,
}

impl Bench {
    /// Starts a gateway whose kubeconfig has a user as this YAML says; clients begin when it knows the cluster.
    fn start(namespace: &'static str, folder: &Folder, user: &str) -> Self {
        let relay = Relay::start(cluster().address());
        let text = cluster().kubeconfig_at("reader", relay.address());
        let (before, _) = text.split_once("users:").expect("it has users");
        let text = format!("{before}users:\n- name: reader\n  user: {user}\n");
        Self::behind(namespace, relay, &folder.write("kubeconfig", text))
    }

    /// The same for a kubeconfig that leads to a way.
    fn behind(namespace: &'static str, relay: Relay, kubeconfig: &Path) -> Self {
        let gateway = Gateway::new(&format!(
            "cluster.local:@PORT@ {{\n errors\n prometheus localhost:@PORT:metrics@\n kubernetes {{\n  kubeconfig {}\n }}\n}}",
            kubeconfig.display()
        ))
        .start();
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
    fn turn(&mut self) {
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
    fn moves(&self, moved: impl Fn() -> bool) {
        let moved = until(TAKEN, || moved().then_some(()));
        assert!(moved.is_some(), "watches stay as they were:\n{}", self.gateway.output());
    }

    /// How many requests to the API server failed.
    fn failures(&self) -> f64 {
        let failed = |(name, value): (String, f64)| {
            let hit = name.starts_with("coredns_kubernetes_rest_client_requests_total")
                && name.contains("<error>");
            hit.then_some(value)
        };
        self.gateway.metrics("metrics").into_iter().filter_map(failed).sum()
    }
}

/// The API server's own name for the credentials of a request.
fn credential(event: &serde_json::Value) -> String {
    let id = &event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    id.as_str().unwrap_or_else(|| panic!("no credentials: {event}")).to_owned()
}

/// Which credentials of a user the API server saw.
fn seen(user: &str) -> BTreeSet<String> {
    cluster().audit_of(user).iter().map(credential).collect()
}

/// Puts a token where the kubelet puts it in a pod: the file is a link into a folder that a link leads to, which is replaced.
fn project(folder: &Folder, number: usize, token: &str) {
    folder.write(&format!("..{number}/token"), token);
    let (new, data) = (folder.path().join("..data_tmp"), folder.path().join("..data"));
    symlink(format!("..{number}"), &new).expect("a link can be made");
    fs::rename(&new, &data).expect("a link can be replaced");
    if number == 0 {
        symlink("..data/token", folder.path().join("token")).expect("a link can be made");
    } else {
        fs::remove_dir_all(folder.path().join(format!("..{}", number - 1))).expect("it is there");
    }
}

#[test]
fn tokens_are_replaced_and_no_client_notices() {
    let cluster = cluster();
    cluster.apply(&objects("tokens"));
    let mut session = Api::new(cluster, "admin").session();
    let mut issue = || issue(&mut session, "tokens");
    let folder = Folder::new("token");
    project(&folder, 0, &issue());
    let user = format!("{{tokenFile: '{}'}}", folder.path().join("token").display());
    let mut bench = Bench::start("tokens", &folder, &user);
    for number in 1..=rotations() {
        project(&folder, number, &issue());
        // Requests that run are not touched by a token; those that come bring the new one.
        bench.relay.cut();
        bench.turn();
    }
    let count = bench.watchman.end(&bench.gateway);
    let used = seen("system:serviceaccount:tokens:gateway").len();
    println!("{} rotations of a token: {count} answers, none failed", rotations());
    assert_eq!(used, rotations() + 1, "tokens that the API server saw\n{}", bench.gateway.output());
    assert!(!bench.gateway.output().contains("eyJ"), "a token is in the log");
}

/// An authority that the API server believes, and the certificates that it issues.
struct Authority(Folder);

impl Authority {
    /// The one of all tests, which the API server believes.
    fn get() -> &'static Self {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();
        AUTHORITY.get_or_init(|| Self::new(cluster()))
    }

    /// Makes one and makes the API server believe it.
    fn new(cluster: &Cluster) -> Self {
        let folder = Folder::new("authority");
        folder.write(
            "ca.conf",
            "[ca]\ndefault_ca = own\n[own]\ndatabase = index\nnew_certs_dir = .\nrand_serial = yes\nunique_subject = no\n\
             default_md = sha256\npolicy = any\nx509_extensions = client\n[any]\ncommonName = supplied\n\
             [client]\nbasicConstraints = CA:FALSE\nextendedKeyUsage = clientAuth\n",
        );
        folder.write("index", "");
        let authority = Self(folder);
        authority.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=rotation -keyout ca.key -out ca.crt");
        // The server looks at the file again when it changes.
        let own = fs::read_to_string(authority.0.path().join("ca.crt")).expect("it was made");
        let both = fs::read_to_string(cluster.ca()).expect("it is there") + &own;
        fs::write(cluster.ca(), both).expect("it can be written");
        authority
    }

    /// Issues a certificate for a user that is good so long, and gives certificate and key.
    fn issue(&self, user: &str, seconds: u64) -> (String, String) {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&format!(
            "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={user} -keyout me.key -out me.csr\n\
             openssl ca -batch -notext -config ca.conf -cert ca.crt -keyfile ca.key -in me.csr -out me.crt \
             -startdate $(date -u -d '-1 hour' +%Y%m%d%H%M%SZ) -enddate $(date -u -d '+{seconds} seconds' +%Y%m%d%H%M%SZ)"
        ));
        let read = |name: &str| fs::read_to_string(self.0.path().join(name)).expect("it was made");
        (read("me.crt"), read("me.key"))
    }

    /// Runs commands in its folder.
    fn run(&self, lines: &str) {
        tests::process::run(Command::new("sh").args(["-ec", lines]).current_dir(self.0.path()));
    }
}

/// A gateway whose kubeconfig names a certificate that is good so long and its key, with their folder; user and namespace have
/// one name.
fn certified(name: &'static str, seconds: u64) -> (Folder, Bench) {
    // The certificate's time does not run while the gateway is built.
    tests::gateway::binary();
    cluster().apply(&objects(name));
    let folder = Folder::new("certificate");
    let (certificate, key) = Authority::get().issue(name, seconds);
    folder.write("me.crt", certificate);
    folder.write("me.key", key);
    let user = "{client-certificate: me.crt, client-key: me.key}";
    let bench = Bench::start(name, &folder, user);
    (folder, bench)
}

#[test]
fn certificates_are_replaced_and_no_client_notices() {
    let (folder, mut bench) = certified("certificates", LONG);
    for number in 1..=rotations() {
        let (certificate, key) = Authority::get().issue("certificates", LONG);
        // They are read again after a request that failed, which may be between the two files.
        let before = bench.failures();
        bench.relay.close();
        let failed = || (bench.failures() > before).then_some(());
        until(LIMIT, failed).unwrap_or_else(|| panic!("no failure:\n{}", bench.gateway.output()));
        folder.write("me.crt", certificate);
        sleep(Duration::from_millis(if number % 2 == 0 { 300 } else { 50 }));
        folder.write("me.key", key);
        bench.relay.open();
        bench.turn();
    }
    let count = bench.watchman.end(&bench.gateway);
    println!("{} rotations of a certificate: {count} answers, none failed", rotations());
    let (used, log) = (seen("certificates").len(), bench.gateway.output());
    assert_eq!(used, rotations() + 1, "certificates that the API server saw\n{log}");
    assert!(!log.contains("PRIVATE KEY"), "a key is in the log");
}

#[test]
fn a_certificate_that_has_ended_gives_way_to_the_one_on_disk() {
    let (folder, mut bench) = certified("ended", SHORT);
    // It ends, and nothing else is there yet: whoever comes with it now is nobody that the API server knows.
    sleep(Duration::from_secs(SHORT + 1));
    bench.relay.cut();
    bench.gateway.line("401");
    assert_eq!(seen("ended").len(), 1, "{}", bench.gateway.output());
    let (certificate, key) = Authority::get().issue("ended", LONG);
    folder.write("me.crt", certificate);
    folder.write("me.key", key);
    bench.turn();
    bench.watchman.end(&bench.gateway);
    assert_eq!(seen("ended").len(), 2, "{}", bench.gateway.output());
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
fn rotate<M: Fn() -> bool>(
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
fn rotate_user(mut bench: Bench, what: &str, user: &str, mut replace: impl FnMut()) {
    rotate(&mut bench, what, |_, _| {
        let (before, _) = watched(user);
        replace();
        move || watched(user).1 > before
    });
    bench.watchman.end(&bench.gateway);
}

/// The name of the account of a namespace.
fn account(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:gateway")
}

/// A token of that account.
fn issue(session: &mut Session, namespace: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/gateway/token");
    let body = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}"#;
    let (status, object) = session.send("POST", &path, "application/json", body);
    assert_eq!(status, 201, "{object}");
    object["status"]["token"].as_str().expect("it has a token").to_owned()
}

/// Replaces a file in one step.
fn replace(folder: &Folder, name: &str, text: &str) {
    let new = folder.write(&format!("{name}.new"), text);
    fs::rename(new, folder.path().join(name)).expect("it can be replaced");
}

#[test]
fn watches_move_to_a_new_token_in_a_file() {
    let name = "moved-token";
    cluster().apply(&objects(name));
    let (mut session, folder) = (Api::new(cluster(), "admin").session(), Folder::new(name));
    folder.write("token", issue(&mut session, name));
    let user = format!("{{tokenFile: '{}'}}", folder.path().join("token").display());
    let bench = Bench::start(name, &folder, &user);
    rotate_user(bench, "token file", &account(name), || {
        replace(&folder, "token", &issue(&mut session, name));
    });
}

#[test]
fn watches_move_to_a_new_kubeconfig() {
    let name = "moved-kubeconfig";
    cluster().apply(&objects(name));
    let (mut session, folder) = (Api::new(cluster(), "admin").session(), Folder::new(name));
    let user = format!("{{token: {}}}", issue(&mut session, name));
    let bench = Bench::start(name, &folder, &user);
    let config = folder.path().join("kubeconfig");
    let text = fs::read_to_string(&config).expect("it is there");
    let (head, _) = text.split_once("  user: {").expect("it has a user");
    rotate_user(bench, "kubeconfig", &account(name), || {
        let next = issue(&mut session, name);
        fs::write(&config, format!("{head}  user: {{token: {next}}}\n")).expect("it is ours");
    });
}

#[test]
fn watches_move_to_a_new_certificate() {
    let name = "moved-certificate";
    let (folder, bench) = certified(name, LONG);
    rotate_user(bench, "certificate and its key", name, || {
        let (certificate, key) = Authority::get().issue(name, LONG);
        folder.write("me.crt", certificate);
        folder.write("me.key", key);
    });
}

#[test]
fn watches_move_to_what_a_program_issues() {
    let name = "moved-program";
    cluster().apply(&objects(name));
    let (mut session, folder) = (Api::new(cluster(), "admin").session(), Folder::new(name));
    // Its credentials end soon; each time it prints the token of a file.
    folder.write("token", issue(&mut session, name));
    let path = folder.write(
        "credentials",
        format!(
            "#!/bin/sh\nprintf '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"%s\", \"expirationTimestamp\": \"%s\"}}}}' \
             \"$(cat '{}')\" \"$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)\"\n",
            folder.path().join("token").display()
        ),
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never}}}}",
        path.display()
    );
    let bench = Bench::start(name, &folder, &user);
    rotate_user(bench, "program's token", &account(name), || {
        replace(&folder, "token", &issue(&mut session, name));
    });
}

#[test]
fn watches_move_to_a_new_authority_of_the_api_server() {
    let name = "moved-authority";
    cluster().apply(&objects(name));
    let (folder, first) = (Folder::new(name), Pki::new());
    let text = |pki: &Pki| fs::read_to_string(pki.ca()).expect("it is there");
    let bundle = folder.write("ca.crt", text(&first));
    let meddler = Meddler::start(cluster(), &first);
    let relay = Relay::start(meddler.address());
    let config = meddler::kubeconfig(relay.address(), &bundle, "token: any");
    let mut bench = Bench::behind(name, relay, &folder.write("kubeconfig", config));
    let here = ["127.0.0.1"];
    let (old, mut now) = (first.server("old", &here), text(&first));
    let write = |text: &str| {
        meddler.forget();
        replace(&folder, "ca.crt", text);
        || meddler.watched().len() >= KINDS
    };
    rotate(&mut bench, "CA bundle", |bench, _| {
        // Both authorities are believed, then the server has a certificate of the new one, then only that is believed.
        let next = Pki::new();
        bench.moves(write(&format!("{now}{}", text(&next))));
        meddler.show(&next.server("server", &here));
        now = text(&next);
        write(&now)
    });
    // The first one is nobody any more.
    meddler.show(&old);
    let before = bench.failures();
    bench.relay.cut();
    let refused = until(LIMIT, || (bench.failures() > before).then_some(()));
    assert!(refused.is_some(), "it is believed still:\n{}", bench.gateway.output());
    bench.gateway.line("invalid peer certificate");
    bench.watchman.end(&bench.gateway);
}
