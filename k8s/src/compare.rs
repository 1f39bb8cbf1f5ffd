//! One store's objects beside another's.

use crate::{
    content::{Content, IMPORTED, THERE},
    object::Kind,
    pack::Cursor,
};

impl Content {
    /// Finds the number of an object that is there.
    pub(crate) fn number(&self, kind: Kind, namespace: &[u8], name: &[u8]) -> Option<u32> {
        if kind == Kind::Namespaces {
            return self.spaces.find(name).filter(|space| self.space[*space as usize].there);
        }
        let space = self.spaces.find(namespace)?;
        match kind {
            Kind::Services | Kind::Imports => {
                let imported = kind == Kind::Imports;
                let there =
                    |number: &u32| self.family(imported).records.get(*number).flags & THERE != 0;
                self.find(imported, space, name).filter(there)
            }
            Kind::Slices | Kind::ImportSlices => {
                self.find_bundle(kind == Kind::ImportSlices, space, name)
            }
            Kind::Pods => self.find_pod(space, name),
            Kind::Exports => self.find_export(space, name),
            Kind::Namespaces => None,
        }
    }

    /// Names the object of a number, if there is one: namespace and name.
    pub(crate) fn key_of(&self, kind: Kind, number: u32) -> Option<(Vec<u8>, Vec<u8>)> {
        let named = |space: u32, blob| {
            let name = Cursor(self.arena.get(blob)).text();
            (self.spaces.get(space).to_vec(), name.to_vec())
        };
        match kind {
            Kind::Namespaces => self.space[number as usize]
                .there
                .then(|| (Vec::new(), self.spaces.get(number).to_vec())),
            Kind::Services | Kind::Imports => {
                let record = self.family(kind == Kind::Imports).records.get(number);
                (record.flags & THERE != 0).then(|| named(record.space, record.blob))
            }
            Kind::Slices | Kind::ImportSlices => {
                let bundle = self.bundles.get(number);
                let imported = bundle.flags & IMPORTED != 0;
                if bundle.flags & THERE == 0 || imported != (kind == Kind::ImportSlices) {
                    return None;
                }
                let space = self.family(imported).records.get(bundle.record).space;
                let mut buffer = Vec::new();
                let name = self.bundle_name(bundle, &mut buffer).to_vec();
                Some((self.spaces.get(space).to_vec(), name))
            }
            Kind::Pods => {
                let pod = self.pods.get(number);
                (pod.flags & THERE != 0).then(|| named(pod.space, pod.blob))
            }
            Kind::Exports => {
                let export = self.exports.get(number);
                (export.flags & THERE != 0).then(|| named(export.space, export.blob))
            }
        }
    }

    /// Says whether two objects of one kind and name agree in all that readers see, resource versions excepted.
    pub(crate) fn agrees(&self, kind: Kind, number: u32, other: &Self, others: u32) -> bool {
        match kind {
            Kind::Namespaces => true,
            Kind::Services | Kind::Imports => {
                let imported = kind == Kind::Imports;
                let (own, new) = (
                    self.family(imported).records.get(number),
                    other.family(imported).records.get(others),
                );
                own.flags == new.flags
                    && self.arena.get(own.blob) == other.arena.get(new.blob)
                    && self.ports.get(own.ports) == other.ports.get(new.ports)
            }
            Kind::Slices | Kind::ImportSlices => {
                let (own, new) = (self.bundles.get(number), other.bundles.get(others));
                let owner = |content: &Self, record: u32| {
                    let record = content.family(kind == Kind::ImportSlices).records.get(record);
                    Cursor(content.arena.get(record.blob)).text().to_vec()
                };
                own.flags == new.flags
                    && self.arena.get(own.blob) == other.arena.get(new.blob)
                    && self.ports.get(own.ports) == other.ports.get(new.ports)
                    && self.clusters.get(own.cluster) == other.clusters.get(new.cluster)
                    && owner(self, own.record) == owner(other, new.record)
            }
            Kind::Pods => {
                let (own, new) = (self.pods.get(number), other.pods.get(others));
                self.arena.get(own.blob) == other.arena.get(new.blob)
            }
            Kind::Exports => {
                let (own, new) = (self.exports.get(number), other.exports.get(others));
                (own.flags, own.created) == (new.flags, new.created)
            }
        }
    }
}
