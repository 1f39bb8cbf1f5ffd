//! A CA that speaks ACME: pebble, on loopback addresses.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::pki::Pki;
use crate::process::{Folder, Process, free_port, run, until};

/// A running CA; stopped when this value goes. It looks at domains anew for every order, and refuses one in twenty nonces.
#[derive(Debug)]
pub struct Pebble {
    /// The program, unless it was stopped.
    process: Option<Process>,
    /// Its configuration.
    folder: Folder,
    /// Who issued the certificate of its own server.
    pki: Pki,
    /// Where it is asked,
    port: u16,
    /// managed,
    management: u16,
    /// and whom it asks for names.
    dns: SocketAddr,
}

/// What it is started with.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The DNS server that it asks for everything.
    pub dns: SocketAddr,
    /// The port where it fetches pages for http-01.
    pub http: u16,
    /// The port where it shakes hands for tls-alpn-01.
    pub tls: u16,
    /// For how many seconds its certificates are valid.
    pub valid: u32,
}

impl Pebble {
    /// Starts one and waits until it can be asked.
    pub fn start(wish: Wish) -> Self {
        let pki = Pki::new();
        let server = pki.server("acme", &["acme.test", "localhost", "127.0.0.1"]);
        let (port, management) = (free_port(), free_port());
        let folder = Folder::new("pebble");
        let (chain, key) = (server.chain.display(), server.key.display());
        let Wish { dns, http, tls, valid } = wish;
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
            "certificate": "{chain}", "privateKey": "{key}", "httpPort": {http}, "tlsPort": {tls},
            "ocspResponderURL": "", "externalAccountBindingRequired": false, "certificateValidityPeriod": {valid}}}}}"#
        );
        folder.write("config.json", config);
        let mut pebble = Self { process: None, folder, pki, port, management, dns };
        pebble.resume();
        pebble
    }

    /// Starts it again after [`Pebble::pause`]: a CA with another root, at the same address.
    pub fn resume(&mut self) {
        let mut command = Command::new("pebble");
        command
            .arg("-config")
            .arg(self.folder.path().join("config.json"))
            .args(["-dnsserver", &self.dns.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_WFE_NONCEREJECT", "5")
            .stdin(Stdio::null());
        let mut process = Process::start("pebble", command);
        let ports = [self.port, self.management];
        let up = until(Duration::from_secs(30), || {
            if !process.running() {
                return Some(false);
            }
            let open = process.ports();
            ports.iter().all(|port| open.contains(port)).then_some(true)
        });
        assert_eq!(up, Some(true), "pebble does not start:\n{}", process.output());
        self.process = Some(process);
    }

    /// Stops it: nobody can be reached there.
    pub fn pause(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// The address of its directory.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// The same by the name `acme.test`.
    pub fn named_directory(&self) -> String {
        format!("https://acme.test:{}/dir", self.port)
    }

    /// The file of the CA that its server is checked by.
    pub fn ca_root(&self) -> String {
        self.pki.ca().display().to_string()
    }

    /// The root of what it issues, in PEM.
    pub fn root(&self) -> String {
        let url = format!("https://127.0.0.1:{}/roots/0", self.management);
        run(Command::new("curl").args(["-fsS", "--cacert", &self.ca_root(), &url]))
    }

    /// All that it wrote so far.
    pub fn output(&self) -> String {
        self.process.as_ref().map(Process::output).unwrap_or_default()
    }
}
