//! Reading a whole message of somebody else's: an upstream's reply, a message of a transfer.

use crate::answer::{Answer, Section};
use crate::edns::Edns;
use crate::header::{Flags, rtype};
use crate::name::Name;
use crate::rdata::{Part, form, is_params, is_prefixes, is_texts, is_types};

/// What stands outside the records of a message just read.
#[derive(Clone, Debug)]
pub struct Head {
    /// The message id.
    pub id: u16,
    /// The flag bits and the opcode.
    pub flags: Flags,
    /// The first question, if there is one: name, type and class.
    pub question: Option<(Name, u16, u16)>,
    /// The number of questions.
    pub questions: u16,
    /// The OPT record without its options, which go to the answer.
    pub edns: Edns,
}

/// Why a message could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where in the message, in octets.
    pub at: usize,
    /// What is wrong there.
    pub why: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed message at octet {}: {}", self.at, self.why)
    }
}

impl std::error::Error for Malformed {}

/// Reads `wire` into `answer`, which is cleared first: its records with names decompressed, flags, response code, and
/// the options of its OPT record. Octets behind the last record are passed over.
///
/// # Errors
/// [`Malformed`] for a message that ends too soon, a name that is too long or whose pointer does not lead backwards
/// (RFC 1035 §4.1.4), data that has not the form of its type, two OPT records or one with an owner (RFC 6891 §6.1.1).
pub fn read(wire: &[u8], answer: &mut Answer) -> Result<Head, Malformed> {
    let mut cursor = Cursor { wire, at: 0 };
    answer.clear();
    let id = cursor.u16()?;
    let bits = cursor.u16()?;
    let counts = [cursor.u16()?, cursor.u16()?, cursor.u16()?, cursor.u16()?];
    let flags = Flags(bits & 0xfff0);
    answer.flags = Flags(bits & 0x07b0);
    answer.rcode = bits & 0xf;
    let mut head = Head { id, flags, question: None, questions: counts[0], edns: Edns::default() };
    let mut name = [0u8; 255];
    for _ in 0..counts[0] {
        let len = cursor.name(&mut name)?;
        let (rtype, class) = (cursor.u16()?, cursor.u16()?);
        if head.question.is_none() {
            head.question = Name::read(&name[..len]).map(|(name, _)| (name, rtype, class));
        }
    }
    for (count, section) in
        counts[1..].iter().zip([Section::Answer, Section::Authority, Section::Additional])
    {
        for _ in 0..*count {
            let at = cursor.at;
            let len = cursor.name(&mut name)?;
            let (rtype, class) = (cursor.u16()?, cursor.u16()?);
            let ttl = u32::from(cursor.u16()?) << 16 | u32::from(cursor.u16()?);
            let data_len = usize::from(cursor.u16()?);
            let end = cursor.at + data_len;
            let raw =
                wire.get(cursor.at..end).ok_or_else(|| cursor.wrong("data runs past the end"))?;
            if rtype == rtype::OPT {
                let wrong = |why| Malformed { at, why };
                if head.edns.present || len != 1 || section != Section::Additional {
                    return Err(wrong("a second or misplaced OPT record"));
                }
                answer
                    .options
                    .read(raw)
                    .ok_or_else(|| wrong("options run past the end of the OPT record"))?;
                answer.edns = true;
                head.edns.present = true;
                head.edns.size = class;
                head.edns.version = (ttl >> 16 & 0xff) as u8;
                head.edns.flags = (ttl & 0xffff) as u16;
                answer.rcode |= (ttl >> 20 & 0xff0) as u16;
                cursor.at = end;
                continue;
            }
            // RFC 2181 §8: a TTL with the top bit set counts as zero.
            let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
            let data = |into: &mut Vec<u8>| cursor.data(rtype, class, end, into);
            answer.push_with(section, &name[..len], class, rtype, ttl, data)?;
        }
    }
    Ok(head)
}

/// The name at `at`, pointers followed, and how many octets it takes there; none if it is no name.
pub fn name_at(wire: &[u8], at: usize) -> Option<(Name, usize)> {
    let mut cursor = Cursor { wire, at };
    let mut name = [0u8; 255];
    let len = cursor.name(&mut name).ok()?;
    let (name, _) = Name::read(name.get(..len)?)?;
    Some((name, cursor.at - at))
}

/// A place in a message.
struct Cursor<'a> {
    wire: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// An error here.
    fn wrong(&self, why: &'static str) -> Malformed {
        Malformed { at: self.at, why }
    }

    /// The next two octets as a number.
    fn u16(&mut self) -> Result<u16, Malformed> {
        let pair = self.wire.get(self.at..).and_then(|rest| rest.first_chunk::<2>());
        let pair = pair.ok_or_else(|| self.wrong("the message ends too soon"))?;
        self.at += 2;
        Ok(u16::from_be_bytes(*pair))
    }

    /// Reads a name into `into` decompressed, its case kept; tells its length.
    fn name(&mut self, into: &mut [u8; 255]) -> Result<usize, Malformed> {
        let (mut at, mut len, mut after) = (self.at, 0, None);
        loop {
            let n = usize::from(
                *self.wire.get(at).ok_or_else(|| self.wrong("a name runs past the end"))?,
            );
            if n >= 0xc0 {
                let low =
                    *self.wire.get(at + 1).ok_or_else(|| self.wrong("a name runs past the end"))?;
                let to = (n & 0x3f) << 8 | usize::from(low);
                after = after.or(Some(at + 2));
                // Every pointer leads to before the one that led here, so that the walk ends.
                if to >= at || to < 12 {
                    return Err(self.wrong("a compression pointer does not lead backwards"));
                }
                at = to;
                continue;
            }
            if n >= 64 {
                return Err(self.wrong("an unknown kind of label"));
            }
            let label =
                self.wire.get(at..=at + n).ok_or_else(|| self.wrong("a name runs past the end"))?;
            let slot = into
                .get_mut(len..=len + n)
                .ok_or_else(|| self.wrong("a name of more than 255 octets"))?;
            slot.copy_from_slice(label);
            len += 1 + n;
            at += 1 + n;
            if n == 0 {
                self.at = after.unwrap_or(at);
                return Ok(len);
            }
        }
    }

    /// Appends the data of a record that ends at `end`, with the names in it decompressed where RFC 3597 §4 names the
    /// type, else as it is. Data that has not its type's form is refused.
    fn data(
        &mut self,
        rtype: u16,
        class: u16,
        end: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut name = [0u8; 255];
        for part in form(rtype, class) {
            let left = self.wire.get(self.at..end).unwrap_or_default();
            let len = match *part {
                Part::Octets(n) => n,
                Part::Text => 1 + usize::from(left.first().copied().unwrap_or(0)),
                Part::Name => {
                    let len = self.name(&mut name)?;
                    if self.at > end {
                        return Err(self.wrong("a name runs past the end of the data"));
                    }
                    into.extend_from_slice(&name[..len]);
                    continue;
                }
                Part::Plain => {
                    Name::span(left).ok_or_else(|| self.wrong("data has no name where one is"))?
                }
                Part::Texts if !is_texts(left) => {
                    return Err(self.wrong("data is no list of character strings"));
                }
                Part::Types if !is_types(left) => {
                    return Err(self.wrong("data is no list of types"));
                }
                Part::Params if !is_params(left) => {
                    return Err(self.wrong("data is no list of parameters"));
                }
                Part::Prefixes if !is_prefixes(left) => {
                    return Err(self.wrong("data is no list of prefixes"));
                }
                Part::Texts | Part::Types | Part::Params | Part::Prefixes | Part::Rest => {
                    left.len()
                }
            };
            let raw =
                left.get(..len).ok_or_else(|| self.wrong("data is too short for its type"))?;
            into.extend_from_slice(raw);
            self.at += len;
        }
        if self.at < end {
            return Err(self.wrong("data is too long for its type"));
        }
        Ok(())
    }
}
