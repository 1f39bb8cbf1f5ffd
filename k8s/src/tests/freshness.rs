//! What is served is as fresh as the server tells, whatever the order, the age or the silence of what it sends.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    api::{Answer, Asked, Step},
    store::Dice,
    watch::{
        bookmark, config, ends, event, expired, follow, list, names, services, status, stream,
        until,
    },
};
use crate::{Kind, State};

#[tokio::test]
async fn an_event_older_than_what_is_known_does_not_win_and_leads_to_a_list() {
    for old in [event("ADDED", "b", 4), event("DELETED", "a", 7), bookmark(3, false)] {
        let api = services(move |_, before| match before {
            0 => stream(vec![event("ADDED", "a", 3), bookmark(9, true), old.clone()]),
            _ => Answer::Steps(
                "",
                vec![
                    Step::Wait(100),
                    Step::Send(event("ADDED", "a", 3)),
                    Step::Send(event("ADDED", "c", 10)),
                    Step::Send(bookmark(11, true)),
                    Step::Hold,
                ],
            ),
        })
        .await;
        let (set, _ear) = follow(&config(&api));
        assert!(set.wait_synced(Duration::from_secs(5)).await);
        until("the second list", || {
            let names = names(&set);
            assert!(names == "a" || names == "a c", "{names}");
            names == "a c"
        })
        .await;
        let asked = api.asked("/services");
        assert!(asked[1].path.contains("sendInitialEvents"), "{}", asked[1].path);
        assert!(!asked[1].path.contains("&resourceVersion="), "the newest: {}", asked[1].path);
    }
}

#[tokio::test]
async fn events_that_come_twice_change_nothing() {
    let api = services(|_, _| {
        let twice = |event: Vec<u8>| [event.clone(), event].concat();
        stream(vec![
            twice(event("ADDED", "a", 3)),
            twice(bookmark(5, true)),
            twice(event("DELETED", "a", 6)),
            twice(event("ADDED", "b", 7)),
            twice(bookmark(8, false)),
        ])
    })
    .await;
    let (set, ear) = follow(&config(&api));
    until("the last event", || names(&set) == "b").await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(api.asked("/services").len(), 1);
    assert!(!ear.states.lock().unwrap().iter().any(|(_, state)| *state == State::Failing));
}

#[tokio::test]
async fn lists_for_events_out_of_order_are_far_between() {
    let api = services(|_, before| {
        let version = 10 * (before as u64 + 1);
        let mut steps =
            vec![Step::Send(event("ADDED", "a", version)), Step::Send(bookmark(version, true))];
        for _ in 0..100 {
            steps.push(Step::Send(event("DELETED", "a", version - 1)));
            steps.push(Step::Wait(10));
        }
        Answer::Steps("", steps)
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        assert_eq!(names(&set), "a");
        sleep(Duration::from_millis(2)).await;
    }
    let lists = api.asked("/services").len();
    assert!((2..=6).contains(&lists), "{lists} lists in a second, one each 300 ms");
}

#[tokio::test]
async fn a_silent_watch_is_left_even_if_there_never_was_a_bookmark() {
    let api = services(|_, before| match before {
        0 => ends(vec![event("ADDED", "a", 1), bookmark(5, true)]),
        // Open, and dead.
        1 => stream(Vec::new()),
        _ => stream(vec![event("ADDED", "b", 6)]),
    })
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let begin = Instant::now();
    until("the third watch", || names(&set) == "a b").await;
    let took = begin.elapsed();
    // Two seconds are what a watch may be silent; its length is four to eight.
    assert!((1.5..3.5).contains(&took.as_secs_f64()), "{took:?}");
    assert!(!ear.states.lock().unwrap().iter().any(|(_, state)| *state == State::Failing));
}

#[tokio::test]
async fn a_server_that_ends_watches_at_once_is_not_asked_in_a_tight_loop() {
    let changes = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&changes);
    let api = services(move |_, before| match before {
        0 => ends(vec![event("ADDED", "a", 1), bookmark(5, true)]),
        _ if seen.load(SeqCst) == 0 => ends(Vec::new()),
        _ => ends(vec![event("ADDED", "b", 6)]),
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    sleep(Duration::from_secs(1)).await;
    let asked = api.asked("/services").len();
    assert!((5..40).contains(&asked), "{asked} watches in a second with pauses of 80 to 120 ms");
    changes.store(1, SeqCst);
    let begin = Instant::now();
    until("the change", || names(&set) == "a b").await;
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn lower_versions_win_by_a_list_after_the_data_went_back() {
    // The server was at 90 and goes on at 40 without a word of complaint: it takes the watch from 90, tells what happens after
    // 40, and later lists that. What it told before must not hold anything back.
    let restored = Arc::new(AtomicBool::new(false));
    let back = Arc::clone(&restored);
    let api = services(move |asked, _| match back.load(SeqCst) {
        false => ends(vec![event("ADDED", "a", 80), event("ADDED", "x", 81), bookmark(90, true)]),
        true if asked.path.contains("sendInitialEvents") => stream(vec![
            event("ADDED", "a", 30),
            event("ADDED", "b", 41),
            bookmark(42, true),
            event("DELETED", "a", 43),
            event("ADDED", "c", 44),
        ]),
        true => stream(vec![event("ADDED", "b", 41), event("DELETED", "a", 43)]),
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    until("the first list", || names(&set) == "a x").await;
    restored.store(true, SeqCst);
    until("the older history", || names(&set) == "b c").await;
    assert_eq!(set.store().state(Kind::Services), State::Watching);
}

/// What a server has of services, and how it tells of it.
struct World {
    dice: Dice,
    version: u64,
    /// Versions by name.
    objects: BTreeMap<String, u64>,
    /// Changes: version, word, name.
    log: Vec<(u64, &'static str, String)>,
    backup: (u64, BTreeMap<String, u64>),
    /// The highest version that was told. A history that went back and overtakes that before anybody asked is told from the
    /// first by none but a comparison of all objects, so nothing changes until then.
    highest: u64,
    /// Whether anything goes wrong or changes any more.
    over: bool,
    /// The version that is told to those who ask for no more.
    newest: Arc<AtomicU64>,
}

impl World {
    /// Changes an object.
    fn change(&mut self) {
        if self.version < self.highest {
            return;
        }
        self.version += 1 + self.dice.throw(3);
        let name = format!("s{}", self.dice.throw(6));
        let word = if self.objects.remove(&name).is_some() && self.dice.throw(2) == 0 {
            "DELETED"
        } else {
            self.objects.insert(name.clone(), self.version);
            "MODIFIED"
        };
        self.log.push((self.version, word, name));
    }

    /// Answers a request, well or badly.
    fn answer(&mut self, asked: &Asked) -> Answer {
        if !self.over {
            for _ in 0..self.dice.throw(4) {
                self.change();
            }
            match self.dice.throw(20) {
                0 => {
                    (self.version, self.objects) = self.backup.clone();
                    self.log.retain(|told| told.0 <= self.version);
                    self.newest.store(self.version, SeqCst);
                    return Answer::Steps("", vec![Step::Cut]);
                }
                1 => self.backup = (self.version, self.objects.clone()),
                2 => return status(500, "InternalError", "etcd is away"),
                3 => return ends(vec![expired()]),
                4 => return status(410, "Expired", "too old"),
                _ => {}
            }
        }
        self.newest.store(self.version, SeqCst);
        if !asked.path.contains("watch=true") {
            self.highest = self.version;
            let names: Vec<_> = self.objects.keys().map(String::as_str).collect();
            return list(&names, self.version);
        }
        let from = asked.path.split("&resourceVersion=").nth(1).map(|v| v.parse::<u64>().unwrap());
        let mut events = Vec::new();
        match from {
            Some(from) if !asked.path.contains("sendInitialEvents") => {
                let told = self.log.iter().filter(|told| told.0 > from);
                events.extend(told.map(|(version, word, name)| event(word, name, *version)));
            }
            _ => {
                self.highest = self.version;
                events.extend(
                    self.objects.iter().map(|(name, version)| event("ADDED", name, *version)),
                );
                events.push(bookmark(self.version, true));
            }
        }
        if self.over {
            return stream(events);
        }
        // More happens while the watch goes on.
        for _ in 0..self.dice.throw(4) {
            self.change();
        }
        let before = self.newest.swap(self.version, SeqCst);
        self.highest = self.highest.max(self.version);
        let more = self.log.iter().filter(|told| told.0 > before);
        events.extend(more.map(|(version, word, name)| event(word, name, *version)));
        if !events.is_empty() && self.dice.throw(3) == 0 {
            let at = self.dice.throw(events.len() as u64) as usize;
            match self.dice.throw(4) {
                0 => events.truncate(at),
                1 => events.push(events[at].clone()),
                2 if at > 0 => events.swap(at - 1, at),
                _ => events[at] = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":7}}\n".to_vec(),
            }
        }
        let mut steps = Vec::new();
        for event in events {
            steps.push(Step::Send(event));
            steps.push(Step::Wait(self.dice.throw(4)));
        }
        if self.dice.throw(3) == 0 {
            steps.push(Step::Cut);
        }
        Answer::Steps("", steps)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_every_fault_is_believed_once_it_behaves() {
    let one = |seed: u64| async move {
        let world = World {
            dice: Dice(seed),
            version: 100,
            objects: BTreeMap::new(),
            log: Vec::new(),
            backup: (100, BTreeMap::new()),
            highest: 100,
            over: false,
            newest: Arc::default(),
        };
        let world = Arc::new(Mutex::new(world));
        let scripted = Arc::clone(&world);
        let api = services(move |asked, _| scripted.lock().unwrap().answer(asked)).await;
        world.lock().unwrap().newest = Arc::clone(&api.newest);
        let (set, _ear) = follow(&config(&api));
        until("requests", || api.asked("/services").len() > 25).await;
        let last = {
            let mut world = world.lock().unwrap();
            world.over = true;
            world.objects.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        until(&format!("seed {seed}: {last}"), || names(&set) == last).await;
        sleep(Duration::from_millis(200)).await;
        assert_eq!(names(&set), last, "seed {seed}");
    };
    let seeds: Vec<_> = (0..8).map(|seed| tokio::spawn(one(seed))).collect();
    for seed in seeds {
        seed.await.unwrap();
    }
}
