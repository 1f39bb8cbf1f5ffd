//! What plugins that answer from a cluster's objects have in common.

pub(crate) mod address;
mod calls;
pub(crate) mod connection;
pub(crate) mod metrics;
pub(crate) mod name;
mod pen;
pub(crate) mod source;
pub(crate) mod stale;

use std::net::IpAddr;

use k8s::{ServiceKind, ServiceRef, Store};

pub(crate) use calls::Calls;
pub(crate) use pen::{Found, Pen, found, has_protocol, is_port, target, weight};

/// RFC 8914 §4.15: the server is not ready yet.
pub(crate) const NOT_READY: u16 = 14;
/// What is said with it.
pub(crate) const NOT_KNOWN: &str = "the cluster's objects are not known yet";

/// A cluster as the `kubernetes` of a server block sees it, for the block's other plugins that answer from it.
#[derive(Debug)]
pub(crate) struct View {
    /// The objects.
    pub(crate) store: Store,
    /// What endpoints are called.
    pub(crate) calls: Calls,
    /// Whether services without ready endpoints are not there.
    pub(crate) ignore_empty: bool,
    /// The addresses by which others reach this process.
    pub(crate) own: Box<[IpAddr]>,
}

impl View {
    /// Whether a service is kept from view, since nothing is behind it.
    pub(crate) fn hides(&self, service: &ServiceRef<'_>) -> bool {
        self.ignore_empty
            && service.kind() == ServiceKind::ClusterIp
            && !service.has_ready_endpoints()
    }
}
