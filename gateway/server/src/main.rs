//! The edge DNS gateway.

fn main() {}
