//! What endpoints are called.

use std::net::IpAddr;

use k8s::{Address, EndpointRef};
use wire::Name;

use super::address::Label;

/// By what endpoints are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// Whether it is their pods, where they have no hostname.
    pub(crate) pod_names: bool,
}

impl Calls {
    /// The name of an endpoint of the service whose name is `own`; none if it would be too long.
    pub(crate) fn name(self, endpoint: &EndpointRef<'_>, own: &[u8]) -> Option<Name> {
        let label = self.label(endpoint)?;
        let mut wire = [0u8; 2 * 64];
        let mut len = label.wire().len();
        wire.get_mut(..len)?.copy_from_slice(label.wire());
        if !endpoint.cluster().is_empty() {
            let cluster = Label::of(endpoint.cluster())?;
            wire.get_mut(len..len + cluster.wire().len())?.copy_from_slice(cluster.wire());
            len += cluster.wire().len();
        }
        Name::join(&wire[..len], own)
    }

    /// The label of an endpoint: its hostname, its pod's name where that is wanted and short enough, else its address with
    /// dashes. None if what it has makes no label.
    pub(crate) fn label(self, endpoint: &EndpointRef<'_>) -> Option<Label> {
        if !endpoint.hostname().is_empty() {
            return Label::of(endpoint.hostname());
        }
        if self.pod_names
            && let Some(label) = Label::of(endpoint.pod_name())
        {
            return Some(label);
        }
        match endpoint.address() {
            Address::Ip(ip) => Some(Label::dashed(ip)),
            Address::Name(name) => Label::dashed_text(name),
        }
    }

    /// Whether an endpoint has this label, which is `address` with dashes if that is some.
    pub(crate) fn is(
        self,
        endpoint: &EndpointRef<'_>,
        label: &[u8],
        address: Option<IpAddr>,
    ) -> bool {
        let plain =
            endpoint.hostname().is_empty() && (!self.pod_names || endpoint.pod_name().is_empty());
        match (plain, endpoint.ip()) {
            // Most endpoints have no name, and addresses compare faster than their texts.
            (true, Some(ip)) => address == Some(ip),
            _ => self.label(endpoint).is_some_and(|own| own.bytes() == label),
        }
    }
}
