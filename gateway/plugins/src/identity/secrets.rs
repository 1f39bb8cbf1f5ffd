//! The file of secrets, of which it has the hashes alone, and how new ones are made.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use engine::{Identity, Method};
use foldhash::fast::RandomState;

use super::words::unfit;

/// A SHA-256.
pub(super) type Hash = [u8; 32];

/// Where a secret is presented; it is worth nothing elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// In the path of a request.
    Path,
    /// In the `Authorization` header.
    Bearer,
    /// As a label of the TLS name.
    Label,
}

/// The kinds by their names.
const KINDS: [(&str, Kind); 3] =
    [("path", Kind::Path), ("bearer", Kind::Bearer), ("label", Kind::Label)];

impl Kind {
    /// How a client is known by it.
    pub(super) fn method(self) -> Method {
        match self {
            Self::Path => Method::Path,
            Self::Bearer => Method::Authorization,
            Self::Label => Method::Name,
        }
    }
}

/// What a file of secrets says.
#[derive(Default)]
pub(super) struct Secrets {
    known: HashMap<(Kind, Hash), Arc<Identity>, RandomState>,
    revoked: HashSet<Hash, RandomState>,
}

impl fmt::Debug for Secrets {
    /// Leaves the hashes out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// Why a file of secrets cannot be used. Says nothing of what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    /// The line, from 1.
    pub(super) line: usize,
    /// What is wrong with it.
    pub(super) why: String,
}

impl Secrets {
    /// Reads the text of a file.
    pub(super) fn read(text: &str) -> Result<Self, BadLine> {
        let mut all = Self::default();
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            all.line(line).map_err(|why| BadLine { line: at + 1, why })?;
        }
        Ok(all)
    }

    /// Reads a line.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let name = match words.next() {
            None => return Ok(()),
            Some(word) if word.starts_with('#') => return Ok(()),
            Some("-") => {
                let print = words.next().and_then(|word| word.strip_prefix("sha256:"));
                let print = print.and_then(fingerprint);
                self.revoked
                    .insert(print.ok_or("a revoked certificate is written - sha256:FINGERPRINT")?);
                return words
                    .next()
                    .map_or(Ok(()), |_| Err("something stands behind the fingerprint".to_owned()));
            }
            Some(name) => name,
        };
        if let Some(why) = unfit(name) {
            return Err(format!("the name {why}"));
        }
        let (kind, hash) = words
            .next()
            .and_then(|secret| secret.split_once(':'))
            .ok_or("a secret is written NAME KIND:sha256:HASH [GROUP...]")?;
        let kind = KINDS.iter().find(|(own, _)| *own == kind).map(|(_, kind)| *kind);
        let kind = kind.ok_or("the kind is none of path, bearer and label")?;
        let hash = hash.strip_prefix("sha256:").ok_or("the hash does not begin with sha256:")?;
        let hash = hexadecimal(hash).ok_or("the hash has not 64 hexadecimal digits")?;
        let groups: Vec<_> = words.map(str::to_owned).collect();
        if let Some(why) = groups.iter().find_map(|group| unfit(group)) {
            return Err(format!("a group {why}"));
        }
        let identity = Identity { name: name.to_owned(), groups, method: kind.method() };
        match self.known.insert((kind, hash), Arc::new(identity)) {
            None => Ok(()),
            Some(_) => Err("the secret stands in a line before".to_owned()),
        }
    }

    /// Whose secret `text` is. A wrong guess costs one hash, and tells nothing of the right ones by how long it takes.
    pub(super) fn owner(&self, kind: Kind, text: &str) -> Option<Arc<Identity>> {
        self.known.get(&(kind, hash(text))).cloned()
    }

    /// Whether a certificate with this fingerprint is revoked.
    pub(super) fn revokes(&self, print: &Hash) -> bool {
        self.revoked.contains(print)
    }

    /// Whether any certificate is revoked.
    pub(super) fn revokes_any(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// How many secrets there are.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

/// New secrets, to be shown once.
pub struct Minted {
    /// What stands behind the path of DoH and a slash; also the token or the password of the `Authorization` header.
    pub token: String,
    /// The label of the TLS name.
    pub label: String,
    /// The lines for the file of secrets.
    pub lines: [String; 3],
}

impl fmt::Debug for Minted {
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted").finish_non_exhaustive()
    }
}

/// Makes secrets of 128 random bits for `name`, who is in `groups`.
///
/// # Errors
/// Which word can be no name or no group, and why; or that there is no randomness.
pub fn mint(name: &str, groups: &[String]) -> Result<Minted, String> {
    for word in std::iter::once(name).chain(groups.iter().map(String::as_str)) {
        if let Some(why) = unfit(word) {
            return Err(format!("{word:?} {why}"));
        }
        // Such a line would be a comment, or more words than it seems.
        if word.starts_with('#') || word.contains(char::is_whitespace) {
            return Err(format!("{word:?} begins with # or has a space"));
        }
    }
    let (token, label) = (token()?, token()?);
    let groups: String = groups.iter().map(|group| format!(" {group}")).collect();
    let line = |kind: &str, secret: &str| {
        let hash: String = hash(secret).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{name} {kind}:sha256:{hash}{groups}")
    };
    let lines = [line("path", &token), line("bearer", &token), line("label", &label)];
    Ok(Minted { token, label, lines })
}

/// 128 random bits in the alphabet of RFC 4648 §6, in lower case and without padding.
fn token() -> Result<String, String> {
    let mut bits = [0; 16];
    aws_lc_rs::rand::fill(&mut bits)
        .map_err(|_| "the system gives no random numbers".to_owned())?;
    // 26 digits of five bits are 130: the last two are 0.
    let number = u128::from_be_bytes(bits);
    let digit = |at: u32| {
        let five = if at == 25 { number << 2 } else { number >> (123 - 5 * at) } & 31;
        char::from(b"abcdefghijklmnopqrstuvwxyz234567"[five as usize])
    };
    Ok((0..26).map(digit).collect())
}

/// The hash of a secret.
fn hash(text: &str) -> Hash {
    let mut hash = [0; 32];
    // The two are of one length.
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

/// Reads 64 hexadecimal digits.
fn hexadecimal(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |of: u8| char::from(of).to_digit(16);
        let (high, low) = (digit(*pair.first()?)?, digit(*pair.last()?)?);
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(hash)
}

/// Reads a fingerprint, whose octets may have colons between them, as openssl writes them.
fn fingerprint(text: &str) -> Option<Hash> {
    hexadecimal(&text.split(':').collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_taken() {
        let groups = ["staff".to_owned(), "ops".to_owned()];
        let made = mint("alice", &groups).unwrap();
        let secrets =
            Secrets::read(&format!("# all of us\n\n{}\n", made.lines.join("\r\n"))).unwrap();
        assert_eq!(secrets.len(), 3);
        for (kind, text, known) in [
            (Kind::Path, &made.token, true),
            (Kind::Bearer, &made.token, true),
            (Kind::Label, &made.label, true),
            (Kind::Label, &made.token, false),
            (Kind::Path, &made.label, false),
            (Kind::Bearer, &made.label, false),
        ] {
            let owner = secrets.owner(kind, text);
            let want = Identity {
                name: "alice".to_owned(),
                groups: groups.to_vec(),
                method: kind.method(),
            };
            assert_eq!(owner.as_deref(), known.then_some(&want), "{kind:?}");
        }
        for secret in [&made.token, &made.label] {
            assert_eq!(secret.len(), 26);
            assert!(secret.bytes().all(|c| matches!(c, b'a'..=b'z' | b'2'..=b'7')), "{secret}");
            assert!(!made.lines.concat().contains(&**secret));
        }
        assert_ne!(made.token, mint("alice", &[]).unwrap().token);
        assert_eq!(format!("{made:?}{secrets:?}"), "Minted { .. }Secrets { known: 3, .. }");
    }

    #[test]
    fn names_that_the_file_cannot_have_get_no_secret() {
        for name in ["", "-", "*", "#a", "a b", "a,b", "a\nb", "a\"b"] {
            assert!(mint(name, &[]).is_err(), "{name:?}");
            assert!(mint("alice", &[name.to_owned()]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn wrong_lines_are_told_by_number_and_never_shown() {
        let hash = "0123456789abcdef".repeat(4);
        for (line, why) in [
            ("alice", "a secret is written"),
            ("alice HASH", "a secret is written"),
            ("alice word:sha256:HASH", "the kind is none"),
            ("alice path:md5:HASH", "does not begin with sha256:"),
            ("alice path:HASH", "does not begin with sha256:"),
            ("alice path:sha256:HASH0", "64 hexadecimal digits"),
            ("alice path:sha256:gg", "64 hexadecimal digits"),
            ("alice path:sha256:", "64 hexadecimal digits"),
            ("al,ice path:sha256:HASH", "the name has a comma"),
            ("alice path:sha256:HASH a,b", "a group has a comma"),
            ("alice path:sha256:HASH\nbob path:sha256:HASH", "stands in a line before"),
            ("-", "- sha256:FINGERPRINT"),
            ("- HASH", "- sha256:FINGERPRINT"),
            ("- sha256:HASH alice", "behind the fingerprint"),
        ] {
            let text = format!("# comment\n{}\n", line.replace("HASH", &hash));
            let wrong = Secrets::read(&text).unwrap_err();
            assert_eq!(wrong.line, 2 + line.matches('\n').count(), "{line}");
            assert!(wrong.why.contains(why), "{line}: {}", wrong.why);
        }
    }

    #[test]
    fn certificates_are_revoked_by_fingerprint() {
        let print = "AB".repeat(32);
        let colons = vec!["ab"; 32].join(":");
        for text in [format!("- sha256:{print}"), format!("- sha256:{colons}")] {
            let secrets = Secrets::read(&text).unwrap();
            assert!(secrets.revokes(&[0xab; 32]) && !secrets.revokes(&[0xac; 32]));
        }
    }
}
