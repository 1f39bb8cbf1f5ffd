//! The plugins of the chain, in the order queries meet them.
