//! What encrypted upstreams are checked by, as `tls [CERT KEY] [CA]` says.

use std::sync::Arc;

use certs::ClientTls;
use config::value::TlsFiles;
use config::{Diagnostic, Word};
use engine::Setup;

/// Opens the files that the property `tls` names, once in a configuration; relative ones are below the block's root. Without any
/// the system's authorities are trusted.
pub(crate) fn open(
    setup: &mut Setup<'_>,
    tls: Option<&(Word, TlsFiles)>,
) -> Result<Arc<ClientTls>, Diagnostic> {
    let files = tls.map(|(_, files)| files.clone()).unwrap_or_default();
    let ca = files.ca.map(|file| setup.root().join(file));
    let pair = files.client.map(|(chain, key)| (setup.root().join(chain), setup.root().join(key)));
    let word = tls.map_or_else(|| setup.directive().name.clone(), |(word, _)| word.clone());
    let made = setup.share(&format!("client tls {ca:?} {pair:?}"), || {
        ClientTls::new(ca.clone(), pair.clone()).map_err(|error| {
            let wrong = word.fault(format!("tls: {error}"));
            match error.help {
                Some(help) => wrong.help(help),
                None => wrong,
            }
        })
    })?;
    for odd in made.oddities() {
        setup.warn(word.fault(format!("tls: {odd}")));
    }
    Ok(made)
}
