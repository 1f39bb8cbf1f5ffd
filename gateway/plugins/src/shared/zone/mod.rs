//! Zones that plugins serve: read from files, answered from, handed out.

mod answer;
mod load;
mod served;
mod source;
mod table;
mod transfer;

#[cfg(test)]
mod tests;

pub use answer::{CIRCLE, NO_NOTICE, NO_TRANSFER, NOT_LOADED, answer, asked, outcome, wildcard};
pub use load::{Loaded, Trouble, load};
pub use served::{Served, Version};
pub use source::Source;
pub use table::Table;
