//! Name servers that copy zones from the gateway and to it, none of which shares code with us: Knot, NSD and BIND.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::client;
use crate::pki::Pair;
use crate::process::{Folder, Process, free_port, run, until};

/// How long a server may take to its start.
const START: Duration = Duration::from_secs(30);

/// The key that transfers may be signed with: its name, and its secret for HMAC-SHA256.
pub const KEY: (&str, &str) = ("key.test", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");

/// A program that serves zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// `knotd`.
    Knot,
    /// `nsd`.
    Nsd,
    /// `named`.
    Bind,
}

impl Make {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Knot, Self::Nsd, Self::Bind];

    /// Its name, for folders and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Knot => "knot",
            Self::Nsd => "nsd",
            Self::Bind => "bind",
        }
    }
}

/// How a server and the gateway deal with one another.
#[derive(Clone, Debug, Default)]
pub struct Terms<'a> {
    /// The gateway's address, for transfers and notices.
    pub gateway: Option<SocketAddr>,
    /// Whether messages are signed with [`KEY`].
    pub signed: bool,
    /// The certificate that it shows, for one that is asked by TLS.
    pub shows: Option<&'a Pair>,
    /// Files beside that of the zone: their names and texts.
    pub files: &'a [(&'a str, &'a str)],
    /// The zones that a catalog of Knot lists; the server's zone is that catalog then, and each of them has the zone's text.
    pub members: &'a [&'a str],
    /// More zones that one copies from the gateway which copies a zone.
    pub also: &'a [&'a str],
    /// The authority that the gateway is checked by, for one that asks it by TLS; the gateway's name is `dns.example.org`.
    pub trusts: Option<&'a Path>,
}

/// A server with one zone; gone with this value.
#[derive(Debug)]
pub struct Nameserver {
    folder: Folder,
    process: Process,
    address: SocketAddr,
    tls: SocketAddr,
}

impl Nameserver {
    /// Starts one that has `zone` in a file of this text, and tells the gateway of its changes.
    pub fn primary(make: Make, zone: &str, text: &str, terms: &Terms<'_>) -> Self {
        Self::start(make, zone, Some(text), terms)
    }

    /// Starts one that copies `zone` from the gateway.
    pub fn secondary(make: Make, zone: &str, terms: &Terms<'_>) -> Self {
        Self::start(make, zone, None, terms)
    }

    /// Starts one.
    fn start(make: Make, zone: &str, text: Option<&str>, terms: &Terms<'_>) -> Self {
        let folder = Folder::new(make.name());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let tls = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        if let Some(text) = text {
            folder.write("zone", text);
        }
        for (name, text) in terms.files {
            folder.write(name, text);
        }
        let draft =
            Draft { folder: folder.path(), address, tls, zone, is_primary: text.is_some(), terms };
        let (program, words, configuration) = match make {
            Make::Knot => ("knotd", &["-c"][..], draft.knot()),
            Make::Nsd => ("nsd", &["-d", "-c"][..], draft.nsd()),
            Make::Bind => ("named", &["-g", "-c"][..], draft.bind()),
        };
        let path = folder.write("conf", configuration);
        // Knot does not make this one itself.
        folder.write("db/.keep", "");
        let mut command = Command::new(program);
        // Debian keeps them where only root's PATH looks.
        let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.env("PATH", search).current_dir(folder.path());
        command.args(words).arg(path).stdin(Stdio::null());
        let mut process = Process::start(make.name(), command);
        let up = until(START, || {
            let answers = || client::Query::from(&*format!("{zone} SOA")).ask(address).is_some();
            (!process.running() || answers()).then(|| process.running())
        });
        assert_eq!(up, Some(true), "{} did not start:\n{}", make.name(), process.output());
        Self { folder, process, address, tls }
    }

    /// Where it is asked in clear.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it is asked by TLS.
    pub fn tls(&self) -> SocketAddr {
        self.tls
    }

    /// Gives its zone another text, and has it read.
    pub fn change(&self, text: &str) {
        self.folder.write("zone", text);
        self.process.signal(Signal::HUP);
    }

    /// Changes the zones that a catalog of Knot lists: those of before that are no longer there go.
    pub fn list(&self, zone: &str, terms: &Terms<'_>) {
        let draft = Draft {
            folder: self.folder.path(),
            address: self.address,
            tls: self.tls,
            zone,
            is_primary: true,
            terms,
        };
        self.folder.write("conf", draft.knot());
        self.process.signal(Signal::HUP);
    }

    /// The serial of a zone that it has.
    pub fn serial(&self, zone: &str) -> Option<u32> {
        serial(self.address, zone)
    }

    /// Waits until it has a zone of this serial; panics with what it wrote if it does not come.
    pub fn has(&self, zone: &str, wanted: u32, limit: Duration) {
        let come = until(limit, || (self.serial(zone) == Some(wanted)).then_some(()));
        assert!(
            come.is_some(),
            "{zone} is {:?}, not {wanted}:\n{}",
            self.serial(zone),
            self.output()
        );
    }

    /// All that it wrote so far.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The serial of a zone that a server has.
pub fn serial(server: SocketAddr, zone: &str) -> Option<u32> {
    let reply = client::Query::from(&*format!("{zone} SOA")).tcp().ask(server)?;
    let soa = reply.answers().into_iter().next()?;
    soa.split_whitespace().nth(6)?.parse().ok()
}

/// The records of a zone that a server hands out, sorted, each once, as `dig` writes them.
pub fn records(server: SocketAddr, zone: &str, words: &[&str]) -> Vec<String> {
    let mut command = Command::new("dig");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string()]);
    command.args(["+noall", "+answer", "+time=20", "+tries=1"]).args(words).args([zone, "AXFR"]);
    let text = run(&mut command);
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let mut all: Vec<String> =
        text.lines().filter(|one| !one.starts_with(';') && !one.is_empty()).map(line).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What a configuration is made of.
struct Draft<'a> {
    folder: &'a Path,
    address: SocketAddr,
    tls: SocketAddr,
    zone: &'a str,
    is_primary: bool,
    terms: &'a Terms<'a>,
}

impl Draft<'_> {
    /// That of Knot, which knows no TLS.
    fn knot(&self) -> String {
        let (folder, port, zone) = (self.folder.display(), self.address.port(), self.zone);
        let (name, secret) = KEY;
        let key = if self.terms.signed { format!("\n    key: {name}.") } else { String::new() };
        let gateway = self.terms.gateway.unwrap_or(self.address);
        let at = format!("{}@{}", gateway.ip(), gateway.port());
        let mut role = match (self.is_primary, self.terms.members) {
            (true, []) => {
                "notify: gateway\n    zonefile-load: difference\n    zonefile-sync: -1".to_owned()
            }
            (true, _) => "catalog-role: generate\n    notify: gateway".to_owned(),
            (false, _) => "master: gateway".to_owned(),
        };
        for member in self.terms.members {
            role.push_str(&format!(
                "\n  - domain: {member}\n    storage: \"{folder}\"\n    file: zone\n    acl: [local, signed]\n    notify: gateway\n    zonefile-load: whole\n    zonefile-sync: -1\n    catalog-role: member\n    catalog-zone: {zone}"
            ));
        }
        for one in self.terms.also {
            role.push_str(&format!(
                "\n  - domain: {one}\n    storage: \"{folder}\"\n    master: gateway\n    acl: [local, signed]\n    zonefile-sync: -1\n    journal-content: changes"
            ));
        }
        let file = if self.terms.members.is_empty() { "zone" } else { "catalog" };
        format!(
            "server:\n    rundir: \"{folder}\"\n    listen: 127.0.0.1@{port}\n    user: root:root\n\
log:\n  - target: stderr\n    any: info\n\
database:\n    storage: \"{folder}/db\"\n\
key:\n  - id: {name}.\n    algorithm: hmac-sha256\n    secret: {secret}\n\
remote:\n  - id: gateway\n    address: {at}{key}\n\
acl:\n  - id: local\n    address: 127.0.0.1\n    action: [transfer, notify]\n  - id: signed\n    address: 127.0.0.1\n    key: {name}.\n    action: [transfer, notify]\n\
zone:\n  - domain: {zone}\n    storage: \"{folder}\"\n    file: {file}\n    acl: [local, signed]\n    journal-content: changes\n    {role}\n"
        )
    }

    /// That of NSD.
    fn nsd(&self) -> String {
        let (folder, port, zone) = (self.folder.display(), self.address.port(), self.zone);
        let (name, secret) = KEY;
        let key = if self.terms.signed { name } else { "NOKEY" };
        let gateway = self.terms.gateway.unwrap_or(self.address);
        let at = format!("{}@{}", gateway.ip(), gateway.port());
        let mut server = String::new();
        if let Some(pair) = self.terms.shows {
            let (chain, file, port) = (pair.chain.display(), pair.key.display(), self.tls.port());
            server.push_str(&format!(
                "    ip-address: 127.0.0.1@{port}\n    tls-port: {port}\n    tls-service-key: \"{file}\"\n    tls-service-pem: \"{chain}\"\n"
            ));
        }
        let mut authority = "";
        if let Some(ca) = self.terms.trusts {
            server.push_str(&format!("    tls-cert-bundle: \"{}\"\n", ca.display()));
            authority = "tls-auth:\n    name: gateway\n    auth-domain-name: dns.example.org\n";
        }
        let by = if authority.is_empty() { "" } else { " gateway" };
        let role = if self.is_primary {
            format!(
                "    provide-xfr: 127.0.0.1 {key}\n    provide-xfr: 127.0.0.1 NOKEY\n    notify: {at} {key}\n    store-ixfr: yes\n    create-ixfr: yes\n"
            )
        } else {
            format!(
                "    request-xfr: {at} {key}{by}\n    allow-notify: 127.0.0.1 NOKEY\n    allow-notify: 127.0.0.1 {name}\n    provide-xfr: 127.0.0.1 NOKEY\n"
            )
        };
        let also: String = self
            .terms
            .also
            .iter()
            .map(|one| format!("zone:\n    name: {one}\n    zonefile: {one}\n{role}"))
            .collect();
        format!(
            "server:\n    ip-address: 127.0.0.1@{port}\n    username: \"\"\n    chroot: \"\"\n    zonesdir: \"{folder}\"\n    database: \"\"\n    pidfile: \"{folder}/pid\"\n    xfrdfile: \"{folder}/xfrd\"\n    xfrdir: \"{folder}\"\n    zonelistfile: \"{folder}/list\"\n    cookie-secret-file: \"\"\n    server-count: 1\n    verbosity: 2\n{server}\
remote-control:\n    control-enable: no\n\
key:\n    name: {name}\n    algorithm: hmac-sha256\n    secret: \"{secret}\"\n{authority}\
zone:\n    name: {zone}\n    zonefile: zone\n{role}{also}"
        )
    }

    /// That of BIND.
    fn bind(&self) -> String {
        let (folder, port, zone) = (self.folder.display(), self.address.port(), self.zone);
        let (name, secret) = KEY;
        let key = if self.terms.signed { format!(" key {name}") } else { String::new() };
        let gateway = self.terms.gateway.unwrap_or(self.address);
        let (mut listen, mut more, mut by) = (String::new(), String::new(), "");
        if let Some(pair) = self.terms.shows {
            let (chain, file, port) = (pair.chain.display(), pair.key.display(), self.tls.port());
            listen = format!("listen-on port {port} tls own {{ 127.0.0.1; }};");
            more.push_str(&format!(
                "tls own {{ cert-file \"{chain}\"; key-file \"{file}\"; protocols {{ TLSv1.3; }}; }};\n"
            ));
        }
        if let Some(ca) = self.terms.trusts {
            by = " tls gateway";
            more.push_str(&format!(
                "tls gateway {{ ca-file \"{}\"; remote-hostname \"dns.example.org\"; protocols {{ TLSv1.3; }}; }};\n",
                ca.display()
            ));
        }
        let at = format!("{} port {}{key}", gateway.ip(), gateway.port());
        let role = if self.is_primary {
            format!(
                "type primary; file \"zone\"; notify explicit; also-notify {{ {at}; }}; allow-transfer {{ any; }}; ixfr-from-differences yes;"
            )
        } else {
            format!(
                "type secondary; file \"copy\"; masterfile-format text; primaries {{ {at}{by}; }}; allow-transfer {{ any; }}; notify no;"
            )
        };
        for one in self.terms.also {
            let role = role.replace("\"copy\"", &format!("\"{one}\""));
            more.push_str(&format!("zone \"{one}\" {{ {role} }};\n"));
        }
        format!(
            "options {{ directory \"{folder}\"; listen-on port {port} {{ 127.0.0.1; }}; {listen} listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; managed-keys-directory \"{folder}\"; recursion no; dnssec-validation no; check-names primary ignore; notify-delay 0; notify-rate 100; startup-notify-rate 100; serial-query-rate 100; transfer-message-size 60000; }};\n\
controls {{ }};\nkey \"{name}\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n{more}zone \"{zone}\" {{ {role} }};\n"
        )
    }
}
