//! `/metrics`.

use engine::admin::{Ask, Handler, Told};
use engine::metrics;

/// Shows all metrics of the process in Prometheus's text format.
#[derive(Debug)]
pub(super) struct Page;

impl Handler for Page {
    fn handle(&self, _: Ask<'_>) -> Told {
        Told {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body: metrics::render().into_bytes(),
        }
    }
}
