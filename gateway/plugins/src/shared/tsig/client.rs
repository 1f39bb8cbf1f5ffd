//! Signatures of our own queries and notices, and those of the replies.

use std::fmt;
use std::time::SystemTime;

use aws_lc_rs::{constant_time, hmac};
use wire::Name;

use super::keys::{ALGORITHMS, FUDGE, Record, len_of, seconds};

/// How many messages of a reply may follow one another without a signature (RFC 8945 §5.3.1).
const UNSIGNED: usize = 99;

/// A key that messages of our own are signed with.
#[derive(Clone)]
pub(crate) struct Key {
    name: Name,
    algorithm: Name,
    key: hmac::Key,
}

impl fmt::Debug for Key {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} {})", self.name, self.algorithm)
    }
}

impl Key {
    /// A key of this name for an algorithm such as `hmac-sha256`; none if that is not known.
    pub(crate) fn new(name: Name, algorithm: &str, secret: &[u8]) -> Option<Self> {
        let algorithm = Name::parse(algorithm)?;
        let known = ALGORITHMS.iter().find(|(known, _)| *known == algorithm.wire())?;
        Some(Self { name, algorithm, key: hmac::Key::new(known.1, secret) })
    }

    /// What the key depends on, for state that is kept under it: not the secret, but a digest of it.
    pub(crate) fn print(&self) -> String {
        let digest = hmac::sign(&self.key, b"causeway");
        let short: String =
            digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{self:?} {short}")
    }

    /// Signs a message, and gives what its replies are checked by.
    pub(crate) fn sign(&self, message: &mut Vec<u8>) -> Checker {
        let id = message.first_chunk().copied().unwrap_or_default();
        let mut record = Record {
            name: self.name.clone(),
            algorithm: self.algorithm.clone(),
            time: seconds(SystemTime::now()),
            fudge: FUDGE,
            mac: &[],
            id,
            error: 0,
            other: &[],
        };
        let mut context = hmac::Context::with_key(&self.key);
        context.update(message);
        record.sign(&mut context);
        let mac = context.sign();
        record.mac = mac.as_ref();
        record.write(message, 0);
        Checker {
            key: self.clone(),
            context: self.behind(mac.as_ref()),
            is_first: true,
            unsigned: 0,
        }
    }

    /// A digest that begins with the signature of the message before.
    fn behind(&self, mac: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&len_of(mac));
        context.update(mac);
        context
    }
}

/// Checks the messages of one reply, in their order.
pub(crate) struct Checker {
    key: Key,
    /// The digest so far: of the signature before, and of the messages since.
    context: hmac::Context,
    is_first: bool,
    /// How many messages have come since the last signature.
    unsigned: usize,
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checker").field(&self.key).finish()
    }
}

impl Checker {
    /// Takes the next message.
    ///
    /// # Errors
    /// Why it is not to be believed.
    pub(crate) fn check(&mut self, message: &[u8]) -> Result<(), String> {
        let Some(at) = last_record(message).filter(|at| is_tsig(message, *at)) else {
            self.unsigned += 1;
            if self.is_first || self.unsigned > UNSIGNED {
                return Err("the reply is not signed".to_owned());
            }
            self.context.update(message);
            return Ok(());
        };
        let record = Record::read(message, at).ok_or("its signature cannot be read")?;
        if record.error != 0 {
            return Err(format!("the server does not take our signature: {}", error(record.error)));
        }
        if record.name != self.key.name || record.algorithm != self.key.algorithm {
            return Err("the reply is signed with another key".to_owned());
        }
        let (Some(head), Some(rest)) = (message.first_chunk::<12>(), message.get(12..at)) else {
            return Err("its signature cannot be read".to_owned());
        };
        let mut head = *head;
        head[..2].copy_from_slice(&record.id);
        let additionals = u16::from_be_bytes([head[10], head[11]]).wrapping_sub(1);
        head[10..].copy_from_slice(&additionals.to_be_bytes());
        self.context.update(&head);
        self.context.update(rest);
        if self.is_first {
            record.sign(&mut self.context);
        } else {
            self.context.update(&record.time.to_be_bytes()[2..]);
            self.context.update(&record.fudge.to_be_bytes());
        }
        let behind = self.key.behind(record.mac);
        let right = std::mem::replace(&mut self.context, behind).sign();
        constant_time::verify_slices_are_equal(right.as_ref(), record.mac)
            .map_err(|_| "its signature is wrong")?;
        if seconds(SystemTime::now()).abs_diff(record.time) > u64::from(record.fudge) {
            return Err("it was signed at a time that is not ours".to_owned());
        }
        (self.is_first, self.unsigned) = (false, 0);
        Ok(())
    }

    /// Says that no more messages come: the last one has to be signed (RFC 8945 §5.3.1).
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn end(&self) -> Result<(), String> {
        if self.is_first || self.unsigned > 0 {
            return Err("the last message is not signed".to_owned());
        }
        Ok(())
    }
}

/// The number of a TSIG record's error field in words (RFC 8945 §3).
fn error(number: u16) -> &'static str {
    match number {
        16 => "BADSIG",
        17 => "BADKEY, it does not have this key for us",
        18 => "BADTIME, its clock differs from ours",
        22 => "BADTRUNC",
        _ => "an unknown error",
    }
}

/// Whether the record at `at` is a TSIG record.
fn is_tsig(message: &[u8], at: usize) -> bool {
    let fixed = name_end(message, at).and_then(|at| message.get(at..at + 2));
    fixed == Some(&wire::rtype::TSIG.to_be_bytes())
}

/// Where the last record of a message begins, if it is one of the additional section.
fn last_record(message: &[u8]) -> Option<usize> {
    let count = |at: usize| {
        let pair = message.get(at..at + 2)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*pair)))
    };
    let (questions, additionals) = (count(4)?, count(10)?);
    let records = count(6)? + count(8)? + additionals;
    if additionals == 0 {
        return None;
    }
    let mut at = 12;
    for _ in 0..questions {
        at = name_end(message, at)? + 4;
    }
    for _ in 1..records {
        let fixed = name_end(message, at)?;
        at = fixed + 10 + count(fixed + 8)?;
    }
    Some(at)
}

/// Where the name at `at` ends, its pointer not followed.
fn name_end(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len if len < 64 => at += 1 + usize::from(len),
            len if len >= 0xc0 => return Some(at + 2),
            _ => return None,
        }
    }
}
