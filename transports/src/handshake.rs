//! TLS handshakes: bounded in time and length.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use engine::Session;
use rustls::{ProtocolVersion, ServerConfig};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::inlet::Inlet;
use crate::limits::Closed;

/// Makes a handshake.
///
/// # Errors
/// If it fails, takes longer than `limit`, or more than a hello and a chain of certificates come; counted.
pub(crate) async fn shake(
    config: Arc<ServerConfig>,
    inlet: Inlet,
    limit: Duration,
    closed: &Closed,
) -> io::Result<TlsStream<Inlet>> {
    let shaken = timeout(limit, TlsAcceptor::from(config).accept(inlet)).await;
    let counter = match &shaken {
        Ok(Ok(_)) => None,
        Ok(Err(_)) => Some(&closed.handshake),
        Err(_) => Some(&closed.handshake_timeout),
    };
    if let Some(counter) = counter {
        counter.increment(1);
    }
    let mut stream = shaken??;
    stream.get_mut().0.open();
    Ok(stream)
}

/// What the handshake has shown.
pub(crate) fn facts(tls: &rustls::ServerConnection) -> Session {
    Session {
        name: tls.server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase().into()),
        certificates: tls
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .map(|one| one.as_ref().into())
            .collect(),
        version: match tls.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        },
        cipher: tls
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or_default(),
        ..Session::default()
    }
}
