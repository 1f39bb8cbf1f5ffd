//! Transaction signatures (RFC 8945): checked before a server block is chosen, applied to the finished reply. The cryptography is
//! the plugin's that holds the keys.

use std::fmt;
use std::time::SystemTime;

use wire::Name;

/// Keys that clients sign with.
pub trait Keyring: fmt::Debug + Send + Sync {
    /// Checks the signature that begins at `at` of the message `wire`; none if the key is not among these.
    fn check(&self, wire: &[u8], at: usize, now: SystemTime) -> Option<Box<dyn Seal>>;

    /// The seal of a reply to a query whose key nobody has.
    fn unknown(&self, wire: &[u8], at: usize, now: SystemTime) -> Box<dyn Seal>;
}

/// Why a signature is not good; the numbers are the TSIG error field's (RFC 8945 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The record cannot be read, or its signature is cut too short (RFC 8945 §5.2.2.1): FORMERR.
    Form,
    /// 16, BADSIG.
    Signature,
    /// 17, BADKEY.
    Key,
    /// 18, BADTIME.
    Time,
    /// 22, BADTRUNC.
    Cut,
}

/// What a query's signature has shown, and what the reply is signed with.
pub trait Seal: fmt::Debug + Send + Sync {
    /// The key's name; of a good signature alone.
    fn key(&self) -> Option<&Name>;

    /// Why the signature is not good; none if it is.
    fn broken(&self) -> Option<Broken>;

    /// How many octets a signature takes.
    fn size(&self) -> usize;

    /// Signs the message that begins at `start` of `out` and ends with it; of the messages of one reply the first, then the
    /// others in turn.
    fn sign(&mut self, out: &mut Vec<u8>, start: usize);
}
