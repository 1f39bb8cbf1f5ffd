//! `/metrics`: in text, or in protobuf for those who prefer it, and for those only who may see it.

use std::sync::Arc;

use engine::admin::{Ask, Handler, Later, Told};
use engine::metrics;

use super::users::{Check, Users};

/// Shows all metrics of the process.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The file that says how they are served; empty without one.
    pub(super) file: String,
    /// Who may see them; everybody if there are none.
    pub(super) users: Option<Arc<Users>>,
    /// What keeps certificates up to date, as long as it is there.
    pub(super) _tls: Option<Arc<certs::ServerTls>>,
}

impl Handler for Page {
    fn handle(&self, ask: Ask<'_>) -> Told {
        match &self.users {
            Some(users) if users.check(ask.authorization) != Check::Good => denied(),
            _ => shown(ask.accept),
        }
    }

    fn later(&self, ask: Ask<'_>) -> Option<Later> {
        let users = self.users.as_ref()?;
        let Check::Unknown(attempt) = users.check(ask.authorization) else { return None };
        let users = Arc::clone(users);
        let protobuf = ask.accept.map(str::to_owned);
        Some(Box::pin(async move {
            match tokio::task::spawn_blocking(move || users.compare(&attempt)).await {
                Ok(true) => shown(protobuf.as_deref()),
                _ => denied(),
            }
        }))
    }
}

/// What somebody gets who may not see them.
fn denied() -> Told {
    Told::text(401, "Unauthorized\n")
}

/// The metrics, in a form that is accepted.
fn shown(accept: Option<&str>) -> Told {
    if accept.is_some_and(prefers_protobuf) {
        let body = metrics::render_protobuf();
        return Told { status: 200, content_type: metrics::PROTOBUF, body };
    }
    Told {
        status: 200,
        content_type: "text/plain; version=0.0.4; charset=utf-8",
        body: metrics::render().into_bytes(),
    }
}

/// Whether an `Accept` header puts the protobuf format before the text format (RFC 9110 §12.5.1).
pub(super) fn prefers_protobuf(accept: &str) -> bool {
    let quality = |wanted: &dyn Fn(&str, &[&str]) -> bool| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next()?;
            let parameters: Vec<&str> = parts.collect();
            let quality = parameters.iter().find_map(|part| part.strip_prefix("q="));
            let quality = quality.map_or(Some(1.0), |text| text.parse::<f32>().ok())?;
            wanted(media, &parameters).then_some(quality)
        });
        ranges.fold(0.0, f32::max)
    };
    let protobuf = quality(&|media, parameters| {
        media == "application/vnd.google.protobuf"
            && parameters.contains(&"proto=io.prometheus.client.MetricFamily")
            && parameters.contains(&"encoding=delimited")
    });
    let text = quality(&|media, _| matches!(media, "text/plain" | "text/*"));
    protobuf > 0.0 && protobuf >= text
}
