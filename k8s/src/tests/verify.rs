//! Comparisons of a store with its cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{runtime::Handle, time::sleep};

use super::{
    api::{Answer, Step},
    store::{Dice, all},
    watch::{
        bookmark, config, ends, event, follow, names, services, status, stream, timing, until,
    },
};
use crate::{
    Config, Difference, Event, Kind, Object, Port, Protocol, Quiet, Source, State, Verdict,
    WatchSet, Writer, verify::Check, watch::Timing,
};

/// A list of services: name, resource version and the last octet of the cluster IP.
fn listed(items: &[(&str, u64, u8)], version: u64) -> Answer {
    let items: Vec<_> = items
        .iter()
        .map(|(name, version, last)| {
            json!({
                "metadata": { "name": name, "namespace": "shop", "resourceVersion": version.to_string() },
                "spec": { "clusterIP": format!("198.51.100.{last}"), "ports": [{ "port": 80 }] },
            })
        })
        .collect();
    let metadata = json!({ "resourceVersion": version.to_string() });
    Answer::Whole(200, json!({ "metadata": metadata, "items": items }).to_string())
}

/// The kinds that were found equal.
fn equal(set: &[Verdict]) -> Vec<(Kind, usize)> {
    set.iter().filter(|verdict| verdict.equal()).map(|v| (v.kind, v.objects)).collect()
}

/// Compares everything, which has to be possible.
async fn verdicts(set: &WatchSet) -> Vec<Verdict> {
    set.verify().await.into_iter().collect::<Result<_, _>>().unwrap()
}

/// Compares everything, and gives the only cause for which something can not be compared.
async fn failure(set: &WatchSet) -> String {
    let causes: Vec<_> = set.verify().await.into_iter().filter_map(Result::err).collect();
    let [cause] = causes.try_into().unwrap();
    cause
}

/// Namespaces as the server lists them.
fn shop() -> Answer {
    let items = [json!({ "metadata": { "name": "shop", "resourceVersion": "1" } })];
    let list = json!({ "metadata": { "resourceVersion": "1" }, "items": items });
    Answer::Whole(200, list.to_string())
}

/// A server whose namespaces are as they are told; services are scripted: watches, and lists by their number.
async fn server(
    watch: impl Fn(usize) -> Answer + Send + Sync + 'static,
    list: impl Fn(usize) -> Answer + Send + Sync + 'static,
) -> super::api::Api {
    let (watches, lists) = (AtomicUsize::new(0), AtomicUsize::new(0));
    super::api::Api::start(move |asked, _| {
        match (asked.path.contains("/services"), asked.path.contains("watch=true")) {
            (true, true) => watch(watches.fetch_add(1, SeqCst)),
            (true, false) => list(lists.fetch_add(1, SeqCst)),
            (false, true) => super::watch::namespaces(),
            (false, false) => shop(),
        }
    })
    .await
}

#[tokio::test]
async fn a_store_that_agrees_is_said_to() {
    let api = server(
        |_| stream(vec![event("ADDED", "a", 3), event("ADDED", "b", 4), bookmark(5, true)]),
        |_| listed(&[("b", 4, 1), ("a", 3, 1)], 6),
    )
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let verdicts = verdicts(&set).await;
    assert_eq!(equal(&verdicts), [(Kind::Namespaces, 1), (Kind::Services, 2)]);
    assert_eq!(verdicts[1].to_string(), "services: 2 compared, equal");
    let asked: Vec<_> = api.asked("/services").into_iter().map(|asked| asked.path).collect();
    assert_eq!(asked[1..], ["/api/v1/services?resourceVersion="], "one list, the newest, no watch");
    assert_eq!(ear.verified.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn what_differs_is_named_and_listed_anew() {
    let right = [("a", 3, 1), ("b", 4, 9), ("d", 6, 1)];
    let api = server(
        move |before| match before {
            // `b` has another address than the list says, `c` is not there, and `d` was never told.
            0 => stream(vec![
                event("ADDED", "a", 3),
                event("ADDED", "b", 4),
                event("ADDED", "c", 5),
                bookmark(6, true),
            ]),
            _ => stream(vec![
                event("ADDED", "a", 3),
                event("ADDED", "b9", 4),
                event("ADDED", "d", 6),
                bookmark(6, true),
            ]),
        },
        move |_| listed(&right, 6),
    )
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let verdicts = verdicts(&set).await;
    assert_eq!(equal(&verdicts), [(Kind::Namespaces, 1)]);
    let verdict = &verdicts[1];
    let counts = Difference::ALL.map(|difference| verdict.count(difference));
    assert_eq!((verdict.objects, counts), (3, [1, 1, 1]));
    assert_eq!(
        verdict.to_string(),
        "services: 3 compared, 1 missing, 1 superfluous, 1 differing (missing shop/d, superfluous shop/c, differing shop/b)"
    );
    until("the new list", || names(&set) == "a b9 d").await;
    assert!(!ear.states.lock().unwrap().iter().any(|(_, state)| *state == State::Failing));
    let asked = api.asked("/services");
    assert!(asked.last().unwrap().path.contains("sendInitialEvents"), "begun with a list");
}

#[tokio::test]
async fn changes_on_their_way_are_no_differences() {
    let api = server(
        |_| {
            Answer::Steps(
                "",
                vec![
                    Step::Send([event("ADDED", "a", 3), event("ADDED", "gone", 4)].concat()),
                    Step::Send(bookmark(5, true)),
                    Step::Wait(250),
                    Step::Send(event("ADDED", "late", 6)),
                    Step::Send(event("DELETED", "gone", 7)),
                    Step::Hold,
                ],
            )
        },
        // What `hot` is like changes all the time, and no watch has told of it yet.
        |before| match before {
            0 => listed(&[("a", 3, 1), ("late", 6, 1), ("hot", 8, 1)], 8),
            _ => listed(&[("a", 3, 1), ("late", 6, 1), ("hot", 9, 2)], 9),
        },
    )
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    sleep(Duration::from_millis(120)).await;
    let verdicts = verdicts(&set).await;
    assert_eq!(equal(&verdicts), [(Kind::Namespaces, 1), (Kind::Services, 3)], "{verdicts:?}");
}

#[tokio::test]
async fn what_can_not_be_compared_says_why() {
    let api = server(
        |_| stream(vec![event("ADDED", "a", 3), bookmark(5, true)]),
        |_| status(500, "InternalError", "etcd is away"),
    )
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(failure(&set).await.contains("not followed"));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let outcome = set.verify().await;
    assert_eq!(outcome[0].as_ref().unwrap().kind, Kind::Namespaces, "what can be compared is");
    let cause = failure(&set).await;
    assert_eq!(cause, "services: the API server says 500 InternalError: etcd is away");
    assert_eq!(set.store().state(Kind::Services), State::Watching, "the watch goes on");
    assert_eq!(ear.unverified.lock().unwrap().last(), Some(&Kind::Services));
    let folder = Config::new(Source::Manifests(std::env::temp_dir()));
    let set = WatchSet::start(&folder, Arc::new(Quiet), &Handle::current());
    assert!(failure(&set).await.starts_with("manifests"));
}

/// How many lists of services there were.
fn lists(api: &super::api::Api) -> usize {
    api.asked("/services").iter().filter(|asked| !asked.path.contains("watch=true")).count()
}

#[tokio::test]
async fn it_is_done_now_and_then_and_mends_what_it_finds() {
    let api = server(
        |before| match before {
            0 => stream(vec![event("ADDED", "a", 3), bookmark(5, true)]),
            _ => stream(vec![event("ADDED", "b", 4), bookmark(5, true)]),
        },
        |_| listed(&[("b", 4, 1)], 6),
    )
    .await;
    let (set, ear) = follow(&Config { verify: None, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    sleep(Duration::from_millis(600)).await;
    assert_eq!((lists(&api), names(&set)), (0, "a".to_owned()), "it is off");
    set.verify_every(Some(Duration::from_millis(300)));
    until("what was wrong is mended", || names(&set) == "b").await;
    until("further rounds", || lists(&api) >= 4).await;
    set.verify_every(None);
    sleep(Duration::from_millis(300)).await;
    let before = lists(&api);
    sleep(Duration::from_millis(900)).await;
    assert!(lists(&api) <= before + 1, "off again");
    let verified = ear.verified.lock().unwrap();
    let of = |verdict: &&Verdict| verdict.kind == Kind::Services;
    assert!(!verified.iter().find(of).unwrap().equal());
    assert!(verified.iter().rfind(of).unwrap().equal());
}

#[tokio::test]
async fn a_history_that_has_overtaken_what_was_known_is_found_after_the_outage() {
    // The data were restored, and by the time of the next watch they have a higher version than was told before. What that
    // history lacks is told by nobody.
    let api = server(
        |before| match before {
            0 => Answer::Steps(
                "",
                vec![
                    Step::Send([event("ADDED", "a", 3), event("ADDED", "lost", 7)].concat()),
                    Step::Send(bookmark(8, true)),
                    Step::Wait(200),
                    Step::Cut,
                ],
            ),
            1..=3 => Answer::Silence,
            4 => stream(Vec::new()),
            _ => stream(vec![event("ADDED", "a", 3), event("ADDED", "b", 6), bookmark(20, true)]),
        },
        |_| listed(&[("a", 3, 1), ("b", 6, 1)], 20),
    )
    .await;
    let (set, _ear) = follow(&config(&api));
    until("the first list", || names(&set) == "a lost").await;
    let begin = Instant::now();
    until("the other history", || names(&set) == "a b").await;
    assert!(begin.elapsed() > Duration::from_millis(900), "not at once: {:?}", begin.elapsed());
}

/// Follows a server with these times.
fn follow_timed(api: &super::api::Api, timing: Timing) -> Arc<WatchSet> {
    WatchSet::start_timed(&config(api), Arc::new(Quiet), &Handle::current(), timing)
}

/// A watch that has told of `a`, and is cut soon.
fn cut() -> Answer {
    let told = [event("ADDED", "a", 3), bookmark(8, true)].concat();
    Answer::Steps("", vec![Step::Send(told), Step::Wait(100), Step::Cut])
}

#[tokio::test]
async fn an_outage_soon_after_the_start_is_no_reason_to_compare_late() {
    // The first comparisons fail, as those of a server do that has more to do, and are made up for.
    for failures in [0, 2] {
        let api = server(
            |before| match before {
                0 => cut(),
                1 => Answer::Silence,
                2 => stream(Vec::new()),
                _ => stream(vec![event("ADDED", "b", 6), bookmark(20, true)]),
            },
            move |before| match before {
                before if before < failures => status(500, "InternalError", "etcd is away"),
                _ => listed(&[("b", 6, 1)], 20),
            },
        )
        .await;
        let [between, silence, watch] = [Duration::from_secs(60); 3];
        let set = follow_timed(&api, Timing { between, silence, watch, ..timing() });
        until("the first list", || names(&set) == "a").await;
        until("the other history", || names(&set) == "b").await;
    }
}

#[tokio::test]
async fn a_server_that_did_not_say_how_far_it_is_is_compared() {
    // Watches end in order, so that there is no other sign of an outage.
    let api = server(
        |before| match before {
            0 => ends(vec![event("ADDED", "a", 3), bookmark(8, true)]),
            1 => stream(Vec::new()),
            _ => stream(vec![event("ADDED", "b", 6), bookmark(20, true)]),
        },
        |_| listed(&[("b", 6, 1)], 20),
    )
    .await;
    api.telling.1.store(403, SeqCst);
    let silence = Duration::from_secs(60);
    let set = follow_timed(&api, Timing { silence, watch: silence, ..timing() });
    until("the first list", || names(&set) == "a").await;
    until("refusals", || set.store().state(Kind::Services) == State::Forbidden).await;
    api.telling.1.store(200, SeqCst);
    until("the other history", || names(&set) == "b").await;
}

#[tokio::test]
async fn outages_one_after_the_other_are_not_compared_each() {
    let api = server(
        |before| match before {
            0 => cut(),
            before if before % 2 == 0 => {
                let told = event("ADDED", "a", 9 + before as u64);
                Answer::Steps("", vec![Step::Send(told), Step::Wait(600), Step::Cut])
            }
            _ => Answer::Silence,
        },
        |_| listed(&[("a", 3, 1)], 8),
    )
    .await;
    let [recovered, between] = [Duration::from_millis(50), Duration::from_secs(6)];
    let _set = follow_timed(&api, Timing { recovered, between, ..timing() });
    until("the first", || lists(&api) >= 1).await;
    let begin = Instant::now();
    until("the next", || lists(&api) >= 2).await;
    assert!(begin.elapsed() >= between, "{:?}", begin.elapsed());
    assert!(api.asked("/services?watch=true").len() > 6, "there were more outages than that");
}

/// Gives an object other ports than any that is thrown.
fn alter(object: &mut Object<'static>) {
    let ports = vec![Port { name: "other".into(), protocol: Protocol::Tcp, number: 999 }];
    match object {
        Object::Service(service) => service.ports = ports,
        Object::Import(import) => import.ports = ports,
        Object::Slice(slice) | Object::ImportSlice(slice) => slice.ports = ports,
        Object::Pod(pod) => pod.ips.push([203, 0, 113, 99].into()),
        Object::Export(export) => export.created += 1000,
        Object::Namespace(_) => {}
    }
}

#[test]
fn every_difference_is_found_and_no_other() {
    let mut total = [0; 3];
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let (mut writer, store) = Writer::new(all(), Arc::new(Quiet));
        let mut known = BTreeMap::new();
        for _ in 0..dice.throw(120) {
            let kind = Kind::ALL[dice.throw(Kind::COUNT as u64) as usize];
            let mut object = dice.object(kind);
            match &mut object {
                Object::Pod(pod) => pod.terminating = false,
                // Slices of no service are not kept.
                Object::Slice(slice) | Object::ImportSlice(slice) if slice.service.is_empty() => {
                    continue;
                }
                _ => {}
            }
            writer.apply(&Event::Apply(object.clone()));
            let meta = object.meta();
            known.insert((kind, meta.namespace.to_string(), meta.name.to_string()), object);
        }
        for kind in Kind::ALL {
            let mut expected = [0; 3];
            let mut cluster: Vec<_> = known
                .iter()
                .filter(|(key, _)| key.0 == kind)
                .map(|(_, object)| object.clone())
                .collect();
            let objects = cluster.len();
            cluster.retain(|_| dice.throw(5) > 0);
            expected[Difference::Superfluous as usize] = objects - cluster.len();
            for object in &mut cluster {
                if kind != Kind::Namespaces && dice.throw(4) == 0 {
                    alter(object);
                    expected[Difference::Differing as usize] += 1;
                }
            }
            for _ in 0..dice.throw(2) {
                let mut object = dice.object(kind);
                let name = "unheard-of";
                match &mut object {
                    Object::Namespace(meta) => meta.name = name.into(),
                    Object::Service(service) => service.meta.name = name.into(),
                    Object::Import(import) => import.meta.name = name.into(),
                    Object::Export(export) => export.meta.name = name.into(),
                    Object::Slice(slice) | Object::ImportSlice(slice) => {
                        (slice.meta.name, slice.service) = (name.into(), "web".into());
                    }
                    Object::Pod(pod) => {
                        pod.meta.name = name.into();
                        // One that ends is not taken up, and not missed.
                        if pod.terminating {
                            cluster.push(object);
                            continue;
                        }
                    }
                }
                expected[Difference::Missing as usize] += 1;
                cluster.push(object);
            }
            let mut check = Check::new(&store, kind);
            let events: Vec<_> = cluster.into_iter().map(Event::Apply).collect();
            events.iter().for_each(|event| check.first(event));
            check.unnamed();
            events.iter().for_each(|event| check.second(event));
            let verdict = check.verdict();
            assert_eq!(verdict.counts, expected, "seed {seed}: {verdict}");
            (0..3).for_each(|at| total[at] += expected[at]);
        }
    }
    assert!(total.iter().all(|count| *count > 100), "{total:?}");
}

#[test]
fn more_than_is_looked_at_again_is_said_to_be_more() {
    let (_writer, store) = Writer::new(all(), Arc::new(Quiet));
    for (count, more) in [(4096, false), (4097, true)] {
        let mut check = Check::new(&store, Kind::Namespaces);
        let events: Vec<_> = (0..count)
            .map(|number| {
                let meta = crate::Meta { name: format!("n{number}").into(), ..Default::default() };
                Event::Apply(Object::Namespace(meta))
            })
            .collect();
        events.iter().for_each(|event| check.first(event));
        check.unnamed();
        events.iter().for_each(|event| check.second(event));
        let verdict = check.verdict();
        assert_eq!((verdict.counts, verdict.more), ([4096, 0, 0], more));
        let said = verdict.to_string();
        let words = ", and more, for only 4096 that differed were looked at again (missing n";
        assert_eq!(said.contains(words), more, "{said}");
    }
    // What differed at first, and was in order when it was looked at again, does not make the rest equal.
    let mut check = Check::new(&store, Kind::Namespaces);
    for number in 0..4097 {
        let meta = crate::Meta { name: format!("n{number}").into(), ..Default::default() };
        check.first(&Event::Apply(Object::Namespace(meta)));
    }
    let verdict = check.verdict();
    assert!(verdict.counts == [0; 3] && !verdict.equal(), "{verdict}");
}

#[tokio::test]
async fn kinds_that_are_not_there_are_left_out() {
    let api = services(|asked, _| {
        if asked.path.contains("watch=true") {
            stream(vec![event("ADDED", "a", 3), bookmark(5, true)])
        } else {
            listed(&[("a", 3, 1)], 5)
        }
    })
    .await;
    let keep = crate::Keep { pods: true, ..crate::Keep::default() };
    let (set, _ear) = follow(&Config { keep, ..config(&api) });
    until("the watch", || set.store().state(Kind::Services) == State::Watching).await;
    set.store().set_state(Kind::Pods, State::Forbidden);
    set.store().set_state(Kind::Namespaces, State::Absent);
    let verdicts = verdicts(&set).await;
    assert_eq!(equal(&verdicts), [(Kind::Services, 1)]);
}
