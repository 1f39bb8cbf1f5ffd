//! A query as a client sends it.

use crate::edns::Edns;
use crate::header::{Flags, class, opcode, rcode, rtype};
use crate::name::Name;

/// What is asked, in the form that plugins read and change.
#[derive(Clone, Debug)]
pub struct Request {
    /// The owner asked for, lower case.
    pub name: Name,
    /// The class asked for.
    pub class: u16,
    /// The record type asked for.
    pub rtype: u16,
    /// The header's flag bits and opcode.
    pub flags: Flags,
    /// The OPT record.
    pub edns: Edns,
}

/// Why a message is not a query to work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It gets no reply: it is shorter than a header, or a response (RFC 1035 §4.1).
    Drop,
    /// It gets a reply with this response code; the question's length is 0 where it could not be read.
    Reply {
        /// The response code.
        rcode: u16,
        /// The length of the question to echo, in octets.
        question_len: usize,
    },
}

/// Where the parts of a query just read lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The length of the question, from octet 12.
    pub question_len: usize,
    /// Where a TSIG record starts, if the message ends in one (RFC 8945 §5.1).
    pub tsig: Option<usize>,
    /// Where the options of the OPT record lie: their offset and their length, both 0 without one.
    pub options: (usize, usize),
}

impl Default for Request {
    fn default() -> Self {
        Self {
            name: Name::ROOT,
            class: class::IN,
            rtype: 0,
            flags: Flags::default(),
            edns: Edns::default(),
        }
    }
}

impl Request {
    /// Reads the message in `wire` into this request, whose memory is reused.
    ///
    /// # Errors
    /// [`Bad`], which says what the sender gets: nothing, NOTIMP for an opcode other than QUERY and NOTIFY, FORMERR for
    /// a message that cannot be read or has not one question (RFC 9619 §4), two OPT records or one with an owner
    /// (RFC 6891 §6.1.1), BADVERS for an EDNS version that is not 0 (RFC 6891 §6.1.3).
    pub fn read(&mut self, wire: &[u8]) -> Result<Parts, Bad> {
        self.edns.clear();
        let (head, _) = wire.split_first_chunk::<12>().ok_or(Bad::Drop)?;
        let flags = Flags(u16::from_be_bytes([head[2], head[3]]));
        if flags.has(Flags::QR) {
            return Err(Bad::Drop);
        }
        self.flags = flags;
        if !matches!(flags.opcode(), opcode::QUERY | opcode::NOTIFY) {
            return Err(Bad::Reply { rcode: rcode::NOTIMP, question_len: 0 });
        }
        let count = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
        let (questions, answers, authorities, additionals) =
            (count(4), count(6), count(8), count(10));
        let formerr = Bad::Reply { rcode: rcode::FORMERR, question_len: 0 };
        if questions != 1 || answers > 1 || authorities > 1 || additionals > 2 {
            return Err(formerr);
        }
        let len = self.name.assign(&wire[12..]).ok_or(formerr)?;
        let (fixed, _) = wire[12 + len..].split_first_chunk::<4>().ok_or(formerr)?;
        self.rtype = u16::from_be_bytes([fixed[0], fixed[1]]);
        self.class = u16::from_be_bytes([fixed[2], fixed[3]]);
        let question_len = len + 4;
        let mut parts = Parts { question_len, ..Parts::default() };
        let formerr = Bad::Reply { rcode: rcode::FORMERR, question_len };
        let mut at = 12 + question_len;
        for index in 0..answers + authorities + additionals {
            let record = record(wire, at).ok_or(formerr)?;
            let additional = index >= answers + authorities;
            match record.rtype {
                rtype::OPT if additional => {
                    if self.edns.present || record.data_at != at + 11 {
                        return Err(formerr);
                    }
                    let ttl = record.ttl.to_be_bytes();
                    self.edns.present = true;
                    self.edns.size = record.class;
                    self.edns.version = ttl[1];
                    self.edns.flags = u16::from_be_bytes([ttl[2], ttl[3]]);
                    let data = &wire[record.data_at..record.end];
                    parts.options = (record.data_at, data.len());
                    self.edns.options.read(data).ok_or(formerr)?;
                }
                rtype::TSIG if additional && index + 1 == answers + authorities + additionals => {
                    parts.tsig = Some(at);
                }
                rtype::OPT | rtype::TSIG => return Err(formerr),
                _ => {}
            }
            at = record.end;
        }
        if self.edns.version != 0 {
            return Err(Bad::Reply { rcode: rcode::BADVERS, question_len });
        }
        Ok(parts)
    }

    /// Replaces this by a copy of `other` within the memory already held.
    pub fn copy_from(&mut self, other: &Self) {
        self.name.clone_from(&other.name);
        self.class = other.class;
        self.rtype = other.rtype;
        self.flags = other.flags;
        self.edns.copy_from(&other.edns);
    }
}

/// A record's fixed fields, and where its data lies.
struct Record {
    rtype: u16,
    class: u16,
    ttl: u32,
    data_at: usize,
    end: usize,
}

/// Reads the record at `at` without following its owner's pointer.
fn record(wire: &[u8], mut at: usize) -> Option<Record> {
    loop {
        match *wire.get(at)? {
            0 => {
                at += 1;
                break;
            }
            n if n < 64 => at += 1 + usize::from(n),
            n if n >= 0xc0 => {
                at += 2;
                break;
            }
            _ => return None,
        }
    }
    let (fixed, _) = wire.get(at..)?.split_first_chunk::<10>()?;
    let data_at = at + 10;
    let end = data_at + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    (end <= wire.len()).then_some(Record {
        rtype: u16::from_be_bytes([fixed[0], fixed[1]]),
        class: u16::from_be_bytes([fixed[2], fixed[3]]),
        ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        data_at,
        end,
    })
}
