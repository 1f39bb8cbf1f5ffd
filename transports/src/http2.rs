//! One HTTP/2 connection (RFC 9113), for DoH and gRPC: requests are answered where they are read, replies are written
//! together, and whoever asks nothing but keeps the connection busy is told to calm down.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::metrics::{counter, describe};
use engine::{Exchange, Live, Served, Stage, Stop};
use futures::stream::{FuturesUnordered, StreamExt};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep, timeout};

use crate::desk::Desk;
use crate::guard::{Guarded, Watch};
use crate::http2::frames::Frames;
use crate::pool;
use crate::seats::Seat;

pub(crate) mod frames;

#[cfg(test)]
mod tests;

/// The largest header list of a request, in octets (RFC 9113 §6.5.2).
pub(crate) const HEADERS: u32 = 16 << 10;

/// How much of a request's body may be on its way, in octets: the largest message, and enough more to see that it is too large.
const STREAM_WINDOW: u32 = 80 << 10;

/// The same of all requests of a connection together, which bounds what is kept of unfinished ones.
const CONNECTION_WINDOW: u32 = 320 << 10;

/// How many streams that were reset may wait to be taken; and how many the client may have us reset by its mistakes.
const RESETS: usize = 20;
/// See [`RESETS`].
const MISTAKES: usize = 100;

/// How much of a body that nobody wants is read, in octets.
const DRAIN: usize = 128 << 10;

/// What answers the requests of a connection.
pub(crate) trait Service {
    /// What has to be remembered of a request until it is answered.
    type Form: Copy + Unpin;

    /// An exchange for queries.
    fn exchange(&self) -> Box<Exchange>;

    /// Reads a request's head into the exchange.
    fn ask(&self, request: &Request<RecvStream>, x: &mut Exchange) -> Ask<Self::Form>;

    /// Makes the query of the body, which is in `x.query.wire`.
    fn body(&self, form: Self::Form, x: &mut Exchange) -> Result<(), Failure>;

    /// For how long the client waits for the answer, if it says so.
    fn patience(&self, _: Self::Form) -> Option<Duration> {
        None
    }

    /// What is replied to a query that was served: `message` is the answer, empty if there is none.
    fn tell(&self, x: &Exchange, form: Self::Form, message: &[u8]) -> Reply;

    /// What is replied where that does not come about.
    fn fail(&self, form: Self::Form, failure: Failure) -> Reply;
}

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum Ask<F> {
    /// An answer to the query in the exchange.
    Query(F),
    /// An answer to the query in the body, which has this many octets at most.
    Body(F, usize),
    /// Nothing that the chain has to see.
    Nothing(Box<Reply>),
}

/// What is replied.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status and the headers.
    pub(crate) response: Response<()>,
    /// The body; empty for none.
    pub(crate) body: Bytes,
    /// What follows the body.
    pub(crate) trailers: Option<HeaderMap>,
}

/// Why a request gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Its body is not what it has to be.
    Unreadable(&'static str),
    /// Its body is too large.
    TooLarge,
    /// Its body did not come in time.
    Slow,
    /// The client's own deadline has passed.
    Deadline,
}

/// What a connection is bounded by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Requests at the same time; none for no limit.
    pub(crate) streams: Option<u32>,
    /// Until a request has come.
    pub(crate) read: Duration,
    /// Until a reply is taken.
    pub(crate) write: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
}

/// Serves one connection, of which `ahead` has been read already.
pub(crate) async fn serve<S, V>(
    (desk, seat): (&Desk, &Seat),
    stream: S,
    ahead: Vec<u8>,
    service: &V,
    terms: Terms,
    mut stop: Stop,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    let watch = Watch::new();
    let stream = Guarded::new(stream, Frames::new(), Arc::clone(&watch), ahead);
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS)
        .max_pending_accept_reset_streams(RESETS)
        .max_concurrent_reset_streams(RESETS)
        .max_local_error_reset_streams(Some(MISTAKES));
    if let Some(streams) = terms.streams {
        builder.max_concurrent_streams(streams);
    }
    let handshake = timeout(terms.read, builder.handshake::<_, Bytes>(stream)).await?;
    let mut talk = Talk {
        desk,
        seat,
        service,
        terms,
        connection: handshake.map_err(io::Error::other)?,
        watch,
        under_way: FuturesUnordered::new(),
        last: Instant::now(),
        patience: terms.read,
        closing: None,
        ended: false,
    };
    let mut draining = pin!(stop.reached(Stage::Draining));
    let mut drained = false;
    let mut alarm = pin!(sleep(terms.read));
    std::future::poll_fn(|cx| {
        if !drained && draining.as_mut().poll(cx).is_ready() {
            drained = true;
            talk.close();
        }
        loop {
            if let Poll::Ready(result) = talk.poll(cx) {
                return Poll::Ready(result);
            }
            let due = talk.due();
            if due <= Instant::now() {
                if talk.overdue() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            // An alarm that comes too early is set again then; so a request costs none.
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

/// One connection's state.
struct Talk<'a, S, V: Service> {
    desk: &'a Desk,
    seat: &'a Seat,
    service: &'a V,
    terms: Terms,
    connection: Connection<Guarded<S, Frames>, Bytes>,
    watch: Arc<Watch>,
    under_way: FuturesUnordered<UnderWay<V::Form>>,
    /// When the last request came, or was answered.
    last: Instant,
    /// For how long the next one is waited for.
    patience: Duration,
    /// Until when the connection may take to close, once that has begun.
    closing: Option<Instant>,
    /// Whether it was ended.
    ended: bool,
}

impl<S, V> Talk<'_, S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    /// Goes on with everything; ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while let Poll::Ready(Some(done)) = self.under_way.poll_next_unpin(cx) {
                self.last = Instant::now();
                self.done(done, cx);
            }
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.last = Instant::now();
                    self.patience = self.terms.idle;
                    // Replies are written together when all that has come is answered.
                    self.watch.hold(true);
                    self.request(request, respond, cx);
                }
                Poll::Pending if self.watch.is_held() => self.watch.hold(false),
                Poll::Pending => {
                    if self.watch.is_stopped() && !self.ended {
                        self.end("flood", Reason::ENHANCE_YOUR_CALM);
                        continue;
                    }
                    match self.under_way.is_empty() {
                        true => self.seat.idle(self.last),
                        false => self.seat.serve(),
                    }
                    return Poll::Pending;
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => {
                    if !self.ended
                        && error.is_library()
                        && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
                    {
                        count("protocol");
                    }
                    return Poll::Ready(Err(io::Error::other(error)));
                }
            }
        }
    }

    /// Takes a request.
    fn request(
        &mut self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        cx: &mut Context<'_>,
    ) {
        let mut x = self.service.exchange();
        match self.service.ask(&request, &mut x) {
            Ask::Nothing(reply) => {
                pool::give_exchange(x);
                self.send(respond, *reply, cx);
                self.pass_over(request.into_body(), cx);
            }
            Ask::Query(form) if request.body().is_end_stream() => self.serve(x, form, respond, cx),
            // What is said beside the query is passed over, but not before it was said.
            Ask::Query(form) => {
                self.gather(x, form, None, (request, respond), cx);
            }
            Ask::Body(form, most) => {
                self.gather(x, form, Some(most), (request, respond), cx);
            }
        }
    }

    /// Reads what comes of a body that nobody wants, so that its sender gets to the reply: to be told by a reset that it need
    /// not go on is more than some clients understand (RFC 9113 §8.1).
    fn pass_over(&mut self, body: RecvStream, cx: &mut Context<'_>) {
        if body.is_end_stream() {
            return;
        }
        let mut rest = UnderWay::Drain(Some(Drain { body, left: DRAIN, limit: None }));
        if Pin::new(&mut rest).poll(cx).is_pending() {
            rest.limit(self.terms.read);
            self.under_way.push(rest);
        }
    }

    /// Reads a body; mostly it came with the head.
    fn gather(
        &mut self,
        x: Box<Exchange>,
        form: V::Form,
        most: Option<usize>,
        (request, respond): (Request<RecvStream>, SendResponse<Bytes>),
        cx: &mut Context<'_>,
    ) {
        let gather = Gather { x, body: request.into_body(), most, read: 0, respond, limit: None };
        let mut gather = UnderWay::Gather(form, Some(gather));
        match Pin::new(&mut gather).poll(cx) {
            Poll::Ready(done) => self.done(done, cx),
            Poll::Pending => {
                gather.limit(self.terms.read);
                self.under_way.push(gather);
            }
        }
    }

    /// Answers a query, or lets it wait.
    fn serve(
        &mut self,
        mut x: Box<Exchange>,
        form: V::Form,
        respond: SendResponse<Bytes>,
        cx: &mut Context<'_>,
    ) {
        let mut out = pool::buffer();
        let served = self.desk.gateway.serve(&mut x, &mut out);
        match served {
            Served::Now => {
                let reply = self.service.tell(&x, form, &out);
                pool::give_exchange(x);
                self.send(respond, reply, cx);
            }
            Served::Later(live) => {
                let work = Box::pin(finish(x, live));
                let limit = self.service.patience(form).map(|time| Box::pin(sleep(time)));
                self.under_way.push(UnderWay::Work(form, Some(Work { work, respond, limit })));
            }
        }
        pool::give_buffer(out);
    }

    /// Goes on with what was under way.
    fn done(&mut self, done: Done<V::Form>, cx: &mut Context<'_>) {
        match done {
            Done::Gone => {}
            Done::Body(form, mut x, respond) => match self.service.body(form, &mut x) {
                Ok(()) => self.serve(x, form, respond, cx),
                Err(failure) => {
                    pool::give_exchange(x);
                    let reply = self.service.fail(form, failure);
                    self.send(respond, reply, cx);
                }
            },
            Done::Failed(form, failure, respond, body) => {
                let reply = self.service.fail(form, failure);
                self.send(respond, reply, cx);
                // Whoever is slow is not waited for any longer.
                if let Some(body) = body.filter(|_| failure == Failure::TooLarge) {
                    self.pass_over(body, cx);
                }
            }
            Done::Answer(form, x, message, respond) => {
                let reply = self.service.tell(&x, form, &message);
                pool::give_exchange(x);
                self.send(respond, reply, cx);
            }
            Done::NotTaken => count("not_taken"),
        }
    }

    /// Sends a reply, as far as the client takes it.
    fn send(&mut self, mut respond: SendResponse<Bytes>, reply: Reply, cx: &mut Context<'_>) {
        let Reply { response, body, trailers } = reply;
        let is_whole = body.is_empty() && trailers.is_none();
        // An error means that the client has reset the stream: nobody waits for the reply.
        let Ok(stream) = respond.send_response(response, is_whole) else { return };
        if is_whole {
            return;
        }
        let mut rest = UnderWay::Send(Some(Rest { stream, body, trailers, limit: None }));
        match Pin::new(&mut rest).poll(cx) {
            Poll::Ready(done) => self.done(done, cx),
            Poll::Pending => {
                rest.limit(self.terms.write);
                self.under_way.push(rest);
            }
        }
    }

    /// Takes no more requests; those under way are answered (RFC 9113 §6.8).
    fn close(&mut self) {
        if self.closing.is_none() {
            self.connection.graceful_shutdown();
            self.closing = Some(Instant::now() + self.terms.write);
        }
    }

    /// Ends the connection, and tells the client why.
    fn end(&mut self, why: &'static str, reason: Reason) {
        count(why);
        self.ended = true;
        self.under_way.clear();
        self.connection.abrupt_shutdown(reason);
        self.closing = Some(Instant::now() + self.terms.write);
    }

    /// When something has to happen if nothing does.
    fn due(&self) -> Instant {
        let blocked = self.watch.blocked_since().map(|since| since + self.terms.write);
        let waits = match self.closing {
            // Streams have their own limits.
            Some(_) if !self.under_way.is_empty() => None,
            Some(until) => Some(until.max(self.last + self.terms.write)),
            None if self.under_way.is_empty() => Some(self.last + self.patience),
            None => None,
        };
        let far = || Instant::now() + Duration::from_secs(3600);
        blocked.into_iter().chain(waits).min().unwrap_or_else(far)
    }

    /// Does what is due; true if the connection is over.
    fn overdue(&mut self) -> bool {
        let now = Instant::now();
        if self.watch.blocked_since().is_some_and(|since| since + self.terms.write <= now) {
            // Whoever does not read cannot be told anything.
            self.desk.limits.closed.write.increment(1);
            return true;
        }
        if self.closing.is_some() {
            return true;
        }
        self.desk.limits.closed.idle.increment(1);
        self.close();
        false
    }
}

/// Counts a connection or a reply that came to a bad end.
fn count(reason: &'static str) {
    const NAME: &str = "causeway_http2_abuse_total";
    describe(
        NAME,
        "HTTP/2 connections and replies ended because of what the client did or did not.",
    );
    counter(NAME, &[("reason", reason)]).increment(1);
}

/// An exchange with its answer's message.
type Answered = (Box<Exchange>, Vec<u8>);

/// Sees an exchange through to its answer.
async fn finish(mut x: Box<Exchange>, live: Arc<Live>) -> Answered {
    let mut message = Vec::new();
    live.complete(&mut x, &mut message).await;
    (x, message)
}

/// A request that waits for something. What it has is taken out when it is over.
enum UnderWay<F> {
    /// For its body.
    Gather(F, Option<Gather>),
    /// For the chain.
    Work(F, Option<Work>),
    /// For the client to take the reply.
    Send(Option<Rest>),
    /// For the end of a body that nobody wants.
    Drain(Option<Drain>),
}

/// A body on its way.
struct Gather {
    x: Box<Exchange>,
    body: RecvStream,
    /// The most octets that it may have; none if it is not kept.
    most: Option<usize>,
    /// How many octets of it have come.
    read: usize,
    respond: SendResponse<Bytes>,
    limit: Option<Pin<Box<Sleep>>>,
}

/// An answer on its way.
struct Work {
    work: Pin<Box<dyn Future<Output = Answered> + Send>>,
    respond: SendResponse<Bytes>,
    limit: Option<Pin<Box<Sleep>>>,
}

/// A reply on its way.
struct Rest {
    stream: SendStream<Bytes>,
    body: Bytes,
    trailers: Option<HeaderMap>,
    limit: Option<Pin<Box<Sleep>>>,
}

/// A body that nobody wants.
struct Drain {
    body: RecvStream,
    /// How much of it is read at most, in octets.
    left: usize,
    limit: Option<Pin<Box<Sleep>>>,
}

/// What has come of a request.
enum Done<F> {
    /// The client does not want it any more.
    Gone,
    /// The body is there.
    Body(F, Box<Exchange>, SendResponse<Bytes>),
    /// There is no answer.
    Failed(F, Failure, SendResponse<Bytes>, Option<RecvStream>),
    /// The answer is there.
    Answer(F, Box<Exchange>, Vec<u8>, SendResponse<Bytes>),
    /// The client has not taken the reply.
    NotTaken,
}

impl<F> UnderWay<F> {
    /// Bounds how long it takes.
    fn limit(&mut self, time: Duration) {
        let limit = Some(Box::pin(sleep(time)));
        match self {
            Self::Gather(_, Some(gather)) => gather.limit = limit,
            Self::Send(Some(rest)) => rest.limit = limit,
            Self::Drain(Some(drain)) => drain.limit = limit,
            Self::Gather(_, None) | Self::Work(..) | Self::Send(None) | Self::Drain(None) => {}
        }
    }
}

impl<F: Copy + Unpin> Future for UnderWay<F> {
    type Output = Done<F>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done<F>> {
        match self.get_mut() {
            Self::Gather(form, slot) => {
                take(slot, |gather| gather.poll(cx)).map(|over| match over {
                    Some((Gather { x, respond, .. }, Ok(true))) => Done::Body(*form, x, respond),
                    Some((Gather { respond, body, .. }, Err(why))) => {
                        Done::Failed(*form, why, respond, Some(body))
                    }
                    Some((_, Ok(false))) | None => Done::Gone,
                })
            }
            Self::Work(form, slot) => take(slot, |work| work.poll(cx)).map(|over| match over {
                Some((Work { respond, .. }, Ok(Some((x, message))))) => {
                    Done::Answer(*form, x, message, respond)
                }
                Some((Work { respond, .. }, Err(why))) => Done::Failed(*form, why, respond, None),
                Some((_, Ok(None))) | None => Done::Gone,
            }),
            Self::Send(slot) => take(slot, |rest| rest.poll(cx)).map(|over| match over {
                Some((_, false)) => Done::NotTaken,
                Some((_, true)) | None => Done::Gone,
            }),
            Self::Drain(slot) => take(slot, |drain| drain.poll(cx)).map(|_| Done::Gone),
        }
    }
}

impl Gather {
    /// Reads on; true when the body is whole, false when nobody waits for the answer.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        let wire = &mut self.x.query.wire;
        loop {
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    self.read += data.len();
                    match self.most {
                        Some(most) if self.read > most => {
                            return Poll::Ready(Err(Failure::TooLarge));
                        }
                        Some(_) => wire.extend_from_slice(&data),
                        None => {}
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Ok(false)),
                Poll::Ready(None) => {
                    // Room for other bodies only now, so that it bounds what is kept of unfinished ones. An error means that the
                    // stream is gone, and its room with it.
                    drop(self.body.flow_control().release_capacity(self.read));
                    return Poll::Ready(Ok(true));
                }
                Poll::Pending => break,
            }
        }
        match is_over(&mut self.limit, cx) {
            true => Poll::Ready(Err(Failure::Slow)),
            false => Poll::Pending,
        }
    }
}

impl Work {
    /// Goes on; nothing when nobody waits for the answer.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Answered>, Failure>> {
        if let Poll::Ready(answer) = self.work.as_mut().poll(cx) {
            return Poll::Ready(Ok(Some(answer)));
        }
        // With the future goes what it asks others.
        if self.respond.poll_reset(cx).is_ready() {
            return Poll::Ready(Ok(None));
        }
        match is_over(&mut self.limit, cx) {
            true => Poll::Ready(Err(Failure::Deadline)),
            false => Poll::Pending,
        }
    }
}

impl Rest {
    /// Sends as much as the client takes; ready when all is sent or the client wants no more (true), or does not take it
    /// (false).
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let stream = &mut self.stream;
        while !self.body.is_empty() {
            stream.reserve_capacity(self.body.len());
            let room = stream.capacity().min(self.body.len());
            if room > 0 {
                let part = self.body.split_to(room);
                let is_last = self.body.is_empty() && self.trailers.is_none();
                if stream.send_data(part, is_last).is_err() {
                    return Poll::Ready(true);
                }
                continue;
            }
            match stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(true),
                Poll::Pending if is_over(&mut self.limit, cx) => {
                    stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(false);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        if let Some(trailers) = self.trailers.take() {
            // An error means that the client has reset the stream.
            drop(stream.send_trailers(trailers));
        }
        Poll::Ready(true)
    }
}

impl Drain {
    /// Reads on; ready when there is nothing more to read, or enough was. What then still comes ends with a reset.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) if data.len() <= self.left => {
                    self.left -= data.len();
                    // An error means that the stream is gone, and its room with it.
                    drop(self.body.flow_control().release_capacity(data.len()));
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending if is_over(&mut self.limit, cx) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Takes out of `slot` what has come to its end; nothing if that was taken out before.
fn take<T, R>(slot: &mut Option<T>, poll: impl FnOnce(&mut T) -> Poll<R>) -> Poll<Option<(T, R)>> {
    let Some(one) = slot else { return Poll::Ready(None) };
    poll(one).map(|result| slot.take().map(|one| (one, result)))
}

/// Whether a time limit is over.
fn is_over(limit: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> bool {
    limit.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready())
}
