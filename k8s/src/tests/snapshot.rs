//! Snapshots: what is written is what is read, and nothing else is taken in.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    Config, Endpoint, Event, Keep, Kind, Meta, Object, Probe, Quiet, Slice, Snapshot, Source,
    Standing, State, Store, Writer,
    snapshot::{Found, Head, Keeper, Place, User, create, read},
    store::unix_time,
    store_from_yaml,
};

/// A cluster with something of every kind.
const CLUSTER: &str = include_str!("cluster.yaml");

/// A folder of its own, away with the test.
struct Folder(PathBuf);

impl Folder {
    /// Makes a folder.
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("causeway-snapshot-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The names of the files in it.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700)));
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Everything is kept.
fn keep() -> Keep {
    Keep {
        endpoints: true,
        pods: true,
        multicluster: true,
        exports: true,
        pod_names: true,
        pod_labels: true,
        zones: true,
        ..Keep::default()
    }
}

/// A configuration with a snapshot in this folder.
fn config(dir: &Path) -> Config {
    let source = Source::Endpoint { url: "https://198.51.100.1:6443".to_owned(), tls: None };
    Config {
        keep: keep(),
        snapshot: Some(Snapshot { dir: dir.to_owned(), max_age: Duration::from_secs(3600) }),
        ..Config::new(source)
    }
}

/// The place of that configuration's snapshot.
fn place(dir: &Path) -> Place {
    Place::of(&config(dir)).unwrap()
}

/// A store that follows the cluster of a text.
fn live(yaml: &str) -> (Writer, Store) {
    let (writer, store) = store_from_yaml(yaml, keep()).unwrap();
    for kind in Kind::ALL {
        store.hear(kind);
        store.set_state(kind, State::Watching);
    }
    assert_eq!(store.standing(), Standing::Live);
    (writer, store)
}

/// An empty store, and what the folder's snapshot makes of it.
fn load(place: &Place) -> (Writer, Store) {
    let (mut writer, store) = Writer::new(keep(), Arc::new(Quiet));
    Keeper::new(place.clone(), store.clone(), Arc::new(Quiet)).load(&mut writer);
    (writer, store)
}

/// All objects of a snapshot, by their words.
fn objects(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    read(bytes, &mut |_: &Head| Ok(()), &mut |object: Object<'_>| all.push(format!("{object:?}")))
        .unwrap();
    all.sort();
    all
}

/// Writes a store's snapshot, and gives the file's bytes.
fn save(place: &Place, store: &Store) -> Vec<u8> {
    place.save(store, unix_time().0, &mut || ()).unwrap();
    fs::read(place.path()).unwrap()
}

#[test]
fn what_is_read_is_what_was_written() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (_writer, store) = live(CLUSTER);
    let bytes = save(&place, &store);
    let (mut again, loaded) = load(&place);
    assert!(matches!(loaded.standing(), Standing::Snapshot { taken } if taken > 0));
    assert_eq!(loaded.serial(), store.serial());
    for (one, other) in store.freshness().zip(loaded.freshness()) {
        assert_eq!((one.kind, one.objects), (other.kind, other.objects));
        assert!(one.objects > 0, "{:?} is not in the test's cluster", one.kind);
    }
    // The same objects come out of the store that was read.
    let other = Folder::new();
    let second = self::place(&other.0);
    let written = save(&second, &loaded);
    assert_eq!(objects(&bytes), objects(&written));
    // The first list marks and sweeps in place: what it does not name goes, the rest stays.
    for kind in Kind::ALL {
        again.apply(&Event::Restart(kind));
        if kind == Kind::Namespaces {
            let only = Meta { name: "only".into(), ..Meta::default() };
            again.apply(&Event::Apply(Object::Namespace(only)));
        }
        again.apply(&Event::Synced(kind));
    }
    assert_eq!(loaded.standing(), Standing::Live);
    assert_eq!(loaded.read().services().len(), 0);
    assert!(loaded.read().namespace(b"only"));
}

#[test]
fn the_standing_is_a_snapshots_until_every_kind_was_listed() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (_writer, store) = live(CLUSTER);
    save(&place, &store);
    let (mut writer, loaded) = load(&place);
    assert!(loaded.synced());
    for kind in Kind::ALL {
        assert!(matches!(loaded.standing(), Standing::Snapshot { .. }), "before {kind:?}");
        writer.apply(&Event::Restart(kind));
        assert!(loaded.synced(), "answers go on while {kind:?} is listed");
        writer.apply(&Event::Synced(kind));
        loaded.hear(kind);
    }
    assert_eq!(loaded.standing(), Standing::Live);
}

#[test]
fn every_cut_and_every_wrong_byte_is_refused() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let small = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop},\
                 spec: {clusterIP: 198.51.100.7, ports: [{name: http, port: 80}]}}";
    let (_writer, store) = live(small);
    let good = save(&place, &store);
    assert!(good.len() < 1000, "{}", good.len());
    let refused = |bytes: &[u8]| {
        let mut each = |_: Object<'_>| ();
        read(bytes, &mut |_: &Head| Ok(()), &mut each).is_err()
    };
    assert!(!refused(&good));
    for len in 0..good.len() {
        assert!(refused(&good[..len]), "cut at {len}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(refused(&bad), "bit {bit} of byte {at}");
        }
        let mut bad = good.clone();
        bad[at] = !bad[at];
        assert!(refused(&bad), "byte {at}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(refused(&longer), "a byte more");
    assert!(refused(&good.repeat(2)), "twice");
}

#[test]
fn wrong_contents_with_right_checksums_are_refused_without_a_panic() {
    // What no program of ours writes: the bytes of each block are changed and the checksums made anew.
    let folder = Folder::new();
    let (_writer, store) = live(CLUSTER);
    let good = save(&place(&folder.0), &store);
    let mut seed = 7u64;
    for _ in 0..3000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bad = good.clone();
        let at = 12 + (seed >> 33) as usize % (bad.len() - 12);
        bad[at] = (seed >> 20) as u8;
        seal(&mut bad);
        // Anything may come of it but a panic, or a loop without end.
        drop(read(&*bad, &mut |_: &Head| Ok(()), &mut |_: Object<'_>| ()));
    }
}

/// Makes the checksums of a file right again, as far as its blocks go.
fn seal(bytes: &mut [u8]) {
    let mut sum = flate2::Crc::new();
    sum.update(&bytes[..12]);
    let mut at = 12;
    while let Some(len) = bytes.get(at..at + 4) {
        sum.update(len);
        let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
        let Some(block) = bytes.get(at + 8..at + 8 + len) else { return };
        sum.update(block);
        bytes[at + 4..at + 8].copy_from_slice(&sum.sum().to_le_bytes());
        at += 8 + len;
    }
}

#[test]
fn what_may_not_be_used_is_set_aside_and_the_store_stays_empty() {
    let other = |change: fn(&mut Config)| {
        move |dir: &Path| {
            let mut config = config(dir);
            change(&mut config);
            Place::of(&config).unwrap()
        }
    };
    /// Who writes.
    type Case<'c> = (&'c str, Box<dyn Fn(&Path) -> Place>);
    let cases: [Case<'_>; 2] = [
        (
            "of another cluster",
            Box::new(other(|config| {
                let url = "https://198.51.100.2:6443".to_owned();
                config.source = Source::Endpoint { url, tls: None };
            })),
        ),
        (
            "of another cluster",
            Box::new(other(|config| {
                config.labels = Some("app=web".parse().unwrap());
            })),
        ),
    ];
    for (reason, writer) in cases {
        let (away, folder) = (Folder::new(), Folder::new());
        let (_writer, store) = live(CLUSTER);
        let theirs = writer(&away.0);
        theirs.save(&store, unix_time().0, &mut || ()).unwrap();
        let ours = place(&folder.0);
        fs::copy(theirs.path(), ours.path()).unwrap();
        let (mut writer, loaded) = Writer::new(keep(), Arc::new(Quiet));
        let found = ours.load(&mut writer);
        let Found::Refused(why) = found else { panic!("{reason}: {found:?}") };
        assert!(why.to_string().contains(reason), "{why}");
        assert_eq!(loaded.standing(), Standing::Unsynced);
        assert_eq!(loaded.read().services().len(), 0);
        let [name] = &folder.files()[..] else { panic!("{:?}", folder.files()) };
        assert!(name.ends_with(".refused"), "{name}");
    }
}

#[test]
fn a_snapshot_of_a_wrong_time_is_not_used_and_stays() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (_writer, store) = live(CLUSTER);
    let now = unix_time().0;
    for (reason, taken) in
        [("s in the future", now + 4000), ("at most 3600 s are allowed", now - 4000)]
    {
        place.save(&store, taken, &mut || ()).unwrap();
        let (mut writer, loaded) = Writer::new(keep(), Arc::new(Quiet));
        let found = place.load(&mut writer);
        let Found::Untimely(why) = found else { panic!("{reason}: {found:?}") };
        assert!(why.to_string().contains(reason), "{why}");
        assert_eq!(loaded.standing(), Standing::Unsynced);
        assert_eq!(loaded.read().services().len(), 0);
        let [name] = &folder.files()[..] else { panic!("{:?}", folder.files()) };
        assert!(name.ends_with(".snapshot"), "{name}");
    }
    // Damage counts before the time.
    let mut bytes = fs::read(place.path()).unwrap();
    bytes.pop();
    fs::write(place.path(), bytes).unwrap();
    assert_eq!(load(&place).1.standing(), Standing::Unsynced);
    assert!(folder.files()[0].ends_with(".refused"));
}

#[test]
fn the_largest_slices_are_written_and_read() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (mut writer, store) = live(CLUSTER);
    let before = store.freshness().find(|one| one.kind == Kind::Slices).unwrap().objects;
    // Together they are larger than a block may be.
    for number in 0..60u16 {
        let endpoints = (0..1000u16).map(|at| Endpoint {
            place: crate::Place::Ip(Ipv4Addr::new(203, 0, 113, at as u8).into()),
            ready: true,
            hostname: format!("h{at:062}").into(),
            pod: format!("p{at:0252}").into(),
            zone: "".into(),
        });
        let slice = Slice {
            meta: Meta {
                namespace: "shop".into(),
                name: format!("large-{number}").into(),
                version: 1,
            },
            service: "large".into(),
            endpoints: endpoints.collect(),
            ..Slice::default()
        };
        writer.apply(&Event::Apply(Object::Slice(slice)));
    }
    let bytes = save(&place, &store);
    assert!(bytes.len() > 17 << 20, "{}", bytes.len());
    let (_writer, loaded) = load(&place);
    let after = loaded.freshness().find(|one| one.kind == Kind::Slices).unwrap().objects;
    assert_eq!(after, before + 60);
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let folder = Folder::new();
    let (_writer, store) = live(CLUSTER);
    let mut bytes = save(&place(&folder.0), &store);
    bytes[8] = 2;
    let refused = read(&*bytes, &mut |_: &Head| Ok(()), &mut |_: Object<'_>| ()).unwrap_err();
    assert_eq!(refused.to_string(), "it is of version 2, and this program reads version 1");
}

#[test]
fn files_are_private_and_nothing_is_left_beside_them() {
    let folder = Folder::new();
    let place = place(&folder.0.join("a/b"));
    let (_writer, store) = live(CLUSTER);
    save(&place, &store);
    save(&place, &store);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&place.path()), 0o600);
    assert_eq!(mode(&folder.0.join("a/b")), 0o700);
    assert_eq!(fs::read_dir(folder.0.join("a/b")).unwrap().count(), 1);
}

#[test]
fn two_writers_and_a_reader_in_one_folder_do_no_damage() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (_writer, store) = live(CLUSTER);
    save(&place, &store);
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..50).for_each(|_| drop(save(&place, &store))));
        }
        scope.spawn(|| {
            for _ in 0..50 {
                let (_writer, loaded) = load(&place);
                let whole = matches!(loaded.standing(), Standing::Snapshot { .. });
                taken.fetch_add(usize::from(whole), Relaxed);
            }
        });
    });
    assert_eq!(taken.into_inner(), 50);
    assert_eq!(folder.files().len(), 1);
}

#[test]
fn a_file_that_another_writer_has_begun_is_left_alone() {
    // In containers all processes have the same number, and begin to count at the same one.
    let folder = Folder::new();
    let place = place(&folder.0);
    let name = place.path().file_name().unwrap().to_str().unwrap().to_owned();
    let theirs: Vec<_> = (0..3000)
        .map(|number| folder.0.join(format!(".{name}.{}-{number}", std::process::id())))
        .collect();
    theirs.iter().for_each(|path| fs::write(path, "theirs").unwrap());
    let (_writer, store) = live(CLUSTER);
    save(&place, &store);
    assert_eq!(folder.files().len(), 3001);
    // A name that is taken is not the end.
    let fresh = folder.0.join("fresh");
    let names = [&theirs[0], &theirs[1], &fresh].map(PathBuf::clone);
    let (path, _) = create(names.clone().into_iter()).unwrap();
    assert_eq!(path, fresh);
    assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, 0o600);
    let taken = create(names.into_iter()).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(theirs.iter().all(|path| fs::read(path).unwrap() == b"theirs"));
}

#[test]
fn what_killed_writers_have_left_is_removed_when_it_is_old() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let name = place.path().file_name().unwrap().to_str().unwrap().to_owned();
    let old = std::time::SystemTime::now() - Duration::from_secs(700);
    for (file, age) in [("1-7", Some(old)), ("00112233445566ff", Some(old)), ("0011", None)] {
        let file = fs::File::create(folder.0.join(format!(".{name}.{file}"))).unwrap();
        age.map_or(Ok(()), |age| file.set_modified(age)).unwrap();
    }
    let (_writer, store) = live(CLUSTER);
    save(&place, &store);
    assert_eq!(folder.files(), [format!(".{name}.0011"), name]);
}

#[test]
fn only_what_nobody_else_may_write_is_trusted() {
    let user = User { id: 65532, groups: vec![65532, 2000] };
    for (owner, group, mode, want) in [
        (65532, 65532, 0o100_600, None),
        (65532, 0, 0o100_644, None),
        (0, 0, 0o100_640, None),
        // A volume with an `fsGroup`.
        (65532, 2000, 0o100_660, None),
        (0, 2000, 0o100_660, None),
        (65532, 2001, 0o100_640, None),
        (65532, 2001, 0o100_660, Some("may be written by the group 2001")),
        (65532, 2000, 0o100_666, Some("may be written by everybody")),
        (0, 0, 0o100_602, Some("may be written by everybody")),
        (1000, 65532, 0o100_600, Some("is of the user 1000")),
        (65534, 65534, 0o100_666, Some("is of the user 65534")),
    ] {
        let found = user.mistrusts(owner, group, mode);
        assert_eq!(found.as_deref(), want, "{owner} {group} {mode:o}");
    }
}

#[test]
fn a_snapshot_that_others_may_write_is_set_aside() {
    let (_writer, store) = live(CLUSTER);
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (mode, refused) in [(0o600, false), (0o644, false), (0o660, false), (0o666, true)] {
        let folder = Folder::new();
        // The folder alone is no reason: that of an `emptyDir` is everybody's.
        chmod(&folder.0, 0o777);
        let place = place(&folder.0);
        save(&place, &store);
        chmod(&place.path(), mode);
        let (mut writer, loaded) = Writer::new(keep(), Arc::new(Quiet));
        let found = place.load(&mut writer);
        assert_eq!(loaded.standing() == Standing::Unsynced, refused, "{mode:o}: {found:?}");
        assert_eq!(folder.files()[0].ends_with(".refused"), refused, "{mode:o}: {found:?}");
        if refused {
            let Found::Refused(why) = found else { panic!("{found:?}") };
            assert!(why.to_string().contains("may be written by everybody"), "{why}");
        }
    }
    let folder = Folder::new();
    let place = place(&folder.0);
    save(&place, &store);
    match chown(place.path(), Some(12345), None) {
        Ok(()) => {
            let (mut writer, loaded) = Writer::new(keep(), Arc::new(Quiet));
            let Found::Refused(why) = place.load(&mut writer) else { panic!("it is taken") };
            assert!(why.to_string().contains("is of the user 12345"), "{why}");
            assert_eq!(loaded.standing(), Standing::Unsynced);
        }
        // Only root may give files away.
        Err(error) => assert!(!rustix::process::geteuid().is_root(), "{error}"),
    }
}

#[test]
fn a_folder_that_everybody_may_write_to_is_odd() {
    let folder = Folder::new();
    let inner = folder.0.join("inner");
    let place = place(&inner);
    assert_eq!(place.odd(), None);
    fs::create_dir(&inner).unwrap();
    for (mode, odd) in [(0o700, false), (0o2770, false), (0o1777, false), (0o777, true)] {
        fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(place.odd().is_some(), odd, "{mode:o}");
    }
}

/// Counts failures.
#[derive(Debug, Default)]
struct Failures(AtomicUsize);

impl Probe for Failures {
    fn snapshot_failed(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_counted_and_nothing_else_happens() {
    let folder = Folder::new();
    let file = folder.0.join("file");
    fs::write(&file, "no folder").unwrap();
    let (_writer, store) = live(CLUSTER);
    let failures = Arc::new(Failures::default());
    let probe: Arc<dyn Probe> = Arc::<Failures>::clone(&failures);
    let keeper = Arc::new(Keeper::new(place(&file), store.clone(), probe));
    Arc::clone(&keeper).finish().await;
    Arc::clone(&keeper).finish().await;
    assert_eq!(failures.0.load(Relaxed), 2);
    assert_eq!(keeper.figures(), None);
    assert_eq!(store.standing(), Standing::Live);
    // The trouble is over.
    fs::remove_file(&file).unwrap();
    Arc::clone(&keeper).finish().await;
    assert!(keeper.figures().is_some_and(|(taken, bytes)| taken > 0 && bytes > 0));
}

#[tokio::test]
async fn what_came_from_a_snapshot_is_not_written_as_if_it_were_new() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (_writer, store) = live(CLUSTER);
    place.save(&store, unix_time().0 - 100, &mut || ()).unwrap();
    let before = fs::metadata(place.path()).unwrap().ino();
    let (_writer, loaded) = load(&place);
    Arc::new(Keeper::new(place.clone(), loaded, Arc::new(Quiet))).finish().await;
    assert_eq!(fs::metadata(place.path()).unwrap().ino(), before);
}

#[test]
fn what_was_kept_from_us_is_not_known_again() {
    for kind in [Kind::Namespaces, Kind::Slices] {
        let folder = Folder::new();
        let place = place(&folder.0);
        let (mut writer, store) = Writer::new(keep(), Arc::new(Quiet));
        for other in Kind::ALL.into_iter().filter(|other| *other != kind) {
            writer.apply(&Event::Synced(other));
        }
        writer.apply(&Event::Refused(kind, "".into()));
        store.set_state(kind, State::Forbidden);
        assert!(store.answers() && !store.synced());
        save(&place, &store);
        let (_writer, loaded) = load(&place);
        assert!(loaded.answers() && !loaded.synced(), "{kind}");
        assert_eq!(loaded.knows_endpoints(false), kind != Kind::Slices);
        assert_eq!(loaded.read().doubts(b"nosuch"), kind == Kind::Namespaces);
    }
}

#[test]
fn a_kind_that_was_refused_is_done_without_again() {
    let folder = Folder::new();
    let place = place(&folder.0);
    let (mut writer, store) = Writer::new(keep(), Arc::new(Quiet));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Pods) {
        writer.apply(&Event::Restart(kind));
        writer.apply(&Event::Synced(kind));
    }
    assert!(!store.synced());
    store.set_state(Kind::Pods, State::Forbidden);
    assert!(store.synced());
    // The API server goes away: what it had refused is no reason to know nothing any more.
    store.set_state(Kind::Pods, State::Failing);
    assert!(store.synced());
    save(&place, &store);
    let (_writer, loaded) = load(&place);
    assert!(loaded.synced() && !loaded.listed(Kind::Pods));
}
