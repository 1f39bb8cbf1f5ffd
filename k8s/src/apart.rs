//! Namespaces that are followed one by one, as a Role allows where a ClusterRole is not granted.

use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::time::sleep;

use crate::{
    config::Config,
    end::End,
    limit::{BURST, Limits},
    object::{Event, Kind, Meta, Object},
    probe::State,
    store::Keep,
    url::segment,
    watch::{Common, Follower},
};

/// Up to so many namespaces are followed one by one: each takes a watch, and with it a connection, for every kind.
const MOST: usize = 64;
/// Without these kinds nothing is known of a namespace; it is known without the others.
pub(crate) const NEEDED: [Kind; 2] = [Kind::Services, Kind::Slices];
/// How long after a namespace has been looked for in vain it may be looked for again.
const SOON: Duration = Duration::from_secs(1);

impl Keep {
    /// Gives the namespaces that are followed one by one, by requests that a Role in each allows; none where the whole cluster is
    /// followed: without a list of namespaces, or with one of more than 64.
    pub fn apart(&self) -> &[String] {
        if self.namespaces.len() <= MOST { &self.namespaces } else { &[] }
    }

    /// Gives the kinds without which nothing is known of such a namespace, a bit each by [`Kind::index`]; 0 if there is none.
    pub(crate) fn needed_apart(&self) -> u8 {
        let needed = NEEDED.into_iter().filter(|kind| self.holds(*kind));
        let bits = needed.fold(0, |bits, kind| bits | 1 << kind.index());
        if self.apart().is_empty() { 0 } else { bits }
    }
}

impl Config {
    /// Gives the limits on requests: where no burst is stated, one that is enough for all watches to begin at once.
    pub(crate) fn room(&self) -> Limits {
        let kinds = Kind::ALL.into_iter().filter(|kind| self.keep.holds(*kind)).count();
        let watches = u32::try_from(kinds * self.keep.apart().len()).unwrap_or(u32::MAX);
        match self.limits.burst {
            0 if watches > BURST => Limits { burst: watches, ..self.limits },
            _ => self.limits,
        }
    }
}

impl Common {
    /// Notes what the watch of a kind in a namespace does. The kind does what the worst of its watches does; those that want rights
    /// count only if all do, for the others are as good as ever.
    pub(crate) fn set_state_in(&self, kind: Kind, row: usize, state: State) {
        // What was found out first is not told last.
        let turn = self.telling.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let rank = |state: &State| match state {
            State::Failing => 0,
            State::Waiting => 1,
            State::Listing => 2,
            State::Watching => 3,
            State::Absent => 4,
            State::Forbidden => 5,
        };
        self.store.set_state_in(kind, row, state);
        let rows = 0..self.store.keep().apart().len();
        let whole = rows.map(|row| self.store.state_in(kind, row)).min_by_key(rank);
        self.set_state(kind, whole.unwrap_or(state));
        drop(turn);
    }
}

impl Follower {
    /// The event that a list begins.
    pub(crate) fn restart(&self) -> Event<'static> {
        match &self.namespace {
            Some((_, name)) => Event::RestartIn(self.kind, name.clone().into()),
            None => Event::Restart(self.kind),
        }
    }

    /// The event that a list is complete.
    pub(crate) fn synced(&self) -> Event<'static> {
        match &self.namespace {
            Some((_, name)) => Event::SyncedIn(self.kind, name.clone().into()),
            None => Event::Synced(self.kind),
        }
    }

    /// Notes that the source was heard of.
    pub(crate) fn hear(&self) {
        match &self.namespace {
            Some((row, _)) => self.common.store.hear_in(self.kind, *row),
            None => self.common.store.hear(self.kind),
        }
    }

    /// Says whether the cluster does not have the kind, or keeps it from us.
    pub(crate) fn does_without(&self) -> bool {
        let state = match &self.namespace {
            Some((row, _)) => self.common.store.state_in(self.kind, *row),
            None => self.common.store.state(self.kind),
        };
        matches!(state, State::Absent | State::Forbidden)
    }

    /// The part of a path that names the namespace.
    pub(crate) fn within(&self) -> String {
        let namespace = self.namespace.as_ref();
        namespace.map(|(_, name)| format!("namespaces/{}/", segment(name))).unwrap_or_default()
    }

    /// What is followed, in words.
    pub(crate) fn what(&self) -> String {
        match &self.namespace {
            Some((_, name)) => format!("{} in the namespace {name}", self.kind),
            None => self.kind.to_string(),
        }
    }

    /// Notes that the rights are missing, so that nobody waits for what they would show.
    pub(crate) fn refuse(&mut self) {
        let namespace = self.namespace.as_ref().map_or("", |(_, name)| name);
        self.common.apply(&Event::Refused(self.kind, namespace.to_owned().into()));
        self.grant(false);
    }

    /// Notes whether the rights are there.
    pub(crate) fn grant(&mut self, granted: bool) {
        if self.granted != Some(granted) {
            let namespace = self.namespace.as_ref().map_or("", |(_, name)| name);
            self.common.probe.granted(self.kind, namespace, granted);
            self.granted = Some(granted);
        }
    }

    /// Has the namespaces looked at if objects come from one that is not known to be there.
    pub(crate) fn look(&self) {
        if let Some((_, name)) = &self.namespace
            && self.kind == Kind::Services
            && !self.common.store.read().namespace(name.as_bytes())
        {
            self.common.look.notify_one();
        }
    }

    /// Looks up by their names which of the namespaces are there, for as long as that goes well. A Role in each of them allows it.
    pub(crate) async fn look_up(&mut self) -> Result<(), End> {
        let names = self.common.store.keep().apart().to_vec();
        loop {
            let mut there = Vec::new();
            for name in &names {
                let path = format!("/api/v1/namespaces/{}", segment(name));
                match self.get(&path, self.common.timing.list).await {
                    Ok(reply) => {
                        let body = http_body_util::Limited::new(reply.body, 1 << 20).collect();
                        body.await.map_err(|error| End::Network(error.to_string()))?;
                        there.push(&**name);
                    }
                    Err(End::Absent) => {}
                    Err(end) => return Err(end),
                }
            }
            self.tell(&there);
            self.hear();
            self.grant(true);
            self.progress();
            let pause = self.jitter(self.common.timing.names);
            tokio::select! {
                () = sleep(pause) => {}
                () = self.common.look.notified() => sleep(SOON).await,
            }
        }
    }

    /// Takes all of the namespaces to be there, since no right allows to find out; says so once.
    pub(crate) fn assume(&mut self, cause: &str) -> Duration {
        let names = self.common.store.keep().apart().to_vec();
        self.tell(&names.iter().map(String::as_str).collect::<Vec<_>>());
        // No more will ever be told of them, and when the rest was heard of counts.
        self.hear();
        if self.granted != Some(false) {
            log::warn!(
                target: crate::LOG,
                "which namespaces there are is not told: {cause}; those that `namespaces` names are taken to be there"
            );
        }
        self.grant(false);
        self.state(State::Watching);
        (self.by_name, self.version) = (true, None);
        self.jitter(self.common.timing.names)
    }

    /// Makes the store know these namespaces and no others.
    fn tell(&self, names: &[&str]) {
        self.common.apply(&Event::Restart(Kind::Namespaces));
        for name in names {
            let meta = Meta { name: (*name).into(), ..Meta::default() };
            self.common.apply(&Event::Apply(Object::Namespace(meta)));
        }
        self.common.apply(&Event::Synced(Kind::Namespaces));
    }
}
