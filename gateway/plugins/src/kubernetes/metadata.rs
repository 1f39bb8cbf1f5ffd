//! What a query says of the cluster, and what the cluster says of the asking pod.

use std::fmt::Write as _;

use engine::{Exchange, Provider};

use super::Kubernetes;
use crate::shared::cluster::address::is_reverse;
use crate::shared::cluster::name::{Labels, Part, Wanted};

/// The labels that every name below a zone has, if with an empty value.
const OF_NAMES: [&str; 6] = ["endpoint", "kind", "namespace", "port-name", "protocol", "service"];
/// The label of a client's pod's labels.
const CLIENT_LABEL: &str = "client-label/";

impl Provider for Kubernetes {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        match label {
            "client-namespace" => self.client(x, |pod| Some(pod.namespace()), out),
            "client-pod-name" => self.client(x, |pod| Some(pod.name()), out),
            _ => match label.strip_prefix(CLIENT_LABEL) {
                Some(key) => self.client(x, |pod| pod.label(key.as_bytes()), out),
                None => self.of_name(x, label, out),
            },
        }
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        OF_NAMES.iter().for_each(|label| each(label));
        for label in ["cluster", "zone", "parse-error", "client-namespace", "client-pod-name"] {
            each(label);
        }
    }
}

impl Kubernetes {
    /// Writes what the pod that asks is or has.
    fn client(
        &self,
        x: &Exchange,
        what: impl for<'a> Fn(&k8s::PodRef<'a>) -> Option<&'a [u8]>,
        out: &mut String,
    ) -> Option<()> {
        let ip = x.query.peer.ip().to_canonical();
        let reader = self.0.members.with_pod(ip)?.store.read();
        let pod = reader.pod_by_ip(ip)?;
        write(out, what(&pod)?);
        Some(())
    }

    /// Writes a part of what the name means.
    fn of_name(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let name = &x.request().name;
        let zone = self.0.zones.longest(name)?;
        let rules = self.0.rules(zone);
        let head = name.below(zone)?;
        let labels = Labels::of(head);
        let wanted = Wanted::read(head, rules);
        let known = !is_reverse(zone) && matches!(labels.get(0), b"" | b"svc" | b"pod");
        if !known || wanted == Wanted::Nothing {
            if label != "parse-error" {
                return None;
            }
            out.push_str("invalid query name");
            return Some(());
        }
        let part = match wanted {
            Wanted::Service { part, .. } => part,
            _ => Part::Whole,
        };
        let value: &[u8] = match (label, part) {
            ("kind", _) if labels.len() > 1 => labels.get(0),
            ("namespace", _) => labels.get(1),
            ("service", _) => labels.get(2),
            ("endpoint", Part::Endpoint { label, .. }) => label,
            ("port-name", Part::Port { name, .. }) => name,
            ("protocol", Part::Port { protocol, .. }) => protocol.word().as_bytes(),
            ("cluster", part) if rules.multicluster => match part {
                Part::Endpoint { cluster, .. } => cluster,
                _ => b"",
            },
            ("cluster", _) => match &*self.0.decider(zone, name)?.name {
                "" => return None,
                name => name.as_bytes(),
            },
            ("zone", Part::Zone { zone, .. }) => {
                for (index, label) in wire::Name::labels_of(zone).enumerate() {
                    if index > 0 {
                        out.push('.');
                    }
                    write(out, label);
                }
                return Some(());
            }
            ("zone", _) if rules.zonal => b"",
            (label, _) if OF_NAMES.contains(&label) => b"",
            _ => return None,
        };
        write(out, value);
        Some(())
    }
}

/// Appends a label or a name, with what is not plain text escaped.
fn write(out: &mut String, bytes: &[u8]) {
    // Writing to a string cannot fail.
    let _unfailing = write!(out, "{}", bytes.escape_ascii());
}
