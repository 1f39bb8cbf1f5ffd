//! TLS towards an upstream: who it has to be, and what to say when it is not.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use certs::ClientTls;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::conn::Broken;

/// The most signs of an upstream's own words in an error.
const MAX_WORDS: usize = 200;

/// By what an encrypted upstream is checked.
#[derive(Clone)]
pub struct Identity {
    tls: Arc<ClientTls>,
    name: ServerName<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.name).finish()
    }
}

impl Identity {
    /// One whose certificate has to be for `name`, or for the address `addr` without one; none if `name` cannot stand in a
    /// certificate.
    pub fn new(tls: Arc<ClientTls>, name: Option<&str>, addr: SocketAddr) -> Option<Self> {
        let name = match name {
            // RFC 6066 §3: the name is sent without its last dot.
            Some(name) => ServerName::try_from(name.trim_end_matches('.')).ok()?.to_owned(),
            None => ServerName::IpAddress(addr.ip().into()),
        };
        Some(Self { tls, name })
    }

    /// The name, if it is one and no address.
    pub(super) fn domain(&self) -> Option<&str> {
        match &self.name {
            ServerName::DnsName(name) => Some(name.as_ref()),
            _ => None,
        }
    }

    /// The same for a protocol.
    pub(super) fn speaking(&self, alpn: &[&[u8]]) -> Tls {
        let files = Arc::clone(&self.tls);
        Tls { config: files.config(alpn), name: self.name.clone(), _files: files }
    }
}

/// What the connections of one upstream are made with. Sessions are resumed; early data, which can be replayed, is never sent.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Looks after the files as long as somebody holds it.
    _files: Arc<ClientTls>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}

impl Tls {
    /// What QUIC shakes hands by.
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name or address that the certificate has to be for.
    pub(super) fn host(&self) -> String {
        self.name.to_str().into_owned()
    }

    /// Shakes hands on a connection.
    pub(super) async fn wrap<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> Result<TlsStream<S>, Broken> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(self.name.clone(), stream).await.map_err(|error| broken(&error))
    }
}

/// What an error of a stream means: TLS's own come with their words.
pub(super) fn broken(error: &io::Error) -> Broken {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(inner) => Broken::Tls(why(inner).into()),
        None => Broken::Io(error.into()),
    }
}

/// What is wrong, in words for operators.
pub(super) fn why(error: &Error) -> String {
    let text = match error {
        Error::InvalidCertificate(wrong) => certificate(wrong),
        Error::AlertReceived(alert) => alerted(*alert),
        Error::NoCertificatesPresented => "the server shows no certificate".to_owned(),
        Error::InvalidMessage(_) => format!("the server does not speak TLS: {error}"),
        other => other.to_string(),
    };
    bounded(&text)
}

/// What is wrong with a certificate.
fn certificate(wrong: &CertificateError) -> String {
    use CertificateError as Wrong;
    match wrong {
        Wrong::UnknownIssuer => {
            "the server's certificate is signed by an unknown authority".to_owned()
        }
        // Authorities that were made anew have the name of the old one.
        Wrong::BadSignature => {
            "the server's certificate is signed by an unknown authority: the one of that name \
                                that is trusted has another key"
                .to_owned()
        }
        Wrong::Expired => "the server's certificate has expired".to_owned(),
        Wrong::ExpiredContext { time, not_after } => {
            format!("the server's certificate has expired {} ago", span(*not_after, *time))
        }
        Wrong::NotValidYet => "the server's certificate is not valid yet".to_owned(),
        Wrong::NotValidYetContext { time, not_before } => {
            format!("the server's certificate is valid only in {}", span(*time, *not_before))
        }
        Wrong::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            if presented.is_empty() {
                format!("the server's certificate is for no name, not for {expected}")
            } else {
                let all: Vec<_> = presented.iter().map(|name| plain(name)).collect();
                format!("the server's certificate is for {}, not for {expected}", all.join(", "))
            }
        }
        Wrong::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server's certificate is one of an authority (CA:TRUE), which no server may show"
                .to_owned()
        }
        other => format!("the server's certificate is wrong: {other}"),
    }
}

/// A name out of the library's `DnsName("dns.example.org")`.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// What the other side complains of.
pub(super) fn alerted(alert: AlertDescription) -> String {
    let what = match alert {
        AlertDescription::CertificateRequired => "it wants a certificate of ours",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => "it does not accept our certificate",
        AlertDescription::UnrecognisedName => "it does not know the name that it is asked for",
        AlertDescription::NoApplicationProtocol => "it does not speak this protocol",
        AlertDescription::ProtocolVersion => "it speaks no version of TLS that we do",
        _ => "it ends the handshake",
    };
    format!("the server refuses: {what} ({alert:?})")
}

/// The time between two moments, in its largest unit.
fn span(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7_200.. => format!("{} hours", seconds / 3_600),
        120.. => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}

/// A text that is not too long for a log, without signs that steer a terminal.
pub(super) fn bounded(text: &str) -> String {
    let mut short: String = text.chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect();
    if text.chars().nth(MAX_WORDS).is_some() {
        short.push('…');
    }
    short
}
