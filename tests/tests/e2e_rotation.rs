//! Credentials that are replaced again and again while clients ask: no answer fails, and each new one is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::api::Session;
use tests::{Api, Cluster, Folder, Gateway, Relay, Watchman, api, stated, until, watchman};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// How long watches may go on with credentials that were replaced.
const TAKEN: Duration = Duration::from_secs(10);

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
        let cluster = cluster();
        let relay = Relay::start(cluster.address());
        let text = cluster.kubeconfig_at("reader", relay.address());
        let (before, _) = text.split_once("users:").expect("it has users");
        let text = format!("{before}users:\n- name: reader\n  user: {user}\n");
        let kubeconfig = folder.write("kubeconfig", text);
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
        let session = Api::new(cluster, "admin").session();
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

/// Which credentials of a user the API server saw, by its own names for them.
fn seen(user: &str) -> BTreeSet<String> {
    let id = |event: &serde_json::Value| {
        let user = &event["user"];
        Some(user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str()?.to_owned())
    };
    let audit = cluster().audit();
    audit.iter().filter(|e| e["user"]["username"] == user).filter_map(id).collect()
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
    let mut tokens = Api::new(cluster, "admin").session();
    let mut issue = || {
        let path = "/api/v1/namespaces/tokens/serviceaccounts/gateway/token";
        let body = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}"#;
        let (status, object) = tokens.send("POST", path, "application/json", body);
        assert_eq!(status, 201, "{object}");
        object["status"]["token"].as_str().expect("it has a token").to_owned()
    };
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
    let issued = Instant::now();
    let (certificate, key) = Authority::get().issue("ended", LONG);
    folder.write("me.crt", certificate);
    folder.write("me.key", key);
    sleep(Duration::from_secs(SHORT + 1).saturating_sub(issued.elapsed()));
    bench.relay.cut();
    bench.turn();
    bench.watchman.end(&bench.gateway);
    assert_eq!(seen("ended").len(), 2, "{}", bench.gateway.output());
}

/// Which kinds are watched with which credentials of a user, as the API server saw it.
fn watched(user: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in cluster().audit().iter().filter(|event| event["user"]["username"] == user) {
        let id = event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
        let (Some(id), Some(kind)) = (id, event["objectRef"]["resource"].as_str()) else {
            continue;
        };
        if event["verb"] == "watch" {
            all.entry(id.to_owned()).or_default().insert(kind.to_owned());
        }
    }
    all
}

/// Replaces credentials, and waits until all kinds are watched with the new ones, which has to be so in time though no connection
/// was broken; then something changes.
fn take_over(bench: &mut Bench, user: &str, replace: impl FnOnce()) -> Duration {
    let before = watched(user).len();
    let begun = Instant::now();
    replace();
    let all = || {
        let watched = watched(user);
        (watched.len() > before
            && watched.values().filter(|kinds| kinds.len() >= 3).count() > before)
            .then_some(())
    };
    let taken = until(TAKEN, all).is_some();
    assert!(taken, "{:?}\n{}", watched(user), bench.gateway.output());
    bench.turn();
    begun.elapsed()
}

/// A token of the account of a namespace.
fn issue(session: &mut Session, namespace: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/gateway/token");
    let body = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}"#;
    let (status, object) = session.send("POST", &path, "application/json", body);
    assert_eq!(status, 201, "{object}");
    object["status"]["token"].as_str().expect("it has a token").to_owned()
}

#[test]
fn watches_move_to_new_credentials_of_every_kind() {
    let cluster = cluster();
    for namespace in ["moved-token", "moved-kubeconfig", "moved-program"] {
        cluster.apply(&objects(namespace));
    }
    let account = |namespace: &str| format!("system:serviceaccount:{namespace}:gateway");
    let mut session = Api::new(cluster, "admin").session();
    let token = Folder::new("moved-token");
    token.write("token", issue(&mut session, "moved-token"));
    let user = format!("{{tokenFile: '{}'}}", token.path().join("token").display());
    let mut by_token = Bench::start("moved-token", &token, &user);

    let kubeconfig = Folder::new("moved-kubeconfig");
    let user = format!("{{token: {}}}", issue(&mut session, "moved-kubeconfig"));
    let mut by_kubeconfig = Bench::start("moved-kubeconfig", &kubeconfig, &user);
    let config = kubeconfig.path().join("kubeconfig");
    let text = fs::read_to_string(&config).expect("it is there");
    let (head, _) = text.split_once("  user: {").expect("it has a user");

    let (certificate, mut by_certificate) = certified("moved-certificate", LONG);

    // A program whose credentials end soon each time prints the token of a file.
    let program = Folder::new("moved-program");
    program.write("token", issue(&mut session, "moved-program"));
    let path = program.write(
        "credentials",
        format!(
            "#!/bin/sh\nprintf '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"%s\", \"expirationTimestamp\": \"%s\"}}}}' \
             \"$(cat '{}')\" \"$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)\"\n",
            program.path().join("token").display()
        ),
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never}}}}",
        path.display()
    );
    let mut by_program = Bench::start("moved-program", &program, &user);

    let mut longest = Duration::ZERO;
    for _ in 0..rotations() {
        let next = issue(&mut session, "moved-token");
        let took = take_over(&mut by_token, &account("moved-token"), || {
            token.write("token.new", next);
            fs::rename(token.path().join("token.new"), token.path().join("token"))
                .expect("it can be replaced");
        });
        longest = longest.max(took);
        let next = issue(&mut session, "moved-kubeconfig");
        let took = take_over(&mut by_kubeconfig, &account("moved-kubeconfig"), || {
            fs::write(&config, format!("{head}  user: {{token: {next}}}\n"))
                .expect("it can be written");
        });
        longest = longest.max(took);
        let (new, key) = Authority::get().issue("moved-certificate", LONG);
        let took = take_over(&mut by_certificate, "moved-certificate", || {
            certificate.write("me.crt", new);
            certificate.write("me.key", key);
        });
        longest = longest.max(took);
        let next = issue(&mut session, "moved-program");
        let took = take_over(&mut by_program, &account("moved-program"), || {
            program.write("token", next);
        });
        longest = longest.max(took);
    }
    for bench in [&by_token, &by_kubeconfig, &by_certificate, &by_program] {
        let log = bench.gateway.output();
        assert!(!log.contains("eyJ") && !log.contains("PRIVATE KEY"), "a secret is in the log");
    }
    let count: usize = [by_token, by_kubeconfig, by_certificate, by_program]
        .into_iter()
        .map(|bench| bench.watchman.end(&bench.gateway))
        .sum();
    println!(
        "{} rotations of token file, kubeconfig, certificate and program without a break: {count} answers, none failed; all watches moved within {:.1} s",
        rotations(),
        longest.as_secs_f64()
    );
}
