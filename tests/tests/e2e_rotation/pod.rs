//! The account of a pod, in the folder that the kubelet mounts and fills anew.

use std::cell::Cell;
use std::fs;

use tests::{Api, Folder, Namespace, Pki, Relay, gateway};

use crate::bench::{Bench, account, cluster, issue, objects, project, rotate_user, serving};
use crate::moved::Moving;

/// Where a pod has its account.
const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";

/// Mounts as a pod has them.
struct Pod {
    /// The mounts.
    inside: Namespace,
    /// What is mounted.
    folder: Folder,
    /// How often it was filled.
    count: Cell<usize>,
}

impl Pod {
    /// Makes it, with nothing in the folder yet.
    fn new() -> Self {
        let (inside, folder) = (Namespace::of_mounts(), Folder::new("pod"));
        let from = folder.path().display();
        inside.shell(&format!(
            "mount -t tmpfs tmpfs /run; mkdir -p {ACCOUNT}; mount --bind {from} {ACCOUNT}"
        ));
        Self { inside, folder, count: Cell::new(0) }
    }

    /// Fills the folder, all of it in one step.
    fn fill(&self, token: &str, authorities: &str) {
        let files = [("token", token), ("ca.crt", authorities), ("namespace", "default")];
        project(&self.folder, self.count.get(), &files);
        self.count.set(self.count.get() + 1);
    }

    /// A gateway in it, whose cluster is at a way; not yet started.
    fn gateway(&self, relay: &Relay) -> gateway::Builder<'_> {
        let at = relay.address();
        serving("")
            .env("KUBERNETES_SERVICE_HOST", &at.ip().to_string())
            .env("KUBERNETES_SERVICE_PORT", &at.port().to_string())
            .within(&self.inside)
    }
}

#[test]
fn watches_move_to_a_new_account_of_the_pod() {
    let name = "moved-account";
    cluster().apply(&objects(name));
    let (mut session, pod) = (Api::new(cluster(), "admin").session(), Pod::new());
    // The bundle changes too: it gets an authority of which the server has nothing.
    let authorities = || {
        let text = |path: &std::path::Path| fs::read_to_string(path).expect("it is there");
        text(Pki::new().ca()) + &text(cluster().ca())
    };
    pod.fill(&issue(&mut session, name), &authorities());
    let relay = Relay::start(cluster().address());
    let gateway = pod.gateway(&relay);
    let bench = Bench::behind(name, relay, gateway);
    rotate_user(bench, "pod's account", &account(name), || {
        pod.fill(&issue(&mut session, name), &authorities());
    });
}

#[test]
fn watches_move_to_a_new_authority_in_the_pods_account() {
    let name = "moved-pod";
    cluster().apply(&objects(name));
    let (pod, (moving, relay)) = (Pod::new(), Moving::start());
    // The server takes no token but the one that is there at last.
    let fill = |authorities: &str| {
        let token = format!("number-{}-of-the-pod", pod.count.get());
        moving.meddler.demand(&token);
        pod.fill(&token, authorities);
    };
    fill(&moving.bundle());
    let gateway = pod.gateway(&relay);
    let bench = Bench::behind(name, relay, gateway);
    moving.rotate(bench, "pod's token and CA bundle", fill);
}
