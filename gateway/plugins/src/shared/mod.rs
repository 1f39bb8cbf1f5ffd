//! What several plugins need.

pub mod fall;
pub mod response;
pub mod zones;
