//! Words that mean more than their letters.

mod cidr;
mod duration;
mod endpoint;
mod name;
mod nearest;
mod number;
mod resolvconf;
mod tls;
mod zones;

pub use cidr::{CidrError, Network, cidr_zones};
pub use duration::{NotDuration, duration, nanoseconds, seconds};
pub use endpoint::{Endpoint, EndpointError, endpoints};
pub use name::{NameError, fqdn, is_label};
pub use nearest::{known, nearest};
pub use number::{NotNumber, based_integer, integer, size};
pub use resolvconf::ResolvConf;
pub use tls::{TlsFiles, below_root, tls_files};
pub use zones::{zone_argument, zones_of};

#[cfg(test)]
mod tests;
