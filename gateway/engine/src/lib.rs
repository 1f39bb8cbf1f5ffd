#![doc = include_str!("../README.md")]

pub mod admin;
mod build;
mod cluster;
pub mod control;
mod door;
mod everywhere;
mod exchange;
pub mod explain;
mod gate;
mod gateway;
mod kept;
mod layout;
mod live;
pub mod metrics;
mod plugin;
mod process;
mod route;
mod seal;
mod setup;
mod shutdown;
mod spec;
pub mod testing;
mod trail;

#[cfg(test)]
mod tests;

pub use build::{Build, Built, Origin};
pub use cluster::{CheckCluster, ClusterBlock, declared as declared_clusters};
pub use door::{Admission, Door, Http, Identity, Kept as SessionKept, Method, Session, Signature};
pub use exchange::{Begin, End, Exchange, Fault, Query, Transport};
pub use gate::Reach;
pub use gateway::{Common, Gateway, Limits, Served};
pub use kept::Kept;
pub use layout::{Layout, Listening};
pub use live::{Link, Live, Progress, Site};
pub use plugin::{
    Carry, Hop, Kind, Metadata, Observer, Plugin, Provider, Ready, Role, Roles, SearchPath, Step,
    Stream, Tap, Transfer, View, Wanted, Work,
};
pub use process::{Hold, Linger, Process};
pub use route::{Group, GroupKey, ListenerId, Route, Routes};
pub use seal::{Broken, Keyring, Seal};
pub use setup::{BlockKey, Descriptor, Setup, Task, Wait};
pub use shutdown::{Stage, Stop, Stopper};
pub use spec::{
    BindAddr, GrpcSpec, HttpSpec, LimitSpec, ListenSpec, ProxyPolicy, ProxySpec, QuicSpec, Rate,
    Retry, Timeouts, Tls,
};
pub use trail::{Passage, Trail};
