//! What several plugins need.

pub mod fall;
pub mod host;
pub mod once;
pub mod regex;
pub mod response;
pub mod zones;
