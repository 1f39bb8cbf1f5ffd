//! QUIC as `h3` wants it. What a client may send is bounded here, since `h3` keeps a frame until it is whole, however long it
//! says that it is.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures::stream::{BoxStream, StreamExt, unfold};
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};
use quinn::{ConnectionError, ReadError, StoppedError, VarInt, WriteError};
use tokio::sync::OwnedSemaphorePermit;

use crate::endpoint::{Fate, House};

/// What a request may have on its stream, in octets: a message in its body, a header list, and room for their frames, for
/// frames that mean nothing, and for a header list that is too large to be told so.
const REQUEST: u64 = 160 << 10;

/// How much of that it may have whenever it comes; for more it needs a place among those for large ones.
const SMALL: u64 = 12 << 10;

/// What the control stream and the others that are not for requests may have, in octets.
const CONTROL: u64 = 64 << 10;

/// What each of these costs beside what it has.
const STREAM: u64 = 1 << 10;

/// By how much a request lets them have more: clients tell priorities there (RFC 9218 §7).
const GAIN: u64 = 256;

/// A connection.
pub(super) struct Line {
    shared: Arc<Shared>,
    requests: BoxStream<'static, Result<(quinn::SendStream, quinn::RecvStream), ConnectionError>>,
    others: BoxStream<'static, Result<quinn::RecvStream, ConnectionError>>,
    opening: Option<Opening>,
    /// Whether the control stream has been opened.
    has_control: bool,
}

/// A stream of ours on its way.
type Opening = Pin<Box<dyn Future<Output = Result<quinn::SendStream, ConnectionError>> + Send>>;

/// Resolves when the client wants nothing of an answer any more, or has it.
pub(super) type Stopped =
    Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

/// What a connection's streams share.
pub(super) struct Shared {
    house: Arc<House>,
    connection: quinn::Connection,
    /// What streams that are not for requests may still have.
    left: AtomicU64,
    /// Of the request that came last.
    stopped: Mutex<Option<Stopped>>,
}

impl Shared {
    /// Takes what tells the end of interest in the request that came last.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes from what streams that are not for requests may have; a client that has used it up loses its connection.
    fn spend(&self, octets: u64) -> Result<(), ConnectionErrorIncoming> {
        let spent = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(octets));
        spent.map(drop).map_err(|_| {
            let why = "too much beside requests";
            if self.connection.close_reason().is_none() {
                self.house.count(Fate::Load);
            }
            self.connection.close(number(Code::H3_EXCESSIVE_LOAD.value()), why.as_bytes());
            ConnectionErrorIncoming::Undefined(Arc::new(io::Error::other(why)))
        })
    }
}

impl Line {
    /// Wraps a connection.
    pub(super) fn new(connection: quinn::Connection, house: Arc<House>) -> Self {
        let requests = unfold(connection.clone(), |connection| async {
            Some((connection.accept_bi().await, connection))
        });
        let others = unfold(connection.clone(), |connection| async {
            Some((connection.accept_uni().await, connection))
        });
        Self {
            shared: Arc::new(Shared {
                house,
                connection,
                left: AtomicU64::new(CONTROL),
                stopped: Mutex::new(None),
            }),
            requests: requests.boxed(),
            others: others.boxed(),
            opening: None,
            has_control: false,
        }
    }

    /// What its streams share.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl<B: Buf> Connection<B> for Line {
    type RecvStream = Incoming;
    type OpenStreams = Self;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming, ConnectionErrorIncoming>> {
        let recv = ready!(self.others.poll_next_unpin(cx)).unwrap_or(Err(gone()));
        let recv = recv.map_err(lost)?;
        self.shared.spend(STREAM)?;
        let (id, shared) = (id(recv.id())?, Arc::clone(&self.shared));
        Poll::Ready(Ok(Incoming { recv, id, ended: false, budget: Budget::Shared, shared }))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Both<B>, ConnectionErrorIncoming>> {
        let pair = ready!(self.requests.poll_next_unpin(cx)).unwrap_or(Err(gone()));
        let (send, recv) = pair.map_err(lost)?;
        self.shared.left.fetch_add(GAIN, Ordering::Relaxed);
        let stopped: Stopped = Box::pin(send.stopped());
        *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(stopped);
        let id = id(send.id())?;
        Poll::Ready(Ok(Both {
            send: Outgoing::new(send, id),
            recv: Incoming {
                recv,
                id,
                ended: false,
                budget: Budget::Own(REQUEST, None),
                shared: Arc::clone(&self.shared),
            },
        }))
    }

    /// What opens nothing: a server has no requests, and pushes nothing.
    fn opener(&self) -> Self {
        let line = Self::new(self.shared.connection.clone(), Arc::clone(&self.shared.house));
        Self { has_control: true, ..line }
    }
}

impl<B: Buf> OpenStreams<B> for Line {
    type BidiStream = Both<B>;
    type SendStream = Outgoing<B>;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Both<B>, StreamErrorIncoming>> {
        Poll::Ready(Err(unwanted()))
    }

    /// Opens the control stream. The streams of QPACK, which `h3` asks for next, are not needed without a dynamic table
    /// (RFC 9204 §4.2).
    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Outgoing<B>, StreamErrorIncoming>> {
        if self.has_control {
            return Poll::Ready(Err(unwanted()));
        }
        let connection = &self.shared.connection;
        let opening = self.opening.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        let send = ready!(opening.as_mut().poll(cx));
        (self.opening, self.has_control) = (None, true);
        let opened = send.map_err(lost).and_then(|send| {
            let id = id(send.id())?;
            Ok(Outgoing::new(send, id))
        });
        Poll::Ready(opened.map_err(fatal))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.shared.connection.close(number(code.value()), reason);
    }
}

/// Both directions of a request.
pub(super) struct Both<B: Buf = Bytes> {
    send: Outgoing<B>,
    recv: Incoming,
}

impl<B: Buf> BidiStream<B> for Both<B> {
    type SendStream = Outgoing<B>;
    type RecvStream = Incoming;

    fn split(self) -> (Outgoing<B>, Incoming) {
        (self.send, self.recv)
    }
}

impl<B: Buf> RecvStream for Both<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.recv.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl<B: Buf> SendStream<B> for Both<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

/// The side of a stream that comes from the client.
pub(super) struct Incoming {
    recv: quinn::RecvStream,
    id: StreamId,
    /// Whether all has been read.
    ended: bool,
    budget: Budget,
    shared: Arc<Shared>,
}

/// What a stream may have.
enum Budget {
    /// So many octets more, and the place that it has if it is large.
    Own(u64, Option<OwnedSemaphorePermit>),
    /// What all streams that are not for requests may have.
    Shared,
}

impl Incoming {
    /// Takes octets from what the stream may have.
    fn spend(&mut self, octets: u64) -> Result<(), StreamErrorIncoming> {
        let Budget::Own(left, place) = &mut self.budget else {
            return self.shared.spend(octets).map_err(fatal);
        };
        *left = left.saturating_sub(octets);
        if place.is_none() && *left < REQUEST - SMALL {
            *place = Arc::clone(&self.shared.house.large).try_acquire_owned().ok();
        }
        if *left > 0 && (*left >= REQUEST - SMALL || place.is_some()) {
            return Ok(());
        }
        self.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
        Err(terminated(number(Code::H3_EXCESSIVE_LOAD.value())))
    }
}

impl RecvStream for Incoming {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        // Whoever waits is noted with the connection, not with this future.
        let chunk = match ready!(pin!(self.recv.read_chunk(usize::MAX, true)).poll(cx)) {
            Ok(chunk) => chunk.map(|chunk| chunk.bytes),
            Err(ReadError::Reset(code)) => {
                self.ended = true;
                return Poll::Ready(Err(terminated(code)));
            }
            Err(ReadError::ConnectionLost(error)) => return Poll::Ready(Err(fatal(lost(error)))),
            Err(error) => return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(error)))),
        };
        let Some(bytes) = chunk else {
            self.ended = true;
            return Poll::Ready(Ok(None));
        };
        self.spend(bytes.len() as u64)?;
        Poll::Ready(Ok(Some(bytes)))
    }

    fn stop_sending(&mut self, code: u64) {
        self.ended = true;
        // A stream that has ended needs not be stopped.
        drop(self.recv.stop(number(code)));
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl Drop for Incoming {
    /// Says that the rest of a request is not needed: that is no error (RFC 9114 §4.1).
    fn drop(&mut self) {
        if !self.ended {
            self.stop_sending(Code::H3_NO_ERROR.value());
        }
    }
}

/// The side of a stream that goes to the client.
pub(super) struct Outgoing<B: Buf = Bytes> {
    send: quinn::SendStream,
    id: StreamId,
    writing: Option<WriteBuf<B>>,
    /// Whether it has an end, or at least a beginning, which ends when it is dropped.
    begun: bool,
}

impl<B: Buf> Outgoing<B> {
    /// Nothing is sent yet.
    fn new(send: quinn::SendStream, id: StreamId) -> Self {
        Self { send, id, writing: None, begun: false }
    }
}

impl<B: Buf> Drop for Outgoing<B> {
    /// Tells a client that its request gets no reply: an end without a reply would be an error of ours (RFC 9114 §4.1).
    fn drop(&mut self) {
        if !self.begun {
            self.reset(Code::H3_REQUEST_CANCELLED.value());
        }
    }
}

impl<B: Buf> SendStream<B> for Outgoing<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(data) = self.writing.as_mut().filter(|data| data.has_remaining()) {
            let written = ready!(Pin::new(&mut self.send).poll_write(cx, data.chunk()));
            data.advance(written.map_err(|error| match error {
                WriteError::Stopped(code) => terminated(code),
                WriteError::ConnectionLost(error) => fatal(lost(error)),
                error => StreamErrorIncoming::Unknown(Box::new(error)),
            })?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        (self.writing, self.begun) = (Some(data.into()), true);
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        // What has ended already needs no end.
        drop(self.send.finish());
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, code: u64) {
        self.begun = true;
        drop(self.send.reset(number(code)));
    }

    fn send_id(&self) -> StreamId {
        self.id
    }
}

/// An error code; all that there are fit.
fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// A stream's number as `h3` has it.
fn id(id: quinn::StreamId) -> Result<StreamId, ConnectionErrorIncoming> {
    StreamId::try_from(u64::from(id))
        .map_err(|error| ConnectionErrorIncoming::InternalError(error.to_string()))
}

/// How a connection that was lost looks to `h3`.
fn lost(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

/// How the end of the connection looks on a stream.
fn fatal(connection_error: ConnectionErrorIncoming) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
}

/// How a stream that the client has reset or stopped looks to `h3`.
fn terminated(code: VarInt) -> StreamErrorIncoming {
    StreamErrorIncoming::StreamTerminated { error_code: code.into() }
}

/// Why no more streams come: the connection is gone.
fn gone() -> ConnectionError {
    ConnectionError::LocallyClosed
}

/// Why a stream is not opened.
fn unwanted() -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(io::Error::other("this stream is not needed")))
}
