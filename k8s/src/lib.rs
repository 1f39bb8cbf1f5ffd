//! Kubernetes clusters as a data structure: connections and watches fill a compact store, which readers look names up in.
//!
//! The crate knows no DNS messages. A [`Store`] is read by parts of names in wire form (`\x03web\x04shop`), filled by a
//! [`Writer`] from [`Event`]s, and neither does I/O; [`from_yaml`] makes events from manifests.

#[cfg(test)]
mod tests;

mod apart;
mod arena;
mod bundles;
mod changes;
mod client;
mod compact;
mod compare;
mod config;
mod content;
mod document;
mod end;
mod exec;
mod exports;
mod gzip;
mod intern;
mod keeper;
mod limit;
mod manifests;
mod object;
mod order;
mod pack;
mod pods;
mod probe;
pub mod program;
mod proto;
mod reader;
mod records;
mod resolve;
mod rights;
mod selector;
mod set;
mod silence;
mod slab;
mod snapshot;
mod standing;
mod store;
mod stream;
mod url;
mod verify;
mod watch;
mod yaml;

pub use changes::{Mark, Touched};
pub use client::Connected;
pub use config::{Config, Source, Tls, VERIFY, agent};
pub use keeper::Credential;
pub use limit::Limits;
pub use manifests::{from_yaml, store_from_yaml};
pub use object::{
    Endpoint, Event, Export, Import, ImportKind, Key, Kind, Meta, Object, Place, Pod, Port,
    Protocol, Service, ServiceKind, Slice,
};
pub use pack::{Address, Ips, PortRef, Ports};
pub use probe::{Probe, Quiet, State};
pub use reader::{
    Balancer, EndpointRef, EndpointsIter, ExportRef, ImportRef, PodRef, Reader, ServiceRef,
};
pub use rights::Right;
pub use selector::{Selector, SelectorError};
pub use set::WatchSet;
pub use snapshot::Snapshot;
pub use standing::Standing;
pub use store::{Freshness, Keep, Store, Writer};
pub use url::address;
pub use verify::{Difference, Verdict};
pub use yaml::Problem;

/// The target of log lines, by which operators know the plugin that they configure.
const LOG: &str = "plugin/kubernetes";
