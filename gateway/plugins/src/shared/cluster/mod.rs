//! What plugins that answer from a cluster's objects have in common.

pub(crate) mod address;
mod calls;
pub(crate) mod connection;
pub(crate) mod copy;
pub(crate) mod key;
pub(crate) mod member;
pub(crate) mod metrics;
pub(crate) mod name;
mod overlap;
mod pen;
pub(crate) mod pointers;
pub(crate) mod reach;
pub(crate) mod rights;
pub(crate) mod service;
mod soa;
pub(crate) mod source;
pub(crate) mod stale;
pub(crate) mod status;
mod verdict;
mod verify;
pub(crate) mod words;

use std::net::IpAddr;
use std::sync::Arc;

use k8s::{ServiceKind, ServiceRef};

pub(crate) use calls::Calls;
use member::Members;
pub(crate) use pen::{
    Found, Home, Pen, TOO_LONG, at_apex, found, has_protocol, is_port, target, weight,
};
use pointers::Pointers;
pub(crate) use soa::{NAME_SERVER, SOA_TTL, Soa};
pub(crate) use verdict::{Verdict, zone_of};

/// RFC 8914 §4.1: other errors, which the text tells.
pub(crate) const OTHER: u16 = 0;
/// RFC 8914 §4.15: the server is not ready yet.
pub(crate) const NOT_READY: u16 = 14;
/// What is said with it.
pub(crate) const NOT_KNOWN: &str = "the cluster's objects are not known yet";

/// A cluster as the `kubernetes` of a server block sees it, for the block's other plugins that answer from it.
#[derive(Debug)]
pub(crate) struct View {
    /// The clusters, in their order.
    pub(crate) members: Arc<Members>,
    /// What reverse zones say of addresses that several of them have.
    pub(crate) pointers: Pointers,
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
