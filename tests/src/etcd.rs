//! The real etcd, on loopback addresses.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::pki::Pair;
use crate::process::{Folder, Process, free_port, until};

/// A running etcd of one server; stopped when this value goes.
#[derive(Debug)]
pub struct Etcd {
    /// The program, unless it was stopped.
    process: Option<Process>,
    /// Its data.
    folder: Folder,
    /// Where clients ask it,
    port: u16,
    /// and other servers.
    peers: u16,
    /// Its certificate with its key, and who issues those of its clients.
    tls: Option<(Pair, PathBuf)>,
    /// What is shown to it by `etcdctl`.
    client: Option<Pair>,
    /// By whom `etcdctl` asks it, as `USER:PASSWORD`.
    user: Option<String>,
}

impl Etcd {
    /// Starts one that anybody may ask in clear text.
    pub fn start() -> Self {
        Self::with(None, None)
    }

    /// Starts one with a certificate, which asks clients for one of this CA's.
    pub fn encrypted(server: Pair, client: Pair, ca: PathBuf) -> Self {
        Self::with(Some((server, ca)), Some(client))
    }

    /// Starts one.
    fn with(tls: Option<(Pair, PathBuf)>, client: Option<Pair>) -> Self {
        let (folder, port, peers) = (Folder::new("etcd"), free_port(), free_port());
        let mut etcd = Self { process: None, folder, port, peers, tls, client, user: None };
        etcd.resume();
        etcd
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Starts it again after [`Etcd::stop`], with the data that it had, and waits until it answers.
    pub fn resume(&mut self) {
        let (clients, peers) = (self.endpoint(), format!("http://127.0.0.1:{}", self.peers));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.args(["--name", "one", "--initial-cluster", &format!("one={peers}")]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        if let Some((server, ca)) = &self.tls {
            command.arg("--cert-file").arg(&server.chain).arg("--key-file").arg(&server.key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
        }
        command.stdin(Stdio::null());
        self.process = Some(Process::start("etcd (package etcd-server)", command));
        let up = until(Duration::from_secs(30), || {
            self.control(&["endpoint", "health"])
                .output()
                .is_ok_and(|out| out.status.success())
                .then_some(())
        });
        if up.is_none() {
            panic!("etcd does not answer:\n{}", self.output());
        }
    }

    /// Ends it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Has it do nothing any more, and keep its connections.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal.
    fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// All that it wrote so far.
    pub fn output(&self) -> String {
        self.process.as_ref().map(Process::output).unwrap_or_default()
    }

    /// Has `etcdctl` ask as this user from now on.
    pub fn log_in(&mut self, user: &str) {
        self.user = Some(user.to_owned());
    }

    /// Runs `etcdctl` with these words; its output.
    pub fn ctl(&self, words: &[&str]) -> String {
        let out = self.control(words).output();
        let out = out.unwrap_or_else(|error| panic!("etcdctl (package etcd-client): {error}"));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let failed = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "etcdctl {words:?}: {said}{failed}");
        said
    }

    /// Sets a key.
    pub fn put(&self, key: &str, value: &str) {
        self.ctl(&["put", key, value]);
    }

    /// `etcdctl` with these words.
    fn control(&self, words: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(self.endpoint());
        if let (Some((_, ca)), Some(client)) = (&self.tls, &self.client) {
            command.arg("--cacert").arg(ca);
            command.arg("--cert").arg(&client.chain).arg("--key").arg(&client.key);
        }
        if let Some(user) = &self.user {
            command.args(["--user", user]);
        }
        command.args(words).stdin(Stdio::null());
        command
    }
}
