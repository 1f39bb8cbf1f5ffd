//! The certificate that is signed by itself: which names and addresses it is for.

use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use certs::{Source, Subject};
use config::{Diagnostic, Word};
use engine::Setup;

use super::TARGET;
use super::setup::wrong;
use crate::shared::bound;
use crate::shared::host::{hostname, interfaces, is_link_local};

/// The folder of the data directory that it is kept in.
const FOLDER: &str = "tls";

/// The certificate for these names, and for what the machine and the block's listeners are called; with a text that tells it from
/// others. It is kept when the configuration goes live.
pub(super) fn source(
    setup: &mut Setup<'_>,
    word: &Word,
    names: &[Word],
) -> Result<(Arc<Source>, String), Diagnostic> {
    let subject = subject(setup, names)?;
    let name = file_name(&subject, !names.is_empty());
    let folder = setup.process().data_dir.join(FOLDER);
    // What comes and goes is no part of the key: a reload goes on with what it has.
    let key = format!("{name} {folder:?}");
    let source = setup.share(&key, || {
        let source = Source::self_signed(&folder, &name, subject, TARGET);
        source.map(Arc::new).map_err(|error| wrong(word, error))
    })?;
    let kept = Arc::clone(&source);
    setup.before_serving(async move {
        // It waits for the disk; a panic in there is said by the process.
        drop(tokio::task::spawn_blocking(move || kept.keep()).await);
    });
    Ok((source, key))
}

/// Names and addresses: those that are given, the machine's, and those that the block is bound to.
fn subject(setup: &Setup<'_>, words: &[Word]) -> Result<Subject, Diagnostic> {
    let mut subject = Subject::default();
    for word in words {
        if let Ok(address) = word.text.parse::<IpAddr>() {
            add(&mut subject.addresses, address);
            continue;
        }
        let name = word.text.strip_suffix('.').unwrap_or(&word.text).to_ascii_lowercase();
        let is_name =
            config::value::fqdn(&name).is_ok()
                && name.strip_prefix("*.").unwrap_or(&name).bytes().all(|octet| {
                    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_')
                })
                && name != ".";
        if name.is_empty() || !is_name {
            return Err(word
                .wrong("is no name that a certificate can have")
                .help("such as dns.example.org, *.example.org or 198.51.100.1"));
        }
        add(&mut subject.names, name);
    }
    add(&mut subject.names, "localhost".to_owned());
    let host = hostname().to_ascii_lowercase();
    if host.is_ascii() && config::value::fqdn(&host).is_ok() {
        add(&mut subject.names, host);
    }
    add(&mut subject.addresses, IpAddr::from([127, 0, 0, 1]));
    add(&mut subject.addresses, IpAddr::from(std::net::Ipv6Addr::LOCALHOST));
    // What is wrong with `bind` is its own to say.
    let bound = bound::all(setup.others("bind")).unwrap_or_default();
    for address in bound.iter().map(|one| one.ip).filter(|ip| !ip.is_unspecified()) {
        add(&mut subject.addresses, address);
    }
    if bound.is_empty() || bound.iter().any(|one| one.ip.is_unspecified()) {
        let all = interfaces().unwrap_or_default().into_iter().map(|one| one.ip);
        subject.passing = all.filter(|ip| !ip.is_loopback() && !is_link_local(*ip)).collect();
    }
    Ok(subject)
}

/// Adds what is not there.
fn add<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// The name of its files: other names and addresses have other files.
fn file_name(subject: &Subject, has_names: bool) -> String {
    if !has_names && subject.addresses.len() == 2 {
        return "self-signed".to_owned();
    }
    let text = format!("{:?} {:?}", subject.names, subject.addresses);
    let hash = digest(&SHA256, text.as_bytes());
    let hash: String = hash.as_ref().iter().take(4).map(|octet| format!("{octet:02x}")).collect();
    format!("self-signed-{hash}")
}
