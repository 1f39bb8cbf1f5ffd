//! The decision who asks.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::{Admission, Door, Exchange, Http, Identity, Method, Session, Signature, Stage, Stop};
use foldhash::fast::FixedState;
use tokio::sync::{Mutex, watch};
use wire::Name;

use super::figures::Figures;
use super::files::{Files, Known, Stamp, Unread};
use super::networks::Networks;
use super::secrets::Kind;
use super::words::fitted;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// Where messages of this plugin go.
const TARGET: &str = "plugin/identity";

/// What is to be done about secrets that everybody can read.
pub(super) const OPEN_HELP: &str = "take the right away with chmod o-r";

/// The most octets of a user and a password.
const LONGEST_PASSWORD: usize = 512;

/// What the Corefile says.
#[derive(Debug)]
pub(super) struct Rules {
    /// The files.
    pub(super) files: Files,
    /// What stands behind the label in the TLS names, beginning with a dot.
    pub(super) names: Box<[String]>,
    /// Who is at which address.
    pub(super) networks: Networks,
    /// Whose keys sign.
    pub(super) tsig: HashMap<Name, Arc<Identity>, FixedState>,
    /// What becomes of those who present nothing.
    pub(super) default: Admission,
}

/// Who somebody is by what was presented: nothing of the kind; somebody; or, by this method, what is wrong.
type Verdict = Option<Result<Arc<Identity>, Method>>;

/// What is found once a connection.
#[derive(Debug)]
struct Seen {
    /// By its certificate.
    certificate: Verdict,
    /// By its TLS name.
    label: Verdict,
    /// When that is over, since the certificate is.
    until: Option<Instant>,
}

/// Finds who asks, for the blocks that have the same lines.
pub(super) struct Doorkeeper {
    rules: Rules,
    known: ArcSwap<Known>,
    changes: watch::Sender<u64>,
    /// What is seen of the files that were read last; held by the task that looks at them.
    stamps: Mutex<Vec<Stamp>>,
    /// What was said last of files that are wrong; empty if they are right.
    told: std::sync::Mutex<String>,
    figures: Figures,
}

impl fmt::Debug for Doorkeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorkeeper").finish_non_exhaustive()
    }
}

impl Doorkeeper {
    /// Reads the files.
    pub(super) fn new(rules: Rules) -> Result<Self, Unread> {
        let stamps = rules.files.stamps();
        let known = rules.files.read()?;
        Ok(Self {
            changes: watch::Sender::new(known.generation),
            known: ArcSwap::from_pointee(known),
            stamps: Mutex::new(stamps),
            told: std::sync::Mutex::default(),
            figures: Figures::new(),
            rules,
        })
    }

    /// Reads the files again when they change, until the configuration is replaced. Of several tasks that do, one does.
    pub(super) async fn watch(self: Arc<Self>, mut stop: Stop) {
        let mut stamps = tokio::select! {
            () = stop.reached(Stage::Draining) => return,
            stamps = self.stamps.lock() => stamps,
        };
        loop {
            tokio::select! {
                () = stop.reached(Stage::Draining) => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let (door, before) = (Arc::clone(&self), stamps.clone());
            let looked = tokio::task::spawn_blocking(move || door.refresh(&before)).await;
            if let Ok(Some(now)) = looked {
                *stamps = now;
            }
        }
    }

    /// Reads the files if they have changed; gives what was seen of them then. Those that are wrong are said to be once, and
    /// the last good ones go on.
    pub(super) fn refresh(&self, before: &[Stamp]) -> Option<Vec<Stamp>> {
        let now = self.rules.files.changed(before)?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match self.rules.files.read() {
            Ok(known) => {
                told.clear();
                self.figures.count_read(true);
                let (generation, count) = (known.generation, known.secrets.len());
                self.known.store(Arc::new(known));
                self.changes.send_replace(generation);
                log::info!(target: TARGET, "secrets and authorities are read again: {count} secrets");
                if self.rules.files.are_open() {
                    log::warn!(target: TARGET, "everybody on this machine can read the secrets: {OPEN_HELP}");
                }
            }
            Err(Unread { file, why, passes }) => {
                let what = format!("{}{why}", file.display());
                if !passes || *told != what {
                    self.figures.count_read(false);
                    log::error!(target: TARGET, "{what}; what was read last goes on");
                    *told = what;
                }
                // No stamps are like these, so that the next look reads again.
                if passes {
                    return Some(Vec::new());
                }
            }
        }
        Some(now)
    }

    /// Whether there is a file to watch.
    pub(super) fn has_files(&self) -> bool {
        !self.rules.files.is_empty()
    }

    /// What is known of a connection, found out if it is not known for the secrets of now.
    fn seen(&self, session: &Session, now: Instant) -> Arc<Seen> {
        let known = self.known.load();
        let kept = session.kept.get::<Seen>(known.generation);
        if let Some(seen) = kept.filter(|seen| seen.until.is_none_or(|until| now < until)) {
            return seen;
        }
        let (certificate, until) = certificate(&known, session, now);
        let label = session.name.as_deref().and_then(|name| self.label(name));
        let label = label.map(|label| known.secrets.owner(Kind::Label, label).ok_or(Method::Name));
        let seen = Arc::new(Seen { certificate, label, until });
        session.kept.set(known.generation, Arc::clone(&seen));
        seen
    }

    /// The label of a TLS name that stands for somebody, if one does.
    fn label<'a>(&self, name: &'a str) -> Option<&'a str> {
        let is_one = |label: &&str| !label.is_empty() && !label.contains('.');
        self.rules.names.iter().find_map(|suffix| name.strip_suffix(&**suffix).filter(is_one))
    }

    /// Who somebody is by the header and the path of a request.
    fn request_of(&self, http: &Http) -> Verdict {
        let known = self.known.load();
        if self.rules.files.secrets.is_some() && !http.authorization.is_empty() {
            let owner = authorized(&known, &http.authorization);
            return Some(owner.ok_or(Method::Authorization));
        }
        let presented = !http.secret.is_empty();
        presented.then(|| known.secrets.owner(Kind::Path, &http.secret).ok_or(Method::Path))
    }

    /// Who signed a query.
    fn signer(&self, x: &Exchange) -> Verdict {
        match &x.query.signature {
            Signature::Good(key) => self.rules.tsig.get(key).cloned().map(Ok),
            Signature::Bad if !self.rules.tsig.is_empty() => Some(Err(Method::Tsig)),
            Signature::Bad | Signature::None => None,
        }
    }

    /// Who asks: the first that is presented decides.
    fn decide(&self, x: &Exchange) -> Verdict {
        let seen = x.query.session.as_ref().map(|session| self.seen(session, x.now()));
        let seen = seen.as_deref();
        seen.and_then(|seen| seen.certificate.clone())
            .or_else(|| self.signer(x))
            .or_else(|| self.request_of(x.query.http.as_ref()?))
            .or_else(|| seen?.label.clone())
            .or_else(|| self.rules.networks.at(x.query.peer.ip()).map(Ok))
    }

    /// Whether what was presented is right, if anything was; counts what is not.
    fn passes(&self, verdict: &Verdict) -> bool {
        match verdict {
            Some(Err(method)) => {
                self.figures.count_refused(*method);
                false
            }
            _ => true,
        }
    }
}

impl Door for Doorkeeper {
    fn name(&self, name: Option<&str>) -> bool {
        let Some(label) = name.and_then(|name| self.label(name)) else { return true };
        let owner = self.known.load().secrets.owner(Kind::Label, label);
        self.passes(&Some(owner.ok_or(Method::Name)))
    }

    fn connection(&self, session: &Session) -> bool {
        let seen = self.seen(session, now());
        self.passes(&seen.certificate.clone().or_else(|| seen.label.clone()))
    }

    fn request(&self, session: Option<&Session>, http: &Http) -> bool {
        let seen = session.map(|session| self.seen(session, now()));
        let seen = seen.as_deref();
        let verdict = seen
            .and_then(|seen| seen.certificate.clone())
            .or_else(|| self.request_of(http))
            .or_else(|| seen?.label.clone());
        self.passes(&verdict)
    }

    fn admit(&self, x: &mut Exchange) -> Admission {
        if self.rules.default == Admission::Views {
            // Others get nothing where this client gets an answer, or the other way round.
            x.note_personal();
        }
        match self.decide(x) {
            Some(Ok(identity)) => {
                self.figures.count_known(identity.method);
                x.identify(identity);
                Admission::Open
            }
            Some(Err(method)) => {
                self.figures.count_refused(method);
                Admission::Refused
            }
            None => {
                self.figures.count_unknown();
                self.rules.default
            }
        }
    }

    fn is_open(&self) -> bool {
        self.rules.default == Admission::Open
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// The clock of connections.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Who somebody is by the certificates shown, and until when that holds.
fn certificate(known: &Known, session: &Session, now: Instant) -> (Verdict, Option<Instant>) {
    let Some(cas) = known.cas.as_ref().filter(|_| !session.certificates.is_empty()) else {
        return (None, None);
    };
    let is_revoked = known.secrets.revokes_any()
        && session.certificates.iter().any(|one| known.secrets.revokes(&certs::fingerprint(one)));
    let holder = if is_revoked { None } else { cas.holder(&session.certificates) };
    let Some(holder) = holder else { return (Some(Err(Method::Certificate)), None) };
    let identity = Identity {
        name: fitted(&holder.name),
        groups: holder.units.iter().map(|unit| fitted(unit)).collect(),
        method: Method::Certificate,
    };
    // The last second is part of it (RFC 5280 §4.1.2.5).
    let until = now.checked_add(holder.left + Duration::from_secs(1));
    (Some(Ok(Arc::new(identity))), until)
}

/// Whose token (RFC 6750 §2.1) or password (RFC 7617) an `Authorization` header has; the user with a password may be any.
fn authorized(known: &Known, header: &str) -> Option<Arc<Identity>> {
    let (scheme, credentials) = header.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return known.secrets.owner(Kind::Bearer, credentials);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut decoded = [0; LONGEST_PASSWORD];
    let length = BASE64_STANDARD.decode_slice(credentials, &mut decoded).ok()?;
    let (_, password) = std::str::from_utf8(decoded.get(..length)?).ok()?.split_once(':')?;
    known.secrets.owner(Kind::Bearer, password)
}
