//! The exchange, the plugin chain, the router and the reload.
