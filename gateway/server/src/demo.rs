//! `causeway demo`: the same gateway over a cluster given as manifests, on ports that anybody may open.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use config::corefile::Source;

/// The made-up cluster.
const MANIFESTS: &str = include_str!("../demo/shop.yaml");

/// The port that it is served on unless another is stated.
pub(crate) const PORT: u16 = 1053;

/// The port of its metrics.
const METRICS: u16 = 9153;

/// A folder with a Corefile and manifests, removed when dropped.
#[derive(Debug)]
pub(crate) struct Demo {
    dir: PathBuf,
    port: u16,
}

/// Writes the Corefile and manifests of a demo on `port` into a folder of its own.
pub(crate) fn prepare(port: u16) -> io::Result<Demo> {
    let dir = std::env::temp_dir().join(format!("causeway-demo-{}", std::process::id()));
    fs::create_dir_all(dir.join("manifests"))?;
    let demo = Demo { dir, port };
    fs::write(demo.dir.join("manifests").join("shop.yaml"), MANIFESTS)?;
    fs::write(demo.corefile(), text(&demo.dir, port))?;
    Ok(demo)
}

/// The demo's Corefile.
fn text(dir: &Path, port: u16) -> String {
    let manifests = dir.join("manifests");
    format!(
        "\
# Reloaded when it changes, as are the manifests.
.:{port} {{
    errors
    log
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        manifests \"{}\"
        pods verified
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus 127.0.0.1:{METRICS}
    forward . /etc/resolv.conf
    cache 30
    reload 2s 1s
    loadbalance
}}
",
        manifests.display()
    )
}

impl Demo {
    /// Where its Corefile is.
    fn corefile(&self) -> PathBuf {
        self.dir.join("Corefile")
    }

    /// The same, to be served.
    pub(crate) fn source(&self) -> Source {
        Source::File(self.corefile())
    }

    /// Where its control socket is.
    pub(crate) fn run_dir(&self) -> &Path {
        &self.dir
    }

    /// What to try.
    pub(crate) fn invitation(&self) -> String {
        let port = self.port;
        let ask = |words: &str| format!("  dig @127.0.0.1 -p {port} {words}\n");
        let asks = [
            "web.shop.svc.cluster.local",
            "dual.shop.svc.cluster.local AAAA",
            "db.shop.svc.cluster.local",
            "db-0.db.shop.svc.cluster.local",
            "_http._tcp.web.shop.svc.cluster.local SRV",
            "front.shop.svc.cluster.local",
            "10-244-1-21.shop.pod.cluster.local",
            "-x 10.96.10.10",
            "dns-version.cluster.local TXT",
            "+tcp nothing.shop.svc.cluster.local",
        ];
        format!(
            "\nA made-up cluster is served on port {port}, UDP and TCP. Ask for example:\n\n{}  curl http://127.0.0.1:{METRICS}/metrics\n\n\
             Its Corefile and manifests are in {}; what you change there is taken up. Ctrl-C ends the demo.",
            asks.map(ask).concat(),
            self.dir.display()
        )
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Whoever has taken it away has done our work.
        drop(fs::remove_dir_all(&self.dir));
    }
}
