//! Listening sockets with their options.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use engine::BindAddr;
use socket2::{Domain, Protocol, Socket, Type};

/// The receive and send buffer asked for, in octets; the kernel may give less.
const BUFFER: usize = 4 << 20;

/// The addresses to try for `addr`: all addresses of both families on one socket, else those of IPv4 alone.
fn candidates(addr: Option<BindAddr>, port: u16) -> Vec<SocketAddr> {
    match addr {
        Some(addr) => vec![addr.at(port)],
        None => vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()],
    }
}

/// Binds, trying IPv4 alone where the machine has no IPv6.
fn bind(
    addr: Option<BindAddr>,
    port: u16,
    open: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Socket> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for candidate in candidates(addr, port) {
        match open(candidate) {
            Ok(socket) => return Ok(socket),
            // What stands in the way on IPv6 stands in the way on IPv4.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
                ) =>
            {
                return Err(error);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket of `kind` for `addr` that others may share the port with.
fn shared(addr: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
    if addr.is_ipv6() {
        socket.set_only_v6(!addr.ip().is_unspecified())?;
    }
    socket.set_nonblocking(true)?;
    if let Err(error) = socket.set_reuse_port(true) {
        log::warn!("cannot share the port of {addr}: {error}");
    }
    Ok(socket)
}

/// A UDP socket bound to `addr` (all addresses if none) and `port`.
pub(crate) fn udp(addr: Option<BindAddr>, port: u16) -> io::Result<std::net::UdpSocket> {
    let socket = bind(addr, port, |addr| {
        let socket = shared(addr, Type::DGRAM, Protocol::UDP)?;
        socket.bind(&addr.into())?;
        Ok(socket)
    })?;
    // Larger buffers only help; the kernel's bound on them is no error.
    for result in [socket.set_recv_buffer_size(BUFFER), socket.set_send_buffer_size(BUFFER)] {
        if let Err(error) = result {
            log::debug!("cannot enlarge a socket buffer: {error}");
        }
    }
    Ok(socket.into())
}

/// How many octets of a connection may wait to be sent before who writes waits. Without this it is as many as the kernel holds, some
/// megabytes, a third of which has to go before a client that reads counts as one: too much for a slow one in the time it has.
const UNSENT: u32 = 128 << 10;

/// A TCP listener bound to `addr` (all addresses if none) and `port`.
pub(crate) fn tcp(addr: Option<BindAddr>, port: u16) -> io::Result<std::net::TcpListener> {
    let socket = bind(addr, port, |addr| {
        let socket = shared(addr, Type::STREAM, Protocol::TCP)?;
        // Connections of a process before that linger must not keep the port from us.
        socket.set_reuse_address(true)?;
        // Accepted connections have it from here.
        socket.set_tcp_notsent_lowat(UNSENT)?;
        socket.bind(&addr.into())?;
        socket.listen(1024)?;
        Ok(socket)
    })?;
    Ok(socket.into())
}
