//! Plain DNS over UDP (RFC 1035 §4.2.1): batched receive, replies from the address that was asked (RFC 2181 §4), replies to one
//! peer merged by segmentation offload, no task and no wait for what can be answered at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use engine::{Exchange, Live, Served, Stage, Stop, Transport};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use self::stack::{Reply, Stack};
use crate::accept::{Ends, canonical};
use crate::desk::{Desk, Plan};
use crate::proxy;
use crate::seats::Client;

mod stack;
#[cfg(test)]
mod tests;

/// The room for what one receive gives: as much as receive offload may join.
const RECEIVE: usize = 65536;

/// How many batches are taken before other tasks of the thread get their turn.
const TURN: usize = 8;

/// How many exchanges that have waited are kept for later ones.
const POOL: usize = 256;

/// One socket at work.
#[derive(Debug)]
pub(crate) struct Udp {
    shared: Arc<Socket>,
    desk: Arc<Desk>,
    local: SocketAddr,
    /// Whether the socket is bound to all addresses.
    wildcard: bool,
}

/// What exchanges that wait share with the loop.
#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    waiting: AtomicUsize,
    /// Whose they are.
    clients: Mutex<HashMap<Client, usize>>,
    /// The queries that came too fast.
    slips: AtomicUsize,
    #[expect(clippy::vec_box, reason = "exchanges are made in boxes, and moved into tasks")]
    pool: Mutex<Vec<Box<Exchange>>>,
    /// Whether load is shed here.
    sheds: AtomicBool,
    /// The replies that wait for room, where it is.
    stack: Stack,
    /// Whether the socket is said to be full.
    #[cfg(test)]
    jammed: AtomicBool,
}

/// Where a reply goes: the peer as the socket knows it, and the address that was asked, if the socket has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    peer: SocketAddr,
    asked: Option<IpAddr>,
}

/// A reply in the batch's buffer.
#[derive(Clone, Debug)]
struct Ready {
    path: Path,
    bytes: Range<usize>,
}

impl Udp {
    /// Takes over a bound socket; to be called in the runtime that will run it.
    pub(crate) fn new(socket: std::net::UdpSocket, desk: Arc<Desk>) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        let shared = Socket {
            socket: UdpSocket::from_std(socket)?,
            state,
            waiting: AtomicUsize::new(0),
            clients: Mutex::default(),
            slips: AtomicUsize::new(0),
            pool: Mutex::default(),
            sheds: AtomicBool::new(desk.peek().spec.shed),
            stack: Stack::new(desk.key.to_string()),
            #[cfg(test)]
            jammed: AtomicBool::new(false),
        };
        let wildcard = local.ip().is_unspecified();
        Ok(Self { shared: Arc::new(shared), desk, local, wildcard })
    }

    /// Serves until `stop` says to drain; then answers what has come already.
    pub(crate) async fn run(self, mut stop: Stop) {
        let mut buffers = vec![0u8; RECEIVE * BATCH_SIZE];
        let mut x = Exchange::new(self.desk.id, Transport::Udp, self.local);
        let mut out = Vec::with_capacity(16 << 10);
        let mut ready = Vec::with_capacity(BATCH_SIZE);
        let mut draining = false;
        // Ends with what is here.
        let mut writer = JoinSet::new();
        let shared = Arc::clone(&self.shared);
        writer.spawn(async move { shared.write().await });
        while !draining {
            tokio::select! {
                () = stop.reached(Stage::Draining) => draining = true,
                // An error here would come back from the receive, which says what it is.
                _ = self.shared.socket.readable() => {}
            }
            for _ in 0..TURN {
                match self.batch(&mut buffers, &mut x, &mut out, &mut ready) {
                    Ok(()) => self.flush(&out, &ready).await,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // An ICMP error of an earlier reply, or an interrupted call: nothing of ours is broken.
                    Err(error) => log::debug!("receiving on {}: {error}", self.local),
                }
            }
            tokio::task::yield_now().await;
        }
        let grace = tokio::time::Instant::now() + stop.grace;
        let is_busy =
            || self.shared.waiting.load(Ordering::Acquire) > 0 || !self.shared.stack.is_empty();
        while is_busy() && tokio::time::Instant::now() < grace {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        self.shared.stack.clear();
    }

    /// Receives what is there, answers what can be answered at once into `out`, and hands the rest to tasks.
    fn batch(
        &self,
        buffers: &mut [u8],
        x: &mut Box<Exchange>,
        out: &mut Vec<u8>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let count = self.shared.socket.try_io(Interest::READABLE, || {
            let mut chunks = buffers.chunks_mut(RECEIVE).map(IoSliceMut::new);
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                std::array::from_fn(|_| chunks.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            self.shared.state.recv(UdpSockRef::from(&self.shared.socket), &mut slices, &mut metas)
        })?;
        let (now, plan) = (Instant::now(), self.desk.peek());
        self.shared.sheds.store(plan.spec.shed, Ordering::Relaxed);
        out.clear();
        ready.clear();
        for (meta, buffer) in metas[..count].iter().zip(buffers.chunks(RECEIVE)) {
            // A source of datagrams without content or stride cannot be split, and asks nothing.
            let joined = buffer.get(..meta.len).unwrap_or_default();
            for datagram in joined.chunks(meta.stride.max(1)) {
                self.datagram(datagram, (meta, &plan, now), x, out, ready);
            }
        }
        Ok(())
    }

    /// Serves one datagram.
    fn datagram(
        &self,
        datagram: &[u8],
        (meta, plan, now): (&RecvMeta, &Plan, Instant),
        x: &mut Box<Exchange>,
        out: &mut Vec<u8>,
        ready: &mut Vec<Ready>,
    ) {
        // A socket of one address replies from it anyway.
        let path = Path { peer: meta.addr, asked: meta.dst_ip.filter(|_| self.wildcard) };
        let asked = meta.dst_ip.unwrap_or_else(|| self.local.ip());
        let mut ends = Ends {
            peer: canonical(meta.addr),
            local: SocketAddr::new(asked.to_canonical(), self.local.port()),
        };
        let mut query = datagram;
        if let Some(spec) = &plan.spec.proxy {
            match proxy::datagram(spec, plan.sessions.as_deref(), ends.peer, datagram, now) {
                Ok(unwrapped) => {
                    query = unwrapped.payload;
                    ends = unwrapped.ends.unwrap_or(ends);
                }
                Err(why) => {
                    self.desk.limits.bad_header(ends.peer, why);
                    return;
                }
            }
        }
        let start = out.len();
        if plan.pace(ends.peer.ip(), now).is_err() {
            self.slip(query, out);
            if out.len() > start {
                ready.push(Ready { path, bytes: start..out.len() });
            }
            return;
        }
        x.query.wire.clear();
        x.query.wire.extend_from_slice(query);
        x.query.peer = ends.peer;
        x.query.local = ends.local;
        x.query.received = now;
        x.query.congested = self.shared.stack.is_full();
        match self.desk.gateway.serve(x, out) {
            Served::Now if out.len() > start => ready.push(Ready { path, bytes: start..out.len() }),
            Served::Now => {}
            Served::Later(live) => self.wait(x, live, path),
        }
    }

    /// Sends every other client that asks too fast to TCP, where nobody can ask in another's name; the others hear nothing.
    /// What is sent is never longer than the query.
    fn slip(&self, query: &[u8], out: &mut Vec<u8>) {
        let limited = &self.desk.limits.limited;
        let is_query = query.get(2).is_some_and(|flags| flags & 0x80 == 0);
        let turn = self.shared.slips.fetch_add(1, Ordering::Relaxed);
        match (is_query && turn.is_multiple_of(2)).then(|| cut(query)).flatten() {
            Some(mut short) => {
                // QR and TC, with the query's opcode, RD and CD.
                (short[2], short[3]) = (short[2] & 0x79 | 0x82, short[3] & 0x10);
                out.extend_from_slice(&short);
                limited.truncated.increment(1);
            }
            None => limited.dropped.increment(1),
        }
    }

    /// Hands the exchange to a task and takes another, unless too many wait.
    fn wait(&self, x: &mut Box<Exchange>, live: Arc<Live>, path: Path) {
        let client = Client::from(x.query.peer.ip());
        let Some(guard) = Waiting::one(&self.shared, client, self.desk.limits.bounds.waiting)
        else {
            self.desk.limits.waiting_full.increment(1);
            return;
        };
        let fresh = self.shared.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let fresh =
            fresh.unwrap_or_else(|| Exchange::new(self.desk.id, Transport::Udp, self.local));
        let waiting = std::mem::replace(x, fresh);
        tokio::spawn(async move { guard.finish(waiting, live, path).await });
    }

    /// Sends the replies of a batch; those in a row for one peer, of equal length but for the last, in one call.
    async fn flush(&self, out: &[u8], ready: &[Ready]) {
        let most = self.shared.state.max_gso_segments();
        let mut rest = ready;
        while let Some((first, _)) = rest.split_first() {
            let size = first.bytes.len();
            let mut run = 1;
            while run < rest.len().min(most)
                && rest[run].path == first.path
                && rest[run - 1].bytes.len() == size
                && rest[run].bytes.len() <= size
                && rest[run].bytes.end - first.bytes.start <= usize::from(u16::MAX) - 64
            {
                run += 1;
            }
            let (now, later) = rest.split_at(run);
            let end = now.last().map_or(first.bytes.end, |last| last.bytes.end);
            let segment = (run > 1).then_some(size);
            let sent = self.shared.send(first.path, &out[first.bytes.start..end], segment).await;
            if run > 1 && sent.is_err() {
                for one in now {
                    self.shared.reply(one.path, &out[one.bytes.clone()]).await;
                }
            } else if let Err(error) = sent {
                self.shared.explain(first.path, &out[first.bytes.clone()], &error).await;
            }
            rest = later;
        }
    }
}

/// One exchange that waits, counted.
struct Waiting(Arc<Socket>, Client);

impl Waiting {
    /// One more, unless there are `most`, of which one client may have half.
    fn one(socket: &Arc<Socket>, client: Client, most: usize) -> Option<Self> {
        if socket.waiting.fetch_add(1, Ordering::AcqRel) >= most {
            socket.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let mut clients = socket.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let own = clients.entry(client).or_default();
        *own += 1;
        let is_too_many = *own > most.div_ceil(2);
        drop(clients);
        // What was counted is counted off where it is dropped.
        Some(Self(Arc::clone(socket), client)).filter(|_| !is_too_many)
    }

    /// Sees the exchange through and sends its reply.
    async fn finish(self, mut x: Box<Exchange>, live: Arc<Live>, path: Path) {
        let mut out = Vec::new();
        live.complete(&mut x, &mut out).await;
        drop(live);
        if !out.is_empty() {
            self.0.reply(path, &out).await;
        }
        let mut pool = self.0.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < POOL {
            pool.push(x);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
        let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut own) = clients.entry(self.1) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

impl Socket {
    /// Sends one reply; a failure concerns its client alone.
    async fn reply(&self, path: Path, bytes: &[u8]) {
        if let Err(error) = self.send(path, bytes, None).await {
            self.explain(path, bytes, &error).await;
        }
    }

    /// Sends `bytes`, in segments of a size if one is given; waits while the socket is full, or, where load is shed, leaves
    /// them to [`Socket::write`].
    async fn send(&self, path: Path, bytes: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        loop {
            match self.try_send(path, bytes, segment_size) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.sheds.load(Ordering::Relaxed) {
                let size = segment_size.unwrap_or(bytes.len()).max(1);
                bytes
                    .chunks(size)
                    .for_each(|one| self.stack.push(Reply { path, bytes: one.into() }));
                return Ok(());
            }
            self.socket.writable().await?;
            // What is written to a socket that takes nothing would keep the thread.
            #[cfg(test)]
            tokio::task::yield_now().await;
        }
    }

    /// Sends the replies that wait, whenever there is room: the freshest first.
    async fn write(&self) {
        loop {
            self.stack.pushed().await;
            while !self.stack.is_empty() {
                // An error here would come back from the send, which says what it is.
                drop(self.socket.writable().await);
                let Some(reply) = self.stack.pop() else { break };
                match self.try_send(reply.path, &reply.bytes, None) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.stack.push(reply);
                        tokio::task::yield_now().await;
                    }
                    Err(error) => self.explain(reply.path, &reply.bytes, &error).await,
                }
            }
        }
    }

    /// Sends `bytes`, in segments of a size if one is given, if there is room.
    fn try_send(&self, path: Path, bytes: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        #[cfg(test)]
        if self.jammed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let transmit = Transmit {
            destination: path.peer,
            ecn: None,
            contents: bytes,
            segment_size,
            src_ip: path.asked,
        };
        self.socket.try_io(Interest::WRITABLE, || {
            self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
        })
    }

    /// Turns a reply that the path cannot carry into one that sends the client to TCP (RFC 9715 §3.1).
    async fn explain(&self, path: Path, bytes: &[u8], error: &io::Error) {
        const EMSGSIZE: i32 = rustix::io::Errno::MSGSIZE.raw_os_error();
        if error.raw_os_error() != Some(EMSGSIZE) {
            log::debug!("replying to {}: {error}", path.peer);
            if self.sheds.load(Ordering::Relaxed) {
                self.stack.lost();
            }
            return;
        }
        if let Some(short) = cut(bytes)
            && let Err(error) = self.send(path, &short, None).await
        {
            log::debug!("replying to {}: {error}", path.peer);
        }
    }
}

/// Header and question of a reply, with TC set.
fn cut(reply: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = reply.split_first_chunk::<12>()?;
    let question = if head[5] == 0 { 0 } else { wire::Name::span(rest)? + 4 };
    let mut short = reply.get(..12 + question)?.to_vec();
    short[2] |= 0x02;
    short[6..12].fill(0);
    Some(short)
}
