//! A socket that sends to an address at most three times what came from it, until the address is proved (RFC 9000 §8.1). The
//! library counts as well, but lets the last datagram go beyond.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use quinn::{AsyncUdpSocket, UdpPoller};
use quinn_udp::{RecvMeta, Transmit};

/// How many datagrams of handshakes are remembered until somebody looks at them; what is forgotten gives less to send.
const RECENT: usize = 1024;

/// By how much more may be sent than came.
const FACTOR: usize = 3;

/// A socket.
pub(super) struct Frugal {
    inner: Arc<dyn AsyncUdpSocket>,
    /// How many addresses have an account; with none, nothing is looked up.
    accounts: AtomicUsize,
    books: Mutex<Books>,
}

/// What came, and what may be sent.
#[derive(Default)]
struct Books {
    /// The last datagrams of handshakes, with their lengths, of addresses without an account.
    recent: VecDeque<(SocketAddr, usize)>,
    open: HashMap<SocketAddr, Account>,
}

/// An address that is not proved.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// How many handshakes it has under way.
    handshakes: usize,
    /// How many octets it may still be sent.
    left: usize,
}

impl fmt::Debug for Frugal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frugal").finish_non_exhaustive()
    }
}

impl Frugal {
    /// Wraps a socket.
    pub(super) fn new(inner: Arc<dyn AsyncUdpSocket>) -> Arc<Self> {
        Arc::new(Self { inner, accounts: AtomicUsize::new(0), books: Mutex::default() })
    }

    /// Bounds what is sent to an address until the value is dropped.
    pub(super) fn bound(self: &Arc<Self>, peer: SocketAddr) -> Bounded {
        let mut books = self.books();
        let mut came = 0;
        books.recent.retain(|(from, length)| {
            let other = *from != peer;
            came += if other { 0 } else { *length };
            other
        });
        let account = books.open.entry(peer).or_default();
        account.handshakes += 1;
        account.left += FACTOR * came;
        self.accounts.store(books.open.len(), Ordering::Release);
        Bounded { socket: Arc::clone(self), peer }
    }

    /// The books.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes datagrams that came together, each of `meta.stride` octets.
    fn note(&self, meta: &RecvMeta, joined: &[u8]) {
        // Packets of handshakes have long headers (RFC 9000 §17.2); all others are of connections that are there.
        let has_long = |datagram: &[u8]| datagram.first().is_some_and(|first| first & 0x80 != 0);
        let is_counted = self.accounts.load(Ordering::Acquire) > 0;
        if !is_counted && !joined.chunks(meta.stride.max(1)).any(has_long) {
            return;
        }
        let mut books = self.books();
        if let Some(account) = books.open.get_mut(&meta.addr) {
            account.left += FACTOR * joined.len();
        } else {
            for datagram in joined.chunks(meta.stride.max(1)).filter(|one| has_long(one)) {
                if books.recent.len() == RECENT {
                    books.recent.pop_front();
                }
                books.recent.push_back((meta.addr, datagram.len()));
            }
        }
    }

    /// How much of what is to be sent may be.
    fn may(&self, transmit: &Transmit<'_>) -> usize {
        let length = transmit.contents.len();
        if self.accounts.load(Ordering::Acquire) == 0 {
            return length;
        }
        let mut books = self.books();
        let Some(account) = books.open.get_mut(&transmit.destination) else { return length };
        let datagram = transmit.segment_size.unwrap_or(length).max(1);
        let may = if account.left >= length { length } else { account.left / datagram * datagram };
        account.left -= may;
        may
    }
}

impl AsyncUdpSocket for Frugal {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let may = self.may(transmit);
        if may == transmit.contents.len() {
            return self.inner.try_send(transmit);
        }
        // What is left out counts as lost on the way.
        let Some(contents) = transmit.contents.get(..may).filter(|some| !some.is_empty()) else {
            return Ok(());
        };
        self.inner.try_send(&Transmit { contents, ..*transmit })
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let result = self.inner.poll_recv(cx, bufs, meta);
        if let Poll::Ready(Ok(count)) = result {
            for (meta, buf) in meta.iter().zip(&*bufs).take(count) {
                self.note(meta, buf.get(..meta.len).unwrap_or_default());
            }
        }
        result
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// A handshake with an address that is not proved.
#[derive(Debug)]
pub(super) struct Bounded {
    socket: Arc<Frugal>,
    peer: SocketAddr,
}

impl Drop for Bounded {
    fn drop(&mut self) {
        let mut books = self.socket.books();
        if let Some(account) = books.open.get_mut(&self.peer) {
            account.handshakes -= 1;
            if account.handshakes == 0 {
                books.open.remove(&self.peer);
            }
        }
        self.socket.accounts.store(books.open.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A socket that counts what is sent.
    #[derive(Debug, Default)]
    struct Count(AtomicUsize);

    impl AsyncUdpSocket for Count {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            unreachable!("nobody waits")
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            self.0.fetch_add(transmit.contents.len(), Ordering::Relaxed);
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 853).into())
        }
    }

    #[test]
    fn an_address_gets_three_times_what_came_from_it() {
        let count = Arc::new(Count::default());
        let socket = Frugal::new(Arc::clone(&count) as _);
        let peer = SocketAddr::from(([198, 51, 100, 1], 1000));
        let came = |length: usize| {
            let meta = RecvMeta { addr: peer, len: length, stride: length, ..RecvMeta::default() };
            socket.note(&meta, &vec![0xc0; length]);
        };
        let send = |length: usize, segment_size| {
            let (contents, destination) = (&*vec![0; length], peer);
            let transmit =
                Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
            socket.try_send(&transmit).unwrap();
            count.0.swap(0, Ordering::Relaxed)
        };
        // Nothing is bounded that nobody has bounded: a Retry packet, a reset.
        came(1200);
        assert_eq!(send(500, None), 500);
        let first = socket.bound(peer);
        assert_eq!(send(2 * 1200, Some(1200)), 2400);
        // Of several datagrams those that fit, of one all or nothing.
        assert_eq!(send(1100 + 1100, Some(1100)), 1100);
        assert_eq!(send(200, None), 0);
        assert_eq!(send(100, None), 100);
        // More comes, also of a second handshake.
        let second = socket.bound(peer);
        came(50);
        assert_eq!(send(151, None), 0);
        assert_eq!(send(150, None), 150);
        drop(first);
        assert_eq!(send(1, None), 0);
        // One that is done proves the address.
        drop(second);
        assert_eq!(send(9000, Some(1200)), 9000);
        assert!(socket.books().open.is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let socket = Frugal::new(Arc::new(Count::default()));
        for at in 0..2 * RECENT {
            let addr = SocketAddr::from(([198, 51, 100, 1], u16::try_from(at).unwrap()));
            let meta = RecvMeta { addr, len: 1200, stride: 1200, ..RecvMeta::default() };
            socket.note(&meta, &[0xc0; 1200]);
        }
        assert_eq!(socket.books().recent.len(), RECENT);
    }
}
