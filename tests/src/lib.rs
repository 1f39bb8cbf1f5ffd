#![doc = include_str!("../README.md")]

pub mod client;
pub mod cluster;
pub mod gateway;
pub mod namespace;
pub mod process;
pub mod upstream;

pub use client::{Query, Reply, Stream};
pub use cluster::Cluster;
pub use gateway::Gateway;
pub use namespace::Namespace;
pub use process::{Folder, Process, free_port, until};
pub use upstream::Upstream;
