//! What can be said of a kubeconfig without asking anybody.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;

use super::api::{Answer, Api};
use crate::{
    Config, Probe, Source,
    client::{Connection, Failure},
};

/// Remembers the hosts that it is told of.
#[derive(Debug, Default)]
struct Hosts(Mutex<Vec<String>>);

impl Probe for Hosts {
    fn request(&self, _code: &str, _method: &str, host: &str) {
        self.0.lock().unwrap().push(host.to_owned());
    }

    fn latency(&self, _verb: &str, host: &str, _seconds: f64) {
        self.0.lock().unwrap().push(host.to_owned());
    }

    fn limited(&self, _verb: &str, host: &str, _seconds: f64) {
        self.0.lock().unwrap().push(host.to_owned());
    }
}

#[tokio::test]
async fn a_password_in_an_address_is_used_and_not_shown() {
    let api = Api::start(|_, _| Answer::Whole(200, "{}".to_owned())).await;
    let host = api.address.to_string();
    let url = format!("http://me:hunt%40er%2F2:@{host}");
    let file = std::env::temp_dir().join(format!("causeway-k8s-login-{}", std::process::id()));
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": { "server": url } }],
        "users": [{ "name": "u", "user": { "token": "other" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    for source in [
        Source::Endpoint { url: url.clone(), tls: None },
        Source::Kubeconfig { file: file.clone(), context: None },
    ] {
        let config = Config::new(source);
        let hosts = Arc::new(Hosts::default());
        let probe: Arc<dyn Probe> = Arc::<Hosts>::clone(&hosts);
        let connection = Connection::open(&config, &probe);
        connection.get("/version", true, Duration::from_secs(10)).await.unwrap();
        let asked = api.asked("/version").pop().unwrap().header;
        let basic = format!("basic {}", BASE64_STANDARD.encode("me:hunt@er/2:")).to_lowercase();
        assert!(asked.contains(&format!("authorization: {basic}\r\n")), "{asked}");
        assert!(asked.contains(&format!("host: {host}\r\n")), "{asked}");
        let connected = connection.connected();
        assert_eq!(connected.host, host);
        assert_eq!(
            connected.credentials.iter().map(|one| one.kind).collect::<Vec<_>>(),
            ["password"]
        );
        let hosts = hosts.0.lock().unwrap();
        assert!(hosts.len() == 3 && hosts.iter().all(|one| *one == host), "{hosts:?}");
        for shown in [
            format!("{connected:?}"),
            format!("{connection:?}"),
            format!("{config:?}"),
            config.key(),
            config.identity(),
        ] {
            assert!(!shown.contains("hunt"), "{shown}");
        }
    }
    std::fs::remove_file(&file).unwrap();
    // Who has another password has another connection.
    let key = |login: &str| {
        let url = format!("http://{login}@{host}");
        Config::new(Source::Endpoint { url, tls: None }).key()
    };
    assert_eq!(key("me:one"), key("me:one"));
    assert_ne!(key("me:one"), key("me:two"));
}

#[tokio::test]
async fn an_address_that_is_none_shows_no_password() {
    for (url, want) in [
        ("http://me:hunter/2@127.0.0.1:1", "write /, ? and # in a name or password as %2F"),
        ("http://me:hunter?2@127.0.0.1:1", "write /, ? and # in a name or password as %2F"),
        ("http://me:hunter@", ""),
        ("http://me:hunter@127.0.0.1:hunter", ""),
        ("http://me:%ffhunter@127.0.0.1:1", "has a name or password that is no UTF-8"),
        ("http://me:hunter@@127.0.0.1:1", ""),
        ("http://me:hun ter@127.0.0.1:1", ""),
        ("/hunter", "has no host"),
        ("", ""),
    ] {
        let config = Config::new(Source::Endpoint { url: url.to_owned(), tls: None });
        let probe: Arc<dyn Probe> = Arc::new(Hosts::default());
        let connection = Connection::open(&config, &probe);
        let failed =
            connection.get("/version", true, Duration::from_millis(200)).await.unwrap_err();
        let connected = connection.connected();
        let shown =
            format!("{failed} {} {} {}", connection.name(), connected.host, connected.source);
        assert!(!shown.contains("hun"), "{url}: {shown}");
        assert!(shown.contains(want), "{url}: {shown}");
        assert!(want.is_empty() || matches!(failed, Failure::Credentials(_)), "{url}: {shown}");
    }
}

#[test]
fn each_cluster_has_a_word_of_its_own() {
    let kubeconfig = |file: &str, context: Option<&str>| Source::Kubeconfig {
        file: PathBuf::from(file),
        context: context.map(str::to_owned),
    };
    let endpoint = |url: &str| Source::Endpoint { url: url.to_owned(), tls: None };
    let kubeadm = Some("kubernetes-admin@kubernetes");
    for (source, want) in [
        (Source::InCluster, "in-cluster"),
        (kubeconfig("/etc/a", None), "/etc/a"),
        (kubeconfig("/etc/a", kubeadm), "/etc/a#kubernetes-admin@kubernetes"),
        (kubeconfig("/etc/b", kubeadm), "/etc/b#kubernetes-admin@kubernetes"),
        (endpoint("https://me:secret@198.51.100.1:6443/"), "198.51.100.1:6443"),
        (endpoint("api.example.org"), "api.example.org"),
        (endpoint("https://me:se/c?ret@api.example.org/clusters/a/"), "api.example.org/clusters/a"),
        (endpoint("https://api.example.org/a?token=secret"), "api.example.org/a"),
        (Source::Manifests(PathBuf::from("/etc/c")), "/etc/c"),
    ] {
        assert_eq!(source.word(), want);
    }
}

#[test]
fn what_a_kubeconfig_lacks_is_said() {
    let file = std::env::temp_dir().join(format!("causeway-k8s-lacks-{}", std::process::id()));
    let clusters = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n";
    let users = "users: [{name: u, user: {token: secret}}]\n";
    let contexts = "contexts: [{name: x, context: {cluster: c, user: u}}]\n";
    let current = "current-context: x\n";
    let whole = [clusters, users, contexts, current].concat();
    for (text, context, want) in [
        (whole.clone(), None, None),
        (whole.clone(), Some("x"), None),
        (whole.clone(), Some("y"), Some("has no context 'y' (it has: x)")),
        (whole.replace(current, ""), None, Some("has no current context")),
        (whole.replace(clusters, ""), None, Some("has no cluster 'c'")),
        (whole.replace(users, ""), None, Some("has no user 'u'")),
        ("{".to_owned(), None, Some("is no YAML of a kubeconfig: look at line ")),
    ] {
        std::fs::write(&file, &text).unwrap();
        let source = Source::Kubeconfig { file: file.clone(), context: context.map(str::to_owned) };
        let odd = source.odd();
        match want {
            None => assert_eq!(odd, None, "{text}"),
            Some(want) => {
                let odd = odd.unwrap_or_default();
                assert!(odd.starts_with(want) && !odd.contains("secret"), "{text}: {odd}");
            }
        }
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_snapshot_is_of_the_server_that_a_kubeconfig_leads_to() {
    let file = std::env::temp_dir().join(format!("causeway-k8s-leads-{}", std::process::id()));
    let text = "clusters: [{name: c, cluster: {server: 'https://me:secret@198.51.100.1:6443'}},\
                 {name: d, cluster: {server: 'https://198.51.100.2:6443'}}]\n\
                 contexts: [{name: x, context: {cluster: c, user: u}}, {name: y, context: {cluster: d, user: u}}]\n\
                 current-context: x\n";
    let identity = |text: &str, context: Option<&str>| {
        std::fs::write(&file, text).unwrap();
        let context = context.map(str::to_owned);
        Config::new(Source::Kubeconfig { file: file.clone(), context }).identity()
    };
    let path = file.display();
    let first = identity(text, None);
    let start = format!("kubeconfig {path} x https://198.51.100.1:6443; ");
    assert!(first.starts_with(&start), "{first}");
    assert_eq!(identity(text, Some("x")), first);
    assert_eq!(identity(&text.replace("me:secret", "you:other"), None), first);
    let other = identity(&text.replace("current-context: x", "current-context: y"), None);
    assert!(other.starts_with(&format!("kubeconfig {path} y https://198.51.100.2:6443; ")));
    assert_eq!(identity(text, Some("y")), other);
    let moved = identity(&text.replace("198.51.100.1", "198.51.100.3"), Some("x"));
    assert!(moved.starts_with(&format!("kubeconfig {path} x https://198.51.100.3:6443; ")));
    for (odd, context, want) in [
        ("{", None, " "),
        ("{", Some("x"), "x "),
        ("current-context: z", None, "z "),
        ("clusters: []", None, " "),
    ] {
        let found = identity(odd, context);
        assert!(found.starts_with(&format!("kubeconfig {path} {want}; ")), "{odd}: {found}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_is_wrong_with_a_kubeconfig_shows_no_credentials() {
    let file = std::env::temp_dir().join(format!("causeway-k8s-hides-{}", std::process::id()));
    for user in [
        "token: [hunter2]",
        "token: {a: hunter2}",
        "token: \"hunter2",
        "token: \"hunter2\\q\"",
        "token: hunter2: x",
        "token:hunter2",
        "token: !!int hunter2",
        "token: |\n hunter2",
        "token: *hunter2",
        "token: hunter2\n    token: hunter2",
        "username: [hunter2]\n    password: hunter2",
        "exec: hunter2",
        "exec: {command: x, args: hunter2}",
        "auth-provider: hunter2",
        "client-key-data: [hunter2]",
    ] {
        std::fs::write(&file, format!("users:\n- name: u\n  user:\n    {user}\n")).unwrap();
        let wrong = crate::config::kubeconfig(&file).unwrap_err();
        assert!(wrong.contains("look at line ") && !wrong.contains("hunter2"), "{user}: {wrong}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_kubeconfig_without_end_is_refused() {
    let wrong = crate::config::kubeconfig("/dev/zero".as_ref()).unwrap_err();
    assert_eq!(wrong, "cannot be read: it is no regular file");
}
