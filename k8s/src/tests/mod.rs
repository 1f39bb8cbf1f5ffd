//! Tests of the crate's parts together.

mod apart;
mod api;
mod changes;
mod compact;
mod config;
mod exec;
mod freshness;
mod histories;
mod proto;
mod silence;
mod snapshot;
mod standing;
mod store;
mod testbed;
mod verify;
mod watch;
mod yaml;
