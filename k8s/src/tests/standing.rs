//! When a store says that it may be out of date.

use std::{sync::Arc, time::Duration};

use crate::{Event, Keep, Kind, Quiet, Standing, State, Store, Writer};

/// A synced store of namespaces, services, slices and pods.
fn synced() -> (Writer, Store) {
    let keep = Keep { endpoints: true, pods: true, ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    for kind in [Kind::Namespaces, Kind::Services, Kind::Slices, Kind::Pods] {
        writer.apply(&Event::Restart(kind));
        writer.apply(&Event::Synced(kind));
        store.hear(kind);
        store.set_state(kind, State::Watching);
    }
    (writer, store)
}

/// What the store says so many seconds from now.
fn after(store: &Store, seconds: u64) -> Standing {
    store.standing_after(|| store.shared.start.elapsed() + Duration::from_secs(seconds))
}

#[test]
fn a_store_without_lists_is_unsynced() {
    let (_writer, store) = Writer::new(Keep::default(), Arc::new(Quiet));
    store.set_state(Kind::Services, State::Failing);
    assert_eq!(after(&store, 60), Standing::Unsynced);
}

#[test]
fn a_watch_that_fails_is_away_after_ten_seconds_until_it_goes_on() {
    let (_writer, store) = synced();
    assert_eq!(after(&store, 3600), Standing::Live, "quiet is not away");
    store.set_state(Kind::Slices, State::Failing);
    assert_eq!(after(&store, 9), Standing::Live);
    assert!(matches!(after(&store, 11), Standing::Away { since } if since > 0));
    // A list that is begun and comes to nothing does not begin the time anew.
    store.set_state(Kind::Slices, State::Listing);
    assert!(matches!(after(&store, 11), Standing::Away { .. }));
    store.set_state(Kind::Slices, State::Watching);
    assert_eq!(after(&store, 11), Standing::Live);
}

#[test]
fn a_kind_that_was_never_known_is_not_out_of_date() {
    for kind in [Kind::Namespaces, Kind::Slices] {
        let keep = Keep { endpoints: true, ..Keep::default() };
        let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
        for other in [Kind::Namespaces, Kind::Services, Kind::Slices] {
            if other != kind {
                writer.apply(&Event::Synced(other));
                store.hear(other);
                store.set_state(other, State::Watching);
            }
        }
        assert_eq!(after(&store, 60), Standing::Unsynced);
        writer.apply(&Event::Refused(kind, "".into()));
        store.set_state(kind, State::Forbidden);
        assert_eq!(after(&store, 60), Standing::Live);
        assert!(store.heard() > 0);
        // The server goes away: what is known is from when it was heard of.
        store.set_state(kind, State::Failing);
        store.set_state(Kind::Services, State::Failing);
        assert!(matches!(after(&store, 60), Standing::Away { since } if since > 0));
    }
}

#[test]
fn a_refused_kind_counts_if_answers_need_it() {
    let (_writer, store) = synced();
    store.set_state(Kind::Pods, State::Forbidden);
    assert_eq!(after(&store, 60), Standing::Live);
    store.set_state(Kind::Services, State::Forbidden);
    assert!(matches!(after(&store, 60), Standing::Away { .. }));
}
