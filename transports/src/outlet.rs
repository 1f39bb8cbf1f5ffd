//! Writing messages to a stream, in clear text or in TLS.

use std::future::Future;
use std::io::{self, Write};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::server::TlsStream;

use crate::inlet::Inlet;

/// A stream that is read from, and that messages are written to.
pub(crate) trait Outlet: AsyncRead + AsyncWrite + Unpin + Send {
    /// Writes messages, each with its length in front, in as few writes to the socket as there can be.
    fn send(&mut self, framed: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        async {
            self.write_all(framed).await?;
            self.flush().await
        }
    }
}

impl Outlet for Inlet {}

#[cfg(test)]
impl Outlet for tokio::io::DuplexStream {}

impl Outlet for TlsStream<Inlet> {
    /// Gives each message a record of its own. Clients that wait for the socket to become readable before they read on (getdns,
    /// and so stubby) would not see a second message in a record until the next one comes: it is in their TLS library already.
    async fn send(&mut self, framed: &[u8]) -> io::Result<()> {
        let mut rest = framed;
        while !rest.is_empty() {
            let (mut message, behind) = rest.split_at(first(rest));
            rest = behind;
            while !message.is_empty() {
                let taken = self.get_mut().1.writer().write(message)?;
                message = message.get(taken..).unwrap_or_default();
                if taken == 0 {
                    // As much waits to be written as the session holds.
                    self.flush().await?;
                }
            }
        }
        self.flush().await
    }
}

/// How many of the octets, of which there are some, are the first message and its length.
fn first(framed: &[u8]) -> usize {
    let length = framed.first_chunk::<2>().map_or(0, |length| u16::from_be_bytes(*length));
    framed.len().min(2 + usize::from(length))
}
