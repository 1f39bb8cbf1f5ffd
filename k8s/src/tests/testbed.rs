//! The crate against a real API server: the binary that the variable `TESTBED` names. Without it nothing is tested here.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, time::sleep};

use crate::{Config, Keep, Kind, Quiet, Source, State, Tls, WatchSet};

/// A running API server with its etcd.
struct Server {
    binary: PathBuf,
    folder: PathBuf,
    child: Child,
}

impl Server {
    /// Starts a server in a folder, new or as it was left.
    fn start(binary: &Path, folder: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(binary)
            .args(["serve", "--stop-on-stdin-close", "--state-dir"])
            .arg(folder)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("url"), "{ready}");
        Self { binary: binary.to_owned(), folder: folder.to_owned(), child }
    }

    /// Gives a file of a user.
    fn user(&self, file: &str) -> PathBuf {
        self.folder.join("pki/users").join(file)
    }

    /// Applies or deletes manifests.
    fn change(&self, verb: &str, flags: &[&str], manifests: &str) {
        let file = self.folder.join("change.yaml");
        std::fs::write(&file, manifests).unwrap();
        let mut command = Command::new(&self.binary);
        command
            .arg(verb)
            .arg("-kubeconfig")
            .arg(self.user("admin.kubeconfig"))
            .args(flags)
            .arg("-f")
            .arg(&file);
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    }

    /// Ends it at once.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.child.stdin.take() {
            // The server may be gone already.
            drop(stdin.flush());
        }
        drop(self.child.wait());
    }
}

/// Follows with everything on.
fn follow(source: Source) -> Arc<WatchSet> {
    let keep = Keep {
        endpoints: true,
        pods: true,
        multicluster: true,
        zones: true,
        pod_names: true,
        ..Keep::default()
    };
    WatchSet::start(&Config { keep, ..Config::new(source) }, Arc::new(Quiet), &Handle::current())
}

/// Waits until something is so.
async fn until(what: &str, limit: u64, test: impl Fn() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < Duration::from_secs(limit), "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A headless service.
fn headless(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, spec: {{clusterIP: None, ports: [{{port: 80}}]}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_is_followed_through_restarts() {
    let Some(binary) = std::env::var_os("TESTBED").map(PathBuf::from) else { return };
    let folder = std::env::temp_dir().join(format!("causeway-k8s-testbed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut server = Server::start(&binary, &folder, &[]);
    server.change("apply", &["-mcs-crds"], include_str!("testbed.yaml"));

    let set = follow(Source::Kubeconfig { file: server.user("reader.kubeconfig"), context: None });
    assert!(set.wait_synced(Duration::from_secs(10)).await);
    {
        let reader = set.store().read();
        let web = reader.service(b"\x03web\x04shop").unwrap();
        assert_eq!(web.cluster_ips().next().unwrap().to_string(), "10.96.10.10");
        assert_eq!(
            web.endpoints().map(|endpoint| endpoint.ready()).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(web.endpoints().next().unwrap().zone(), b"zone-a");
        assert!(reader.pod_in(b"shop", [172, 16, 1, 1].into()));
        let far = reader.import(b"\x03far\x04shop").unwrap();
        assert_eq!(far.endpoints().next().unwrap().cluster(), b"c1");
        assert!(
            reader.namespace(b"shop") && reader.service(b"\x0akubernetes\x07default").is_some()
        );
    }
    let url = std::fs::read_to_string(folder.join("testbed.json")).unwrap();
    let url = url.split('"').find(|part| part.starts_with("https://")).unwrap().to_owned();
    let tls = Tls {
        certificate: server.user("reader-nopods.crt"),
        key: server.user("reader-nopods.key"),
        authorities: folder.join("pki/ca.crt"),
    };
    let limited = follow(Source::Endpoint { url, tls: Some(tls) });
    assert!(limited.wait_synced(Duration::from_secs(10)).await);
    until("the refusal", 5, || limited.store().state(Kind::Pods) == State::Forbidden).await;
    assert!(limited.store().read().service(b"\x03web\x04shop").is_some());

    server.kill();
    until("the outage", 5, || set.store().state(Kind::Services) == State::Failing).await;
    assert!(set.store().synced() && set.store().read().service(b"\x03web\x04shop").is_some());
    server = Server::start(&binary, &folder, &["--apiserver-arg=--feature-gates=WatchList=false"]);
    server.change("apply", &[], &headless("later"));
    until("the service made after the restart", 10, || {
        set.store().read().service(b"\x05later\x04shop").is_some()
    })
    .await;
    server.change("delete", &[], &headless("later"));
    until("its end", 10, || set.store().read().service(b"\x05later\x04shop").is_none()).await;

    let listed =
        follow(Source::Kubeconfig { file: server.user("reader-token.kubeconfig"), context: None });
    assert!(
        listed.wait_synced(Duration::from_secs(15)).await,
        "a server without initial events is listed"
    );
    server.change("apply", &[], &headless("listed"));
    until("a change after the list", 10, || {
        listed.store().read().service(b"\x06listed\x04shop").is_some()
    })
    .await;
    drop((set, limited, listed));
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}
