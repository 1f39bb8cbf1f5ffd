//! Certificates by ACME (RFC 8555): obtained, kept, and replaced before their end.

mod account;
mod answers;
mod client;
mod failure;
mod order;
mod schedule;
mod shared;
mod storage;

#[cfg(test)]
mod tests;

pub use answers::{Answers, Challenge, Proof, Showing};
pub use client::{Resolve, Resolving};

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::{Instant, sleep, timeout};

use crate::pair::Pair;
use crate::watched::{Content as _, Watched};
use crate::{ClientTls, Error, date, now, store};
use client::Client;
use failure::Failure;
use storage::Storage;

/// The protocol of ACME's validation by TLS (RFC 8737 §3). A connection with it is closed when its handshake is done.
pub const ACME_ALPN: &[u8] = b"acme-tls/1";

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// How long all of an order may take.
const LONGEST: Duration = Duration::from_secs(600);

/// How long somebody waits who sees that another one is at it, in this process or in another.
const BUSY: Duration = Duration::from_secs(2);

/// How long somebody waits at most before he looks at the clock again.
const NAP: Duration = Duration::from_secs(600);

/// What a certificate is obtained by.
#[derive(Clone)]
pub struct Acme {
    /// The domain, in its xn-- form and lower case; `*.` may stand before it.
    pub domain: String,
    /// Whom the CA may write to.
    pub email: Option<String>,
    /// The CA's directory, an https URL.
    pub directory: String,
    /// The folder for the account, certificates and keys; replicas may share it.
    pub storage: PathBuf,
    /// The CAs that the directory's server is checked by, a PEM file; those of the system without one.
    pub ca_root: Option<PathBuf>,
    /// Who finds the addresses of the directory's server; the system without one.
    pub resolve: Option<Resolve>,
    /// How it is shown that the domain is ours.
    pub challenge: Challenge,
    /// Where that is shown.
    pub answers: Arc<Answers>,
}

impl std::fmt::Debug for Acme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acme").field("domain", &self.domain).finish_non_exhaustive()
    }
}

/// A domain's certificate, and who sees to it.
pub(crate) struct Managed {
    acme: Acme,
    storage: Storage,
    client: Client,
    target: &'static str,
    /// The file with certificate and key, once it is there.
    kept: ArcSwapOption<Watched<Pair>>,
    /// What was obtained last, as long as it is not in the file.
    unwritten: ArcSwapOption<Obtained>,
    /// What other replicas are asked for.
    others: shared::Others,
    /// Held by the task that sees to it: those of two configurations take turns.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    issued: AtomicU64,
    failed: AtomicU64,
    broken: AtomicBool,
}

/// A certificate that is obtained, with the text of its file.
struct Obtained {
    pair: Arc<Pair>,
    text: String,
}

/// What is remembered between attempts.
#[derive(Debug, Default)]
struct State {
    /// Failures in a row.
    failures: u32,
    /// When the next attempt may begin after them.
    next: Option<Instant>,
    /// When the certificate in use is to be replaced, with its end: worked out once for each.
    due: Option<(i64, i64)>,
}

impl std::fmt::Debug for Managed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Managed").field("acme", &self.acme).finish_non_exhaustive()
    }
}

impl Managed {
    /// The one for a domain, with the certificate that is kept, if one is. Nothing is obtained before [`Managed::run`].
    pub(crate) fn new(acme: Acme, target: &'static str) -> Result<Self, Error> {
        let tls = ClientTls::new(acme.ca_root.clone(), None)?;
        let storage = Storage::new(&acme.storage, &acme.directory, acme.email.as_deref());
        let client = Client::new(tls, acme.resolve.clone());
        let managed = Self {
            acme,
            storage,
            client,
            target,
            kept: ArcSwapOption::empty(),
            unwritten: ArcSwapOption::empty(),
            others: shared::Others::default(),
            turn: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            issued: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        };
        managed.look();
        Ok(managed)
    }

    /// What it is for.
    pub(crate) fn acme(&self) -> &Acme {
        &self.acme
    }

    /// The certificate in use.
    pub(crate) fn now(&self) -> Option<Arc<Pair>> {
        if let Some(obtained) = &*self.unwritten.load() {
            return Some(Arc::clone(&obtained.pair));
        }
        self.kept.load().as_ref().map(|kept| kept.now())
    }

    /// How many were obtained, how many attempts failed, and whether the last one did.
    pub(crate) fn counts(&self) -> (u64, u64, bool) {
        (
            self.issued.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
            self.broken.load(Ordering::Relaxed),
        )
    }

    /// Takes what is in the file, whoever has written it, and shows what other replicas are asked for. Waits for the disk.
    pub(crate) fn look(&self) {
        let (folder, name) = self.storage.challenges(&self.acme.domain);
        self.others.look(&folder, &name, &self.acme.answers);
        if let Some(kept) = &*self.kept.load() {
            if kept.look() {
                self.is_well();
            }
            return;
        }
        let path = self.storage.certificate(&self.acme.domain);
        if !path.exists() {
            return;
        }
        match Watched::<Pair>::new([path.clone(), path], self.target) {
            Ok(kept) => {
                self.kept.store(Some(kept));
                self.is_well();
            }
            // It is written over by the next one that is obtained; until then it is said once.
            Err(error) => {
                if !self.broken.swap(true, Ordering::Relaxed) {
                    log::warn!(target: self.target, "{error}; there will be a new one");
                }
            }
        }
    }

    /// Forgets what failed: there is another certificate, whoever has obtained it.
    fn is_well(&self) {
        *self.state() = State::default();
        self.broken.store(false, Ordering::Relaxed);
    }

    /// Sees to it that there is a certificate, and another one before its end, until `stop` says so. An order that is under
    /// way is brought to its end before.
    pub(crate) async fn run(self: &Arc<Self>, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let _turn = tokio::select! {
            turn = self.turn.lock() => turn,
            () = &mut stop => return,
        };
        loop {
            let wait = match self.wait() {
                Some(wait) => wait,
                None => {
                    self.attempt().await;
                    self.wait().unwrap_or(BUSY)
                }
            };
            tokio::select! {
                () = &mut stop => return,
                () = sleep(wait.min(NAP)) => {}
            }
        }
    }

    /// How long there is nothing to do; none if there is.
    fn wait(&self) -> Option<Duration> {
        let mut state = self.state();
        if let Some(next) = state.next {
            let wait = next.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                return Some(wait);
            }
        }
        if self.unwritten.load().is_some() {
            return None;
        }
        let facts = self.now()?.facts.clone();
        let due = match state.due {
            Some((due, until)) if until == facts.not_after => due,
            _ => {
                let due = schedule::due(facts.not_before, facts.not_after);
                state.due = Some((due, facts.not_after));
                due
            }
        };
        let wait = u64::try_from(due - now()).ok().filter(|wait| *wait > 0)?;
        Some(Duration::from_secs(wait))
    }

    /// What is remembered.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Obtains a certificate, unless somebody else is at it; says how that ended.
    async fn attempt(self: &Arc<Self>) {
        let domain = &self.acme.domain;
        let before = self.now().map(|pair| pair.facts.not_after);
        let result = match timeout(LONGEST, self.obtain()).await {
            Ok(result) => result,
            Err(_) => {
                Err(Failure::new(format!("it took more than {} minutes", LONGEST.as_secs() / 60)))
            }
        };
        match result {
            // Somebody else is at it, or has done it.
            Ok(false) => {
                self.state().next = Some(Instant::now() + BUSY);
            }
            Ok(true) => {
                self.is_well();
                self.issued.fetch_add(1, Ordering::Relaxed);
                let until = self.now().map_or(0, |pair| pair.facts.not_after);
                let what = match before {
                    None => "obtained",
                    // That could not be written down at first.
                    Some(before) if before == until => "obtained and kept",
                    Some(_) => "renewed",
                };
                log::info!(
                    target: self.target,
                    "certificate of {domain} {what} by ACME, valid until {}", date(until)
                );
            }
            Err(failure) => self.failed(&failure),
        }
    }

    /// Notes a failure, and says what it means.
    fn failed(&self, failure: &Failure) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.broken.store(true, Ordering::Relaxed);
        let wait = {
            let mut state = self.state();
            state.failures = state.failures.saturating_add(1);
            let wish = self.client.after().max(failure.after);
            let wait = schedule::wait(state.failures, failure.refused, wish);
            state.next = Some(Instant::now() + wait);
            wait
        };
        let meanwhile = match self.now() {
            Some(pair) => {
                format!("the one that expires on {} is served", date(pair.facts.not_after))
            }
            None => "there is none, and handshakes for it fail".to_owned(),
        };
        log::error!(
            target: self.target,
            "no certificate of {} by ACME: {failure}; {meanwhile}; next attempt in {} s",
            self.acme.domain, wait.as_secs().max(1)
        );
    }

    /// Takes what is in the file, beside everything else.
    async fn look_beside(self: &Arc<Self>) -> Result<(), Failure> {
        let own = Arc::clone(self);
        blocking(move || {
            own.look();
            Ok(())
        })
        .await
    }

    /// Obtains a certificate and keeps it; false if somebody else is at it or has done it.
    async fn obtain(self: &Arc<Self>) -> Result<bool, Failure> {
        // Before the lock: what others write while it is waited for is news.
        let before = self.now().map(|pair| pair.facts.not_after);
        let storage = self.storage.clone();
        let lock = blocking(move || storage.lock()).await?;
        let Some(_lock) = lock else { return Ok(false) };
        if self.unwritten.load().is_some() {
            self.write_down().await?;
            return Ok(true);
        }
        // Somebody else may just have written it.
        self.look_beside().await?;
        if self.now().is_some_and(|pair| Some(pair.facts.not_after) != before) {
            return Ok(false);
        }
        let Acme { domain, email, directory, challenge, answers, .. } = &self.acme;
        let order = async || {
            let account =
                account::account(&self.storage, &self.client, directory, email.as_deref());
            order::order(&account.await?, domain, *challenge, answers, &self.storage).await
        };
        let (chain, key) = match order().await {
            // The CA has forgotten it; another one does as well.
            Err(failure) if failure.is_unknown => {
                log::warn!(target: self.target, "{failure}; there will be a new account");
                account::forget(&self.storage)?;
                order().await?
            }
            other => other?,
        };
        let path = self.storage.certificate(domain);
        let text = format!("{}\n{key}", chain.trim_end());
        // So that what cannot be used does not take the place of what can.
        let files = [path.clone(), path.clone()];
        let octets = [text.clone().into_bytes(), text.clone().into_bytes()];
        // Whatever is wrong with it, the CA counts it.
        let pair =
            Pair::read(&files, &octets).map_err(|error| Failure::refused(error.to_string()))?;
        if let Some(odd) = pair.odd(now()) {
            return Err(Failure::refused(format!("the CA's certificate is of no use: {odd}")));
        }
        self.unwritten.store(Some(Arc::new(Obtained { pair: Arc::new(pair), text })));
        self.write_down().await?;
        Ok(true)
    }

    /// Writes down what was obtained. Until that is done it is served all the same, and no other one is ordered.
    async fn write_down(self: &Arc<Self>) -> Result<(), Failure> {
        let own = Arc::clone(self);
        blocking(move || {
            let Some(obtained) = own.unwritten.load_full() else { return Ok(()) };
            let path = own.storage.certificate(&own.acme.domain);
            store::write(&path, obtained.text.as_bytes())?;
            own.look();
            own.unwritten.store(None);
            Ok(())
        })
        .await
    }
}

/// Does what waits for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Failure::new("it was broken off")),
    }
}
