//! EDNS(0) (RFC 6891): what the OPT record carries.

/// Option codes.
#[allow(missing_docs)]
pub mod option {
    pub const NSID: u16 = 3;
    pub const SUBNET: u16 = 8;
    pub const EXPIRE: u16 = 9;
    pub const COOKIE: u16 = 10;
    pub const KEEPALIVE: u16 = 11;
    pub const PADDING: u16 = 12;
    /// Extended DNS error (RFC 8914).
    pub const EDE: u16 = 15;
}

/// What a message's OPT record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edns {
    /// Whether there is an OPT record at all; all else is meaningless without.
    pub present: bool,
    /// The sender's datagram size, in octets, as it stands in the record.
    pub size: u16,
    /// The version; only 0 is known.
    pub version: u8,
    /// The flag bits; DO is 0x8000 (RFC 3225).
    pub flags: u16,
    /// The options.
    pub options: Options,
}

impl Edns {
    /// The DO bit.
    pub const DO: u16 = 0x8000;

    /// Whether DNSSEC records are wanted.
    pub fn dnssec_ok(&self) -> bool {
        self.present && self.flags & Self::DO != 0
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.present = false;
        self.size = 0;
        self.version = 0;
        self.flags = 0;
        self.options.clear();
    }

    /// Replaces this by a copy of `other` within the memory already held.
    pub fn copy_from(&mut self, other: &Self) {
        self.present = other.present;
        self.size = other.size;
        self.version = other.version;
        self.flags = other.flags;
        self.options.copy_from(&other.options);
    }
}

/// A list of options in wire form: code, length, data (RFC 6891 §6.1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    bytes: Vec<u8>,
}

impl Options {
    /// Takes options from the wire; none if a length runs past the end.
    pub fn read(&mut self, wire: &[u8]) -> Option<()> {
        let mut rest = wire;
        while !rest.is_empty() {
            rest = split(rest)?.2;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(wire);
        Some(())
    }

    /// The wire form.
    pub fn wire(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Each option's code and data.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        Self::each(&self.bytes)
    }

    /// The same of a list in wire form; ends at what is no whole option.
    pub fn each(wire: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = wire;
        std::iter::from_fn(move || {
            let (code, data, tail) = split(rest)?;
            rest = tail;
            Some((code, data))
        })
    }

    /// The data of the first option with `code`.
    pub fn get(&self, code: u16) -> Option<&[u8]> {
        self.iter().find(|(own, _)| *own == code).map(|(_, data)| data)
    }

    /// Adds an option; data over 65,535 octets is refused by leaving it out.
    pub fn push(&mut self, code: u16, data: &[u8]) {
        if let Ok(len) = u16::try_from(data.len()) {
            self.bytes.extend_from_slice(&code.to_be_bytes());
            self.bytes.extend_from_slice(&len.to_be_bytes());
            self.bytes.extend_from_slice(data);
        }
    }

    /// Keeps the options that `keep` says yes to.
    pub fn retain(&mut self, mut keep: impl FnMut(u16, &[u8]) -> bool) {
        let (mut from, mut to) = (0, 0);
        while let Some((code, data, _)) = split(&self.bytes[from..]) {
            let len = 4 + data.len();
            if keep(code, data) {
                self.bytes.copy_within(from..from + len, to);
                to += len;
            }
            from += len;
        }
        self.bytes.truncate(to);
    }

    /// Takes out every option with `code`; whether there was one.
    pub fn remove(&mut self, code: u16) -> bool {
        let before = self.bytes.len();
        self.retain(|own, _| own != code);
        before != self.bytes.len()
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Replaces these by a copy of `other`.
    pub fn copy_from(&mut self, other: &Self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Adds an extended DNS error (RFC 8914 §2) with its text.
    pub fn push_ede(&mut self, code: u16, text: &str) {
        let Ok(len) = u16::try_from(text.len() + 2) else { return };
        self.bytes.extend_from_slice(&option::EDE.to_be_bytes());
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(&code.to_be_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// The first option of `wire`: code, data, and what follows.
fn split(wire: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (head, rest) = wire.split_first_chunk::<4>()?;
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let (data, rest) = rest.split_at_checked(len)?;
    Some((u16::from_be_bytes([head[0], head[1]]), data, rest))
}
