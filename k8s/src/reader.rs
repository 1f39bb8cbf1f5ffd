//! Look-ups under one read lock. Nothing here allocates but the sorted lists for zone transfers.

use std::{fmt, net::IpAddr, sync::RwLockReadGuard};

use crate::{
    content::{
        Bundle, Content, ExportRecord, IMPORTED, MORE, PodRecord, Record, Reverse, SELECTOR, THERE,
        kind_of, short_hash, spread,
    },
    exports::{CONFLICT, INVALID},
    object::{ImportKind, Kind, ServiceKind},
    pack::{Address, Cursor, Endpoints, Ips, Packed, Ports},
};

/// How many records a step of a long way looks at.
const STEP: u32 = 512;

/// A view of a store under its read lock.
///
/// Keys are parts of a name in wire form and lower case: `\x03web\x04shop` is the service `web` in the namespace `shop`.
/// Objects in namespaces that are not there or not exposed are not shown, pods excepted: a client's address may belong
/// to any.
#[derive(Debug)]
pub struct Reader<'s> {
    /// The tables.
    pub(crate) content: RwLockReadGuard<'s, Content>,
}

impl Reader<'_> {
    /// Says whether a namespace is there and exposed. `name` is the label without its length.
    pub fn namespace(&self, name: &[u8]) -> bool {
        self.content.spaces.find(name).is_some_and(|space| self.content.shows(space))
    }

    /// Says whether it is still to come what an exposed namespace has, since namespaces are followed one by one and this one has not
    /// been listed. `name` is the label without its length.
    pub fn awaits(&self, name: &[u8]) -> bool {
        self.content.awaits(name)
    }

    /// Says so of any namespace: one of them may have an address that nothing known has.
    pub fn awaits_any(&self) -> bool {
        self.content.awaits_any()
    }

    /// Says the same of the pods of a namespace.
    pub fn awaits_pods(&self, name: &[u8]) -> bool {
        self.content.lacks(name, 1 << Kind::Pods.index())
    }

    /// Says whether an exposed namespace may be there though nothing is known of it: the cluster keeps namespaces from us, and those
    /// are taken to be there that something is in. `name` is the label without its length.
    pub fn doubts(&self, name: &[u8]) -> bool {
        self.content.doubts(name)
    }

    /// Gives the names of all namespaces that are there and exposed, in no order.
    pub fn namespaces(&self) -> impl Iterator<Item = &[u8]> {
        let content = &*self.content;
        (0..content.space.len() as u32)
            .filter(|space| content.shows(*space))
            .map(|space| content.spaces.get(space))
    }

    /// Finds a service by `\x03web\x04shop`.
    pub fn service(&self, key: &[u8]) -> Option<ServiceRef<'_>> {
        let number = self.find(false, key)?;
        ServiceRef::new(&self.content, number)
    }

    /// Finds an imported service by `\x03web\x04shop`.
    pub fn import(&self, key: &[u8]) -> Option<ImportRef<'_>> {
        let number = self.find(true, key)?;
        ImportRef::new(&self.content, number)
    }

    /// Gives the services that have this cluster IP.
    pub fn services_by_ip(&self, ip: IpAddr) -> impl Iterator<Item = ServiceRef<'_>> {
        let content = &*self.content;
        numbers(content, &content.by_ip, ip)
            .filter_map(|number| ServiceRef::new(content, number))
            .filter(move |service| service.cluster_ips().contains(ip))
    }

    /// Gives the services that have this address outside the cluster, by `externalIPs` or a load balancer.
    pub fn services_by_external_ip(&self, ip: IpAddr) -> impl Iterator<Item = ServiceRef<'_>> {
        let content = &*self.content;
        numbers(content, &content.by_external, ip)
            .filter_map(|number| ServiceRef::new(content, number))
            .filter(move |service| {
                service.external_ips().contains(ip) || service.load_balancer().ips().contains(ip)
            })
    }

    /// Gives the endpoints that have this address, each with its service; one that several slices list comes several
    /// times.
    pub fn endpoints_by_ip(
        &self,
        ip: IpAddr,
    ) -> impl Iterator<Item = (ServiceRef<'_>, EndpointRef<'_>)> {
        let content = &*self.content;
        numbers(content, &content.by_endpoint, ip)
            .filter_map(move |number| {
                let bundle = content.bundles.get(number);
                Some((ServiceRef::new(content, bundle.record)?, bundle))
            })
            .flat_map(move |(service, bundle)| {
                Endpoints::new(content.arena.get(bundle.blob))
                    .filter(move |packed| packed.address == Address::Ip(ip))
                    .map(move |packed| (service, EndpointRef { content, bundle, packed }))
            })
    }

    /// Finds the pod that has this address, in any namespace. Pods on their host's network share an address; the one
    /// that is found is then any of them.
    pub fn pod_by_ip(&self, ip: IpAddr) -> Option<PodRef<'_>> {
        self.pods_by_ip(ip).next()
    }

    /// Says whether a pod in this namespace has this address.
    pub fn pod_in(&self, namespace: &[u8], ip: IpAddr) -> bool {
        self.pods_by_ip(ip).any(|pod| pod.namespace() == namespace)
    }

    /// Gives all pods that have this address.
    pub fn pods_by_ip(&self, ip: IpAddr) -> impl Iterator<Item = PodRef<'_>> {
        let content = &*self.content;
        numbers(content, &content.by_pod, ip)
            .map(|number| PodRef { content, pod: content.pods.get(number) })
            .filter(move |pod| pod.ips().contains(ip))
    }

    /// Gives all services by name, then namespace. Allocates.
    pub fn services(&self) -> Vec<ServiceRef<'_>> {
        let content = &*self.content;
        let mut all: Vec<_> = (0..content.services.records.end())
            .filter_map(|number| ServiceRef::new(content, number))
            .collect();
        all.sort_unstable_by(|a, b| (a.name(), a.namespace()).cmp(&(b.name(), b.namespace())));
        all
    }

    /// Gives all imported services by name, then namespace. Allocates.
    pub fn imports(&self) -> Vec<ImportRef<'_>> {
        let content = &*self.content;
        let mut all: Vec<_> = (0..content.imports.records.end())
            .filter_map(|number| ImportRef::new(content, number))
            .collect();
        all.sort_unstable_by(|a, b| (a.name(), a.namespace()).cmp(&(b.name(), b.namespace())));
        all
    }

    /// Finds an export by the name of its service, `\x03web\x04shop`.
    pub fn export(&self, key: &[u8]) -> Option<ExportRef<'_>> {
        let (space, name) = self.place(key)?;
        ExportRef::new(&self.content, self.content.find_export(space, name)?)
    }

    /// Calls `each` with some of the exports, in no order: those from the place `from` on, the first being 0. Gives where to go
    /// on; `None` after the last. Between two steps of a long way the lock can be let go of.
    pub fn step_exports(&self, from: u32, mut each: impl FnMut(ExportRef<'_>)) -> Option<u32> {
        let (content, end) = (&*self.content, self.content.exports.end());
        let to = end.min(from.saturating_add(STEP));
        (from..to).filter_map(|number| ExportRef::new(content, number)).for_each(&mut each);
        (to < end).then_some(to)
    }

    /// Does the same with the services.
    pub fn step_services(&self, from: u32, mut each: impl FnMut(ServiceRef<'_>)) -> Option<u32> {
        let (content, end) = (&*self.content, self.content.services.records.end());
        let to = end.min(from.saturating_add(STEP));
        (from..to).filter_map(|number| ServiceRef::new(content, number)).for_each(&mut each);
        (to < end).then_some(to)
    }

    /// Does the same with the pods of all namespaces.
    pub fn step_pods(&self, from: u32, mut each: impl FnMut(PodRef<'_>)) -> Option<u32> {
        let (content, end) = (&*self.content, self.content.pods.end());
        let to = end.min(from.saturating_add(STEP));
        let all = (from..to).map(|number| content.pods.get(number));
        all.filter(|pod| pod.flags & THERE != 0).for_each(|pod| each(PodRef { content, pod }));
        (to < end).then_some(to)
    }

    /// Gives all exports, in no order.
    pub fn exports(&self) -> impl Iterator<Item = ExportRef<'_>> {
        let content = &*self.content;
        (0..content.exports.end()).filter_map(|number| ExportRef::new(content, number))
    }

    /// Finds a record by its name in wire form.
    fn find(&self, imported: bool, key: &[u8]) -> Option<u32> {
        let (space, name) = self.place(key)?;
        self.content.find(imported, space, name)
    }

    /// Takes a name in wire form apart: the number of the namespace, and the name in it.
    fn place<'k>(&self, key: &'k [u8]) -> Option<(u32, &'k [u8])> {
        let (name, rest) = label(key)?;
        let (namespace, rest) = label(rest)?;
        if !rest.is_empty() {
            return None;
        }
        Some((self.content.spaces.find(namespace)?, name))
    }
}

/// Cuts the first label off a name in wire form.
fn label(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = name.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

/// Gives the numbers that a reverse table has for an address, and a few of others.
fn numbers(content: &Content, table: &Reverse, ip: IpAddr) -> impl Iterator<Item = u32> {
    let hash = short_hash(&content.seed, ip);
    table.iter_hash(spread(hash)).filter(move |entry| entry.0 == hash).map(|entry| entry.1)
}

/// A service.
#[derive(Clone, Copy)]
pub struct ServiceRef<'a> {
    /// The tables.
    content: &'a Content,
    /// Its record.
    record: &'a Record,
    /// What its record packs after the name.
    rest: Cursor<'a>,
    /// Its name.
    name: &'a [u8],
}

impl<'a> ServiceRef<'a> {
    /// Makes a service of a record that is there and shown.
    fn new(content: &'a Content, number: u32) -> Option<Self> {
        let record = content.services.records.get(number);
        if record.flags & THERE == 0 || !content.shows(record.space) {
            return None;
        }
        let mut rest = Cursor(content.arena.get(record.blob));
        let name = rest.text();
        Some(Self { content, record, rest, name })
    }

    /// Gives the name's label without its length.
    pub const fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Gives the namespace's label without its length.
    pub fn namespace(&self) -> &'a [u8] {
        self.content.spaces.get(self.record.space)
    }

    /// Says how the service is reached.
    pub const fn kind(&self) -> ServiceKind {
        kind_of(self.record.flags)
    }

    /// Says whether the service has a selector.
    pub const fn has_selector(&self) -> bool {
        self.record.flags & SELECTOR != 0
    }

    /// Gives the resource version as a number; 0 if unknown.
    pub const fn version(&self) -> u64 {
        self.record.version
    }

    /// Gives the cluster IPs, IPv4 first; none of a headless service.
    pub fn cluster_ips(&self) -> Ips<'a> {
        let mut rest = self.rest;
        rest.ips()
    }

    /// Gives the text of `externalName`; empty unless the service is one of that kind.
    pub fn external_name(&self) -> &'a [u8] {
        let mut rest = self.more();
        rest.text()
    }

    /// Gives `externalIPs`.
    pub fn external_ips(&self) -> Ips<'a> {
        let mut rest = self.more();
        rest.text();
        rest.ips()
    }

    /// Gives what a load balancer's status has.
    pub fn load_balancer(&self) -> Balancer<'a> {
        let mut rest = self.more();
        rest.text();
        rest.ips();
        Balancer { ips: rest.ips(), names: rest }
    }

    /// Gives the ports.
    pub fn ports(&self) -> Ports<'a> {
        Ports(Cursor(self.content.ports.get(self.record.ports)))
    }

    /// Gives the endpoints of all slices, ready or not; one that several slices list comes several times.
    pub const fn endpoints(&self) -> EndpointsIter<'a> {
        EndpointsIter { content: self.content, next: self.record.first, current: None }
    }

    /// Says whether an endpoint is ready.
    pub fn has_ready_endpoints(&self) -> bool {
        self.endpoints().any(|endpoint| endpoint.ready())
    }

    /// Begins after name and cluster IPs, if there is anything.
    fn more(&self) -> Cursor<'a> {
        if self.record.flags & MORE == 0 {
            return Cursor::default();
        }
        let mut rest = self.rest;
        rest.ips();
        rest
    }
}

impl fmt::Debug for ServiceRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace().escape_ascii(), self.name().escape_ascii())
    }
}

/// What a load balancer's status has.
#[derive(Debug, Clone, Copy)]
pub struct Balancer<'a> {
    /// Addresses.
    ips: Ips<'a>,
    /// Host names.
    names: Cursor<'a>,
}

impl<'a> Balancer<'a> {
    /// Gives the addresses.
    pub const fn ips(&self) -> Ips<'a> {
        self.ips
    }

    /// Gives the host names as text.
    pub fn hostnames(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.names;
        std::iter::from_fn(move || (!rest.0.is_empty()).then(|| rest.text()))
    }
}

/// An imported service.
#[derive(Clone, Copy)]
pub struct ImportRef<'a> {
    /// The tables.
    content: &'a Content,
    /// Its record.
    record: &'a Record,
    /// What its record packs after the name.
    rest: Cursor<'a>,
    /// Its name.
    name: &'a [u8],
}

impl<'a> ImportRef<'a> {
    /// Makes an imported service of a record that is there and shown.
    fn new(content: &'a Content, number: u32) -> Option<Self> {
        let record = content.imports.records.get(number);
        if record.flags & THERE == 0 || !content.shows(record.space) {
            return None;
        }
        let mut rest = Cursor(content.arena.get(record.blob));
        let name = rest.text();
        Some(Self { content, record, rest, name })
    }

    /// Gives the name's label without its length.
    pub const fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Gives the namespace's label without its length.
    pub fn namespace(&self) -> &'a [u8] {
        self.content.spaces.get(self.record.space)
    }

    /// Says how the service is reached.
    pub const fn kind(&self) -> ImportKind {
        match kind_of(self.record.flags) {
            ServiceKind::Headless => ImportKind::Headless,
            ServiceKind::ClusterIp | ServiceKind::ExternalName => ImportKind::ClusterSetIp,
        }
    }

    /// Gives the resource version as a number; 0 if unknown.
    pub const fn version(&self) -> u64 {
        self.record.version
    }

    /// Gives the cluster set's addresses, IPv4 first.
    pub fn ips(&self) -> Ips<'a> {
        let mut rest = self.rest;
        rest.ips()
    }

    /// Gives the ports.
    pub fn ports(&self) -> Ports<'a> {
        Ports(Cursor(self.content.ports.get(self.record.ports)))
    }

    /// Gives the endpoints of all slices of all clusters, ready or not.
    pub const fn endpoints(&self) -> EndpointsIter<'a> {
        EndpointsIter { content: self.content, next: self.record.first, current: None }
    }

    /// Says whether an endpoint is ready.
    pub fn has_ready_endpoints(&self) -> bool {
        self.endpoints().any(|endpoint| endpoint.ready())
    }
}

impl fmt::Debug for ImportRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace().escape_ascii(), self.name().escape_ascii())
    }
}

/// An export.
#[derive(Clone, Copy)]
pub struct ExportRef<'a> {
    /// The tables.
    content: &'a Content,
    /// Its record.
    record: &'a ExportRecord,
}

impl<'a> ExportRef<'a> {
    /// Makes an export of a record that is there and shown.
    fn new(content: &'a Content, number: u32) -> Option<Self> {
        let record = content.exports.get(number);
        (record.flags & THERE != 0 && content.shows(record.space))
            .then_some(Self { content, record })
    }

    /// Gives the label of its service's name without its length.
    pub fn name(&self) -> &'a [u8] {
        Cursor(self.content.arena.get(self.record.blob)).text()
    }

    /// Gives the namespace's label without its length.
    pub fn namespace(&self) -> &'a [u8] {
        self.content.spaces.get(self.record.space)
    }

    /// Gives when it was made, in Unix seconds; 0 if unknown.
    pub const fn created(&self) -> u64 {
        self.record.created
    }

    /// Says whether a controller has found it to be invalid: the service is not exported then.
    pub const fn invalid(&self) -> bool {
        self.record.flags & INVALID != 0
    }

    /// Says whether a controller has found that exports of the service differ.
    pub const fn conflict(&self) -> bool {
        self.record.flags & CONFLICT != 0
    }

    /// Finds the service that it exports, if there is one.
    pub fn service(&self) -> Option<ServiceRef<'a>> {
        let number = self.content.find(false, self.record.space, self.name())?;
        ServiceRef::new(self.content, number)
    }
}

impl fmt::Debug for ExportRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace().escape_ascii(), self.name().escape_ascii())
    }
}

/// Goes through the endpoints of a service's slices.
#[derive(Clone)]
pub struct EndpointsIter<'a> {
    /// The tables.
    content: &'a Content,
    /// One more than the number of the next slice; 0 after the last.
    next: u32,
    /// The slice at hand.
    current: Option<(&'a Bundle, Endpoints<'a>)>,
}

impl<'a> Iterator for EndpointsIter<'a> {
    type Item = EndpointRef<'a>;

    fn next(&mut self) -> Option<EndpointRef<'a>> {
        loop {
            if let Some((bundle, endpoints)) = &mut self.current
                && let Some(packed) = endpoints.next()
            {
                return Some(EndpointRef { content: self.content, bundle, packed });
            }
            let bundle = self.content.bundles.get(self.next.checked_sub(1)?);
            self.next = bundle.next;
            self.current = Some((bundle, Endpoints::new(self.content.arena.get(bundle.blob))));
        }
    }
}

impl fmt::Debug for EndpointsIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointsIter")
    }
}

/// An endpoint.
#[derive(Clone, Copy)]
pub struct EndpointRef<'a> {
    /// The tables.
    content: &'a Content,
    /// Its slice.
    bundle: &'a Bundle,
    /// What the slice says of it.
    packed: Packed<'a>,
}

impl<'a> EndpointRef<'a> {
    /// Says where it is.
    pub const fn address(&self) -> Address<'a> {
        self.packed.address
    }

    /// Gives its address, unless it is at a name.
    pub const fn ip(&self) -> Option<IpAddr> {
        self.packed.address.ip()
    }

    /// Says whether it is ready; only such an endpoint is answered.
    pub const fn ready(&self) -> bool {
        self.packed.ready
    }

    /// Gives its hostname; empty if it has none.
    pub const fn hostname(&self) -> &'a [u8] {
        self.packed.hostname
    }

    /// Gives the name of its Pod; empty if it has none or the store does not keep them.
    pub const fn pod_name(&self) -> &'a [u8] {
        self.packed.pod
    }

    /// Gives its topology zone in lower case, dots included; empty if it has none or the store does not keep them.
    pub const fn zone(&self) -> &'a [u8] {
        self.packed.zone
    }

    /// Gives the ports of its slice; none if the slice states none.
    pub fn ports(&self) -> Ports<'a> {
        Ports(Cursor(self.content.ports.get(self.bundle.ports)))
    }

    /// Gives the cluster it is in; empty of a service that is not imported.
    pub fn cluster(&self) -> &'a [u8] {
        if self.bundle.flags & IMPORTED == 0 {
            b""
        } else {
            self.content.clusters.get(self.bundle.cluster)
        }
    }
}

impl fmt::Debug for EndpointRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.packed)
    }
}

/// A pod.
#[derive(Clone, Copy)]
pub struct PodRef<'a> {
    /// The tables.
    content: &'a Content,
    /// Its record.
    pod: &'a PodRecord,
}

impl<'a> PodRef<'a> {
    /// Gives the name's text, which may have dots.
    pub fn name(&self) -> &'a [u8] {
        Cursor(self.content.arena.get(self.pod.blob)).text()
    }

    /// Gives the namespace's label without its length.
    pub fn namespace(&self) -> &'a [u8] {
        self.content.spaces.get(self.pod.space)
    }

    /// Gives the addresses, IPv4 first.
    pub fn ips(&self) -> Ips<'a> {
        let mut rest = Cursor(self.content.arena.get(self.pod.blob));
        rest.text();
        rest.ips()
    }

    /// Gives the labels, key and value; none if the store does not keep them.
    pub fn labels(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = Cursor(self.content.arena.get(self.pod.blob));
        rest.text();
        rest.ips();
        std::iter::from_fn(move || (!rest.0.is_empty()).then(|| (rest.text(), rest.text())))
    }

    /// Gives the value of a label.
    pub fn label(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.labels().find(|(other, _)| *other == key).map(|(_, value)| value)
    }
}

impl fmt::Debug for PodRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace().escape_ascii(), self.name().escape_ascii())
    }
}
