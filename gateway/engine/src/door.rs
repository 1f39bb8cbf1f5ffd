//! Who asks, and what is known of the connection and the request that a query came by.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use wire::Name;

use crate::exchange::Exchange;

/// What is known of an encrypted connection: found once, when its handshake is done, and shared by all its queries.
#[derive(Default)]
pub struct Session {
    /// The name that the client asked for in the handshake (RFC 6066 §3), in lower case without a last dot; none if it sent
    /// none, or an address. A label of it may be a secret, so it goes to no log.
    pub name: Option<Box<str>>,
    /// The certificates that the client showed in DER, its own first. Whether they are to be believed is for who reads
    /// them: some modes of `client_auth` ask for certificates without checking them.
    pub certificates: Box<[Box<[u8]>]>,
    /// The protocol's version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by its IANA name.
    pub cipher: &'static str,
    /// Whether the query came before the handshake was done (0-RTT), so that it may be a replay.
    pub early: bool,
    /// What the [`Door`] has found out of the above, for it alone.
    pub kept: Kept,
}

impl fmt::Debug for Session {
    /// Leaves out what is or may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("version", &self.version)
            .field("cipher", &self.cipher)
            .field("early", &self.early)
            .finish_non_exhaustive()
    }
}

/// What a [`Door`] keeps with a connection.
#[derive(Default)]
pub struct Kept(ArcSwapOption<Noted>);

/// A value with the generation of the secrets that it was found by.
struct Noted {
    generation: u64,
    value: Arc<dyn Any + Send + Sync>,
}

impl Kept {
    /// What was kept, if it is of this generation.
    pub fn get<T: Any + Send + Sync>(&self, generation: u64) -> Option<Arc<T>> {
        let noted = self.0.load();
        let noted = noted.as_ref().filter(|noted| noted.generation == generation)?;
        Arc::clone(&noted.value).downcast().ok()
    }

    /// Keeps `value`.
    pub fn set<T: Any + Send + Sync>(&self, generation: u64, value: Arc<T>) {
        self.0.store(Some(Arc::new(Noted { generation, value })));
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

/// The HTTP request that a query came in. Its memory is reused from query to query.
#[derive(Clone, Default)]
pub struct Http {
    /// The method.
    pub method: &'static str,
    /// The path as the listener knows it, such as `/dns-query`, without what may be a secret.
    pub path: String,
    /// What follows one of the listener's paths and a slash: a secret; empty if nothing does.
    pub secret: String,
    /// `:authority`, or the `Host` header.
    pub authority: String,
    /// The `Authorization` header; empty without one.
    pub authorization: String,
    /// Further headers that plugins read, by their lower-case names: `user-agent`, `traceparent`, `b3` and `x-b3-…`.
    pub headers: Vec<(&'static str, String)>,
}

impl Http {
    /// Forgets the request, and keeps the memory.
    pub fn clear(&mut self) {
        self.method = "";
        for text in [&mut self.path, &mut self.secret, &mut self.authority, &mut self.authorization]
        {
            text.clear();
        }
        self.headers.clear();
    }

    /// The value of one of the further headers.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| *own == name).map(|(_, value)| &**value)
    }
}

impl fmt::Debug for Http {
    /// Leaves out what is or may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What is known of a query's signature (RFC 8945).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one an exchange, which is used again")]
pub enum Signature {
    /// There is none, or nobody has looked at it.
    #[default]
    None,
    /// It is good, and made with the key of this name.
    Good(Name),
    /// It is there, and not good.
    Bad,
}

/// How a client was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By a certificate of its own.
    Certificate,
    /// By the key that signed the query (RFC 8945).
    Tsig,
    /// By the `Authorization` header.
    Authorization,
    /// By a secret in the path.
    Path,
    /// By a label of the TLS name.
    Name,
    /// By its address.
    Network,
}

impl Method {
    /// Its name in metadata and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Tsig => "tsig",
            Self::Authorization => "authorization",
            Self::Path => "path",
            Self::Name => "name",
            Self::Network => "network",
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The groups it is in.
    pub groups: Vec<String>,
    /// How it was known.
    pub method: Method,
}

/// What a [`Door`] says of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may ask; [`Exchange::identity`] says who asks, if that is known.
    Open,
    /// Nothing was presented, and only blocks whose view admits the query may answer.
    Views,
    /// What was presented is wrong: nothing is here for this client.
    Refused,
}

/// Finds who asks at a listener, before a server block is chosen. What it says of a name, a connection or a request must not
/// tell a wrong secret from a missing page.
pub trait Door: fmt::Debug + Send + Sync {
    /// Whether a handshake for this TLS name goes on; asked while it is under way. Must not wait.
    fn name(&self, name: Option<&str>) -> bool;

    /// Whether a connection may stay; asked when its handshake is done, and again whenever [`Door::changes`] tells.
    fn connection(&self, session: &Session) -> bool;

    /// Whether there is something at an HTTP request's path and secret for this client; asked before anything else of the
    /// request is looked at. If not, it gets what a missing page gets.
    fn request(&self, session: Option<&Session>, http: &Http) -> bool;

    /// Decides on a query, and notes who asks with [`Exchange::identify`]. The query's signature has been looked at before.
    fn admit(&self, x: &mut Exchange) -> Admission;

    /// Whether a client that presents nothing may ask every block: only then is a listener told to anybody.
    fn is_open(&self) -> bool {
        false
    }

    /// Tells when secrets have changed, so that open connections are looked at again.
    fn changes(&self) -> watch::Receiver<u64>;
}
