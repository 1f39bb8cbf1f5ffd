//! A stream whose octets are looked at before a protocol's library has them, and whose writes are held back until there is
//! nothing more to add.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client that still sends is listened to after the end.
const LINGER: Duration = Duration::from_secs(1);

/// How much of it is read, in octets.
const LEFT: usize = 1 << 20;

/// Looks at what a client sends.
pub(crate) trait Filter {
    /// How many of these octets may be passed on; fewer than there are if the rest must not, for good.
    fn pass(&mut self, octets: &[u8]) -> usize;

    /// What the library gets in place of the rest, so that it refuses the request by its own means; nothing if the library is
    /// to be told otherwise.
    const POISON: &'static [u8];
}

/// What a connection's loop knows of its stream, and tells it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Nothing is read and written for now.
    held: AtomicBool,
    /// The client has sent what must not be passed on.
    stopped: AtomicBool,
    /// When writing began to block, in milliseconds from `begun`, and one more; 0 if it does not.
    blocked: AtomicU64,
    /// The same of the head of a request that has not come as a whole.
    head: AtomicU64,
    begun: Instant,
}

impl Watch {
    /// Of a connection that begins now.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            held: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            blocked: AtomicU64::new(0),
            head: AtomicU64::new(0),
            begun: Instant::now(),
        })
    }

    /// Holds reads and writes back, or lets them go.
    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// Whether reads and writes are held back.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the client has sent what must not be passed on.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Since when the client does not take what is written.
    pub(crate) fn blocked_since(&self) -> Option<Instant> {
        self.moment(&self.blocked)
    }

    /// Since when the head of a request is under way.
    pub(crate) fn head_since(&self) -> Option<Instant> {
        self.moment(&self.head)
    }

    /// Notes that the head of a request has begun, or ended.
    pub(crate) fn note_head(&self, is_under_way: bool) {
        let now = if is_under_way { self.now() + 1 } else { 0 };
        self.head.store(now, Ordering::Relaxed);
    }

    /// The moment that is noted.
    fn moment(&self, noted: &AtomicU64) -> Option<Instant> {
        let since = noted.load(Ordering::Relaxed).checked_sub(1)?;
        self.begun.checked_add(Duration::from_millis(since))
    }

    /// Milliseconds since the connection began.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// A stream under watch.
#[derive(Debug)]
pub(crate) struct Guarded<S, F> {
    stream: S,
    filter: F,
    watch: Arc<Watch>,
    /// What was read of the stream before.
    ahead: Vec<u8>,
    /// Whether the library has got its poison.
    is_poisoned: bool,
    /// What is to happen before the end.
    end: Ending,
}

/// How far the end of a stream has come.
#[derive(Debug)]
enum Ending {
    /// It has not begun.
    Open,
    /// Nothing more is written. What still comes is read for a while: a system that has unread octets takes back those which the
    /// client has not read yet (RFC 9112 §9.6).
    Lingering(Pin<Box<Sleep>>, usize),
    /// It is over.
    Over,
}

impl<S, F> Guarded<S, F> {
    /// Watches `stream`, of which `ahead` has been read already.
    pub(crate) fn new(stream: S, filter: F, watch: Arc<Watch>, ahead: Vec<u8>) -> Self {
        Self { stream, filter, watch, ahead, is_poisoned: false, end: Ending::Open }
    }
}

impl<S: AsyncRead + Unpin, F: Filter + Unpin> AsyncRead for Guarded<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = &mut *self;
        if own.watch.is_held() {
            // Whoever holds lets go again before it waits.
            return Poll::Pending;
        }
        if own.watch.is_stopped() {
            if F::POISON.is_empty() {
                return Poll::Pending;
            }
            if !own.is_poisoned {
                own.is_poisoned = true;
                let room = buf.remaining().min(F::POISON.len());
                buf.put_slice(&F::POISON[..room]);
            }
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        if own.ahead.is_empty() {
            ready!(Pin::new(&mut own.stream).poll_read(cx, buf))?;
        } else {
            let room = buf.remaining().min(own.ahead.len());
            buf.put_slice(&own.ahead[..room]);
            own.ahead.drain(..room);
        }
        let fresh = &buf.filled()[before..];
        if fresh.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let passed = own.filter.pass(fresh);
        if passed < fresh.len() {
            own.watch.stopped.store(true, Ordering::Relaxed);
            buf.set_filled(before + passed);
            if passed == 0 {
                // No octets would be the end of the stream.
                return self.poll_read(cx, buf);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, F: Unpin> Guarded<S, F> {
    /// Notes whether the client takes what is written.
    fn note<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let blocked = &self.watch.blocked;
        match poll {
            Poll::Ready(_) => blocked.store(0, Ordering::Relaxed),
            Poll::Pending if blocked.load(Ordering::Relaxed) == 0 => {
                blocked.store(self.watch.now() + 1, Ordering::Relaxed);
            }
            Poll::Pending => {}
        }
        poll
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, F: Unpin> AsyncWrite for Guarded<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.watch.is_held() {
            return Poll::Pending;
        }
        let poll = Pin::new(&mut self.stream).poll_write(cx, octets);
        self.note(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.watch.is_held() {
            return Poll::Pending;
        }
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = &mut *self;
        loop {
            match &mut own.end {
                Ending::Open => {
                    ready!(Pin::new(&mut own.stream).poll_shutdown(cx))?;
                    own.end = Ending::Lingering(Box::pin(sleep(LINGER)), LEFT);
                }
                Ending::Lingering(alarm, left) => {
                    let mut octets = [0; 2048];
                    let mut buf = ReadBuf::new(&mut octets);
                    let read = match Pin::new(&mut own.stream).poll_read(cx, &mut buf) {
                        Poll::Pending => {
                            ready!(alarm.as_mut().poll(cx));
                            0
                        }
                        Poll::Ready(Ok(())) => buf.filled().len(),
                        // Whoever has gone need not be listened to.
                        Poll::Ready(Err(_)) => 0,
                    };
                    *left = left.saturating_sub(read);
                    if read == 0 || *left == 0 {
                        own.end = Ending::Over;
                    }
                }
                Ending::Over => return Poll::Ready(Ok(())),
            }
        }
    }
}
