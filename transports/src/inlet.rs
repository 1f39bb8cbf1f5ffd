//! A TCP stream with what was read ahead of it, and a bound on what a handshake may bring.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The most octets that a client may send before its handshake is done: a hello with post-quantum keys has 2 KB, a chain of
/// client certificates rarely more than 10.
const HANDSHAKE: usize = 32 << 10;

/// A client's stream.
#[derive(Debug)]
pub(crate) struct Inlet {
    stream: TcpStream,
    /// What was read behind a PROXY header, to be read again.
    ahead: Box<[u8]>,
    /// How much of that has been.
    at: usize,
    /// How much may still be read.
    left: usize,
}

impl Inlet {
    /// A stream, of which `ahead` has been read already.
    pub(crate) fn new(stream: TcpStream, ahead: Box<[u8]>) -> Self {
        Self { stream, ahead, at: 0, left: HANDSHAKE }
    }

    /// Lets everything be read from now on.
    pub(crate) fn open(&mut self) {
        self.left = usize::MAX;
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if this.ahead.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        } else {
            let ahead = this.ahead.get(this.at..).unwrap_or_default();
            let now = ahead.len().min(buf.remaining());
            buf.put_slice(&ahead[..now]);
            this.at += now;
            if this.at == this.ahead.len() {
                this.ahead = Box::default();
            }
        }
        if this.left != usize::MAX {
            let read = buf.filled().len() - before;
            this.left = this
                .left
                .checked_sub(read)
                .ok_or_else(|| io::Error::other("the handshake is too long"))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Inlet {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
