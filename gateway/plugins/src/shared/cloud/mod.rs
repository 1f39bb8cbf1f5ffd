//! Zones that a cloud's API holds, copied at an interval and served as those of files are.

mod fresh;
mod handler;
mod jwt;
mod records;
pub(crate) mod setup;
mod source;
#[cfg(test)]
pub(crate) mod stub;

#[cfg(test)]
mod tests;

pub(crate) use fresh::{Fresh, Made};
pub(crate) use handler::Cloud;
pub(crate) use jwt::Signer;
pub(crate) use records::{Listing, RecordSet};
pub(crate) use source::{Api, Asking, Copy, Figures, Source};
