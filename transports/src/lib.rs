//! Front-ends that clients ask, the upstream side, and the admin listeners.
