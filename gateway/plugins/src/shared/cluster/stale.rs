//! What is said of answers that may be out of date, since their cluster is away.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use k8s::Standing;
use wire::{Answer, Flags, option, rcode};

/// RFC 8914 §4.4: the answer may be out of date.
pub(crate) const STALE: u16 = 3;
/// RFC 8914 §4.20: so may the denial of a name.
pub(crate) const STALE_NXDOMAIN: u16 = 19;
/// The longest that others may keep what may be out of date, in seconds (RFC 8767 §4).
const LONGEST: u32 = 30;
/// The longest text.
const TEXT: usize = 128;

/// Says on an answer from a cluster's objects that they may be out of date, and has nobody keep it for long. The answer's
/// response code is set before; a cluster without a declared name has the name "".
pub(crate) fn note(answer: &mut Answer, name: &str, standing: Standing) {
    let Some(since) = standing.stale_since() else { return };
    put(answer, since, |text, seconds| tell(text, name, standing, seconds));
}

/// Says so of an answer from a namespace that is kept from us, and was last heard of at this Unix time in seconds.
pub(crate) fn note_refused(answer: &mut Answer, name: &str, since: u64) {
    put(answer, since, |text, seconds| {
        begin(text, name)?;
        write!(text, "the rights are missing, known from {seconds} s ago")
    });
}

/// Says that an answer is from a Unix time in seconds, in words to which it is told how long ago that was.
fn put(answer: &mut Answer, since: u64, tell: impl FnOnce(&mut Text, u64) -> fmt::Result) {
    let code = match answer.rcode {
        rcode::NOERROR => STALE,
        rcode::NXDOMAIN => STALE_NXDOMAIN,
        // A failure tells nothing of objects.
        _ => return,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut text = Text::default();
    tell(&mut text, now.saturating_sub(since)).unwrap_or_default();
    answer.options.push_ede(code, text.as_str());
    answer.records_mut().iter_mut().for_each(|rr| rr.ttl = rr.ttl.min(LONGEST));
}

/// Whether an answer says so. It is not kept by caches of ours, who could not ask behind it when the cluster is back. What
/// other servers say of theirs is another matter: to ask them again and again would not help.
pub(crate) fn is_noted(answer: &Answer) -> bool {
    let is_stale = |(code, data): (u16, &[u8])| {
        code == option::EDE
            && data
                .first_chunk::<2>()
                .is_some_and(|info| matches!(u16::from_be_bytes(*info), STALE | STALE_NXDOMAIN))
    };
    answer.flags.has(Flags::AA) && answer.options.iter().any(is_stale)
}

/// Writes since when a cluster has not been heard of.
fn tell(text: &mut Text, name: &str, standing: Standing, seconds: u64) -> fmt::Result {
    begin(text, name)?;
    match standing {
        Standing::Snapshot { .. } => write!(text, "known from {seconds} s ago, read from disk"),
        Standing::Away { .. } | Standing::Live | Standing::Unsynced => {
            write!(text, "not heard of for {seconds} s")
        }
    }
}

/// Writes which cluster it is about.
fn begin(text: &mut Text, name: &str) -> fmt::Result {
    match name {
        "" => text.write_str("the cluster: "),
        name => write!(text, "cluster {name}: "),
    }
}

/// A short text on the stack: queries allocate nothing. What does not fit is cut.
#[derive(Debug)]
pub(crate) struct Text {
    /// Its bytes.
    bytes: [u8; TEXT],
    /// How many there are.
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; TEXT], len: 0 }
    }
}

impl Text {
    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT - self.len;
        let fits = text.floor_char_boundary(room.min(text.len()));
        self.bytes[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written of a cluster that was heard of so long ago.
    fn told(name: &str, standing: Standing, seconds: u64) -> String {
        let mut text = Text::default();
        tell(&mut text, name, standing, seconds).unwrap();
        text.as_str().to_owned()
    }

    #[test]
    fn the_text_says_which_cluster_and_how_long() {
        let away = Standing::Away { since: 7 };
        assert_eq!(told("prod", away, 95), "cluster prod: not heard of for 95 s");
        assert_eq!(told("", away, 95), "the cluster: not heard of for 95 s");
        let kept = Standing::Snapshot { taken: 7 };
        assert_eq!(told("prod", kept, 5), "cluster prod: known from 5 s ago, read from disk");
    }

    #[test]
    fn a_long_name_is_cut_between_signs() {
        let text = told(&"ä".repeat(100), Standing::Away { since: 0 }, 1);
        assert!(text.len() <= TEXT && text.starts_with("cluster ä") && text.ends_with('ä'));
    }

    #[test]
    fn what_is_live_says_nothing() {
        let mut answer = Answer::default();
        note(&mut answer, "prod", Standing::Live);
        assert_eq!(answer.options.iter().count(), 0);
        note(&mut answer, "prod", Standing::Away { since: 0 });
        assert_eq!(answer.options.iter().count(), 1);
        assert!(!is_noted(&answer), "it is not our own");
        answer.flags.set(Flags::AA, true);
        assert!(is_noted(&answer));
    }
}
