//! What the echo server and the load generators share: sockets, and queries as octets.

pub mod http2;
pub mod link;
pub mod quic;

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// The bytes of buffer that each socket asks for, so that a burst is not lost before the process runs.
const BUFFER: usize = 4 << 20;

/// Opens a UDP socket with large buffers, bound to the address; others may bind to the same.
pub fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_send_buffer_size(BUFFER)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A type of records that can be asked for.
const TYPES: &[(&str, u16)] = &[
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("ANY", 255),
];

/// Writes the query `NAME [TYPE]` (RFC 1035 4.1) with RD set, message ID 0 and an OPT record that offers 1,232 octets; the
/// type is A if there is none.
pub fn query(line: &str) -> Result<Vec<u8>, String> {
    let mut words = line.split_whitespace();
    let name = words.next().ok_or("an empty line")?;
    let wanted = words.next().unwrap_or("A");
    let rtype = TYPES.iter().find(|(text, _)| *text == wanted).map(|(_, code)| *code);
    let rtype = rtype.ok_or_else(|| format!("{line:?}: the type {wanted} is not known"))?;
    let mut out = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in name.trim_end_matches('.').split('.').filter(|_| name != ".") {
        let length = u8::try_from(label.len()).ok().filter(|n| (1..64).contains(n));
        out.push(length.ok_or_else(|| format!("{line:?}: a label has 1 to 63 octets"))?);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&rtype.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    Ok(out)
}

/// Whether a message is a reply to the query with that ID: same ID, QR set, same question.
///
/// The question ends where the query's OPT record begins, eleven octets before its end.
pub fn answers(reply: &[u8], query: &[u8], id: u16) -> bool {
    let question = query.len() - 11;
    reply.len() >= question
        && reply[..2] == id.to_be_bytes()
        && reply[2] & 0x80 != 0
        && reply[12..question] == query[12..question]
}

#[cfg(test)]
mod tests {
    use super::{answers, query};

    #[test]
    fn a_query_is_what_the_rfc_says() {
        let bytes = query("ab.c AAAA").unwrap();
        assert_eq!(bytes[..12], [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[12..22], [2, b'a', b'b', 1, b'c', 0, 0, 28, 0, 1]);
        assert_eq!(bytes[22..], [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        assert_eq!(query(".").unwrap()[12..17], [0, 0, 1, 0, 1]);
        assert!(query("a..b").is_err() && query("a HINFO").is_err() && query("").is_err());
    }

    #[test]
    fn only_the_reply_to_the_query_counts() {
        let asked = query("ab.c A").unwrap();
        let mut reply = asked.clone();
        assert!(!answers(&reply, &asked, 0));
        reply[2] |= 0x80;
        assert!(answers(&reply, &asked, 0));
        assert!(!answers(&reply, &asked, 1));
        assert!(!answers(&reply, &query("ab.d A").unwrap(), 0));
        assert!(!answers(&reply[..12], &asked, 0));
    }
}
