#![doc = include_str!("../README.md")]

pub mod api;
pub mod client;
pub mod cluster;
pub mod edge;
pub mod etcd;
pub mod fake;
mod gate;
pub mod gateway;
pub mod meddler;
pub mod moto;
pub mod nameserver;
pub mod namespace;
pub mod pebble;
pub mod pki;
pub mod process;
pub mod quic;
pub mod relay;
pub mod scripted;
pub mod tls;
pub mod upstream;
pub mod watchman;
pub mod web;

pub use api::Api;
pub use client::{Query, Reply, Stream};
pub use cluster::Cluster;
pub use edge::Edge;
pub use fake::Fake;
pub use gateway::Gateway;
pub use nameserver::Nameserver;
pub use namespace::Namespace;
pub use pki::Pki;
pub use process::{Folder, Process, free_port, stated, until};
pub use relay::Relay;
pub use scripted::Scripted;
pub use upstream::Upstream;
pub use watchman::Watchman;
