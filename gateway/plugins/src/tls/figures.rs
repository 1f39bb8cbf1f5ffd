//! What is counted, worked out when somebody scrapes.

use std::sync::Arc;

use certs::ServerTls;
use engine::metrics::{Collect, Figures, describe};

/// Until when certificates are valid.
const EXPIRY: &str = "causeway_tls_certificate_expiry_timestamp_seconds";

/// How often what is in use was replaced.
const SWAPS: &str = "causeway_tls_swaps_total";

/// How often it was not, because what was to replace it was wrong.
const REFUSED: &str = "causeway_tls_refused_swaps_total";

/// Whether that is so now.
const BROKEN: &str = "causeway_tls_broken";

/// TLS of a block, with its figures.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) tls: Arc<ServerTls>,
}

impl Served {
    /// Counts for `tls` as long as the result is there.
    pub(super) fn new(tls: Arc<ServerTls>) -> Arc<Self> {
        describe(EXPIRY, "Until when the certificate in use is valid, in seconds since 1970.");
        describe(SWAPS, "How often another certificate, or other CAs, were taken into use.");
        describe(REFUSED, "How often what was to replace them was wrong, and was not taken.");
        describe(
            BROKEN,
            "Whether what is there now is wrong, so that what was there before is in use.",
        );
        let served = Arc::new(Self { tls });
        engine::metrics::collect(&served);
        served
    }
}

impl Collect for Served {
    fn collect(&self, figures: &mut Figures) {
        for status in self.tls.status() {
            let source = &[("source", &*status.source)];
            if let Some(until) = status.not_after {
                let labels = &[("source", &*status.source), ("name", &*status.name)];
                figures.gauge(EXPIRY, labels, until as f64);
            }
            figures.counter(SWAPS, source, status.taken as f64);
            figures.counter(REFUSED, source, status.refused as f64);
            figures.gauge(BROKEN, source, f64::from(u8::from(status.broken)));
        }
    }
}
