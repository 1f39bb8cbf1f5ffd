//! Front-ends that clients ask, the upstream side, and the admin listeners.

mod accept;
pub mod admin;
mod desk;
mod endpoint;
mod framing;
pub mod front;
mod grpc;
mod guard;
mod handshake;
mod http;
mod http1;
mod http2;
mod https;
mod https3;
mod inlet;
pub mod limits;
mod outlet;
mod pool;
mod proxy;
mod quic;
mod rate;
mod seats;
mod socket;
mod tcp;
mod udp;
pub mod upstream;
pub mod workers;

pub use admin::{Admin, AdminError};
pub use front::{BindError, Fronts};
pub use limits::{Bounds, Limits};
pub use workers::Workers;
