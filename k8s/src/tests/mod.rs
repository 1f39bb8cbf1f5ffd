//! Tests of the crate's parts together.

mod api;
mod proto;
mod store;
mod testbed;
mod watch;
mod yaml;
