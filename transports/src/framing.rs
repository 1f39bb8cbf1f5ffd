//! Messages on a stream: two octets of length, then the message (RFC 1035 §4.2.2).

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::pool;

/// How much is read before what has come is answered, in octets.
const TURN: usize = 16 << 10;

/// Bytes of a stream that are not yet whole messages. While there are none it holds no memory.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    at: usize,
}

impl Inbox {
    /// Reads what is there, up to a bound; resolves to the number of octets, 0 if the stream has ended. Nothing is lost if
    /// it is dropped before.
    pub(crate) async fn fill<S>(&mut self, stream: &mut S) -> io::Result<usize>
    where
        S: AsyncRead + Unpin,
    {
        std::future::poll_fn(|cx| self.poll_fill(cx, stream)).await
    }

    /// Reads what is there.
    pub(crate) fn poll_fill<S>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<usize>>
    where
        S: AsyncRead + Unpin,
    {
        // A buffer is only borrowed for as long as something is in it.
        let mut buffer = pool::buffer();
        buffer.extend_from_slice(self.bytes.get(self.at..).unwrap_or_default());
        let before = buffer.len();
        let ended = loop {
            match pin!(stream.read_buf(&mut buffer)).poll(cx) {
                Poll::Ready(Ok(1..)) if buffer.len() - before < TURN => {}
                // An end or an error behind what has come is found again by the next read.
                ended => break ended,
            }
        };
        if buffer.len() == before {
            pool::give_buffer(buffer);
            return ended;
        }
        let read = buffer.len() - before;
        (self.bytes, self.at) = (buffer, 0);
        Poll::Ready(Ok(read))
    }

    /// The next whole message.
    pub(crate) fn message(&mut self) -> Option<&[u8]> {
        let len = self.whole()?;
        let start = self.at + 2;
        self.at = start + len;
        self.bytes.get(start..self.at)
    }

    /// Whether a whole message is there.
    pub(crate) fn has_message(&self) -> bool {
        self.whole().is_some()
    }

    /// The length of the next message, if it is whole.
    fn whole(&self) -> Option<usize> {
        let (len, rest) = self.bytes.get(self.at..)?.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        (rest.len() >= len).then_some(len)
    }

    /// Gives back what is not needed: all memory if nothing is left, all but that of the rest otherwise. Messages that wait for
    /// their turn are not moved for each of them: half of the memory may be of those before.
    pub(crate) fn rest(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_read = self.at > 0 && !self.has_message();
        if is_read || self.bytes.capacity() > 2 * rest.len() {
            let rest = if rest.is_empty() { Vec::new() } else { rest.to_vec() };
            pool::give_buffer(std::mem::replace(&mut self.bytes, rest));
            self.at = 0;
        }
    }
}

/// Appends a message that `write` appends to `out`, with its length in front; nothing if it appends nothing or more than
/// 65,535 octets.
pub(crate) fn frame<T>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    let result = write(out);
    match u16::try_from(out.len() - start - 2) {
        Ok(len) if len > 0 => out[start..start + 2].copy_from_slice(&len.to_be_bytes()),
        _ => out.truncate(start),
    }
    result
}
