//! The control socket of a running gateway, asked by the program itself.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::process::until;
use tests::{Cluster, Folder, Gateway, gateway};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A cluster with a service.
const SHOP: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}}
";

/// A gateway over it in a folder of manifests, with its socket in a folder.
fn start(folder: &Folder) -> Gateway {
    let manifests = folder.write("manifests/shop.yaml", SHOP);
    let manifests = manifests.parent().expect("it is in a folder").display().to_string();
    follow(folder, &format!("manifests {manifests}"), "")
}

/// A gateway over it in the cluster that `line` names, with its socket in a folder.
fn follow(folder: &Folder, line: &str, clusters: &str) -> Gateway {
    let gateway = Gateway::new(&format!(
        "{clusters}cluster.local:@PORT@ {{\n errors\n kubernetes {{\n  {line}\n }}\n}}"
    ))
    .env("CAUSEWAY_RUN_DIR", &folder.path().join("run").display().to_string())
    .start();
    gateway.ask_until("web.shop.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    gateway
}

/// What the program prints on both outputs, and its exit code.
fn ask(folder: &Folder, line: &str) -> (String, i32) {
    let mut command = Command::new(gateway::binary());
    command.args(line.split_whitespace()).arg("--socket").arg(socket(folder));
    // Settings of the tests are none of the gateway.
    let done = command.env_clear().output().expect("it can be run");
    let text = [done.stdout, done.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), done.status.code().unwrap_or(-1))
}

/// Asks line after line, each with the exit code that it has to have, and what has to be printed.
fn check(folder: &Folder, lines: &[(&str, i32, &[&str])]) {
    for (line, code, wants) in lines {
        let (text, got) = ask(folder, line);
        assert_eq!(got, *code, "{line}: {text}");
        for want in *wants {
            assert!(text.contains(want), "{line}: {want} is not in {text}");
        }
    }
}

/// Where the socket is.
fn socket(folder: &Folder) -> PathBuf {
    folder.path().join("run/causeway.sock")
}

#[test]
fn status_and_reasons_are_told() {
    let folder = Folder::new("control");
    let mut gateway = start(&folder);
    let mode = |path: PathBuf| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(socket(&folder)), mode(folder.path().join("run"))), (0o600, 0o700));
    let lines: [(&str, i32, &[&str]); _] = [
        ("status", 0, &["version", "listeners:", "clusters:", "live", "watching"]),
        ("status --json", 0, &[r#""clusters":[{"name":null"#, r#""standing":"live""#]),
        (
            "explain web.shop.svc.cluster.local",
            0,
            &["NOERROR, authoritative, from kubernetes", "Service shop/web", "10.96.0.10"],
        ),
        (
            "explain wep.shop.svc.cluster.local --json",
            0,
            &[r#""rcode":"NXDOMAIN""#, r#"no service \"wep\" in namespace \"shop\""#],
        ),
        ("explain www.example.org", 1, &["REFUSED", "no server block for the name"]),
        ("explain a.test --view none", 2, &["no block with the view 'none'"]),
        ("explain", 2, &["write: explain NAME"]),
        ("verify", 2, &["nothing in the configuration has anything to verify"]),
        ("status more", 2, &["status takes no 'more'"]),
    ];
    check(&folder, &lines);
    gateway.stop();
    assert!(!socket(&folder).exists(), "the socket stays");
    let (text, code) = ask(&folder, "status");
    assert!(code == 2 && text.contains("is it running?"), "{text}");
}

#[test]
fn what_is_known_of_a_cluster_is_compared_with_it() {
    let folder = Folder::new("control");
    let mut cluster = Cluster::start();
    cluster.apply(SHOP);
    let kubeconfig = cluster.kubeconfig("reader").display().to_string();
    let declared = format!("cluster://prod {{\n kubeconfig {kubeconfig}\n}}\n");
    let gateway = follow(&folder, "cluster prod", &declared);
    let equal = "what is known is what the API server lists\n";
    let lines: [(&str, i32, &[&str]); _] = [
        ("verify prod", 0, &["services: ", " compared, equal\n", equal]),
        ("verify", 0, &["prod:\n  ", equal]),
        (
            "verify --json",
            0,
            &[r#"[{"subject":"prod","report":{"equal":true,"kinds":[{"kind":""#, r#""missing":0,"#],
        ),
        ("verify prdo", 2, &["there is no 'prdo' (did you mean 'prod'?); there is: prod"]),
        ("verify prod more", 2, &["and no 'more' behind it"]),
        ("status", 0, &["prod", "live"]),
    ];
    check(&folder, &lines);
    // Whether what cannot be compared is equal is not known, be it of one cluster or of all.
    cluster.stop();
    let why = "cannot be said\n";
    let lines: [(&str, i32, &[&str]); _] = [
        ("verify prod", 2, &["not compared: namespaces: ", why]),
        ("verify", 2, &["prod:\n  not compared: ", why]),
        (
            "verify --json",
            2,
            &[
                r#"[{"subject":"prod","report":{"equal":null,"kinds":[],"not_compared":["#,
                r#"["namespaces: "#,
            ],
        ),
    ];
    check(&folder, &lines);
    drop(gateway);
}

#[test]
fn a_second_process_takes_the_socket_over() {
    let folder = Folder::new("control");
    let mut first = start(&folder);
    let mut second = start(&folder);
    second.line("another process has the control socket");
    let pid = || {
        let (text, _) = ask(&folder, "status --json");
        let value: serde_json::Value = serde_json::from_str(&text).ok()?;
        value["pid"].as_u64()
    };
    let before = pid().expect("the first one answers");
    first.stop();
    let after = until(LIMIT, || pid().filter(|pid| *pid != before));
    assert!(after.is_some(), "{}", second.output());
    second.stop();
}
