//! Who gets room, and who makes it.

use std::time::Duration;

use super::*;

/// Bounds with room for a few.
const FEW: Bounds = Bounds {
    connections: 4,
    connections_per_client: 3,
    handshakes: 3,
    handshakes_per_client: 2,
    pipeline: 1,
    waiting: 1,
};

/// A house and one of its listeners.
fn house(bounds: Bounds) -> (Arc<Limits>, Arc<Count>) {
    (Limits::new(bounds), Arc::default())
}

/// A connection of 198.51.100.N whose handshake is done, and which has something under way.
fn enter((limits, here): &(Arc<Limits>, Arc<Count>), n: u8, spec: &LimitSpec) -> Option<Room> {
    let room = begin((limits, here), n, spec)?;
    room.greeted();
    room.seat().serve();
    Some(room)
}

/// A connection of 198.51.100.N that begins.
fn begin((limits, here): (&Arc<Limits>, &Arc<Count>), n: u8, spec: &LimitSpec) -> Option<Room> {
    limits.enter((ListenerId(1), Count::one(here)), [198, 51, 100, n].into(), spec, Way::Direct)
}

#[test]
fn room_is_bounded_in_all_by_client_and_by_listener() {
    let (house, none) = (house(FEW), LimitSpec::default());
    let mut rooms: Vec<_> = (0..3).map(|_| enter(&house, 1, &none).unwrap()).collect();
    assert!(enter(&house, 1, &none).is_none(), "the client has three");
    rooms.push(enter(&house, 2, &none).unwrap());
    assert!(enter(&house, 2, &none).is_none(), "there are four, and all are served");
    rooms.pop();
    rooms.push(enter(&house, 2, &none).unwrap());
    rooms.clear();
    assert_eq!((house.0.open(), house.1.open()), (0, 0));
    let spec = LimitSpec { connections_per_client: Some(1), connections: Some(2), ..none };
    rooms.push(enter(&house, 1, &spec).unwrap());
    assert!(enter(&house, 1, &spec).is_none(), "the listener has one a client");
    rooms.push(enter(&house, 2, &spec).unwrap());
    assert!(enter(&house, 3, &spec).is_none(), "and two in all");
    assert_eq!((house.0.open(), house.1.open()), (2, 2), "who was refused does not count");
}

#[test]
fn beginnings_are_bounded() {
    let ((limits, here), none) = (house(FEW), LimitSpec::default());
    let one: Vec<_> = (0..2).map(|_| begin((&limits, &here), 1, &none).unwrap()).collect();
    assert!(begin((&limits, &here), 1, &none).is_none(), "two of a client begin");
    let two = begin((&limits, &here), 2, &none).unwrap();
    assert!(begin((&limits, &here), 3, &none).is_none(), "three in all begin");
    one[0].greeted();
    assert!(begin((&limits, &here), 3, &none).is_some());
    drop((one, two));
    assert_eq!(limits.greeting.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn slow_02_the_longest_idle_of_whoever_has_most_makes_room() {
    let (house, none) = (house(FEW), LimitSpec::default());
    let start = Instant::now();
    let many: Vec<_> = (0..3).map(|_| enter(&house, 1, &none).unwrap()).collect();
    let single = enter(&house, 2, &none).unwrap();
    // The single one is idle for longest, but its client has only that.
    single.seat().idle(start);
    for (room, age) in many.iter().zip([2, 1, 3]) {
        room.seat().idle(start + Duration::from_secs(10 - age));
    }
    let new = enter(&house, 3, &none).unwrap();
    assert_eq!(house.0.open(), 4);
    let told = futures::FutureExt::now_or_never(many[2].seat().told());
    assert_eq!(told, Some(Leave::Crowded));
    for other in [&many[0], &many[1], &single, &new] {
        assert_eq!(futures::FutureExt::now_or_never(other.seat().told()), None);
    }
    drop((many, single, new));
    assert_eq!(house.0.open(), 0, "nobody is counted off twice");
}

#[test]
fn slow_02_room_is_made_however_many_press_for_it() {
    let (house, none) = (house(FEW), LimitSpec::default());
    let idle: Vec<_> = (1..=4).map(|n| enter(&house, n, &none).unwrap()).collect();
    idle.iter().for_each(|room| room.seat().idle(Instant::now()));
    let (begin, mut new) = (Instant::now(), Vec::new());
    // Far more often than room is made.
    while new.len() < 4 && begin.elapsed() < Duration::from_secs(5) {
        new.extend(enter(&house, 10, &none).or_else(|| enter(&house, 11, &none)));
    }
    assert_eq!(new.len(), 4);
}

#[test]
fn who_a_proxy_speaks_for_is_bounded_and_not_the_proxy() {
    let ((limits, here), none) = (house(Bounds { connections: 10, ..FEW }), LimitSpec::default());
    let enter = || {
        let taken = (ListenerId(1), Count::one(&here));
        let room = limits.enter(taken, [203, 0, 113, 1].into(), &none, Way::Proxied);
        let room = room.unwrap();
        room.greeted();
        room
    };
    let mut rooms: Vec<_> = (0..7).map(|_| enter()).collect();
    for room in rooms.iter_mut().take(3) {
        assert!(room.claim([198, 51, 100, 1].into(), &none));
    }
    assert!(!rooms[3].claim([198, 51, 100, 1].into(), &none), "the client has three");
    assert!(rooms[4].claim([198, 51, 100, 2].into(), &none));
    drop(rooms);
    assert_eq!((limits.open(), here.open()), (0, 0));
}

#[tokio::test]
async fn who_waits_for_a_listener_gets_the_next_room() {
    let here = Arc::new(Count::default());
    let first = Count::one_of(&here, || Some(1)).await;
    let waiting = tokio::spawn({
        let here = Arc::clone(&here);
        async move { drop(Count::one_of(&here, || Some(1)).await) }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(first);
    waiting.await.unwrap();
    assert_eq!(here.open(), 0);
}

#[test]
fn connections_leave_descriptors_for_others() {
    let bounds = Bounds::default();
    assert_eq!(bounds.within(usize::MAX, 2), (bounds, None));
    assert_eq!(bounds.within(20_000, 2), (bounds, None));
    for (soft, connections) in [(1024, 768), (256, 176), (128, 48), (64, 1), (12_000, 9_000)] {
        let (within, warning) = bounds.within(soft, 2);
        assert_eq!(within.connections, connections, "{soft}");
        assert!(warning.unwrap().contains(&format!("{soft} files")), "{soft}");
    }
    assert_eq!(bounds.within(1024, 64).0.connections, 448, "threads have sockets of their own");
}
