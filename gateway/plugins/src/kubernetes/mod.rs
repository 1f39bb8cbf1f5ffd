#![doc = include_str!("README.md")]

mod called;
mod conflicts;
mod copy;
mod explain;
mod handler;
mod lookup;
mod metadata;
mod nameserver;
mod reach;
mod search;
mod setup;
mod union;
mod why;

#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::Descriptor;
use wire::Name;

use crate::shared::cluster::Calls;
use crate::shared::cluster::member::Members;
use crate::shared::cluster::pointers::Pointers;
use crate::shared::cluster::reach::Order;
use crate::shared::fall::Fall;
use crate::shared::journal::Journals;
use crate::shared::zones::Zones;
use nameserver::Servers;

pub(crate) use setup::follows;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "kubernetes", readme: include_str!("README.md"), setup: setup::set_up };

/// The plugin: zones that a cluster's objects fill.
#[derive(Clone, Debug)]
struct Kubernetes(Arc<Cluster>);

/// What a server block's directive says, and the store that answers come from.
#[derive(Debug)]
struct Cluster {
    /// Its zones.
    zones: Zones,
    /// The zone that reverse names lead to.
    primary: Name,
    /// Those of the zones that are a cluster set's.
    multicluster: Zones,
    /// Which names that are not there go on to the next plugin.
    fall: Fall,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// What names of pods give.
    pods: Pods,
    /// Whether headless services have names for topology zones.
    zonal: bool,
    /// Whether services without ready endpoints are not there.
    ignore_empty: bool,
    /// Which addresses the names of services give.
    reach: Order,
    /// What endpoints are called.
    calls: Calls,
    /// The stated name servers.
    servers: Servers,
    /// The addresses of this process, for NS records.
    own: Box<[IpAddr]>,
    /// The machine's own search domains, behind those of a pod.
    search: Box<[Name]>,
    /// The clusters, in their order.
    members: Arc<Members>,
    /// What reverse zones say of addresses that several of them have.
    pointers: Pointers,
    /// What others copy of the zones.
    journals: Journals,
    /// Whether the log was told of names that copies lack.
    told: AtomicBool,
}

/// What names of pods give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Pods {
    /// Nothing: they are not there.
    #[default]
    Disabled,
    /// The address in the name, whether a pod has it or not.
    Insecure,
    /// The address in the name if a pod of the namespace has it.
    Verified,
}
