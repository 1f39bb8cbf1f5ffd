//! Kubernetes: connections, watches, and the compact store they fill.
