//! A gateway that serves over all seven transports, and a shell for its clients.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::gateway::Builder;
use crate::pki::{Pair, Pki};
use crate::process::{free_port, repository, target};
use crate::{Gateway, Namespace};

/// The name on the gateway's certificate, beside `localhost`, `127.0.0.1` and `::1`.
pub const NAME: &str = "dns.test";

/// One block for all transports. Addresses in answers are loopback ones, for clients connect to them.
const COREFILE: &str = r#"
dns://.:@PORT@ tls://.:@PORT:tls@ quic://.:@PORT:tls@ https://.:@PORT:https@ https3://.:@PORT:https@ grpc://.:@PORT:grpc@ {
    bind 127.0.0.1
    @TLS@
    @MORE@
    errors
    log . "asked {name} {type} {proto} {rcode}"
    prometheus 127.0.0.1:@PORT:metrics@
    template IN SOA example.test {
        match ^example[.]test[.]$
        answer "{{ .Name }} 60 IN SOA ns1.example.test. hostmaster.example.test. 1 60 60 60 60"
        fallthrough
    }
    template IN NS example.test example.com {
        match ^example[.](test|com)[.]$
        answer "{{ .Name }} 60 IN NS ns1.example.test."
        fallthrough
    }
    template IN TXT big.example.test {
        answer "{{ .Name }} 60 IN TXT \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\""
        answer "{{ .Name }} 60 IN TXT \"1\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\" \"@LONG@\""
    }
    template ANY ANY test.dnscrypt gone.test {
        rcode NXDOMAIN
        authority "{{ .Zone }} 60 IN SOA ns1.example.test. hostmaster.example.test. 1 60 60 60 60"
    }
    template IN ANY load.test {
        answer "{{ .Name }} 60 IN A 127.0.0.55"
    }
    template IN A example.test {
        match ^www[.]example[.]test[.]$
        answer "{{ .Name }} 300 IN A 127.0.0.80"
        fallthrough
    }
    template IN A example.test dns.test {
        match ^(ns1[.]example|dns)[.]test[.]$
        answer "{{ .Name }} 300 IN A 127.0.0.1"
        fallthrough
    }
    template ANY ANY example.test dns.test {
        match ^((www[.]|ns1[.])?example|dns)[.]test[.]$
        rcode NOERROR
        authority "{{ .Zone }} 60 IN SOA ns1.example.test. hostmaster.example.test. 1 60 60 60 60"
        fallthrough
    }
    template ANY ANY example.test {
        rcode NXDOMAIN
        authority "example.test. 60 IN SOA ns1.example.test. hostmaster.example.test. 1 60 60 60 60"
    }
    hosts {
        127.0.0.81 printer.home.test
        fallthrough
    }
}
"#;

/// A gateway with keys for `dns`, `tls`, `quic`, `https`, `https3` and `grpc`; the first three are on two ports (853's UDP
/// and TCP share one), as are the two of HTTP. It has `www.example.test` (127.0.0.80), `NAME.load.test` (127.0.0.55),
/// `big.example.test` (4 kB of TXT), `printer.home.test` (127.0.0.81, by `hosts`), nothing below `gone.test` (NXDOMAIN), and
/// answers no other names.
///
/// ```no_run
/// use tests::Edge;
/// let edge = Edge::start();
/// let seen = edge.shell("kdig @127.0.0.1 -p $TLS +tls-ca=$CA +tls-hostname=$NAME www.example.test +short");
/// assert_eq!(seen.trim(), "127.0.0.80");
/// assert_eq!(edge.asked("tls"), 1);
/// ```
#[derive(Debug)]
pub struct Edge<'a> {
    /// The gateway.
    pub gateway: Gateway,
    /// Who issued its certificate.
    pub pki: Pki,
    /// The files of the certificate.
    pub pair: Pair,
    /// Where it runs, if not in the test's own network.
    namespace: Option<&'a Namespace>,
}

impl<'a> Edge<'a> {
    /// Starts one.
    pub fn start() -> Self {
        Self::with("", None)
    }

    /// Starts one in a namespace, which gets its clients too.
    pub fn within(namespace: &'a Namespace) -> Self {
        Self::with("", Some(namespace))
    }

    /// Starts one whose block has more directives.
    pub fn with(more: &str, namespace: Option<&'a Namespace>) -> Self {
        Self::begin(more, "", namespace)
    }

    /// Starts one with more blocks beside its own; in them `@TLS@` is the directive for its certificate, `@NAME@` the name on it, and
    /// `@CA@` the authority's file.
    pub fn beside(blocks: &str, namespace: &'a Namespace) -> Self {
        Self::begin("", blocks, Some(namespace))
    }

    /// Starts one.
    fn begin(more: &str, blocks: &str, namespace: Option<&'a Namespace>) -> Self {
        let pki = Pki::new();
        let pair = pki.server("server", &[NAME, "localhost", "127.0.0.1", "::1"]);
        let blocks = blocks.replace("@CA@", &pki.ca().display().to_string());
        let blocks = blocks.replace("@NAME@", NAME);
        let mut builder = builder(&format!("tls {pair}"), more, &blocks);
        if let Some(namespace) = namespace {
            builder = builder.within(namespace);
        }
        Self { gateway: builder.start(), pki, pair, namespace }
    }

    /// How many queries came over a transport, by its scheme, as the metrics say.
    pub fn asked(&self, scheme: &str) -> u64 {
        self.count("coredns_dns_requests_total", &format!("server=\"{scheme}://"))
    }

    /// The sum of the samples of a counter whose labels contain a text.
    pub fn count(&self, metric: &str, label: &str) -> u64 {
        let look = || {
            let samples = self.gateway.metrics("metrics");
            samples
                .iter()
                .filter(|(key, _)| key.starts_with(&format!("{metric}{{")) && key.contains(label))
                // Not `sum`, which is -0 for nothing.
                .fold(0.0, |sum, (_, value)| sum + value)
        };
        let sum = match self.namespace {
            Some(namespace) => namespace.enter(look),
            None => look(),
        };
        // Counters are whole numbers far below 2^53.
        format!("{sum:.0}").parse().expect("a counter is not negative")
    }

    /// Runs a shell line to its end, which has to be a good one, and gives what it wrote; panics with that and with the
    /// gateway's log if it fails or takes longer than two minutes.
    ///
    /// Its environment: `DNS`, `TLS` (for QUIC too), `HTTPS` (for HTTP/3 too), `GRPC`, `METRICS` and those of further blocks, by
    /// their names in the Corefile, are ports on 127.0.0.1,
    /// `CA` the authority's file, `NAME` the name on the certificate, `SCRIPTS` the folder `tests/clients`, `TOOLS` what
    /// its `setup` installed, `FREE` a free port, `DIR` a folder to write in, which is the current one.
    pub fn shell(&self, line: &str) -> String {
        let (good, output) = self.attempt(line);
        assert!(good, "{line}\n{output}\n--- the gateway:\n{}", self.gateway.output());
        output
    }

    /// The same for a line that may fail: whether it did not, and what it wrote.
    pub fn attempt(&self, line: &str) -> (bool, String) {
        let mut command = self.command("timeout");
        command.args(["--kill-after=5", "120", "sh", "-ec", line]).stdin(Stdio::null());
        // One pipe for both, so that the lines keep their order.
        let mut process = crate::Process::start("client", command);
        let status = process.wait(std::time::Duration::from_secs(130));
        let output = process.rest();
        (status.is_some_and(|s| s.success()), output)
    }

    /// A command with that environment, in the gateway's network.
    pub fn command(&self, program: &str) -> Command {
        let mut command =
            crate::namespace::command(self.namespace, self.gateway.folder(), program.as_ref());
        for (name, port) in self.gateway.ports() {
            let name = if name.is_empty() { "DNS".to_owned() } else { name.to_uppercase() };
            command.env(name, port.to_string());
        }
        let tools = tools();
        command
            .env("PATH", path())
            .env("CA", self.pki.ca())
            .env("NAME", NAME)
            .env("SCRIPTS", repository().join("tests/clients"))
            .env("TOOLS", &tools)
            .env("FREE", free_port().to_string())
            .env("DIR", self.gateway.folder())
            .env("HOME", self.gateway.folder());
        command
    }
}

/// The Corefile with a TLS directive, more lines in its block, and more blocks.
fn builder<'a>(tls: &str, more: &str, blocks: &str) -> Builder<'a> {
    let long = "0123456789".repeat(25);
    let corefile = format!("{COREFILE}\n{blocks}").replace("@LONG@", &long);
    Gateway::new(&corefile.replace("@TLS@", tls).replace("@MORE@", more))
}

/// The folder in which `tests/clients/setup` puts what it installs.
pub fn tools() -> PathBuf {
    target().join("clients")
}

/// The search path, what `setup` installed first.
fn path() -> String {
    let tools = tools();
    let tools = tools.display();
    let system = std::env::var("PATH").unwrap_or_default();
    format!("{tools}/go:{tools}/venv/bin:{system}:/usr/sbin:/sbin")
}
