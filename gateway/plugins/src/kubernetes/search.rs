//! The search path of the pod that asks, for `autopath`.

use engine::{Exchange, SearchPath};
use wire::Name;

use super::Kubernetes;
use crate::shared::cluster::address::{Label, is_reverse};

impl SearchPath for Kubernetes {
    /// `<namespace>.svc.<zone>`, `svc.<zone>`, `<zone>`, then the machine's own domains, then none. A client whose address pods
    /// of several namespaces or clusters share, such as those on their host's network, is not known.
    fn search_path(&self, x: &Exchange, each: &mut dyn FnMut(&[u8])) {
        let Some(zone) = self.0.zones.longest(&x.request().name) else { return };
        if is_reverse(zone) {
            return;
        }
        let ip = x.query.peer.ip().to_canonical();
        let Some(member) = self.0.members.with_pod(ip) else { return };
        let reader = member.store.read();
        let mut pods = reader.pods_by_ip(ip);
        let Some(pod) = pods.next() else { return };
        if pods.any(|other| other.namespace() != pod.namespace()) {
            return;
        }
        let Some(namespace) = Label::of(pod.namespace()) else { return };
        let Some(services) = zone.child(b"svc") else { return };
        let Some(own) = Name::join(namespace.wire(), services.wire()) else { return };
        each(own.wire());
        each(services.wire());
        each(zone.wire());
        self.0.search.iter().for_each(|domain| each(domain.wire()));
        each(Name::ROOT.wire());
    }
}
