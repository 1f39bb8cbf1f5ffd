//! Credentials as they are on disk: what a session was made of, when that ends, and when it is to be made anew.

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    io::Read as _,
    path::{Path, PathBuf},
    sync::Weak,
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use kube::config::{AuthInfo, Kubeconfig};
use secrecy::ExposeSecret as _;
use tokio::time::{Instant, sleep};
use x509_parser::{pem::Pem, prelude::FromDer as _};

use crate::{
    client::{Connection, Refusal},
    config::Source,
    store::unix_time,
};

/// How often the files are looked at. What has changed is used when two looks in a row find the same, so that a file that is
/// being written is not taken for one that is complete.
const LOOK: Duration = Duration::from_secs(1);
/// How many looks may find what cannot be used before the log says so: a certificate and its key are two files.
const PATIENCE: u32 = 5;
/// How long what could not be used is left alone unless it changes: trying it may run a program.
const AGAIN: Duration = Duration::from_secs(10);
/// The largest file that is looked at, in octets.
const LARGEST: u64 = 16 << 20;
/// The longest time before an end at which the log warns, in seconds: a week.
const EARLY: u64 = 7 * 86_400;
/// Where pods have their service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Something that proves who one of both sides is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// What it is: `client_certificate`, `token`, `password`, `exec` or `ca`.
    pub kind: &'static str,
    /// Where it came from, in words.
    pub from: String,
    /// The Unix time in seconds at which it begins and ends, where it says so.
    pub life: Option<(u64, u64)>,
}

impl Credential {
    /// How long before its end the log warns, in seconds: a tenth of its life, a week at most.
    fn early(&self) -> u64 {
        self.life.map_or(0, |(from, to)| (to.saturating_sub(from) / 10).min(EARLY))
    }
}

/// Files with what was in them, as a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files(Vec<(PathBuf, u64)>);

impl Files {
    /// Adds a file as it is now.
    pub(crate) fn add(&mut self, path: &Path) {
        self.0.push((path.to_path_buf(), look(path)));
    }

    /// The same files as they are now.
    fn now(&self) -> Self {
        Self(self.0.iter().map(|(path, _)| (path.clone(), look(path))).collect())
    }

    /// Those that are not as in `other`.
    fn changed(&self, other: &Self) -> Vec<&Path> {
        let both = self.0.iter().zip(&other.0);
        both.filter(|(own, other)| own != other).map(|(own, _)| &*own.0).collect()
    }
}

/// A number for what is in a file; 0 if it cannot be read.
fn look(path: &Path) -> u64 {
    let regular = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let mut content = Vec::new();
    let mut read = || std::fs::File::open(path)?.take(LARGEST).read_to_end(&mut content);
    if !regular || read().is_err() {
        return 0;
    }
    BuildHasherDefault::<DefaultHasher>::default().hash_one(&content) | 1
}

/// The files that a context of a kubeconfig names, beside itself.
pub(crate) fn named(config: &Kubeconfig, context: Option<&str>) -> Vec<PathBuf> {
    let wanted = context.or(config.current_context.as_deref());
    let context = config.contexts.iter().find(|one| Some(&*one.name) == wanted);
    let Some(context) = context.and_then(|one| one.context.as_ref()) else { return Vec::new() };
    let cluster = config.clusters.iter().find(|one| one.name == context.cluster);
    let authority = cluster.and_then(|one| one.cluster.as_ref()?.certificate_authority.clone());
    let user = context.user.as_ref();
    let user = config.auth_infos.iter().find(|one| Some(&one.name) == user);
    let user = user.and_then(|one| one.auth_info.clone()).unwrap_or_default();
    [authority, user.client_certificate, user.client_key, user.token_file]
        .into_iter()
        .flatten()
        .map(PathBuf::from)
        .collect()
}

/// The files of a service account in a pod.
pub(crate) fn account() -> [PathBuf; 2] {
    ["token", "ca.crt"].map(|name| Path::new(ACCOUNT).join(name))
}

/// What proves who both sides are, with its ends.
pub(crate) fn credentials(
    source: &Source,
    auth: &AuthInfo,
    issued: Option<(&str, Option<u64>)>,
    authorities: Option<&[Vec<u8>]>,
) -> Vec<Credential> {
    let place = match source {
        Source::Kubeconfig { file, .. } => format!("the kubeconfig {}", file.display()),
        Source::InCluster => ACCOUNT.to_owned(),
        Source::Endpoint { .. } | Source::Manifests(_) => "the configuration".to_owned(),
    };
    let mut all = Vec::new();
    let mut add = |kind, from: String, life| all.push(Credential { kind, from, life });
    if let Some((program, end)) = issued {
        let now = unix_time().0;
        let life = end
            .map(|end| (now, end))
            .or_else(|| certificate(auth))
            .or_else(|| auth.token.as_ref().and_then(|token| token_life(token.expose_secret())));
        add("exec", format!("the credential program {program:?}"), life);
    } else {
        if auth.client_certificate.is_some() || auth.client_certificate_data.is_some() {
            let from = auth.client_certificate.as_ref();
            let from = from.map_or_else(|| place.clone(), |file| format!("the file {file}"));
            add("client_certificate", from, certificate(auth));
        }
        if let Some(file) = &auth.token_file {
            let life = std::fs::read_to_string(file).ok().and_then(|token| token_life(&token));
            add("token", format!("the file {file}"), life);
        } else if let Some(token) = &auth.token {
            add("token", place.clone(), token_life(token.expose_secret()));
        } else if auth.username.is_some() {
            add("password", place.clone(), None);
        }
    }
    if let Some(authorities) = authorities {
        // While one replaces another both are there: the last one to end counts.
        let lives = authorities.iter().filter_map(|der| validity(der));
        add("ca", place, lives.max_by_key(|(_, end)| *end));
    }
    all
}

/// The life of the client certificate: that of the leaf, which comes first.
fn certificate(auth: &AuthInfo) -> Option<(u64, u64)> {
    let pem = match (&auth.client_certificate_data, &auth.client_certificate) {
        (Some(data), _) => BASE64_STANDARD.decode(data).ok()?,
        (None, Some(file)) => std::fs::read(file).ok()?,
        (None, None) => return None,
    };
    let mut blocks = Pem::iter_from_buffer(&pem).filter_map(Result::ok);
    blocks.find(|block| block.label == "CERTIFICATE").and_then(|block| validity(&block.contents))
}

/// The life of a certificate in DER.
fn validity(der: &[u8]) -> Option<(u64, u64)> {
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).ok();
    Some((seconds(validity.not_before)?, seconds(validity.not_after)?))
}

/// The life that a token states, if it is a JSON web token (RFC 7519 §4.1.4). That it is genuine is for the API server.
fn token_life(token: &str) -> Option<(u64, u64)> {
    #[derive(serde::Deserialize)]
    struct Claims {
        exp: f64,
        iat: Option<f64>,
    }
    let claims = token.trim().split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let Claims { exp, iat } = serde_json::from_slice(&claims).ok()?;
    // Numbers outside of u64 end at its ends.
    Some((iat.map_or_else(|| unix_time().0, |iat| iat as u64), exp as u64))
}

/// What has been said of ends that are near.
#[derive(Debug, Default)]
pub(crate) struct Warned(Vec<(Credential, bool)>);

impl Warned {
    /// Gives what is to be said of these credentials now, each thing once.
    pub(crate) fn tell(&mut self, credentials: &[Credential], now: u64) -> Vec<String> {
        self.0.retain(|(own, _)| credentials.contains(own));
        let mut said = Vec::new();
        for one in credentials {
            let Some((_, end)) = one.life else { continue };
            let over = end <= now;
            // A program is asked again in time; only what it has let end is told of.
            let near = one.kind != "exec" && end.saturating_sub(now) <= one.early();
            if !over && !near || self.0.contains(&(one.clone(), over)) {
                continue;
            }
            self.0.push((one.clone(), over));
            let what = one.kind.replace('_', " ");
            let from = &one.from;
            said.push(if over && one.kind == "exec" {
                format!("what {from} issued has ended, and it has issued nothing newer: see that it can sign in, it is asked again without a restart")
            } else if over {
                format!("the {what} of {from} has ended: replace it, it is taken over without a restart")
            } else {
                let left = span(end - now);
                format!("the {what} of {from} ends in {left}: replace it, it is taken over without a restart")
            });
        }
        said
    }
}

/// A time in words, in its largest unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Looks at the files of a connection as long as it is open.
pub(crate) async fn keep(connection: Weak<Connection>) {
    let mut warned = Warned::default();
    let mut last: Option<Files> = None;
    let mut failures = 0;
    let mut refused: Option<(Files, Instant, String)> = None;
    loop {
        sleep(LOOK).await;
        let Some(connection) = connection.upgrade() else { return };
        let Some((files, credentials)) = connection.made_of() else { continue };
        for said in warned.tell(&credentials, unix_time().0) {
            log::warn!(target: crate::LOG, "Kubernetes API {}: {said}", connection.name());
        }
        connection.renew_early().await;
        let look = tokio::task::spawn_blocking({
            let files = files.clone();
            move || files.now()
        });
        let Ok(now) = look.await else { continue };
        let same = last.replace(now.clone()).as_ref() == Some(&now);
        if now == files || !same {
            continue;
        }
        let names: Vec<String> =
            now.changed(&files).iter().map(|path| path.display().to_string()).collect();
        let known = refused.take().filter(|(files, at, _)| *files == now && at.elapsed() < AGAIN);
        let result = match &known {
            Some((_, _, why)) => Err(Refusal(why.clone())),
            None => connection.replace().await,
        };
        match result {
            Ok(()) => {
                failures = 0;
                let names = names.join(", ");
                log::info!(
                    target: crate::LOG,
                    "Kubernetes API {}: credentials are taken over, as {names} has changed",
                    connection.name()
                );
            }
            Err(Refusal(why)) => {
                failures += 1;
                if failures == PATIENCE {
                    connection.complain(&format!("what is on disk now cannot be used: {why}"));
                }
                refused = known.or_else(|| Some((now, Instant::now(), why)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
