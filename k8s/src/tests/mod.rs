//! Tests of the crate's parts together.

mod api;
mod proto;
mod store;
mod watch;
mod yaml;
