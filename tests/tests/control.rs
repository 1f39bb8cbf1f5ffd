//! The control socket of a running gateway, asked by the program itself.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tests::meddler::{Fault, Meddler};
use tests::process::until;
use tests::{Cluster, Folder, Gateway, Pki, gateway};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A cluster with a service.
const SHOP: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}}
";

/// Two blocks of a zone, one of them for an office.
const VIEWED: &str = "office.test:@PORT@ {
 view office {
  expr incidr(client_ip(), '198.51.100.0/24')
 }
 template IN A {
  answer \"{{ .Name }} 60 IN A 203.0.113.1\"
 }
}
office.test:@PORT@ {
 template IN A {
  answer \"{{ .Name }} 60 IN A 203.0.113.2\"
 }
}
";

/// A gateway over it in a folder of manifests, with its socket in a folder.
fn start(folder: &Folder) -> Gateway {
    let manifests = folder.write("manifests/shop.yaml", SHOP);
    let manifests = manifests.parent().expect("it is in a folder").display().to_string();
    follow(folder, &format!("manifests {manifests}"), VIEWED)
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
        (
            "explain a.office.test --view office",
            0,
            &["NOERROR", "view office", "a.office.test. 60 IN A 203.0.113.1\n"],
        ),
        (
            "explain a.office.test --view office --json",
            0,
            &[r#""view":"office""#, r#""answer":["a.office.test. 60 IN A 203.0.113.1"]"#],
        ),
        ("explain a.office.test", 0, &["a.office.test. 60 IN A 203.0.113.2\n"]),
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
    let away = until(LIMIT, || Some(ask(&folder, "status --json")).filter(|(_, code)| *code == 1));
    let (said, _) = away.unwrap_or_else(|| panic!("it is live:\n{}", gateway.output()));
    let value: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let prod = &value["clusters"][0];
    assert_eq!((&prod["standing"], &prod["error_goes_on"]), (&"away".into(), &true.into()));
    let error = prod["last_error"].as_str().expect("there is one");
    assert!(error.contains("refused"), "{said}");
}

#[test]
fn of_a_cluster_that_is_away_error_age_and_credentials_are_told() {
    let folder = Folder::new("control");
    let (cluster, pki) = (Cluster::start(), Pki::new());
    cluster.apply(SHOP);
    let mut meddler = Meddler::start(&cluster, &pki);
    let kubeconfig = folder.write("kubeconfig", meddler.kubeconfig(&pki, "token: secret"));
    let direct = cluster.kubeconfig("reader").display().to_string();
    let declared = format!(
        "cluster://prod {{\n kubeconfig {}\n}}\ncluster://direct {{\n kubeconfig {direct}\n}}\ndirect.test:@PORT@ {{\n kubernetes {{\n  cluster direct\n }}\n}}\n",
        kubeconfig.display()
    );
    let gateway = follow(&folder, "cluster prod", &declared);
    gateway.ask_until("web.shop.svc.direct.test", LIMIT, |r| r.addresses().len() == 1);
    let status = |name: &str| {
        let (text, code) = ask(&folder, "status --json");
        let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let mut clusters = value["clusters"].as_array().expect("a list").iter();
        (clusters.find(|one| one["name"] == name).expect("it is there").clone(), code)
    };
    let (good, code) = status("prod");
    assert_eq!((&good["standing"], code), (&"live".into(), 0), "{good}");
    assert!(good["last_error"].is_null() && good["error_goes_on"] == false, "{good}");

    // The ends of credentials, where they say when.
    let credential = |of: &serde_json::Value, kind: &str| {
        let mut all = of["credentials"].as_array().expect("a list").iter();
        all.find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {of}")).clone()
    };
    let (whole, _) = status("direct");
    let own = credential(&whole, "client_certificate");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
    let (ends, left) = (own["ends"].as_u64(), own["ends_in_seconds"].as_u64());
    let (ends, left) = (ends.expect("it says when"), left.expect("it has not ended"));
    assert!(ends > now && now.abs_diff(ends - left) <= 5, "{own} at {now}");
    let token = credential(&good, "token");
    assert!(token["ends"].is_null() && token["from"].as_str().is_some(), "{token}");
    assert!(!good.to_string().contains("secret"), "{good}");

    // Of the one only endpoints are kept from us, and the rest goes on: what is told is as old as they are.
    meddler.set(Fault::Forbid("endpointslices"));
    let away = until(LIMIT, || Some(status("prod")).filter(|(_, code)| *code == 1));
    let (away, _) = away.unwrap_or_else(|| panic!("it is live:\n{}", gateway.output()));
    assert_eq!(away["standing"], "away", "{away}");
    let error = away["last_error"].as_str().expect("there is one");
    assert!(
        error.contains("endpointslices: forbidden: ") && away["error_goes_on"] == true,
        "{away}"
    );
    assert!(away["last_error_seconds_ago"].as_u64().is_some_and(|ago| ago < 60), "{away}");
    cluster.apply(&SHOP.replace("10.96.0.10", "10.96.0.11").replace("name: web", "name: new"));
    gateway.ask_until("new.shop.svc.cluster.local", LIMIT, |r| r.addresses().len() == 1);
    let (away, _) = status("prod");
    let heard = |kind: &str| {
        let mut kinds = away["kinds"].as_array().expect("a list").iter();
        let kind = kinds.find(|one| one["kind"] == kind).expect("it is there");
        kind["heard_seconds_ago"].as_u64().expect("it was heard of")
    };
    let age = away["age_seconds"].as_u64().expect("it was heard of");
    assert!(age >= 10 && age == heard("endpointslices") && heard("services") < age, "{away}");
    let (said, code) = ask(&folder, "explain web.shop.svc.cluster.local --json");
    let value: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let because = &value["way"][0]["because"];
    assert_eq!((&because["standing"], code), (&"away".into(), 0), "{said}");
    assert!(because["age_seconds"].as_u64().is_some_and(|told| told >= age), "{said}");
    let version = because["resource_version"].as_str().and_then(|text| text.parse::<u64>().ok());
    assert!(version.is_some_and(|version| version > 0), "{said}");
    let told = value["extended_errors"].to_string();
    assert!(told.contains("cluster prod: not heard of for "), "{said}");
    check(&folder, &[("status", 1, &["last error", "forbidden", "error goes on", "away"])]);
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
