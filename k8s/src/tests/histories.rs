//! Random histories, told with every fault that a way from an API server may have, end in what the last objects give.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::store::{Dice, all, dump};
use crate::{Event, Keep, Key, Kind, Object, Quiet, Writer, order::Order};

/// What names an object of a kind.
type Name = (String, String);

/// Objects as the server has them.
type Objects = BTreeMap<(Kind, Name), Object<'static>>;

/// A change of the server: its resource version and what a watch tells of it.
#[derive(Clone)]
struct Told {
    version: u64,
    event: Event<'static>,
}

/// A server's data, with all that happened to them.
#[derive(Clone, Default)]
struct World {
    version: u64,
    objects: Objects,
    /// By [`Kind::index`].
    told: [Vec<Told>; Kind::ALL.len()],
}

impl World {
    /// Lets an object be made, changed or deleted.
    fn change(&mut self, dice: &mut Dice, kind: Kind) {
        self.version += 1 + dice.throw(3);
        let mut object = dice.object(kind);
        let meta = object.meta();
        let name = (meta.namespace.to_string(), meta.name.to_string());
        let event = if dice.throw(4) == 0 && self.objects.remove(&(kind, name.clone())).is_some() {
            let (namespace, name) = (name.0.into(), name.1.into());
            Event::Delete(Key { kind, namespace, name })
        } else {
            set_version(&mut object, self.version);
            self.objects.insert((kind, name), object.clone());
            Event::Apply(object)
        };
        self.told[kind.index()].push(Told { version: self.version, event });
    }

    /// Gives the objects of a kind, shuffled.
    fn list(&self, dice: &mut Dice, kind: Kind) -> VecDeque<Object<'static>> {
        let mut list: Vec<_> =
            self.objects.iter().filter(|(key, _)| key.0 == kind).map(|(_, o)| o.clone()).collect();
        for at in (1..list.len()).rev() {
            list.swap(at, dice.throw(at as u64 + 1) as usize);
        }
        list.into()
    }
}

/// Gives an object a version. A pod that ends is kept if it is known and not taken up if it is not, so that what there is
/// depends on the history by intent; there are none of them here.
fn set_version(object: &mut Object<'static>, version: u64) {
    match object {
        Object::Namespace(meta) => meta.version = version,
        Object::Service(service) => service.meta.version = version,
        Object::Slice(slice) | Object::ImportSlice(slice) => slice.meta.version = version,
        Object::Import(import) => import.meta.version = version,
        Object::Export(export) => export.meta.version = version,
        Object::Pod(pod) => (pod.meta.version, pod.terminating) = (version, false),
    }
}

/// The way of one kind to the store.
#[derive(Default)]
struct Way {
    /// The events that have been told, by their place.
    place: usize,
    order: Order,
    /// The list under way: what it has yet to name, and where the watch goes on.
    list: Option<(VecDeque<Object<'static>>, u64, usize)>,
    /// Whether a list must come.
    stale: bool,
}

impl Way {
    /// Tells an event of a watch, as a follower does: what is not in order is passed over, and a list is due.
    fn tell(&mut self, writer: &mut Writer, told: &Told) {
        if self.order.pass(&told.version.to_string()) {
            writer.apply(&told.event);
        } else {
            self.stale = true;
        }
    }

    /// Tells the next event, if there is one.
    fn next(&mut self, writer: &mut Writer, log: &[Told]) {
        if let Some(told) = log.get(self.place) {
            self.place += 1;
            self.tell(writer, told);
        }
    }

    /// Begins a list.
    fn begin(&mut self, writer: &mut Writer, dice: &mut Dice, world: &World, kind: Kind) {
        writer.apply(&Event::Restart(kind));
        let list = world.list(dice, kind);
        self.list = Some((list, world.version, world.told[kind.index()].len()));
    }

    /// Goes on with a list by one object, which may be named twice; says whether it is over.
    fn go_on(&mut self, writer: &mut Writer, dice: &mut Dice, kind: Kind) -> bool {
        let Some((list, version, place)) = &mut self.list else { return true };
        if let Some(object) = list.pop_front() {
            let event = Event::Apply(object);
            for _ in 0..=dice.throw(2) {
                writer.apply(&event);
            }
            return false;
        }
        writer.apply(&Event::Synced(kind));
        (self.order, self.place) = (Order::behind(Some(&version.to_string())), *place);
        (self.list, self.stale) = (None, false);
        true
    }
}

/// Lets a history happen and compares what is left of it.
fn history(seed: u64, keep: &Keep) {
    let mut dice = Dice(seed);
    let (mut writer, store) = Writer::new(keep.clone(), Arc::new(Quiet));
    let mut world = World { version: 100, ..World::default() };
    let mut backup = world.clone();
    let mut ways: [Way; Kind::ALL.len()] = Default::default();
    ways.iter_mut().for_each(|way| way.stale = true);
    for _ in 0..200 + dice.throw(400) {
        let kind = Kind::ALL[dice.throw(Kind::ALL.len() as u64) as usize];
        let way = &mut ways[kind.index()];
        let log = &world.told[kind.index()];
        match dice.throw(40) {
            0..14 => world.change(&mut dice, kind),
            // The data go back to a backup, which every watch finds out before it goes on.
            14 => {
                if dice.throw(3) == 0 {
                    world.clone_from(&backup);
                    for way in &mut ways {
                        (way.list, way.stale) = (None, true);
                    }
                } else {
                    backup.clone_from(&world);
                }
            }
            // A connection ends, and the history behind its place is gone.
            15 => (way.list, way.stale) = (None, true),
            _ if way.list.is_some() => drop(way.go_on(&mut writer, &mut dice, kind)),
            16..20 if way.stale => way.begin(&mut writer, &mut dice, &world, kind),
            // A list without a cause.
            16 => way.begin(&mut writer, &mut dice, &world, kind),
            // Nothing of a watch before the first list, as there is none.
            _ if way.order == Order::default() => {}
            // What was told once is told again.
            17..19 if way.place > 0 => {
                let again = log[dice.throw(way.place as u64) as usize].clone();
                way.tell(&mut writer, &again);
            }
            // Two events come in the wrong order.
            19 if log.len() > way.place + 1 => {
                way.tell(&mut writer, &log[way.place + 1]);
                way.tell(&mut writer, &log[way.place]);
                way.place += 2;
            }
            _ => way.next(&mut writer, log),
        }
    }
    // The way is good again.
    for kind in Kind::ALL {
        let way = &mut ways[kind.index()];
        if way.stale && way.list.is_none() {
            way.begin(&mut writer, &mut dice, &world, kind);
        }
        while !way.go_on(&mut writer, &mut dice, kind) {}
        while way.place < world.told[kind.index()].len() {
            way.next(&mut writer, &world.told[kind.index()]);
        }
    }
    assert!(!ways.iter().any(|way| way.stale), "seed {seed}");
    let (mut fresh, expected) = Writer::new(keep.clone(), Arc::new(Quiet));
    let mut objects: Vec<_> = world.objects.values().collect();
    if dice.throw(2) == 0 {
        objects.reverse();
    }
    for object in objects {
        fresh.apply(&Event::Apply(object.clone()));
    }
    assert_eq!(dump(&store), dump(&expected), "seed {seed}");
}

#[test]
fn every_history_ends_in_what_its_last_objects_give() {
    for seed in 0..250 {
        history(seed, &all());
    }
}

#[test]
fn so_does_one_of_which_a_part_is_kept() {
    for seed in 0..150 {
        let mut dice = Dice(seed ^ 0x5555);
        let namespaces = ["shop", "edge"][..dice.throw(3) as usize].iter().map(|n| (*n).to_owned());
        let mut flag = || dice.throw(2) == 0;
        let keep = Keep {
            endpoints: flag(),
            pods: flag(),
            multicluster: flag(),
            exports: flag(),
            pod_names: flag(),
            pod_labels: flag(),
            zones: flag(),
            namespaces: namespaces.collect(),
        };
        history(seed, &keep);
    }
}
