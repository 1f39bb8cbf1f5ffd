//! Keys, and the signatures made with them (RFC 8945).

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::{constant_time, hmac};
use engine::{Broken, Keyring, Seal};
use wire::{Name, rtype, scan};

/// Class ANY, which TSIG records have (RFC 8945 §4.2).
const ANY: u16 = 255;

/// How far clocks may be apart, as replies say it, in seconds (RFC 8945 §10).
pub(super) const FUDGE: u16 = 300;

/// The algorithms by their names in wire form (RFC 8945 §6); hmac-md5 is left out, as it must not be used.
pub(super) const ALGORITHMS: [(&[u8], hmac::Algorithm); 5] = [
    (b"\x09hmac-sha1\0", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
    (b"\x0bhmac-sha224\0", hmac::HMAC_SHA224),
    (b"\x0bhmac-sha256\0", hmac::HMAC_SHA256),
    (b"\x0bhmac-sha384\0", hmac::HMAC_SHA384),
    (b"\x0bhmac-sha512\0", hmac::HMAC_SHA512),
];

/// Secrets by the names of their keys.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Keys(pub(super) HashMap<Name, Vec<u8>>);

impl std::fmt::Debug for Keys {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keys").field(&self.0.len()).finish()
    }
}

/// A TSIG record as read (RFC 8945 §4.2).
pub(super) struct Record<'a> {
    pub(super) name: Name,
    pub(super) algorithm: Name,
    pub(super) time: u64,
    pub(super) fudge: u16,
    pub(super) mac: &'a [u8],
    pub(super) id: [u8; 2],
    pub(super) error: u16,
    pub(super) other: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads the one at `at`; none if it is not right.
    pub(super) fn read(wire: &'a [u8], at: usize) -> Option<Self> {
        // Some clients compress the owner, which nothing forbids (RFC 1035 §4.1.4).
        let (name, len) = scan::name_at(wire, at)?;
        let (fixed, rest) = wire.get(at + len..)?.split_first_chunk::<10>()?;
        let pair = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let right = pair(0) == rtype::TSIG && pair(2) == ANY && fixed[4..8] == [0; 4];
        let data = rest.get(..usize::from(pair(8))).filter(|_| right)?;
        let (algorithm, len) = Name::read(data)?;
        let (fixed, rest) = data.get(len..)?.split_first_chunk::<10>()?;
        let [t0, t1, t2, t3, t4, t5, f0, f1, m0, m1] = *fixed;
        let (mac, rest) = rest.split_at_checked(u16::from_be_bytes([m0, m1]).into())?;
        let (fixed, other) = rest.split_first_chunk::<6>()?;
        let [i0, i1, e0, e1, o0, o1] = *fixed;
        (other.len() == usize::from(u16::from_be_bytes([o0, o1]))).then(|| Self {
            name,
            algorithm,
            time: u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]),
            fudge: u16::from_be_bytes([f0, f1]),
            mac,
            id: [i0, i1],
            error: u16::from_be_bytes([e0, e1]),
            other,
        })
    }
}

impl Record<'_> {
    /// Appends it to the message that begins at `start` of `out` and ends with it.
    pub(super) fn write(&self, out: &mut Vec<u8>, start: usize) {
        out.extend_from_slice(self.name.wire());
        out.extend_from_slice(&rtype::TSIG.to_be_bytes());
        out.extend_from_slice(&ANY.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        let data = self.algorithm.wire().len() + 16 + self.mac.len() + self.other.len();
        // Names, a digest and a time are far shorter than 65,535 octets.
        out.extend_from_slice(&u16::try_from(data).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(self.algorithm.wire());
        out.extend_from_slice(&self.time.to_be_bytes()[2..]);
        out.extend_from_slice(&self.fudge.to_be_bytes());
        out.extend_from_slice(&len_of(self.mac));
        out.extend_from_slice(self.mac);
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.error.to_be_bytes());
        out.extend_from_slice(&len_of(self.other));
        out.extend_from_slice(self.other);
        if let Some(count) = out.get_mut(start + 10..start + 12) {
            let more = u16::from_be_bytes([count[0], count[1]]).saturating_add(1);
            count.copy_from_slice(&more.to_be_bytes());
        }
    }

    /// The fields that are signed beside the message.
    pub(super) fn sign(&self, context: &mut hmac::Context) {
        let times = (self.time, self.fudge);
        variables(context, &self.name, &self.algorithm, times, self.error, self.other);
    }
}

impl Keyring for Keys {
    fn check(&self, wire: &[u8], at: usize, now: SystemTime) -> Option<Box<dyn Seal>> {
        let record = Record::read(wire, at)?;
        let secret = self.0.get(&record.name)?;
        let named = |(name, _): &&(&[u8], _)| *name == record.algorithm.wire();
        let algorithm = ALGORITHMS.iter().find(named)?.1;
        let key = hmac::Key::new(algorithm, secret);
        let mut context = hmac::Context::with_key(&key);
        let (Some(head), Some(rest)) = (wire.first_chunk::<12>(), wire.get(12..at)) else {
            return None;
        };
        let mut head = *head;
        head[..2].copy_from_slice(&record.id);
        let additionals = u16::from_be_bytes([head[10], head[11]]).wrapping_sub(1);
        head[10..].copy_from_slice(&additionals.to_be_bytes());
        context.update(&head);
        context.update(rest);
        record.sign(&mut context);
        let right = context.sign();
        let now = seconds(now);
        // A signature may be cut by its sender, to no less than half or ten octets (RFC 8945 §5.2.2.1); nobody here has
        // asked for such ones, so that they are told apart and not taken (§5.2.4).
        let (full, len) = (right.as_ref().len(), record.mac.len());
        let broken = if len > full || len < (full / 2).max(10) {
            Some(Broken::Form)
        } else if constant_time::verify_slices_are_equal(&right.as_ref()[..len], record.mac)
            .is_err()
        {
            Some(Broken::Signature)
        } else if now.abs_diff(record.time) > u64::from(record.fudge) {
            Some(Broken::Time)
        } else if len < full {
            Some(Broken::Cut)
        } else {
            None
        };
        let key = Some(key).filter(|_| !matches!(broken, Some(Broken::Form | Broken::Signature)));
        Some(Box::new(Sealed::new(&record, key, broken, now)))
    }

    fn unknown(&self, wire: &[u8], at: usize, now: SystemTime) -> Box<dyn Seal> {
        let now = seconds(now);
        match Record::read(wire, at) {
            Some(record) => Box::new(Sealed::new(&record, None, Some(Broken::Key), now)),
            None => Box::new(Sealed {
                name: Name::ROOT,
                algorithm: Name::ROOT,
                id: [0; 2],
                key: None,
                broken: Some(Broken::Form),
                time: now,
                now,
                prior: Vec::new(),
                is_first: true,
            }),
        }
    }
}

/// What a reply is signed with.
struct Sealed {
    name: Name,
    algorithm: Name,
    /// The id of the query's message, as its signer knew it.
    id: [u8; 2],
    /// The key; none where nothing may be signed (RFC 8945 §5.2.1, §5.2.2).
    key: Option<hmac::Key>,
    broken: Option<Broken>,
    /// When the query was signed, in seconds since 1970.
    time: u64,
    /// When it came.
    now: u64,
    /// The signature before: of the query, then of the message before.
    prior: Vec<u8>,
    is_first: bool,
}

impl std::fmt::Debug for Sealed {
    /// Leaves the key out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Sealed");
        shown.field("name", &self.name).field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl Sealed {
    /// What the reply to `record` is signed with.
    fn new(record: &Record<'_>, key: Option<hmac::Key>, broken: Option<Broken>, now: u64) -> Self {
        Self {
            name: record.name.clone(),
            algorithm: record.algorithm.clone(),
            id: record.id,
            key,
            broken,
            time: record.time,
            now,
            prior: record.mac.to_vec(),
            is_first: true,
        }
    }

    /// The number in the record's error field (RFC 8945 §3).
    fn error(&self) -> u16 {
        match self.broken {
            None | Some(Broken::Form) => 0,
            Some(Broken::Signature) => 16,
            Some(Broken::Key) => 17,
            Some(Broken::Time) => 18,
            Some(Broken::Cut) => 22,
        }
    }

    /// The length of a signature, in octets.
    fn mac_len(&self) -> usize {
        self.key.as_ref().map_or(0, |key| key.algorithm().digest_algorithm().output_len())
    }
}

impl Seal for Sealed {
    fn key(&self) -> Option<&Name> {
        Some(&self.name).filter(|_| self.broken.is_none())
    }

    fn broken(&self) -> Option<Broken> {
        self.broken
    }

    fn size(&self) -> usize {
        let names = self.name.wire().len() + self.algorithm.wire().len();
        names + 10 + 16 + self.mac_len() + 6
    }

    fn sign(&mut self, out: &mut Vec<u8>, start: usize) {
        // A time out of bounds comes back with ours beside it (RFC 8945 §5.2.3).
        let late = self.broken == Some(Broken::Time);
        let time = if late { self.time } else { seconds(SystemTime::now()).max(self.now) };
        let other = self.now.to_be_bytes();
        let other = if late { &other[2..] } else { &[] };
        let mut mac = Vec::new();
        if let (Some(key), Some(message)) = (&self.key, out.get(start..)) {
            let mut context = hmac::Context::with_key(key);
            context.update(&len_of(&self.prior));
            context.update(&self.prior);
            context.update(message);
            if self.is_first {
                let times = (time, FUDGE);
                variables(&mut context, &self.name, &self.algorithm, times, self.error(), other);
            } else {
                context.update(&time.to_be_bytes()[2..]);
                context.update(&FUDGE.to_be_bytes());
            }
            mac = context.sign().as_ref().to_vec();
        }
        let record = Record {
            name: self.name.clone(),
            algorithm: self.algorithm.clone(),
            time,
            fudge: FUDGE,
            mac: &mac,
            id: self.id,
            error: self.error(),
            other,
        };
        record.write(out, start);
        self.prior = mac;
        self.is_first = false;
    }
}

/// Takes the fields of a record that are signed into the digest (RFC 8945 §4.3.3).
fn variables(
    context: &mut hmac::Context,
    name: &Name,
    algorithm: &Name,
    (time, fudge): (u64, u16),
    error: u16,
    other: &[u8],
) {
    context.update(name.wire());
    context.update(&ANY.to_be_bytes());
    context.update(&[0; 4]);
    context.update(algorithm.wire());
    context.update(&time.to_be_bytes()[2..]);
    context.update(&fudge.to_be_bytes());
    context.update(&error.to_be_bytes());
    context.update(&len_of(other));
    context.update(other);
}

/// A length in two octets; what is measured here is far shorter than 65,535 octets.
pub(super) fn len_of(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes()
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
