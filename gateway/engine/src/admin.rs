//! The small HTTP listeners of `health`, `ready` and `prometheus`: what they answer. Serving them is the gateway's.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use crate::spec::Tls;

/// A request at an admin listener.
#[derive(Clone, Copy, Default)]
pub struct Ask<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The query without the question mark, if there is one.
    pub query: Option<&'a str>,
    /// The `Accept` header, if there is one.
    pub accept: Option<&'a str>,
    /// The `Authorization` header, if there is one.
    pub authorization: Option<&'a str>,
}

impl fmt::Debug for Ask<'_> {
    /// Leaves out what proves who asks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The reply to it.
#[derive(Clone, Debug)]
pub struct Told {
    /// The HTTP status.
    pub status: u16,
    /// The media type.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Told {
    /// A reply in plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into().into_bytes() }
    }
}

/// A reply that takes time.
pub type Later = Pin<Box<dyn Future<Output = Told> + Send>>;

/// Answers under a path of an admin listener.
///
/// Several server blocks may want the same path of the same listener; the later one finds the page of the first among
/// [`Setup::pages`](crate::Setup::pages), and what it is by [`Page::is`].
pub trait Handler: Any + fmt::Debug + Send + Sync {
    /// Answers one request; must not block.
    fn handle(&self, ask: Ask<'_>) -> Told;

    /// Answers a request that takes time; none for all others, which [`Handler::handle`] answers.
    fn later(&self, _ask: Ask<'_>) -> Option<Later> {
        None
    }
}

/// A path of an admin listener, and who answers there.
#[derive(Clone, Debug)]
pub struct Page {
    /// The address of the listener.
    pub addr: SocketAddr,
    /// The path, such as `/health`; one that ends in a slash is for all below it.
    pub path: String,
    /// The plugin it belongs to, for messages.
    pub plugin: &'static str,
    /// Who answers.
    pub handler: Arc<dyn Handler>,
    /// The TLS that the listener speaks; none for clear text.
    pub tls: Option<Tls>,
}

impl Page {
    /// The handler, if it is a `T`.
    pub fn is<T: Handler>(&self) -> Option<&T> {
        let handler: &dyn Any = &*self.handler;
        handler.downcast_ref()
    }
}
