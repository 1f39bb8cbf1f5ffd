//! A zone of records and its look-ups; zone files; and records as text. No I/O, no clock.

mod builder;
mod delta;
mod generate;
mod incoming;
mod lookup;
mod order;
mod patch;
mod proof;
pub mod reader;
pub mod record;
mod types;
mod zone;

#[cfg(test)]
mod tests;

pub use builder::{Builder, Unfit};
pub use delta::Delta;
pub use incoming::{BadTransfer, Incoming};
pub use lookup::{Finding, Found};
pub use types::{types_in, write_types};
pub use zone::{Cursor, Soa, Zone};
