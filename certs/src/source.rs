//! Where a certificate comes from.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::acme::{Acme, Answers, Challenge, Managed};
use crate::pair::Pair;
use crate::self_signed::{SelfSigned, Subject};
use crate::watched::Watched;
use crate::{Error, Status, now};

/// One day, in seconds.
const DAY: i64 = 86_400;

/// When an expiry is spoken of, in days before it; 0 is when it has come.
const REMINDERS: [i64; 4] = [30, 7, 1, 0];

/// Where a certificate comes from; what it is may change while it is in use.
#[derive(Clone, Debug)]
pub struct Source(pub(crate) Arc<Inner>);

/// The certificate of a source, and what was said of its expiry.
#[derive(Debug)]
pub(crate) struct Inner {
    kind: Kind,
    /// The target of log lines.
    target: &'static str,
    /// Until when the certificate is valid of whose expiry was spoken last, and ...
    expires: AtomicI64,
    /// ... how many days before it that was.
    reminded: AtomicI64,
}

/// The kinds of sources.
#[derive(Debug)]
enum Kind {
    /// Two files, chain and key.
    Files(Arc<Watched<Pair>>),
    /// A certificate that is signed by itself.
    SelfSigned(Box<SelfSigned>),
    /// One that is obtained by ACME.
    Acme(Arc<Managed>),
}

impl Source {
    /// A certificate chain and its key, both in PEM files. Log lines about them have the target `target`.
    ///
    /// # Errors
    /// If a file cannot be read, holds none, or they do not belong together.
    pub fn files(chain: PathBuf, key: PathBuf, target: &'static str) -> Result<Self, Error> {
        Ok(Self::new(Kind::Files(Watched::new([chain, key], target)?), target))
    }

    /// A certificate that is signed by itself: the one in `folder` under `name`, or a new one if there is none that is good for
    /// the subject for some time. It is written by [`Source::keep`].
    ///
    /// # Errors
    /// If a name is none that certificates have, a key that is there cannot be read, or there are no random numbers.
    pub fn self_signed(
        folder: &Path,
        name: &str,
        subject: Subject,
        target: &'static str,
    ) -> Result<Self, Error> {
        let made = SelfSigned::new(folder, name, subject, target)?;
        Ok(Self::new(Kind::SelfSigned(Box::new(made)), target))
    }

    /// A certificate that is obtained by ACME, and replaced before its end, by [`Source::run`]. There may be none at first.
    ///
    /// # Errors
    /// If the CAs that its server is checked by cannot be read.
    pub fn acme(acme: Acme, target: &'static str) -> Result<Self, Error> {
        let managed = Managed::new(acme, target)?;
        Ok(Self::new(Kind::Acme(Arc::new(managed)), target))
    }

    /// Obtains what is to be obtained, until `stop` says so; nothing if there is nothing to be obtained. Of several calls for one
    /// source one is at work.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        match &self.0.kind {
            Kind::Files(_) | Kind::SelfSigned(_) => {}
            Kind::Acme(managed) => managed.run(stop).await,
        }
    }

    /// What is shown to CAs in handshakes, if that is how the domain is shown to be ours.
    pub(crate) fn answers(&self) -> Option<&Arc<Answers>> {
        match &self.0.kind {
            Kind::Files(_) | Kind::SelfSigned(_) => None,
            Kind::Acme(managed) => {
                let acme = managed.acme();
                (acme.challenge == Challenge::TlsAlpn).then_some(&acme.answers)
            }
        }
    }

    /// Keeps a certificate that is signed by itself in its files, says which one it is, and replaces it before its end. Waits for
    /// the disk.
    pub fn keep(&self) {
        match &self.0.kind {
            Kind::Files(_) | Kind::Acme(_) => {}
            Kind::SelfSigned(made) => made.keep(),
        }
    }

    /// A source of a kind.
    fn new(kind: Kind, target: &'static str) -> Self {
        let (expires, reminded) = (AtomicI64::new(0), AtomicI64::new(i64::MAX));
        Self(Arc::new(Inner { kind, target, expires, reminded }))
    }

    /// What is odd about the certificate now, though it is served: that it has expired or is not yet valid, that
    /// everybody may read its key.
    pub fn oddities(&self) -> Vec<String> {
        let Some(pair) = self.pair() else { return Vec::new() };
        let time = pair.odd(now()).map(|odd| format!("{}: {odd}", self.label()));
        pair.oddities.iter().cloned().chain(time).collect()
    }

    /// The certificate in use.
    pub(crate) fn pair(&self) -> Option<Arc<Pair>> {
        match &self.0.kind {
            Kind::Files(files) => Some(files.now()),
            Kind::SelfSigned(made) => Some(made.now()),
            Kind::Acme(managed) => managed.now(),
        }
    }

    /// What it is called in logs and metrics.
    fn label(&self) -> String {
        match &self.0.kind {
            Kind::Files(files) => {
                files.files().first().map(|file| file.display().to_string()).unwrap_or_default()
            }
            Kind::SelfSigned(made) => made.chain().display().to_string(),
            Kind::Acme(managed) => format!("acme/{}", managed.acme().domain),
        }
    }

    /// Looks whether the certificate has changed or is about to expire.
    pub(crate) fn look(&self) {
        match &self.0.kind {
            Kind::Files(files) => {
                files.look();
            }
            Kind::SelfSigned(made) => made.look(),
            Kind::Acme(managed) => managed.look(),
        }
        self.remind(now());
    }

    /// Says once for each of the reminders that the certificate in use expires soon.
    fn remind(&self, now: i64) {
        let Some(pair) = self.pair() else { return };
        let (from, until) = (pair.facts.not_before, pair.facts.not_after);
        let inner = &self.0;
        if inner.expires.swap(until, Ordering::AcqRel) != until {
            inner.reminded.store(i64::MAX, Ordering::Release);
        }
        let part = match inner.kind {
            Kind::Files(_) => 3,
            // These are replaced before, so that it is late when this is said.
            Kind::SelfSigned(_) | Kind::Acme(_) => 6,
        };
        let Some(days) = reminder(from, until, now, part) else { return };
        let left = until - now;
        if inner.reminded.fetch_min(days, Ordering::AcqRel) <= days {
            return;
        }
        let (label, name) = (self.label(), pair.facts.name());
        let date = crate::date(until);
        if left <= 0 {
            log::error!(target: inner.target, "{label}: the certificate of {name} has expired on {date}: clients refuse it");
        } else {
            let left = match (left + DAY - 1) / DAY {
                1 => "a day or less".to_owned(),
                days => format!("{days} days or less"),
            };
            log::warn!(target: inner.target, "{label}: the certificate of {name} expires on {date}, in {left}");
        }
    }

    /// How it is.
    pub(crate) fn status(&self) -> Status {
        let facts = self.pair().map(|pair| pair.facts.clone());
        let (taken, refused, broken) = match &self.0.kind {
            Kind::Files(files) => files.counts(),
            Kind::SelfSigned(made) => (made.made(), 0, made.broken()),
            Kind::Acme(managed) => managed.counts(),
        };
        Status {
            source: self.label(),
            name: facts.as_ref().map(|facts| facts.name()).unwrap_or_default(),
            not_after: facts.map(|facts| facts.not_after),
            taken,
            refused,
            broken,
        }
    }
}

/// Which of the reminders is due for a certificate that is valid from `from` until `until`: the last that was reached. Those that
/// are valid for few days are spoken of only when one `part`th of their time is left.
fn reminder(from: i64, until: i64, now: i64, part: i64) -> Option<i64> {
    let left = until - now;
    let due = REMINDERS.into_iter().rfind(|days| left <= days * DAY);
    due.filter(|days| *days == 0 || left <= (until - from) / part)
}

#[cfg(test)]
mod tests {
    use super::{DAY, reminder};

    #[test]
    fn tls_09_an_expiry_is_spoken_of_at_30_7_and_1_days() {
        for (lifetime, left, part, want) in [
            (365 * DAY, 31 * DAY, 3, None),
            (365 * DAY, 30 * DAY, 3, Some(30)),
            (365 * DAY, 8 * DAY, 3, Some(30)),
            (365 * DAY, 7 * DAY, 3, Some(7)),
            (365 * DAY, DAY + 1, 3, Some(7)),
            (365 * DAY, DAY, 3, Some(1)),
            (365 * DAY, 1, 3, Some(1)),
            (365 * DAY, 0, 3, Some(0)),
            (365 * DAY, -DAY, 3, Some(0)),
            // Ninety days: from files at thirty, by ACME at fifteen, when it is late.
            (90 * DAY, 30 * DAY, 3, Some(30)),
            (90 * DAY, 29 * DAY, 6, None),
            (90 * DAY, 15 * DAY, 6, Some(30)),
            // Six days.
            (6 * DAY, 5 * DAY, 3, None),
            (6 * DAY, 2 * DAY, 3, Some(7)),
            (6 * DAY, 2 * DAY, 6, None),
            (6 * DAY, DAY, 6, Some(1)),
        ] {
            let until = 1_800_000_000;
            let got = reminder(until - lifetime, until, until - left, part);
            assert_eq!(got, want, "{lifetime} {left} {part}");
        }
    }
}
