//! From an answer to a message.

use crate::answer::{Answer, Rr, Section};
use crate::compress::Compressor;
use crate::edns::{Edns, option};
use crate::header::{Flags, rtype};
use crate::name::Name;
use crate::request::Request;

/// What a reply is made with, beside the answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The query as received: its id, opcode and question are echoed byte for byte (RFC 4343 §2).
    pub query: &'a [u8],
    /// The length of its question, from octet 12; 0 for a reply without question.
    pub question_len: usize,
    /// The most octets the reply may have.
    pub limit: usize,
    /// The query's OPT record; the reply has one if it is present (RFC 6891 §6.1.1).
    pub edns: &'a Edns,
    /// The datagram size that the reply's OPT record states.
    pub udp_size: u16,
    /// Octets that are kept free at the end, for a signature.
    pub reserve: usize,
    /// The block that the reply is filled up to a multiple of, in octets, the reserve counted in (RFC 7830, RFC 8467 §4.1); 0
    /// for no padding.
    pub pad: usize,
}

/// Appends the reply to `out`: header, question, as many whole RRsets as fit, and the OPT record.
///
/// Additional records go first when room is short, and without TC; TC says that a record of the answer or authority
/// section is missing (RFC 2181 §9). The OPT record always stays. Nothing is appended if `reply.query` has no header.
pub fn encode(answer: &Answer, reply: &Reply<'_>, out: &mut Vec<u8>) {
    let base = out.len();
    let Some((head, _)) = reply.query.split_first_chunk::<12>() else { return };
    let question = reply.query.get(12..12 + reply.question_len).unwrap_or_default();
    let opcode = u16::from(head[2] & 0x78) << 8;
    let mut flags = answer.flags;
    flags.set(Flags::Z, false);
    let bits = (flags.0 & 0x07f0) | opcode | Flags::QR.0 | answer.rcode & 0xf;
    out.extend_from_slice(&head[..2]);
    out.extend_from_slice(&bits.to_be_bytes());
    out.extend_from_slice(&[0, u8::from(!question.is_empty()), 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(question);
    let opt_len = if reply.edns.present { 11 + answer.options.wire().len() } else { 0 };
    let end = base + reply.limit.min(65535).saturating_sub(opt_len + reply.reserve);
    let mut writer =
        Writer { out, base, end, names: None, last: (&[], 0), question: question.len() };
    let (answers, whole) = writer.section(answer, Section::Answer);
    let (authorities, whole) =
        if whole { writer.section(answer, Section::Authority) } else { (0, false) };
    let mut additionals = 0;
    if whole {
        additionals = writer.section(answer, Section::Additional).0;
    } else {
        out[base + 2] |= 0x02;
    }
    if reply.edns.present {
        let at = out.len();
        write_opt(answer, reply, out);
        if reply.pad > 0 {
            pad(base, at, reply, out);
        }
        additionals += 1;
    }
    for (at, count) in [(6, answers), (8, authorities), (10, additionals)] {
        out[base + at..base + at + 2].copy_from_slice(&count.to_be_bytes());
    }
}

/// Appends a query for `request` with message id `id`: what is sent upstream.
pub fn encode_query(request: &Request, id: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_be_bytes());
    let flags = request.flags.0 & 0x79f0 & !Flags::Z.0;
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(request.edns.present)]);
    out.extend_from_slice(request.name.wire());
    out.extend_from_slice(&request.rtype.to_be_bytes());
    out.extend_from_slice(&request.class.to_be_bytes());
    if request.edns.present {
        let options = request.edns.options.wire();
        opt(request.edns.size, 0, request.edns.flags & Edns::DO, options, out);
    }
}

/// Appends the reply's OPT record: the options, DO as asked (RFC 3225 §3), and the upper bits of the response code.
fn write_opt(answer: &Answer, reply: &Reply<'_>, out: &mut Vec<u8>) {
    opt(reply.udp_size, answer.rcode >> 4, reply.edns.flags & Edns::DO, answer.options.wire(), out);
}

/// Fills the message that began at `base`, with its OPT record at `at` as the last one, up to a multiple of the block; not beyond
/// the limit, and not at all if there is no room for the option itself.
fn pad(base: usize, at: usize, reply: &Reply<'_>, out: &mut Vec<u8>) {
    let len = out.len() - base + reply.reserve;
    let limit = reply.limit.min(65535);
    let Some(room) = limit.checked_sub(len + 4) else { return };
    let count = ((len + 4).next_multiple_of(reply.pad) - len - 4).min(room);
    out.extend_from_slice(&option::PADDING.to_be_bytes());
    // Both lengths are below 65,535, since the message is.
    out.extend_from_slice(&(count as u16).to_be_bytes());
    out.resize(out.len() + count, 0);
    let options = (out.len() - at - 11) as u16;
    out[at + 9..at + 11].copy_from_slice(&options.to_be_bytes());
}

/// Appends an OPT record (RFC 6891 §6.1.2).
fn opt(size: u16, rcode_high: u16, flags: u16, options: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(options.len()).unwrap_or(0);
    out.push(0);
    out.extend_from_slice(&rtype::OPT.to_be_bytes());
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&[(rcode_high & 0xff) as u8, 0]);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&options[..usize::from(len)]);
}

/// Writes records until one does not fit.
struct Writer<'a, 'b> {
    out: &'b mut Vec<u8>,
    /// Where the message starts.
    base: usize,
    /// Where it must end.
    end: usize,
    /// The compressor, made when the first name other than the question's comes.
    names: Option<Compressor>,
    /// The owner written last, and its offset.
    last: (&'a [u8], u16),
    /// The length of the question.
    question: usize,
}

impl<'a> Writer<'a, '_> {
    /// Writes one section; tells how many records and whether it is whole. An additional set of records is written
    /// whole or not at all; what is left of a cut answer is marked by TC and still of use to clients without TCP.
    fn section(&mut self, answer: &'a Answer, section: Section) -> (u16, bool) {
        let mut count = 0u16;
        let mut set: Option<(&Rr, usize, u16)> = None;
        for rr in answer.section(section) {
            let same = |(first, ..): &(&Rr, usize, u16)| {
                first.rtype == rr.rtype
                    && (first.owner == rr.owner
                        || answer.owner(first).eq_ignore_ascii_case(answer.owner(rr)))
            };
            let start = self.out.len();
            let begun = match set {
                Some(begun) if section == Section::Additional && same(&begun) => begun,
                _ => (rr, start, count),
            };
            set = Some(begun);
            self.record(answer, rr);
            let Some(counted) = count.checked_add(1).filter(|_| self.out.len() <= self.end) else {
                let (_, at, kept) = begun;
                self.out.truncate(at);
                self.last = (&[], 0);
                if let Some(names) = &mut self.names {
                    names.forget(at - self.base);
                }
                return (kept, false);
            };
            count = counted;
        }
        (count, true)
    }

    /// Writes one record, whether it fits or not.
    fn record(&mut self, answer: &'a Answer, rr: &Rr) {
        self.owner(answer.owner(rr));
        let mut fixed = [0; 10];
        fixed[..2].copy_from_slice(&rr.rtype.to_be_bytes());
        fixed[2..4].copy_from_slice(&rr.class.to_be_bytes());
        fixed[4..8].copy_from_slice(&rr.ttl.to_be_bytes());
        self.out.extend_from_slice(&fixed);
        let at = self.out.len();
        let data = answer.data(rr);
        match name_in(rr.rtype) {
            None => self.out.extend_from_slice(data),
            Some((before, names)) => {
                let (head, mut rest) = data.split_at_checked(before).unwrap_or((data, &[]));
                self.out.extend_from_slice(head);
                for _ in 0..names {
                    // Data that is no name, such as a template's, is written as it is.
                    let Some((name, tail)) =
                        Name::span(rest).and_then(|len| rest.split_at_checked(len))
                    else {
                        break;
                    };
                    self.compress(name);
                    rest = tail;
                }
                self.out.extend_from_slice(rest);
            }
        }
        let len = u16::try_from(self.out.len() - at).unwrap_or(u16::MAX).to_be_bytes();
        self.out[at - 2..at].copy_from_slice(&len);
    }

    /// Writes an owner: mostly the question's, or the one before.
    fn owner(&mut self, owner: &'a [u8]) {
        let asked = self.out.get(self.base + 12..self.base + 12 + self.question.saturating_sub(4));
        if self.question > 5 && asked.is_some_and(|asked| asked.eq_ignore_ascii_case(owner)) {
            return self.out.extend_from_slice(&[0xc0, 12]);
        }
        if self.last.1 != 0 && std::ptr::eq(self.last.0, owner) {
            let pointer = 0xc000 | self.last.1;
            return self.out.extend_from_slice(&pointer.to_be_bytes());
        }
        let at = self.out.len() - self.base;
        self.compress(owner);
        let reachable = at < 0x4000 && owner.len() > 1;
        self.last = (owner, if reachable { at as u16 } else { 0 });
    }

    /// Writes a name through the compressor.
    fn compress(&mut self, name: &[u8]) {
        if self.names.is_none() {
            let mut names = Compressor::new(self.base);
            if self.question > 0 {
                names.seed(self.out, 12);
            }
            self.names = Some(names);
        }
        if let Some(names) = &mut self.names {
            names.write(self.out, name);
        }
    }
}

/// Where names stand in the data of a type whose names may be compressed, which are those of RFC 1035 alone
/// (RFC 3597 §4): the octets before the first, and how many follow one another.
fn name_in(rtype: u16) -> Option<(usize, usize)> {
    match rtype {
        rtype::NS
        | rtype::MD
        | rtype::MF
        | rtype::CNAME
        | rtype::MB
        | rtype::MG
        | rtype::MR
        | rtype::PTR => Some((0, 1)),
        rtype::SOA | rtype::MINFO => Some((0, 2)),
        rtype::MX => Some((2, 1)),
        _ => None,
    }
}
