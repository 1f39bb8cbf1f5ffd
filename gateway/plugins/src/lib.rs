//! The plugins, in the order queries meet them. A new plugin is a folder and a line here.

pub mod shared;

#[cfg(test)]
mod tests;

use config::Diagnostic;
use engine::ClusterBlock;

pub use k8s::Right;
pub use shared::cluster::rights::{Demand, demands};

/// Says what is wrong with a declared cluster that no plugin uses.
///
/// # Errors
/// Wrong lines, and any number of ways to connect but one.
pub fn check_cluster(block: &ClusterBlock) -> Result<(), Diagnostic> {
    shared::cluster::connection::check(block)
}

/// Declares each plugin's module and lists its descriptor.
macro_rules! plugins {
    ($($(#[$attr:meta])* $name:ident)*) => {
        $($(#[$attr])* pub mod $name;)*

        /// The registry, in chain order.
        pub static CHAIN: &[&engine::Descriptor] = &[$($(#[$attr])* &$name::PLUGIN),*];
    };
}

plugins! {
    root
    metadata
    geoip
    identity
    cancel
    proxyproto
    quic
    grpc_server
    https
    https3
    timeouts
    limits
    multisocket
    reload
    nsid
    bufsize
    bind
    debug
    trace
    ready
    health
    pprof
    shed
    prometheus
    errors
    log
    dnstap
    local
    dns64
    any
    chaos
    loadbalance
    tsig
    rewrite
    autopath
    acl
    ddr
    cache
    header
    dnssec
    tls
    minimal
    template
    transfer
    hosts
    route53
    azure
    clouddns
    k8s_external
    kubernetes
    clusterset
    file
    auto
    secondary
    guard
    etcd
    r#loop
    forward
    grpc
    recursive
    erratic
    whoami
    on
    sign
    view
    nomad
}
