//! reverse
