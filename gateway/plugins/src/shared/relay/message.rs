//! Queries as they go to an upstream, and replies as they come back.

use engine::Exchange;
use transports::upstream::Protocol;
use wire::option;
use wire::{Answer, Flags, Options, Request, rcode, scan};

/// The largest datagram that is asked for.
const MAX_DATAGRAM: u16 = 4096;

/// Encrypted queries are as long as a multiple of this (RFC 8467 §4.1).
const BLOCK: usize = 128;

/// Options of one hop, which a forwarder does not pass on (RFC 7873 §5, RFC 5001 §2.1, RFC 7828 §3.1, RFC 7830 §3).
const HOP_BY_HOP: [u16; 4] = [option::NSID, option::COOKIE, option::KEEPALIVE, option::PADDING];

/// A query to send.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    request: &'a Request,
    /// What the name has from its start of the client's, in the client's letter case: all of it, or what is left when a plugin
    /// has cut a search domain off.
    spelled: &'a [u8],
    hop: Hop<'a>,
    way: Way,
}

/// What a query goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Whether nobody on the way can read it.
    pub(crate) encrypted: bool,
    /// Whether it is TCP or TLS, to which keep-alive means something.
    pub(crate) tcp: bool,
}

impl From<Protocol> for Way {
    fn from(protocol: Protocol) -> Self {
        let tcp = matches!(protocol, Protocol::Tcp | Protocol::Tls);
        Self { encrypted: protocol.is_encrypted(), tcp }
    }
}

/// The client's options, of which those in [`HOP_BY_HOP`] stay here; what a plugin put in instead goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hop<'a>(&'a [u8]);

impl<'a> Hop<'a> {
    /// Those of the exchange's client.
    pub(crate) fn of(x: &'a Exchange) -> Self {
        Self(x.client_options())
    }

    /// Whether an option of the request stays here.
    pub(crate) fn stays(self, code: u16, data: &[u8]) -> bool {
        HOP_BY_HOP.contains(&code) && Options::each(self.0).any(|own| own == (code, data))
    }
}

impl<'a> Outgoing<'a> {
    /// The request in hand, to be sent by `way`.
    pub(crate) fn of(x: &'a Exchange, way: impl Into<Way>) -> Self {
        let request = x.request();
        let own = request.name.wire();
        let asked = x.query.wire.get(12..).unwrap_or_default();
        let same = |(own, asked): &(&u8, &u8)| own.eq_ignore_ascii_case(asked);
        let len = own.iter().zip(asked).take_while(same).count();
        Self { request, spelled: &asked[..len], hop: Hop::of(x), way: way.into() }
    }

    /// Appends the message to the empty `out`. One with EDNS is padded if it goes encrypted.
    pub(crate) fn write(&self, id: u16, out: &mut Vec<u8>) {
        wire::encode_query(self.request, id, out);
        if let Some(name) = out.get_mut(12..12 + self.spelled.len()) {
            name.copy_from_slice(self.spelled);
        }
        if self.request.edns.present {
            self.write_options(out);
        }
    }

    /// Whether an option does not go on. Of padding there is one, ours; keep-alive means something to TCP alone
    /// (RFC 7828 §3.2.1), and ends a connection of DoQ (RFC 9250 §5.5.2).
    fn stays(&self, code: u16, data: &[u8]) -> bool {
        self.hop.stays(code, data)
            || code == option::PADDING && self.way.encrypted
            || code == option::KEEPALIVE && !self.way.tcp
    }

    /// Bounds the size in the OPT record that ends the message, takes options out of it that stay here, and pads.
    fn write_options(&self, out: &mut Vec<u8>) {
        let Some(start) = out.len().checked_sub(self.request.edns.options.wire().len()) else {
            return;
        };
        let Some(opt) = start.checked_sub(11) else { return };
        let size = u16::from_be_bytes([out[opt + 3], out[opt + 4]]).min(MAX_DATAGRAM);
        out[opt + 3..opt + 5].copy_from_slice(&size.to_be_bytes());
        let (mut from, mut to) = (start, start);
        while let Some(head) = out.get(from..from + 4) {
            let code = u16::from_be_bytes([head[0], head[1]]);
            let whole = 4 + usize::from(u16::from_be_bytes([head[2], head[3]]));
            let end = (from + whole).min(out.len());
            let data = out.get(from + 4..end).unwrap_or_default();
            if !self.stays(code, data) {
                out.copy_within(from..end, to);
                to += end - from;
            }
            from = end;
        }
        out.truncate(to);
        if self.way.encrypted {
            let zeros = (out.len() + 4).next_multiple_of(BLOCK) - out.len() - 4;
            out.extend_from_slice(&option::PADDING.to_be_bytes());
            // Less than a block, so that it has room in two octets.
            out.extend_from_slice(&u16::try_from(zeros).unwrap_or(0).to_be_bytes());
            out.resize(out.len() + zeros, 0);
        }
        let left = u16::try_from(out.len() - start).unwrap_or(0);
        out[start - 2..start].copy_from_slice(&left.to_be_bytes());
    }

    /// The most octets of a datagram that the upstream may send.
    pub(crate) fn room(&self) -> usize {
        let edns = &self.request.edns;
        if edns.present { usize::from(edns.size.clamp(512, MAX_DATAGRAM)) } else { 512 }
    }
}

/// Reads a reply into `answer`: RD and CD stay the query's, AD stays if the upstream is trusted, options of one hop
/// do not. A datagram of more octets than the `room` that was asked for counts as truncated.
pub(crate) fn read(
    reply: &[u8],
    room: Option<usize>,
    trusted: bool,
    answer: &mut Answer,
) -> Result<(), scan::Malformed> {
    let echoed = Flags::RD.with(Flags::CD);
    let own = answer.flags.only(echoed);
    if room.is_some_and(|room| reply.len() > room) {
        let bits = reply.get(2..4).map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]));
        answer.clear();
        answer.flags = Flags(bits & 0x07b0).with(Flags::TC);
        answer.rcode = bits & 0xf;
    } else {
        scan::read(reply, answer)?;
    }
    answer.flags = Flags(answer.flags.0 & !echoed.0 | own.0);
    if !trusted {
        answer.flags.set(Flags::AD, false);
    }
    answer.options.retain(|code, _| !HOP_BY_HOP.contains(&code));
    Ok(())
}

/// Whether a type is none that data can have, and none that asks for several (RFC 6895 §3.1): there is nothing to forward.
pub(crate) fn is_meta(rtype: u16) -> bool {
    matches!(rtype, 0 | wire::rtype::OPT | 128..=252)
}

/// The rcode that a name stands for: NOERROR, SERVFAIL, 23.
pub(crate) fn rcode_of(text: &str) -> Option<u16> {
    wire::text::rcode_number(text).filter(|code| *code <= rcode::BADCOOKIE)
}
