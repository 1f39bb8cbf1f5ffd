//! The pod of the manifest as it runs in a cluster: its user, its mounts, nothing else that can be written, and its Corefile.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tests::{Cluster, Folder, Namespace, Process, Query, free_port, until};

use crate::{corefile, text_of};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a pod has its account.
const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";

/// The value behind a key that the manifest has once.
fn value<'a>(manifest: &'a str, key: &str) -> &'a str {
    let mut lines = manifest.lines().filter_map(|line| line.trim().strip_prefix(key));
    let value = lines.next().unwrap_or_else(|| panic!("the manifest has no {key}"));
    value.trim()
}

/// The folders that the manifest mounts, but for those that can only be read.
fn writable(manifest: &str) -> Vec<&str> {
    let (_, mounts) = manifest.split_once("volumeMounts:\n").expect("it mounts something");
    let (mounts, _) = mounts.split_once("      volumes:\n").expect("it has volumes");
    let mounts = mounts.split("- name: ").skip(1).filter(|one| !one.contains("readOnly: true"));
    mounts.map(|one| value(one, "mountPath:")).collect()
}

/// A pod of the shipped manifest, in a namespace of mounts.
struct Pod {
    /// Its mounts.
    inside: Namespace,
    /// The Corefile, and where the program is mounted.
    folder: Folder,
    /// Its user.
    user: String,
    /// Where it is asked.
    at: SocketAddr,
}

impl Pod {
    /// Mounts what the manifest mounts, and the account of the cluster's `kube-system/causeway`; nothing else can be written.
    fn new(cluster: &Cluster) -> Self {
        let (manifest, folder) = (text_of("deploy/kubernetes/deployment.yaml"), Folder::new("pod"));
        assert!(manifest.contains("readOnlyRootFilesystem: true"));
        assert!(writable(&manifest).contains(&"/run"), "nothing is mounted over /run");
        let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let text = corefile(&text_of("deploy/kubernetes/corefile.yaml"))
            .replace(":53 ", &format!(":{} ", at.port()))
            .replace("health {", &format!("health 127.0.0.1:{} {{", free_port()))
            .replace("ready\n", &format!("ready 127.0.0.1:{}\n", free_port()))
            .replace(":9153", &format!("127.0.0.1:{}", free_port()));
        folder.write("Corefile", text);
        // Its user cannot come to where it was built.
        folder.write("causeway", "");
        let program = folder.path().join("causeway");
        let token =
            tests::process::run(cluster.command("token").args(["-sa", "kube-system/causeway"]));
        let inside = Namespace::of_mounts();
        let mut lines =
            format!("mount --bind {} {}\n", tests::gateway::binary().display(), program.display());
        // As the kubelet makes such a folder: everybody may write to it.
        for path in writable(&manifest) {
            // Nothing of it is left on the machine: what is not there is made in a folder over its parent.
            lines.push_str(&format!(
                "[ -d {path} ] || mount -t tmpfs tmpfs $(dirname {path}); mkdir -p {path}; mount -t tmpfs -o mode=0777 tmpfs {path}\n"
            ));
        }
        // The account is mounted within, where the machine has /var/run as a link to /run.
        lines.push_str(&format!(
            "mkdir -p {ACCOUNT}; cp {} {ACCOUNT}/ca.crt; printf kube-system >{ACCOUNT}/namespace; printf %s '{}' >{ACCOUNT}/token\n",
            cluster.ca().display(),
            token.trim()
        ));
        lines.push_str("mount -o remount,bind,ro /\n");
        inside.shell(&lines);
        Self { inside, folder, user: value(&manifest, "runAsUser:").to_owned(), at }
    }

    /// A command of the program, as the pod's user and without any capability.
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.inside.command("setpriv");
        command.args(["--reuid", &self.user, "--regid", &self.user, "--clear-groups"]);
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]);
        command.arg(self.folder.path().join("causeway")).args(arguments).stdin(Stdio::null());
        command
    }

    /// Starts it for a cluster.
    fn start(&self, cluster: &Cluster) -> Process {
        let corefile = self.folder.path().join("Corefile");
        let mut command = self.command(&["-conf", &corefile.to_string_lossy()]);
        command.env("KUBERNETES_SERVICE_HOST", cluster.address().ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", cluster.address().port().to_string());
        Process::start("causeway", command)
    }

    /// Waits until the cluster's own service has its address.
    fn knows(&self, process: &Process) {
        let asked = Query::from("kubernetes.default.svc.cluster.local");
        let known = || asked.ask(self.at).filter(|reply| !reply.addresses().is_empty());
        assert!(until(LIMIT, known).is_some(), "{}", process.output());
    }

    /// The lines that `kubectl exec` gets from the program: its status, and what it prints.
    fn exec(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments).output().expect("there is setpriv");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}

/// The modes of a file or folder within the pod.
fn mode(pod: &Pod, path: &str) -> String {
    pod.inside.shell(&format!("stat -c '%a %u' {path}")).trim().to_owned()
}

#[test]
fn the_pod_has_a_control_socket_and_a_snapshot() {
    let mut cluster = Cluster::start();
    cluster.apply_path(&tests::process::repository().join("deploy/kubernetes"));
    let pod = Pod::new(&cluster);
    let mut process = pod.start(&cluster);
    pod.knows(&process);

    // As the guide has it: `kubectl exec … causeway status`.
    let (well, status) = pod.exec(&["status"]);
    assert!(well && status.contains("live"), "{status}\n{}", process.output());
    let (well, why) = pod.exec(&["explain", "kubernetes.default.svc.cluster.local"]);
    assert!(well && why.contains("10.96.0.1"), "{why}");
    let (well, verdict) = pod.exec(&["verify"]);
    assert!(well, "{verdict}");
    let owner = &pod.user;
    assert_eq!(mode(&pod, "/run/causeway"), format!("700 {owner}"));
    assert_eq!(mode(&pod, "/run/causeway/causeway.sock"), format!("600 {owner}"));
    for odd in ["control socket", "everybody may write", "snapshot"] {
        assert!(!process.output().contains(odd), "{odd}:\n{}", process.output());
    }

    // A container that is started again while the API server is away answers from what was kept.
    let kept = || {
        let files = pod.inside.shell("find /var/lib/causeway/clusters -type f 2>/dev/null || true");
        (!files.trim().is_empty()).then_some(())
    };
    assert!(until(LIMIT, kept).is_some(), "nothing is kept:\n{}", process.output());
    process.stop(LIMIT);
    cluster.kill();
    let second = pod.start(&cluster);
    pod.knows(&second);
    let asked = Query::from("kubernetes.default.svc.cluster.local").bufsize(1232);
    let reply = asked.ask(pod.at).expect("it answers");
    assert_eq!(reply.extended().map(|told| told.0), Some(3), "{reply:?}");
}

#[test]
fn the_memory_for_the_socket_is_small_and_the_state_is_on_disk() {
    let manifest = text_of("deploy/kubernetes/deployment.yaml");
    assert_eq!(writable(&manifest), ["/run", "/var/lib/causeway"]);
    let (_, volumes) = manifest.split_once("      volumes:\n").expect("it has volumes");
    let volume = |name: &str| {
        let (_, rest) = volumes.split_once(&format!("- name: {name}\n")).expect("it has this one");
        rest.split("- name: ").next().unwrap_or_default()
    };
    assert!(volume("run").contains("medium: Memory") && volume("run").contains("sizeLimit: 1Mi"));
    assert!(!volume("state").contains("medium:") && volume("state").contains("sizeLimit:"));
    // A claim in its place is the user's only by this.
    assert_eq!(value(&manifest, "fsGroup:"), value(&manifest, "runAsUser:"));
}
