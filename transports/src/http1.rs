//! One HTTP/1.1 connection of DoH (RFC 9112), by hyper behind a stricter reading of what a request is.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use engine::{Exchange, Served, Stage, Stop, Timeouts};
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use crate::desk::Desk;
use crate::guard::{Guarded, Watch};
use crate::http::{Ask, Form, MESSAGE, Refusal, Reply, Web};
use crate::http1::heads::Heads;
use crate::pool;
use crate::seats::Seat;

mod heads;

#[cfg(test)]
mod tests;

/// The most octets of a request's head.
pub(crate) const HEAD: usize = 16 << 10;

/// Serves one connection, of which `ahead` has been read already.
pub(crate) async fn serve<S>(
    (desk, seat): (&Desk, &Seat),
    stream: S,
    ahead: Vec<u8>,
    web: &Web,
    timeouts: Timeouts,
    mut stop: Stop,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let watch = Watch::new();
    let stream = Guarded::new(stream, Heads::new(Arc::clone(&watch)), Arc::clone(&watch), ahead);
    let talk = Talk {
        desk,
        web,
        timeouts,
        busy: AtomicBool::new(false),
        asked: AtomicBool::new(false),
        is_new: AtomicBool::new(true),
    };
    let mut builder = http1::Builder::new();
    // Time is ours to keep, which knows a head that is under way from one that is awaited.
    builder.max_buf_size(HEAD).max_header_size(HEAD).header_read_timeout(None);
    builder.half_close(true);
    let connection =
        builder.serve_connection(TokioIo::new(stream), service_fn(|request| talk.answer(request)));
    let mut connection = pin!(connection);
    let mut draining = pin!(stop.reached(Stage::Draining));
    let mut drained = false;
    let mut last = Instant::now();
    let mut alarm = pin!(sleep(timeouts.read));
    std::future::poll_fn(|cx| {
        if !drained && draining.as_mut().poll(cx).is_ready() {
            drained = true;
            connection.as_mut().graceful_shutdown();
        }
        if let Poll::Ready(result) = connection.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(io::Error::other));
        }
        let now = Instant::now();
        if talk.asked.swap(false, Ordering::Relaxed) || talk.busy.load(Ordering::Relaxed) {
            last = now;
            seat.idle(now);
        }
        if talk.busy.load(Ordering::Relaxed) {
            seat.serve();
        }
        loop {
            let idle =
                if talk.is_new.load(Ordering::Relaxed) { timeouts.read } else { timeouts.idle };
            let waits = watch.head_since().map_or(last + idle, |since| since + timeouts.read);
            let blocked = watch.blocked_since().map(|since| since + timeouts.write);
            let due = blocked.map_or(waits, |blocked| blocked.min(waits));
            if due <= now {
                let closed = &desk.limits.closed;
                let why = if blocked == Some(due) { &closed.write } else { &closed.idle };
                why.increment(1);
                return Poll::Ready(Ok(()));
            }
            let due = tokio::time::Instant::from_std(due);
            if alarm.deadline() > due || alarm.is_elapsed() {
                alarm.as_mut().reset(due);
            }
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// What the requests of a connection share.
struct Talk<'a> {
    desk: &'a Desk,
    web: &'a Web,
    timeouts: Timeouts,
    /// Whether a request is being answered.
    busy: AtomicBool,
    /// Whether there was one since this was last looked at.
    asked: AtomicBool,
    /// Whether there was none yet.
    is_new: AtomicBool,
}

impl Talk<'_> {
    /// Answers one request.
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        self.busy.store(true, Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
        self.is_new.store(false, Ordering::Relaxed);
        let mut x = self.web.exchange(self.desk);
        let reply = match self.web.ask(self.desk, &request, &mut x) {
            Ask::Nothing(reply) => left(reply, !request.body().is_end_stream()),
            Ask::Query(form) => {
                let reply = self.query(&mut x, form).await;
                left(reply, !request.body().is_end_stream())
            }
            Ask::Body(form) => {
                let all = timeout(self.timeouts.read, read(request.into_body(), &mut x));
                match all.await.unwrap_or(Err(Refusal::TIMEOUT)) {
                    Ok(()) => self.query(&mut x, form).await,
                    Err(refusal) => left(self.web.refuse(refusal, form), true),
                }
            }
        };
        pool::give_exchange(x);
        self.busy.store(false, Ordering::Relaxed);
        Ok(reply.response.map(|()| Full::new(reply.body)))
    }

    /// Answers the query in the exchange.
    async fn query(&self, x: &mut Exchange, form: Form) -> Reply {
        let mut message = pool::buffer();
        if let Served::Later(live) = self.desk.gateway.serve(x, &mut message) {
            // It may take long; others need the buffer.
            pool::give_buffer(message);
            message = Vec::new();
            live.complete(x, &mut message).await;
        }
        let reply = self.web.tell(x, form, &message);
        pool::give_buffer(message);
        reply
    }
}

/// Reads a body into the exchange.
async fn read(mut body: Incoming, x: &mut Exchange) -> Result<(), Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::bad("the body is cut off or wrongly framed"))?;
        // Trailers say nothing that is needed.
        let Ok(data) = frame.into_data() else { continue };
        if x.query.wire.len() + data.len() > MESSAGE {
            return Err(Refusal::TOO_LARGE);
        }
        x.query.wire.extend_from_slice(&data);
    }
    Ok(())
}

/// Has the connection end behind a reply if there is a body that was not read: what follows could be taken for a request
/// (RFC 9112 §9.3).
fn left(mut reply: Reply, is_left: bool) -> Reply {
    if is_left {
        reply.response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}
