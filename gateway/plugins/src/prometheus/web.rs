//! The file that says how the metrics are served: TLS and users, in the form of Prometheus's own exporters (exporter-toolkit).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use certs::{ClientAuth, Options, ServerTls, Source};
use serde::Deserialize;

use super::users::Users;
use crate::shared::file;

/// The target of log lines about certificates.
const TARGET: &str = "plugin/prometheus";

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Web {
    tls_server_config: Option<TlsPart>,
    http_server_config: Option<HttpPart>,
    basic_auth_users: Option<BTreeMap<String, String>>,
}

/// What it says of TLS. Suites and curves are what they are here, whatever it says of them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsPart {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: Option<String>,
    client_ca_file: Option<PathBuf>,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Option<String>,
    max_version: Option<String>,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    prefer_server_cipher_suites: Option<bool>,
}

/// What it says of HTTP.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpPart {
    http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

/// What the file comes to.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// TLS; none for clear text.
    pub(super) tls: Option<Arc<ServerTls>>,
    /// Whether only TLS 1.3 is spoken.
    pub(super) only_newest: bool,
    /// Who may see the metrics; none for everybody.
    pub(super) users: Option<Arc<Users>>,
    /// What it says that is not followed.
    pub(super) odd: Vec<&'static str>,
}

/// Reads the file; paths in it are seen from its folder.
///
/// # Errors
/// In words, if it cannot be read, or says what cannot be served. The hashes in it are never told.
pub(super) fn read(path: &Path) -> Result<Served, String> {
    let text = file::text(path).map_err(|error| format!("cannot be read: {error}"))?;
    let web: Web = match text.trim() {
        "" => Web::default(),
        _ => serde_saphyr::from_str(&text).map_err(|error| told(&error.to_string()))?,
    };
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let mut served = Served::default();
    if let Some(users) = web.basic_auth_users.filter(|users| !users.is_empty()) {
        let users =
            Users::new(users).map_err(|name| format!("has no bcrypt hash for the user {name}"))?;
        served.users = Some(Arc::new(users));
    }
    if let Some(http) = web.http_server_config {
        if http.headers.is_some_and(|headers| !headers.is_empty()) {
            served.odd.push("http_server_config.headers");
        }
        if http.http2 == Some(true) {
            served.odd.push("http_server_config.http2");
        }
    }
    if let Some(tls) = web.tls_server_config {
        tls.apply(folder, &mut served)?;
    }
    Ok(served)
}

/// The first line of what a YAML reader says: what follows may quote the file, which has secrets.
fn told(error: &str) -> String {
    format!("is wrong: {}", error.lines().next().unwrap_or_default())
}

impl TlsPart {
    /// Makes TLS of it.
    fn apply(self, folder: &Path, served: &mut Served) -> Result<(), String> {
        let (Some(chain), Some(key)) = (self.cert_file, self.key_file) else {
            return Err("has no cert_file or no key_file in tls_server_config".to_owned());
        };
        if self.client_allowed_sans.is_some_and(|names| !names.is_empty()) {
            return Err("has client_allowed_sans, which are not checked here".to_owned());
        }
        let client_auth = match self.client_auth_type.as_deref().unwrap_or_default() {
            "" | "NoClientCert" => ClientAuth::None,
            "RequestClientCert" => ClientAuth::Request,
            "RequireAnyClientCert" | "RequireClientCert" => ClientAuth::Require,
            "VerifyClientCertIfGiven" => ClientAuth::VerifyIfGiven,
            "RequireAndVerifyClientCert" => ClientAuth::RequireAndVerify,
            other => return Err(format!("has a client_auth_type that is not known: {other}")),
        };
        if self.client_ca_file.is_some() && client_auth == ClientAuth::None {
            return Err("has a client_ca_file without a client_auth_type".to_owned());
        }
        served.only_newest = match self.min_version.as_deref().unwrap_or("TLS12") {
            "TLS13" => true,
            "TLS10" | "TLS11" | "TLS12" => false,
            other => return Err(format!("has a min_version that is not known: {other}")),
        };
        match self.max_version.as_deref().unwrap_or("TLS13") {
            "TLS13" => {}
            "TLS10" | "TLS11" | "TLS12" => served.odd.push("tls_server_config.max_version"),
            other => return Err(format!("has a max_version that is not known: {other}")),
        }
        for (is_there, name) in [
            (self.cipher_suites.is_some(), "tls_server_config.cipher_suites"),
            (self.curve_preferences.is_some(), "tls_server_config.curve_preferences"),
        ] {
            if is_there {
                served.odd.push(name);
            }
        }
        // The order is the server's for suites of equal strength, always.
        let _suites = self.prefer_server_cipher_suites;
        let source = Source::files(folder.join(chain), folder.join(key), TARGET);
        let source = source.map_err(|error| format!("names TLS files that are wrong: {error}"))?;
        let options = Options {
            sources: vec![source],
            client_auth,
            client_ca: self.client_ca_file.map(|file| folder.join(file)),
            target: TARGET,
            ..Options::default()
        };
        let tls = ServerTls::new(options);
        served.tls = Some(tls.map_err(|error| format!("names TLS files that are wrong: {error}"))?);
        Ok(())
    }
}
