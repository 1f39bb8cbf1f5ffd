//! DNS messages as wire bytes: names, requests, EDNS and answers. No I/O, no clock, no dependency.
//!
//! A request is read once into a [`Request`] whose memory is reused, an answer is an index of records over one
//! arena of uncompressed bytes ([`Answer`]), and [`encode()`] turns the two into a reply. Reading a message of
//! somebody else's (an upstream's reply, a transfer) is [`scan::read`].

mod answer;
mod compress;
mod edns;
mod encode;
mod header;
mod name;
mod rdata;
mod request;
pub mod scan;
pub mod text;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Rr, Section, Srv};
pub use edns::{Edns, Options, option};
pub use encode::{Reply, encode, encode_query};
pub use header::{Flags, class, opcode, rcode, rtype};
pub use name::{Name, Suffixes};
pub use request::{Bad, Parts, Request};
