//! Tests of the crate's parts together.

mod store;
mod yaml;
