//! Starting, asking and checking the gateway from outside.
