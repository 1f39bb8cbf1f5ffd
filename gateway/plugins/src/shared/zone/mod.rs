//! Zones that plugins serve: read from files, answered from, handed out.

mod answer;
mod load;
mod served;
mod transfer;

#[cfg(test)]
mod tests;

pub use answer::{NO_TRANSFER, answer, asked};
pub use load::{Loaded, Trouble, load};
pub use served::{Served, Version};
