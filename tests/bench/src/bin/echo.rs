//! `echo ADDRESS`: sends each datagram back with the QR bit set, by the socket calls of the gateway's UDP front-end.
//!
//! It is the ceiling that a DNS server on the same machine can reach: what is left is the kernel's.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};

/// The bytes of one receive buffer: as much as the kernel may join into one (UDP GRO).
const SIZE: usize = 65_536;

fn main() -> ExitCode {
    let address = std::env::args().nth(1).and_then(|a| a.parse().ok());
    let Some(address) = address else {
        eprintln!("usage: echo ADDRESS:PORT");
        return ExitCode::from(2);
    };
    match serve(address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("echo: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Receives in batches and replies, until a call fails.
fn serve(address: SocketAddr) -> io::Result<()> {
    let socket = bench::socket(address)?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let mut memory = vec![0; SIZE * BATCH_SIZE];
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut out = Vec::with_capacity(SIZE);
    loop {
        let mut chunks = memory.chunks_mut(SIZE);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let count = match state.recv(UdpSockRef::from(&socket), &mut buffers, &mut metas) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&socket, PollFlags::IN)], None)?;
                continue;
            }
            Err(e) => return Err(e),
        };
        let mut run = Run {
            state: &state,
            socket: &socket,
            peer: address,
            source: None,
            wildcard: address.ip().is_unspecified(),
            segment: 0,
            segments: 0,
            bytes: &mut out,
        };
        for (meta, buffer) in metas[..count].iter().zip(memory.chunks(SIZE)) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                run.push(meta, datagram)?;
            }
        }
        run.send()?;
    }
}

/// Replies to one peer, all of one length but the last, which leave in one call (UDP GSO).
struct Run<'a> {
    /// The socket's abilities.
    state: &'a UdpSocketState,
    /// The socket.
    socket: &'a std::net::UdpSocket,
    /// Whom the replies go to.
    peer: SocketAddr,
    /// The address that they come from: the one that was asked.
    source: Option<IpAddr>,
    /// Whether the socket is bound to all addresses.
    wildcard: bool,
    /// The length of each reply but the last.
    segment: usize,
    /// How many replies there are.
    segments: usize,
    /// The replies, one behind the other.
    bytes: &'a mut Vec<u8>,
}

impl Run<'_> {
    /// Adds the reply to a datagram; sends what was there before if it does not fit to that.
    fn push(&mut self, meta: &RecvMeta, datagram: &[u8]) -> io::Result<()> {
        let full = self.bytes.len() + datagram.len() > SIZE - 1024
            || self.segments == self.state.max_gso_segments();
        if meta.addr != self.peer || datagram.len() != self.segment || full {
            self.send()?;
            // As the gateway: a socket of one address replies from it anyway.
            self.source = meta.dst_ip.filter(|_| self.wildcard);
            (self.peer, self.segment) = (meta.addr, datagram.len());
        }
        self.bytes.extend_from_slice(datagram);
        self.segments += 1;
        let flags = self.bytes.len() - datagram.len() + 2;
        if let Some(octet) = self.bytes.get_mut(flags) {
            *octet |= 0x80;
        }
        Ok(())
    }

    /// Sends what there is; a reply that the kernel has no room for is lost, as a datagram may be.
    fn send(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            let segment_size = (self.segments > 1).then_some(self.segment);
            let transmit = Transmit {
                destination: self.peer,
                ecn: None,
                contents: self.bytes,
                segment_size,
                src_ip: self.source,
            };
            match self.state.try_send(UdpSockRef::from(self.socket), &transmit) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
        }
        self.bytes.clear();
        self.segments = 0;
        Ok(())
    }
}
