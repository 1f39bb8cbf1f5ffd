//! The rights that following a cluster takes, as rules of Roles have them.

use crate::{object::Kind, store::Keep};

/// One rule of a Role or a ClusterRole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    /// The namespace of its Role; empty for a rule of a ClusterRole.
    pub namespace: String,
    /// The API group; empty for the core one.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The one object that it is for; all if empty.
    pub name: String,
    /// The verbs.
    pub verbs: &'static [&'static str],
}

impl Keep {
    /// Gives the rights that it takes to fill a store, and no others, in order: those in each namespace if these are followed one by
    /// one ([`Keep::apart`]).
    pub fn rights(&self) -> Vec<Right> {
        let right = |kind: Kind, namespace: &str| Right {
            namespace: namespace.to_owned(),
            group: kind.group(),
            resource: kind.resource(),
            name: String::new(),
            verbs: &["list", "watch"],
        };
        let held = || Kind::ALL.into_iter().filter(|kind| self.holds(*kind));
        let mut all = Vec::new();
        if self.apart().is_empty() {
            all.extend(held().map(|kind| right(kind, "")));
        }
        for namespace in self.apart() {
            all.extend(held().map(|kind| match kind {
                // Kubernetes takes a request for one Namespace to be one in it.
                Kind::Namespaces => {
                    Right { name: namespace.clone(), verbs: &["get"], ..right(kind, namespace) }
                }
                kind => right(kind, namespace),
            }));
        }
        all.sort_unstable();
        // Slices of both kinds are one resource.
        all.dedup();
        all
    }
}
