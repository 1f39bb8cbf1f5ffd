//! What several plugins need.

pub mod fall;
pub mod regex;
pub mod response;
pub mod zones;
