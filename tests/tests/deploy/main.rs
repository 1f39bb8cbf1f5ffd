//! What lies in `deploy/` works: the scripts, the manifests against a real API server, the first Corefiles, pod, unit and alerts.

mod alerts;
mod pod;
mod rights;
mod unit;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tests::process::repository;
use tests::{Cluster, Folder, Gateway, Pki};

/// A kubectl that knows one Service.
const KUBE_DNS: &str = r#"#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
case "$*" in
  "get service --namespace kube-system kube-dns -o jsonpath={.spec.clusterIP}") printf 10.3.0.10 ;;
  *) exit 1 ;;
esac
"#;

/// A script of `deploy/`, with `kubectl` being the given one.
fn script(name: &str, stub: &Folder, kubectl: &str, arguments: &[&str]) -> Output {
    let program = stub.write("kubectl", kubectl);
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a file of ours");
    Command::new("sh")
        .arg(repository().join("deploy").join(name))
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", stub.path().display()))
        .output()
        .expect("there is a shell")
}

/// What a script printed that must have gone well.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("the script prints text")
}

/// The Corefile in the ConfigMap of a manifest.
fn corefile(manifest: &str) -> String {
    let (_, rest) = manifest.split_once("\n  Corefile: |\n").expect("there is a Corefile");
    let lines = rest.lines().take_while(|line| line.starts_with("    ") || line.is_empty());
    lines.map(|line| format!("{}\n", line.get(4..).unwrap_or_default())).collect()
}

/// A text of `deploy/`.
fn text_of(file: &str) -> String {
    let path = repository().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The Corefiles that users are given to begin with: where they stand, and their text.
fn first_corefiles() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let folder = repository().join("deploy/corefiles");
    for entry in std::fs::read_dir(folder).expect("it is a folder").flatten() {
        let name = format!("deploy/corefiles/{}", entry.file_name().to_string_lossy());
        found.push((name.clone(), text_of(&name)));
    }
    for page in ["README.md", "docs/kubernetes.md", "docs/operations.md"] {
        let text = text_of(page);
        let blocks =
            text.split("```corefile\n").skip(1).filter_map(|rest| rest.split("```").next());
        found.extend(blocks.map(|block| (page.to_owned(), block.to_owned())));
    }
    // Outside of a cluster there is no account of a pod.
    let stub = Folder::new("print");
    let printed = printed(&script(
        "print.sh",
        &stub,
        KUBE_DNS,
        &["-s", "example.org=203.0.113.1", "10.3.0.0/24"],
    ));
    for (place, manifest) in
        [("deploy/kubernetes", text_of("deploy/kubernetes/corefile.yaml")), ("print.sh", printed)]
    {
        let connect = "pods insecure\n        kubeconfig /etc/causeway/kubeconfig";
        found.push((place.to_owned(), corefile(&manifest).replace("pods insecure", connect)));
    }
    found
}

/// What a kubeconfig must have to be read; nobody is asked.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
";

#[test]
fn the_first_corefiles_are_right() {
    let folder = Folder::new("corefiles");
    for name in ["kubeconfig", "prod.kubeconfig", "staging.kubeconfig"] {
        folder.write(name, KUBECONFIG);
    }
    for name in ["client.pem", "client.key"] {
        folder.write(name, "not looked at before there is a connection");
    }
    let pki = Pki::new();
    let pair = pki.server("server", &["k8s.example.com"]);
    for (name, from) in [("cert.pem", &pair.chain), ("key.pem", &pair.key)] {
        std::fs::copy(from, folder.path().join(name)).unwrap();
    }
    std::fs::copy(pki.ca(), folder.path().join("ca.pem")).unwrap();
    folder.write("secrets", "");
    folder.write("manifests/one.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    let all = first_corefiles();
    assert!(all.len() >= 10, "some are not found any more: {}", all.len());
    for (place, text) in all {
        let here = folder.path().to_string_lossy();
        let text = text
            .replace("/etc/causeway", &here)
            .replace("/var/lib/causeway", &here)
            .replace("./manifests", &format!("{here}/manifests"));
        let file = folder.write("Corefile", text);
        let output =
            Command::new(tests::gateway::binary()).arg("check").arg(&file).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{place}: {told}");
    }
}

#[test]
fn the_readme_lists_the_plugins_that_are_there() {
    let readme = text_of("README.md");
    // The first table has CoreDNS's plugins, each with whether it is there; the second one our own, all of which are.
    let (theirs, ours) = readme
        .split_once("## Plugins")
        .unwrap()
        .1
        .split_once("\nPlugins that CoreDNS does not have:")
        .unwrap();
    let named = |text: &str, end: &str| -> Vec<String> {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| [`")?.split_once('`'));
        rows.filter(|(_, rest)| rest.ends_with(end)).map(|(name, _)| name.to_owned()).collect()
    };
    let theirs = named(theirs, " | there |");
    let mut there = [&theirs[..], &named(ours, " |")].concat();
    there.sort_unstable();
    let mut known: Vec<&str> = plugins::CHAIN.iter().map(|plugin| plugin.name).collect();
    known.sort_unstable();
    for name in &known {
        assert!(
            there.contains(&(*name).to_owned()),
            "README.md's tables of plugins have no row for {name}"
        );
    }
    assert_eq!(there, known, "README.md's tables of plugins have rows for more than there are");
    let count = format!("| {} of CoreDNS's plugins", theirs.len());
    assert!(readme.contains(&count), "the README's table does not begin a row with {count:?}");
}

#[test]
fn manifests_are_printed_for_a_service_range_and_a_domain() {
    let stub = Folder::new("print");
    let text =
        printed(&script("print.sh", &stub, KUBE_DNS, &["10.3.0.0/24", "cluster.example.org"]));
    let kubernetes = "        kubernetes cluster.example.org 10.3.0.0/24 {\n";
    assert!(text.contains(kubernetes), "{text}");
    assert!(
        text.contains("\n  name: kube-dns\n") && text.contains("\n  clusterIP: \"10.3.0.10\"\n")
    );
    assert!(text.contains("forward . /etc/resolv.conf {") && !text.contains("        log\n"));
    for kind in ["ConfigMap", "Deployment", "Service", "ClusterRole", "PodDisruptionBudget"] {
        assert_eq!(text.matches(&format!("\nkind: {kind}\n")).count(), 1, "{kind}");
    }
    assert!(!text.contains('@'), "something was not filled in:\n{text}");
    let asked = std::fs::read_to_string(stub.path().join("asked")).unwrap();
    assert_eq!(asked.lines().count(), 1, "kubectl was asked more than needed: {asked}");
}

#[test]
fn the_options_of_the_print_script_do_what_they_say() {
    let stub = Folder::new("print");
    let run = |arguments: &[&str]| script("print.sh", &stub, "#!/bin/sh\nexit 1\n", arguments);
    let text = printed(&run(&[
        "-i",
        "10.3.0.11",
        "-d",
        "k8s.example.org",
        "-r",
        "10.244.0.0/16",
        "-r",
        "2001:db8::/64",
        "-l",
        "-s",
        "example.local=10.100.0.10:53,10.100.0.11",
        "-u",
        "203.0.113.53",
        "-m",
        "causeway.example.org/causeway:9",
        "10.3.0.0/24",
    ]));
    for wanted in [
        "  clusterIP: \"10.3.0.11\"\n",
        "    .:53 {\n        errors\n        log\n",
        "kubernetes k8s.example.org 10.3.0.0/24 10.244.0.0/16 2001:db8::/64 {",
        "        forward . 203.0.113.53 {",
        "    example.local:53 {\n        errors\n",
        "        forward . 10.100.0.10:53 10.100.0.11\n    }\n---\n",
        "        image: causeway.example.org/causeway:9\n",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is missing:\n{text}");
    }
    let template = stub.write("template", "at @CLUSTER_DNS_IP@ for @CLUSTER_DOMAIN@\n");
    let text = printed(&run(&["-i", "::1", "-t", template.to_str().unwrap(), "10.3.0.0/24"]));
    assert!(text.ends_with("---\nat \"::1\" for cluster.local\n"), "{text}");
    assert!(printed(&run(&["-h"])).contains("SERVICE_CIDR"));
}

#[test]
fn wrong_words_of_the_print_script_are_told() {
    let stub = Folder::new("print");
    for (arguments, said) in [
        (&[][..], "SERVICE_CIDR"),
        (&["10.3.0.0"], "is not a network"),
        (&["10.3.0.0/33"], "1 to 32 bits"),
        (&["2001:db8::/129"], "1 to 128 bits"),
        (&["10.3.0.0/24", "a b"], "is not a domain name"),
        (&["10.3.0.0/24", "a", "b"], "too many words"),
        (&["-i", "ten", "10.3.0.0/24"], "is not an IP address"),
        (&["-s", "example.org", "10.3.0.0/24"], "-s needs DOMAIN=ADDRESS"),
        (&["-m", "a|b", "10.3.0.0/24"], "is not the name of an image"),
        (&["-t", "nowhere", "-i", "10.3.0.10", "10.3.0.0/24"], "cannot read the template"),
        (&["10.3.0.0/24"], "give its address with -i"),
    ] {
        let output = script("print.sh", &stub, "#!/bin/sh\nexit 1\n", arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(said), "{arguments:?}: {told}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed half of the manifests");
    }
    let headless = script("print.sh", &stub, "#!/bin/sh\nprintf None\n", &["10.3.0.0/24"]);
    assert!(String::from_utf8_lossy(&headless.stderr).contains("has no cluster IP"));
}

#[test]
fn an_api_server_takes_the_manifests_and_a_remote_gateway_its_account() {
    let cluster = Cluster::start();
    let deploy = repository().join("deploy");
    cluster.add_multicluster();
    cluster.apply_path(&deploy.join("kubernetes"));
    let stub = Folder::new("print");
    let found = KUBE_DNS.replace("10.3.0.10", "10.96.0.10");
    cluster.apply(&printed(&script("print.sh", &stub, &found, &["10.96.0.0/12"])));
    cluster.apply_path(&deploy.join("remote"));

    let kubeconfig = remote_kubeconfig(&cluster);
    let text = std::fs::read_to_string(&kubeconfig.1).unwrap();
    assert!(text.contains("current-context: prod\n") && !text.contains("client-certificate"));
    let mode = std::fs::metadata(&kubeconfig.1).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    assert!(remote_may(&cluster, &kubeconfig.1, "services"));
    assert!(remote_may(&cluster, &kubeconfig.1, "endpointslices"));
    assert!(!remote_may(&cluster, &cluster.kubeconfig("nobody"), "services"));

    // With that account the first Corefiles serve the cluster.
    for (file, zone) in [
        ("office", "cluster.local"),
        ("laptops", "k8s.example.com"),
        ("clusters", "prod.k8s.example.com"),
    ] {
        let text = text_of(&format!("deploy/corefiles/{file}.corefile"))
            .replace("/etc/causeway/prod.kubeconfig", &kubeconfig.1.to_string_lossy())
            .replace("/etc/causeway/staging.kubeconfig", &kubeconfig.1.to_string_lossy())
            .replace("/etc/causeway/kubeconfig", &kubeconfig.1.to_string_lossy())
            .replace("/var/lib/causeway", "@DIR@")
            .replace(":9153", ":@PORT:metrics@")
            .replace(":8080", ":@PORT:health@")
            .replace(":8181", ":@PORT:ready@");
        let gateway =
            Gateway::new(&format!("{text}\nstarted.example.org:@PORT@ {{\n any\n}}")).start();
        let name = format!("kubernetes.default.svc.{zone} A");
        let reply =
            gateway.ask_until(&*name, Duration::from_secs(20), |r| !r.addresses().is_empty());
        assert_eq!(reply.addresses(), ["10.96.0.1".parse::<std::net::IpAddr>().unwrap()], "{file}");
        assert_eq!(gateway.get("health", "/health").expect("it is alive").0, 200, "{file}");
    }
}

/// A kubeconfig that the script makes of the cluster's; with the folder that keeps it.
fn remote_kubeconfig(cluster: &Cluster) -> (Folder, PathBuf) {
    let folder = Folder::new("remote");
    let file = folder.path().join("kubeconfig");
    let mut token = cluster.command("token");
    let token = tests::process::run(token.args(["-sa", "causeway/causeway-remote"]));
    let admin =
        std::fs::read_to_string(cluster.kubeconfig("admin")).expect("the testbed writes it");
    let authority =
        admin.split("certificate-authority-data: ").nth(1).expect("it has an authority");
    let authority = authority.split_whitespace().next().expect("it has an authority");
    let kubectl = format!(
        "#!/bin/sh\ncase \"$*\" in\n\
         *cluster.server*) printf %s '{}' ;;\n\
         *certificate-authority-data*) printf %s '{authority}' ;;\n\
         'create token --namespace causeway causeway-remote --duration 8760h') echo '{}' ;;\n\
         *) exit 1 ;;\nesac\n",
        cluster.url(),
        token.trim()
    );
    let arguments = ["-o", file.to_str().expect("a path of ours"), "prod"];
    printed(&script("remote/kubeconfig.sh", &folder, &kubectl, &arguments));
    (folder, file)
}

/// Whether a kubeconfig may list and watch a kind of objects.
fn remote_may(cluster: &Cluster, kubeconfig: &Path, resource: &str) -> bool {
    // The last of two equal flags counts.
    let mut watch = cluster.command("watch");
    watch.arg("-kubeconfig").arg(kubeconfig).args(["-resource", resource]);
    watch.output().expect("the testbed is there").status.success()
}

// What the build leaves in the environment of `cargo run` must not be taken for a setting.
#[test]
fn the_readmes_first_command_starts_the_program() {
    let mut run = Command::new(env!("CARGO"));
    run.args(["run", "--quiet", "--locked", "-p", "gateway", "--", "config"]);
    let output = run.current_dir(repository()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("udp_payload_size"));
}
