//! Watches that are accepted and tell nothing, for ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    api::{Answer, Api, Step},
    watch::{bookmark, config, event, follow, names, services, stream, until},
};
use crate::{Kind, Standing, State};

/// A server whose watches tell nothing once they go on from a version; lists have `b` as soon as it is there. Before that the first
/// watch sends bookmarks, so many, each half a second.
async fn mute(bookmarks: u64, there: Arc<AtomicBool>) -> Api {
    services(move |asked, before| {
        if asked.path.contains("watch=true") && !asked.path.contains("sendInitialEvents") {
            return stream(Vec::new());
        }
        let mut steps = vec![Step::Send(event("ADDED", "a", 1))];
        if there.load(SeqCst) {
            steps.push(Step::Send(event("ADDED", "b", 9)));
        }
        let version = if before == 0 { 5 } else { 10 + before as u64 };
        steps.push(Step::Send(bookmark(version, true)));
        if before == 0 {
            for number in 0..bookmarks {
                steps.extend([Step::Wait(500), Step::Send(bookmark(6 + number, false))]);
            }
            steps.push(Step::Cut);
        } else {
            steps.push(Step::Hold);
        }
        Answer::Steps("", steps)
    })
    .await
}

/// How many lists there were, as initial events of watches.
fn lists(api: &Api) -> usize {
    api.asked("/services").iter().filter(|asked| asked.path.contains("sendInitialEvents")).count()
}

#[tokio::test]
async fn what_mute_watches_missed_is_found_by_a_list() {
    // Two seconds are what a watch may be silent.
    let there = Arc::new(AtomicBool::new(false));
    let api = mute(0, Arc::clone(&there)).await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("the first list", || names(&set) == "a").await;
    let begin = Instant::now();
    there.store(true, SeqCst);
    until("the second list", || names(&set) == "a b").await;
    let took = begin.elapsed().as_secs_f64();
    assert!((3.5..6.0).contains(&took), "{took}: behind the second silent watch");
    let asked = api.asked("/services");
    let list = asked.iter().rfind(|asked| asked.path.contains("sendInitialEvents")).unwrap();
    assert!(!list.path.contains("&resourceVersion="), "the newest: {}", list.path);
    // Whoever sends no bookmarks may have nothing to tell: that is no trouble.
    assert!(!ear.states.lock().unwrap().iter().any(|(_, state)| *state == State::Failing));
}

#[tokio::test]
async fn a_quiet_server_without_bookmarks_is_live_and_listed_seldom() {
    let api = mute(0, Arc::default()).await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let version = set.store().version();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        let later = set.store().shared.start.elapsed() + Duration::from_secs(60);
        assert_eq!(set.store().standing_after(|| later), Standing::Live);
        assert_eq!(names(&set), "a", "a list takes nothing away");
        sleep(Duration::from_millis(20)).await;
    }
    assert!((2..=4).contains(&lists(&api)), "{} lists in ten seconds", lists(&api));
    assert_eq!(set.store().version(), version, "nothing changes");
    assert!(!ear.states.lock().unwrap().iter().any(|(_, state)| *state == State::Failing));
}

#[tokio::test]
async fn a_server_whose_bookmarks_stay_away_is_not_heard_of() {
    let there = Arc::new(AtomicBool::new(false));
    let api = mute(3, Arc::clone(&there)).await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("the mute watch", || api.asked("/services").iter().filter(watched).count() == 1).await;
    there.store(true, SeqCst);
    let begin = Instant::now();
    // One that is accepted is taken for one that follows, for as long as a watch may be silent.
    until("failing", || set.store().state(Kind::Services) == State::Failing).await;
    let took = begin.elapsed().as_secs_f64();
    assert!((1.3..3.0).contains(&took), "{took}");
    let heard = set.store().shared.kinds[Kind::Services.index()].watch.heard.load(SeqCst);
    assert_eq!(names(&set), "a");
    until("the next mute watch", || api.asked("/services").iter().filter(watched).count() == 2)
        .await;
    sleep(Duration::from_millis(300)).await;
    let later = set.store().shared.start.elapsed() + Duration::from_secs(60);
    let standing = set.store().standing_after(|| later);
    assert_eq!(standing, Standing::Away { since: heard }, "that a watch is accepted says nothing");
    until("the list", || names(&set) == "a b").await;
    let took = begin.elapsed().as_secs_f64();
    assert!((2.5..4.5).contains(&took), "{took}");
    until("watching", || set.store().state(Kind::Services) == State::Watching).await;
    assert_eq!(set.store().standing_after(|| later), Standing::Live);
    let states = ear.states.lock().unwrap();
    let failing = (Kind::Services, State::Failing);
    assert!(states.contains(&failing), "{states:?}");
}

/// Whether a request is a watch that goes on from a version.
fn watched(asked: &&super::api::Asked) -> bool {
    asked.path.contains("watch=true") && !asked.path.contains("sendInitialEvents")
}

#[tokio::test]
async fn a_watch_that_tells_something_after_a_silence_is_believed() {
    let (watches, version) = (AtomicUsize::new(0), AtomicU64::new(20));
    let api = services(move |asked, _| {
        if asked.path.contains("sendInitialEvents") {
            let mut steps = vec![Step::Send(event("ADDED", "a", 1)), Step::Send(bookmark(5, true))];
            steps.extend([Step::Wait(500), Step::Send(bookmark(6, false)), Step::Hold]);
            return Answer::Steps("", steps);
        }
        match watches.fetch_add(1, SeqCst) {
            // The way had ended unnoticed, and the next bookmark comes in its time.
            0 => {
                let mut steps = vec![Step::Wait(600)];
                for _ in 0..20 {
                    let next = version.fetch_add(1, SeqCst);
                    steps.extend([Step::Send(bookmark(next, false)), Step::Wait(600)]);
                }
                Answer::Steps("", steps)
            }
            _ => stream(Vec::new()),
        }
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("failing", || set.store().state(Kind::Services) == State::Failing).await;
    until("watching", || set.store().state(Kind::Services) == State::Watching).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(lists(&api), 1, "what was told in order needs no list");
    assert_eq!(set.store().state(Kind::Services), State::Watching);
}
