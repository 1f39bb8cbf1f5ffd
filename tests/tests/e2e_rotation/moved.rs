//! Credentials that are replaced while no connection is broken: in time all kinds are watched with the new ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tests::meddler::{self, Meddler};
use tests::{Api, Folder, Pki, Relay, until};

use crate::authority::{Authority, LONG, certified};
use crate::bench::{
    Bench, KINDS, LIMIT, account, cluster, issue, objects, replace, rotate, rotate_user, serving,
};

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

/// A user of a kubeconfig with the certificate and the key within.
fn embedded(certificate: &str, key: &str) -> String {
    format!(
        "{{client-certificate-data: {}, client-key-data: {}}}",
        STANDARD.encode(certificate),
        STANDARD.encode(key)
    )
}

#[test]
fn watches_move_to_a_new_certificate_within_the_kubeconfig() {
    let name = "moved-embedded";
    cluster().apply(&objects(name));
    let issue = || {
        let (certificate, key) = Authority::get().issue(name, LONG);
        embedded(&certificate, &key)
    };
    let folder = Folder::new(name);
    let bench = Bench::start(name, &folder, &issue());
    let text = fs::read_to_string(folder.path().join("kubeconfig")).expect("it is there");
    let (head, _) = text.split_once("  user: {").expect("it has a user");
    rotate_user(bench, "certificate in the kubeconfig", name, || {
        replace(&folder, "kubeconfig", &format!("{head}  user: {}\n", issue()));
    });
}

/// Writes a program that prints credentials that end in four seconds, with the fields that are in its file `status` then; gives
/// the user of a kubeconfig that runs it.
fn program(folder: &Folder) -> String {
    let path = folder.write(
        "credentials",
        format!(
            "#!/bin/sh\nprintf '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{%s, \"expirationTimestamp\": \"%s\"}}}}' \
             \"$(cat '{}')\" \"$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)\"\n",
            folder.path().join("status").display()
        ),
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never}}}}",
        path.display()
    )
}

#[test]
fn watches_move_to_what_a_program_issues() {
    let name = "moved-program";
    cluster().apply(&objects(name));
    let (mut session, folder) = (Api::new(cluster(), "admin").session(), Folder::new(name));
    let mut status = || format!("\"token\": \"{}\"", issue(&mut session, name));
    folder.write("status", status());
    let bench = Bench::start(name, &folder, &program(&folder));
    rotate_user(bench, "program's token", &account(name), || {
        replace(&folder, "status", &status());
    });
}

#[test]
fn watches_move_to_a_certificate_that_a_program_issues() {
    let name = "moved-issued";
    cluster().apply(&objects(name));
    let folder = Folder::new(name);
    let status = || {
        let (certificate, key) = Authority::get().issue(name, LONG);
        let text = |text: String| serde_json::Value::from(text).to_string();
        format!(
            "\"clientCertificateData\": {}, \"clientKeyData\": {}",
            text(certificate),
            text(key)
        )
    };
    folder.write("status", status());
    let bench = Bench::start(name, &folder, &program(&folder));
    rotate_user(bench, "program's certificate", name, || {
        replace(&folder, "status", &status());
    });
}

/// An API server whose authority changes, behind a way, and where a gateway has its bundle.
pub(crate) struct Moving {
    /// The first authority.
    first: Pki,
    /// The server.
    pub(crate) meddler: Meddler,
}

impl Moving {
    /// Starts the server; gives the way to it too.
    pub(crate) fn start() -> (Self, Relay) {
        let first = Pki::new();
        let meddler = Meddler::start(cluster(), &first);
        let relay = Relay::start(meddler.address());
        (Self { first, meddler }, relay)
    }

    /// The bundle to begin with.
    pub(crate) fn bundle(&self) -> String {
        text(&self.first)
    }

    /// Replaces authority and bundle again and again; `write` writes the latter.
    pub(crate) fn rotate(&self, mut bench: Bench, what: &str, write: impl Fn(&str)) {
        let (meddler, here) = (&self.meddler, ["127.0.0.1"]);
        let (old, mut now) = (self.first.server("old", &here), self.bundle());
        let write = |text: &str| {
            meddler.forget();
            write(text);
            || meddler.watched().len() >= KINDS
        };
        rotate(&mut bench, what, |bench, _| {
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
}

/// The certificate of an authority.
fn text(pki: &Pki) -> String {
    fs::read_to_string(pki.ca()).expect("it is there")
}

#[test]
fn watches_move_to_a_new_authority_of_the_api_server() {
    let name = "moved-authority";
    cluster().apply(&objects(name));
    let (folder, (moving, relay)) = (Folder::new(name), Moving::start());
    let bundle = folder.write("ca.crt", moving.bundle());
    let config = meddler::kubeconfig(relay.address(), &bundle, "token: any");
    let kubeconfig = folder.write("kubeconfig", config);
    let gateway = serving(&format!("kubeconfig {}", kubeconfig.display()));
    let bench = Bench::behind(name, relay, gateway);
    moving.rotate(bench, "CA bundle", |text| replace(&folder, "ca.crt", text));
}
