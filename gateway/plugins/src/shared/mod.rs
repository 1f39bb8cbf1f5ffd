//! What several plugins need.

pub(crate) mod alias;
pub mod asked;
pub(crate) mod aws;
pub(crate) mod bound;
pub(crate) mod cause;
pub(crate) mod client_tls;
pub(crate) mod clock;
pub(crate) mod cloud;
pub(crate) mod cluster;
pub mod dnssec;
pub mod empty;
pub(crate) mod environment;
pub mod expr;
pub mod fall;
pub(crate) mod fetch;
pub mod file;
pub(crate) mod glue;
pub mod gotemplate;
pub mod host;
pub(crate) mod journal;
pub mod listen;
pub mod mnemonic;
pub mod name_text;
pub mod once;
pub mod private;
pub mod regex;
pub(crate) mod relay;
pub mod replacer;
pub(crate) mod resolve;
pub mod response;
pub mod reverse;
#[cfg(test)]
pub(crate) mod scripted;
pub(crate) mod sheet;
pub mod span;
#[cfg(test)]
pub(crate) mod testing;
pub mod transfer;
pub(crate) mod tsig;
pub(crate) mod ttl;
pub mod web;
pub mod zone;
pub mod zones;
