//! A connection for one conversation, whose replies may be many messages: zone transfers (RFC 5936 §4, RFC 9103).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::Protocol;
use super::conn::{Broken, random_id};
use super::error::{Cause, Error, Place};
use super::tcp;
use super::tls::{self, Identity, Tls};

/// How much is read at once, in octets.
const READ: usize = 64 << 10;

/// How a server is reached by TCP, or by TLS 1.3 (RFC 9103 §7.1).
#[derive(Clone, Debug)]
pub struct Way {
    addr: SocketAddr,
    source: Option<IpAddr>,
    tls: Option<Tls>,
}

/// What a conversation runs on.
trait Both: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}

/// A connection for one conversation.
pub struct Line {
    stream: BufReader<Box<dyn Both>>,
    place: Place,
    message: Vec<u8>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Line").field(&self.place).finish()
    }
}

impl Way {
    /// The way to `addr`, from `source` if it is given, by TLS if there is an identity.
    pub fn new(addr: SocketAddr, source: Option<IpAddr>, identity: Option<&Identity>) -> Self {
        Self { addr, source, tls: identity.map(|identity| identity.speaking(&[b"dot"])) }
    }

    /// Where it leads.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// By what.
    fn protocol(&self) -> Protocol {
        if self.tls.is_some() { Protocol::Tls } else { Protocol::Tcp }
    }

    /// Connects.
    ///
    /// # Errors
    /// [`Error::Dial`] and [`Error::Tls`].
    pub async fn open(&self, patience: Duration) -> Result<Line, Error> {
        let protocol = self.protocol();
        let late = || Error::Dial(protocol, self.addr, std::io::ErrorKind::TimedOut.into());
        timeout(patience, self.connect()).await.unwrap_or_else(|_| Err(late()))
    }

    /// Connects, however long it takes.
    async fn connect(&self) -> Result<Line, Error> {
        let (protocol, to) = (self.protocol(), self.addr);
        let stream = tcp::connect(to, self.source).await;
        let stream = stream.map_err(|error| Error::Dial(protocol, to, Cause::from(&error)))?;
        let place = Place { protocol, local: stream.local_addr().ok(), to };
        let stream: Box<dyn Both> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let stream = tls.wrap(stream).await.map_err(|broken| match broken {
                    Broken::Tls(why) => Error::Tls(protocol, to, why),
                    Broken::Io(cause) => Error::Dial(protocol, to, cause),
                    _ => Error::Closed(place),
                })?;
                // RFC 9103 §7.1: implementations "MUST only negotiate TLS 1.3 or later".
                if stream.get_ref().1.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
                    let why = "the server does not speak TLS 1.3, which transfers need";
                    return Err(Error::Tls(protocol, to, why.into()));
                }
                Box::new(stream)
            }
        };
        Ok(Line { stream: BufReader::with_capacity(READ, stream), place, message: Vec::new() })
    }
}

impl Line {
    /// An unpredictable message id (RFC 5452 §9.2).
    pub fn id() -> u16 {
        random_id()
    }

    /// Sends a message of at most 65,535 octets.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn send(&mut self, message: &[u8], patience: Duration) -> Result<(), Error> {
        let len = u16::try_from(message.len())
            .map_err(|_| Error::Io(self.place, std::io::ErrorKind::InvalidInput.into()))?;
        let framed = [&len.to_be_bytes()[..], message].concat();
        let written = async {
            self.stream.write_all(&framed).await?;
            self.stream.flush().await
        };
        match timeout(patience, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(Error::Timeout(self.place)),
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`Error`], if the connection ends before the message, or nothing comes in time.
    pub async fn receive(&mut self, patience: Duration) -> Result<&[u8], Error> {
        let Self { stream, message, .. } = self;
        let read = async {
            let len = usize::from(stream.read_u16().await?);
            message.resize(len, 0);
            stream.read_exact(message).await
        };
        match timeout(patience, read).await {
            Ok(Ok(_)) => Ok(&self.message),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Error::Closed(self.place))
            }
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(Error::Timeout(self.place)),
        }
    }

    /// What is wrong when the stream is.
    fn broken(&self, error: &std::io::Error) -> Error {
        match tls::broken(error) {
            Broken::Tls(why) => Error::Tls(self.place.protocol, self.place.to, why),
            _ => Error::Io(self.place, Cause::from(error)),
        }
    }
}
