//! Ways to an API server and proofs of who asks: certificates, tokens, files that are replaced, programs, contexts.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tests::{Cluster, Folder, Gateway, Relay, until};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The cluster of all tests of this file.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::start();
        cluster.apply(include_str!("../testbed/manifests/10-base.yaml"));
        cluster
    })
}

/// A kubeconfig whose user is as this YAML says, in the context `testbed`, for a server at an address.
fn kubeconfig(address: SocketAddr, user: &str) -> String {
    let text = cluster().kubeconfig_at("reader", address);
    let (before, _) = text.split_once("users:").expect("it has users");
    format!("{before}users:\n- name: reader\n  user: {user}\n")
}

/// A gateway with these lines in the directive's block.
fn gateway(properties: &str) -> Gateway {
    Gateway::new(&format!(
        "cluster.local:@PORT@ {{\n errors\n kubernetes {{\n  {properties}\n }}\n}}"
    ))
    .start()
}

/// Waits until a gateway knows the cluster.
fn knows(gateway: &Gateway) {
    let reply = gateway
        .ask_until("web.shop.svc.cluster.local", LIMIT, |r| r.rcode() == ResponseCode::NoError);
    assert_eq!(reply.addresses(), [IpAddr::from([10, 96, 10, 10])]);
}

/// The token of a user.
fn token(user: &str) -> String {
    fs::read_to_string(cluster().token_file(user)).expect("it is there").trim().to_owned()
}

#[test]
fn certificates_and_tokens_of_kubeconfigs_are_accepted() {
    let cluster = cluster();
    for file in [
        cluster.kubeconfig("reader"),
        cluster.kubeconfig("reader-rsa"),
        cluster.kubeconfig("admin"),
        cluster.token_kubeconfig("reader"),
    ] {
        let gateway = gateway(&format!("kubeconfig {}", file.display()));
        knows(&gateway);
        assert!(!gateway.output().contains("[ERROR]"), "{}", gateway.output());
    }
}

#[test]
fn files_that_a_kubeconfig_names_are_found_beside_it() {
    let (cluster, folder) = (cluster(), Folder::new("beside"));
    for (name, from) in [
        ("ca.crt", cluster.ca().to_path_buf()),
        ("me.crt", cluster.certificate("reader")),
        ("me.key", cluster.key("reader")),
    ] {
        folder.write(name, fs::read(from).unwrap());
    }
    let file = folder.write(
        "kubeconfig",
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{}', certificate-authority: ca.crt}}}}]\n\
             users: [{{name: u, user: {{client-certificate: me.crt, client-key: me.key}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
            cluster.url()
        ),
    );
    knows(&gateway(&format!("kubeconfig {}", file.display())));
}

#[test]
fn an_endpoint_with_three_files_is_a_cluster() {
    let cluster = cluster();
    let files = [cluster.certificate("reader"), cluster.key("reader"), cluster.ca().to_path_buf()];
    let words: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    knows(&gateway(&format!("endpoint {}\n  tls {}", cluster.url(), words.join(" "))));
    knows(&gateway(&format!("endpoint {}\n  tls {}", cluster.address(), words.join(" "))));
}

#[test]
fn the_context_that_is_named_is_used() {
    let text = fs::read_to_string(cluster().kubeconfig("reader")).unwrap();
    let text = text
        .replace(
            "contexts:\n",
            "contexts:\n- context:\n    cluster: testbed\n    user: stranger\n  name: other\n",
        )
        .replace(
            "users:\n",
            &format!("users:\n- name: stranger\n  user:\n    token: {}\n", token("nobody")),
        )
        .replace("current-context: testbed", "current-context: other");
    let folder = Folder::new("contexts");
    let file = folder.write("kubeconfig", text);
    knows(&gateway(&format!("kubeconfig {} testbed", file.display())));
    let current = gateway(&format!("kubeconfig {}\n  startup_timeout 500ms", file.display()));
    current.line("forbidden");
    assert_eq!(current.ask("web.shop.svc.cluster.local").rcode(), ResponseCode::ServFail);
    let missing =
        gateway(&format!("kubeconfig {} nosuch\n  startup_timeout 500ms", file.display()));
    missing.line("nosuch");
}

#[test]
fn a_token_file_is_read_again_when_it_is_replaced() {
    let folder = Folder::new("token");
    let file = folder.write("token", token("nobody"));
    let user = format!("{{tokenFile: '{}'}}", file.display());
    let path = folder.write("kubeconfig", kubeconfig(cluster().address(), &user));
    let gateway = gateway(&format!("kubeconfig {}\n  startup_timeout 500ms", path.display()));
    gateway.line("forbidden");
    assert_eq!(gateway.ask("web.shop.svc.cluster.local").rcode(), ResponseCode::ServFail);
    folder.write("token", token("reader"));
    knows(&gateway);
    gateway.line("services are followed again");
    for user in ["nobody", "reader"] {
        assert!(!gateway.output().contains(&token(user)), "a token is in the log");
    }
}

#[test]
fn a_program_gives_credentials_and_is_asked_again_when_they_end() {
    let folder = Folder::new("program");
    // A token that ends in six seconds, from a program that takes note of being run.
    let program = folder.write(
        "credentials",
        format!(
            "#!/bin/sh\ncd '{}'\necho \"$1 $KIND\" >>runs\n[ -n \"$KUBERNETES_EXEC_INFO\" ] || exit 1\n\
             printf '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"%s\", \"expirationTimestamp\": \"%s\"}}}}' \
             '{}' \"$(date -u -d '+6 seconds' +%Y-%m-%dT%H:%M:%SZ)\"\n",
            folder.path().display(),
            token("reader")
        ),
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let relay = Relay::start(cluster().address());
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', args: [login], env: [{{name: KIND, value: short}}], interactiveMode: Never}}}}",
        program.display()
    );
    let path = folder.write("kubeconfig", kubeconfig(relay.address(), &user));
    let gateway = gateway(&format!("kubeconfig {}", path.display()));
    knows(&gateway);
    let runs = || fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    assert_eq!(runs(), "login short\n", "one run is enough for all kinds");
    // Connections that break use what there is as long as it is good, and ask for more when it is not.
    let again = until(LIMIT, || {
        relay.cut();
        std::thread::sleep(Duration::from_millis(500));
        (runs().lines().count() > 1).then_some(())
    });
    assert!(again.is_some(), "{}", gateway.output());
    cluster().apply(
        "{apiVersion: v1, kind: Service, metadata: {name: later, namespace: shop}, spec: {clusterIP: 10.96.10.77, ports: [{port: 80}]}}",
    );
    gateway.ask_until("later.shop.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    assert!(!gateway.output().contains(&token("reader")), "a token is in the log");
}

#[test]
fn a_program_that_fails_is_named_without_what_it_printed() {
    let folder = Folder::new("program");
    let program = folder.write("credentials", "#!/bin/sh\necho secret; echo secret >&2; exit 3\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never}}}}",
        program.display()
    );
    let path = folder.write("kubeconfig", kubeconfig(cluster().address(), &user));
    let gateway = gateway(&format!("kubeconfig {}\n  startup_timeout 500ms", path.display()));
    let line = gateway.line("the credential program");
    assert!(line.contains("failed") && line.contains('3'), "{line}");
    assert!(!gateway.output().contains("secret"), "{}", gateway.output());
    assert_eq!(gateway.ask("web.shop.svc.cluster.local").rcode(), ResponseCode::ServFail);
}
