//! Who may see the metrics: names with bcrypt hashes of their passwords. Comparing one takes a tenth of a second of the processor's
//! time, so that what was right once is known by a faster hash.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How many right passwords are remembered.
const REMEMBERED: usize = 64;

/// What a name that is not known is compared with, so that it takes as long as one that is.
const NOBODY: &str = "$2b$10$abcdefghijklmnopqrstuu37RkUr9H1EPO4Rc63Ngz60LSVREthYa";

/// The users.
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    /// The hashes of names and passwords that were right.
    right: Mutex<Vec<[u8; 32]>>,
    /// Held while one is compared: nobody may take all processors with guesses.
    turn: Mutex<()>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

/// A name and a password.
pub(super) struct Attempt {
    name: String,
    password: Vec<u8>,
}

/// What is known of an attempt without comparing it.
pub(super) enum Check {
    /// It was right before.
    Good,
    /// It is none.
    Bad,
    /// Nothing yet.
    Unknown(Attempt),
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Users {
    /// Users by name, with their hashes.
    ///
    /// # Errors
    /// The name of one whose hash is none of bcrypt.
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Self, String> {
        for (name, hash) in &hashes {
            if bcrypt::HashParts::from_str(hash).is_err() {
                return Err(name.clone());
            }
        }
        Ok(Self { hashes, right: Mutex::default(), turn: Mutex::default() })
    }

    /// What is known of an `Authorization` header (RFC 7617).
    pub(super) fn check(&self, header: Option<&str>) -> Check {
        let Some(attempt) = header.and_then(Attempt::read) else { return Check::Bad };
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.contains(&attempt.hash()) { Check::Good } else { Check::Unknown(attempt) }
    }

    /// Whether an attempt is right; takes its time.
    pub(super) fn compare(&self, attempt: &Attempt) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.hashes.get(&attempt.name);
        let hash = known.map_or(NOBODY, String::as_str);
        // A hash that cannot be read is refused when the file is.
        let equal = bcrypt::verify(&attempt.password, hash).unwrap_or(false);
        let is_right = equal && known.is_some();
        if is_right {
            let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            if right.len() >= REMEMBERED {
                right.remove(0);
            }
            right.push(attempt.hash());
        }
        is_right
    }
}

impl Attempt {
    /// Reads `Basic`, and name and password in base64.
    fn read(header: &str) -> Option<Self> {
        let (scheme, rest) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let octets = STANDARD.decode(rest.trim()).ok()?;
        let at = octets.iter().position(|octet| *octet == b':')?;
        let name = String::from_utf8(octets[..at].to_vec()).ok()?;
        Some(Self { name, password: octets[at + 1..].to_vec() })
    }

    /// Its hash; the length of the name keeps names and passwords apart.
    fn hash(&self) -> [u8; 32] {
        let length = self.name.len().to_be_bytes();
        let octets = [&length[..], self.name.as_bytes(), &self.password].concat();
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &octets).as_ref());
        hash
    }
}
