//! One HTTP/2 connection at a time, without a network.
