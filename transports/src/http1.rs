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
    let talk =
        Talk { desk, web, timeouts, busy: AtomicBool::new(false), stirred: AtomicBool::new(false) };
    let mut builder = http1::Builder::new();
    // Time is ours to keep, which knows a head that is under way from one that is awaited.
    builder.max_buf_size(HEAD).max_header_size(HEAD).header_read_timeout(None);
    builder.half_close(true);
    let connection =
        builder.serve_connection(TokioIo::new(stream), service_fn(|request| talk.answer(request)));
    let mut connection = pin!(connection);
    let mut draining = pin!(stop.reached(Stage::Draining));
    let mut drained = false;
    // When the last request came, or was answered, and for how long the next one is waited for.
    let (mut last, mut patience) = (Instant::now(), timeouts.read);
    // Until when the connection may take to close, once that has begun.
    let mut closing: Option<Instant> = None;
    let mut alarm = pin!(sleep(timeouts.read));
    std::future::poll_fn(|cx| {
        loop {
            if !drained && draining.as_mut().poll(cx).is_ready() {
                drained = true;
                connection.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                return Poll::Ready(result.map_err(io::Error::other));
            }
            let (now, is_busy) = (Instant::now(), talk.busy.load(Ordering::Relaxed));
            if talk.stirred.swap(false, Ordering::Relaxed) || is_busy {
                (last, patience) = (now, timeouts.idle);
                seat.idle(now);
            }
            if is_busy {
                seat.serve();
            }
            // The head behind a request is not read on before that is answered.
            let head = watch.head_since().map(|since| since.max(last) + timeouts.read);
            let waits = closing.or(head).unwrap_or(last + patience);
            let blocked = watch.blocked_since().map(|since| since + timeouts.write);
            let due = blocked.map_or(waits, |blocked| blocked.min(waits));
            if due <= now {
                let (closed, is_blocked) = (&desk.limits.closed, blocked == Some(due));
                if is_blocked {
                    closed.write.increment(1);
                } else if closing.is_none() {
                    closed.idle.increment(1);
                }
                // Who is in the middle of a head, or does not read, cannot be told anything.
                if is_blocked || closing.is_some() || head.is_some() {
                    return Poll::Ready(Ok(()));
                }
                // TLS says that nothing follows (RFC 8446 §6.1).
                connection.as_mut().graceful_shutdown();
                closing = Some(now + timeouts.write);
                continue;
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
    /// Whether one came, or was answered, since this was last looked at.
    stirred: AtomicBool,
}

impl Talk<'_> {
    /// Answers one request.
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        self.busy.store(true, Ordering::Relaxed);
        self.stirred.store(true, Ordering::Relaxed);
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
        self.stirred.store(true, Ordering::Relaxed);
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
