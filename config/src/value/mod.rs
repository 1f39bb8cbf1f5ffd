//! Words that mean more than their letters.

mod cidr;
mod duration;
mod name;
mod nearest;

pub use cidr::{CidrError, Network, cidr_zones};
pub use duration::{NotDuration, duration, nanoseconds, seconds};
pub use name::{NameError, fqdn};
pub use nearest::{known, nearest};
