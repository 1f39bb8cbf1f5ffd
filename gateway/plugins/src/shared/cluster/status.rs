//! What `causeway status` says of a cluster.

use std::future::ready;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::control::{Control, Report, Running, Value};
use k8s::{Freshness, Standing, State, Store, WatchSet};

use super::overlap::Registry;

/// A cluster whose state can be asked for.
#[derive(Debug)]
pub(crate) struct Status {
    /// The name that it is declared by; empty without one.
    name: String,
    /// Where it is, for those without a connection.
    place: String,
    /// Its watches.
    watches: Arc<WatchSet>,
    /// What it has in common with others, if others are declared.
    ranges: Option<Arc<Registry>>,
}

impl Status {
    /// The state of these watches.
    pub(super) fn new(
        name: &str,
        place: &str,
        watches: &Arc<WatchSet>,
        ranges: Option<Arc<Registry>>,
    ) -> Self {
        let watches = Arc::clone(watches);
        Self { name: name.to_owned(), place: place.to_owned(), watches, ranges }
    }

    /// The state now, in Unix seconds.
    fn report(&self, now: u64) -> Report {
        let store = self.watches.store();
        let name = Some(&*self.name).filter(|name| !name.is_empty());
        let connected = self.watches.connected();
        let (host, place) = match &connected {
            Some(one) => (Some(&*one.host).filter(|host| !host.is_empty()), &one.source),
            None => (None, &self.place),
        };
        let standing = store.standing();
        let mut value = Value::fields()
            .with("name", name)
            .with("source", &**place)
            .with("host", host)
            .with("synced", store.synced())
            .with("standing", word(standing))
            .with("age_seconds", age(store, now))
            .with("changes", store.version());
        if let Some(one) = &connected {
            let trouble = one.trouble.as_ref();
            // Rights that are missing trouble a kind alone, and not the connection.
            let fails = |state| matches!(state, State::Failing | State::Forbidden);
            let goes_on = one.troubled || store.freshness().any(|kind| fails(kind.state));
            value = value
                .with("last_error", trouble.map(|(_, text)| &**text))
                .with("last_error_seconds_ago", trouble.map(|(at, _)| now.saturating_sub(*at)))
                .with("error_goes_on", trouble.is_some() && goes_on);
        }
        let kinds = store.freshness().map(|kind| of_kind(&kind, now)).collect();
        value = value.with("kinds", Value::List(kinds));
        if let Some(one) = &connected {
            let credentials = one.credentials.iter().map(|credential| {
                let end = credential.life.map(|(_, end)| end);
                let left = end.map(|end| i64::try_from(end).unwrap_or(i64::MAX));
                let left = left.map(|end| end - i64::try_from(now).unwrap_or_default());
                Value::fields()
                    .with("kind", credential.kind)
                    .with("from", &*credential.from)
                    .with("ends", end)
                    .with("ends_in_seconds", left)
            });
            value = value.with("credentials", Value::List(credentials.collect()));
        }
        if let Some(ranges) = &self.ranges {
            value = value.with("overlaps", ranges.status(&self.name));
        }
        let report = Report::new(value);
        if standing == Standing::Live && store.synced() { report } else { report.bad() }
    }
}

impl Control for Status {
    fn run(&self, _args: Vec<String>) -> Running {
        Box::pin(ready(Ok(self.report(now()))))
    }
}

/// The Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A standing in a word.
pub(crate) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Live => "live",
        Standing::Away { .. } => "away",
        Standing::Snapshot { .. } => "snapshot",
        Standing::Unsynced => "unsynced",
    }
}

/// How long ago everything that answers need was heard of, in seconds; none if some of it never was.
pub(crate) fn age(store: &Store, now: u64) -> Option<u64> {
    Some(store.heard()).filter(|heard| *heard > 0).map(|heard| now.saturating_sub(heard))
}

/// How one kind is doing.
fn of_kind(kind: &Freshness, now: u64) -> Value {
    let heard = Some(kind.heard).filter(|heard| *heard > 0);
    Value::fields()
        .with("kind", kind.kind.word())
        .with("watch", kind.state.word())
        .with("listed", kind.listed)
        .with("objects", kind.objects)
        .with("heard_seconds_ago", heard.map(|heard| now.saturating_sub(heard)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use engine::control::Outcome;
    use k8s::{Config, Quiet, Source};

    use super::*;

    #[tokio::test]
    async fn a_cluster_s_state_is_told() {
        let folder = std::env::temp_dir().join(format!("causeway-status-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("one.yaml"),
            "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n",
        )
        .unwrap();
        let config = Config::new(Source::Manifests(PathBuf::from(&folder)));
        let runtime = tokio::runtime::Handle::current();
        let watches = WatchSet::start(&config, Arc::new(Quiet), &runtime);
        let before = Status::new("prod", "here", &watches, None).report(now());
        assert!(watches.wait_synced(std::time::Duration::from_secs(10)).await);
        std::fs::remove_dir_all(&folder).unwrap();
        let after = Status::new("", "here", &watches, None).report(now());
        let field = |report: &Report, name| report.value.field(name).cloned();
        assert_eq!(field(&before, "name"), Some("prod".into()));
        assert_eq!(field(&after, "name"), Some(Value::Nothing));
        assert_eq!(field(&before, "standing"), Some("unsynced".into()));
        assert_eq!(field(&after, "standing"), Some("live".into()));
        assert_eq!((before.outcome, after.outcome), (Outcome::Bad, Outcome::Good));
        let json = after.value.json();
        let kind = r#"{"kind":"namespaces","watch":"watching","listed":true,"objects":1,"#;
        assert!(json.contains(kind), "{json}");
    }
}
