//! A bound on what a peer of HTTP/3 may send by one stream.
//!
//! The library keeps a frame of header fields until it has all of it, however long it is said to be. These wrap a connection's
//! streams so that none brings more than it may: a response or what belongs to the connection.

use std::task::{Context, Poll};

use bytes::Buf;
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};

/// A connection, what opens streams on it, or a stream, whose streams bring no more than `most` octets.
#[derive(Clone, Debug)]
pub(super) struct Bounded<T> {
    inner: T,
    most: usize,
}

impl<T> Bounded<T> {
    /// Bounds each stream to `most` octets.
    pub(super) fn new(inner: T, most: usize) -> Self {
        Self { inner, most }
    }
}

impl<T: RecvStream> RecvStream for Bounded<T> {
    type Buf = T::Buf;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        let read = std::task::ready!(self.inner.poll_data(cx))?;
        if let Some(data) = &read {
            let Some(left) = self.most.checked_sub(data.remaining()) else {
                let code = Code::H3_EXCESSIVE_LOAD.value();
                self.inner.stop_sending(code);
                return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated {
                    error_code: code,
                }));
            };
            self.most = left;
        }
        Poll::Ready(Ok(read))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.inner.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

impl<B: Buf, T: SendStream<B>> SendStream<B> for Bounded<T> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(cx)
    }

    fn send_data<D: Into<WriteBuf<B>>>(&mut self, data: D) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.inner.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}

impl<B: Buf, T: BidiStream<B>> BidiStream<B> for Bounded<T> {
    type SendStream = T::SendStream;
    type RecvStream = Bounded<T::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let (send, recv) = self.inner.split();
        (send, Bounded::new(recv, self.most))
    }
}

impl<B: Buf, T: OpenStreams<B>> OpenStreams<B> for Bounded<T> {
    type BidiStream = Bounded<T::BidiStream>;
    type SendStream = T::SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let most = self.most;
        self.inner.poll_open_bidi(cx).map_ok(|stream| Bounded::new(stream, most))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

impl<B: Buf, T: Connection<B>> Connection<B> for Bounded<T> {
    type RecvStream = Bounded<T::RecvStream>;
    type OpenStreams = Bounded<T::OpenStreams>;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let most = self.most;
        self.inner.poll_accept_recv(cx).map_ok(|stream| Bounded::new(stream, most))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let most = self.most;
        self.inner.poll_accept_bidi(cx).map_ok(|stream| Bounded::new(stream, most))
    }

    fn opener(&self) -> Self::OpenStreams {
        Bounded::new(self.inner.opener(), self.most)
    }
}
