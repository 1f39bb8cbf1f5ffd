//! The shapes of objects in YAML and JSON: only the fields that DNS needs.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Deserializer};

/// What every document begins with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    /// Group and version.
    #[serde(default)]
    pub(crate) api_version: String,
    /// The kind.
    #[serde(default)]
    pub(crate) kind: String,
}

/// `metadata`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    /// Name.
    #[serde(default)]
    pub(crate) name: String,
    /// Namespace; `default` if a document names none.
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    /// Resource version.
    #[serde(default)]
    pub(crate) resource_version: Option<String>,
    /// When it was made.
    #[serde(default)]
    pub(crate) creation_timestamp: Option<String>,
    /// When it was asked to be deleted.
    #[serde(default)]
    pub(crate) deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A document of nothing but `metadata`: Namespace.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Plain {
    /// Metadata.
    pub(crate) metadata: Metadata,
}

/// A Service.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Service {
    /// Metadata.
    pub(crate) metadata: Metadata,
    /// What is asked for.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: ServiceSpec,
    /// What there is.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: ServiceStatus,
}

/// A Service's `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceSpec {
    /// Type.
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    /// First cluster IP.
    #[serde(default, rename = "clusterIP")]
    pub(crate) cluster_ip: Option<ClusterIp>,
    /// All cluster IPs.
    #[serde(default, rename = "clusterIPs", deserialize_with = "or_default")]
    pub(crate) cluster_ips: Vec<ClusterIp>,
    /// Families of the cluster IPs.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ip_families: Vec<String>,
    /// How many families.
    #[serde(default)]
    pub(crate) ip_family_policy: Option<String>,
    /// Which Pods.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) selector: BTreeMap<String, String>,
    /// The other name.
    #[serde(default)]
    pub(crate) external_name: Option<String>,
    /// External addresses.
    #[serde(default, rename = "externalIPs", deserialize_with = "or_default")]
    pub(crate) external_ips: Vec<IpAddr>,
    /// Whether Pods that are not ready count.
    #[serde(default)]
    pub(crate) publish_not_ready_addresses: Option<bool>,
    /// Ports.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<ServicePort>,
}

/// An address, or `None` of a headless service, or an empty text where none is chosen yet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum ClusterIp {
    /// Headless.
    Headless,
    /// To be chosen.
    Open,
    /// Chosen.
    Ip(IpAddr),
}

impl TryFrom<String> for ClusterIp {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match &*text {
            "None" => Ok(Self::Headless),
            "" => Ok(Self::Open),
            text => text
                .parse()
                .map(Self::Ip)
                .map_err(|_| format!("{text:?} is neither an IP address nor None")),
        }
    }
}

/// A port of a Service.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicePort {
    /// Name.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Protocol.
    #[serde(default)]
    pub(crate) protocol: Option<Protocol>,
    /// Number.
    pub(crate) port: u16,
    /// Number or name at the Pod.
    #[serde(default)]
    pub(crate) target_port: Option<TargetPort>,
}

/// A port at a Pod.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum TargetPort {
    /// Its number.
    Number(u16),
    /// The name of a container's port.
    Name(String),
}

/// A protocol's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A Service's `status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceStatus {
    /// What the load balancer says.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) load_balancer: Balancer,
}

/// `status.loadBalancer`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Balancer {
    /// Its addresses.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ingress: Vec<Ingress>,
}

/// One address of a load balancer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Ingress {
    /// An address.
    #[serde(default)]
    pub(crate) ip: Option<IpAddr>,
    /// A name.
    #[serde(default)]
    pub(crate) hostname: Option<String>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Slice {
    /// Metadata.
    pub(crate) metadata: Metadata,
    /// IPv4, IPv6 or FQDN.
    #[serde(default)]
    pub(crate) address_type: Option<String>,
    /// Endpoints.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) endpoints: Vec<Endpoint>,
    /// Ports.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<EndpointPort>,
}

/// An endpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Endpoint {
    /// Addresses.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) addresses: Vec<String>,
    /// Conditions.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) conditions: Conditions,
    /// Hostname.
    #[serde(default)]
    pub(crate) hostname: Option<String>,
    /// What it is the endpoint of.
    #[serde(default)]
    pub(crate) target_ref: Option<TargetRef>,
    /// Topology zone.
    #[serde(default)]
    pub(crate) zone: Option<String>,
}

/// An endpoint's conditions.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Conditions {
    /// Ready.
    #[serde(default)]
    pub(crate) ready: Option<bool>,
}

/// What an endpoint belongs to.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TargetRef {
    /// Kind.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// Name.
    #[serde(default)]
    pub(crate) name: Option<String>,
}

/// A port of an EndpointSlice.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EndpointPort {
    /// Name.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Protocol.
    #[serde(default)]
    pub(crate) protocol: Option<Protocol>,
    /// Number.
    #[serde(default)]
    pub(crate) port: Option<u16>,
}

/// A Pod.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Pod {
    /// Metadata.
    pub(crate) metadata: Metadata,
    /// What is asked for.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: PodSpec,
    /// What there is.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: PodStatus,
}

/// A Pod's `spec`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct PodSpec {
    /// Hostname.
    #[serde(default)]
    pub(crate) hostname: Option<String>,
    /// The headless service that its hostname is of.
    #[serde(default)]
    pub(crate) subdomain: Option<String>,
    /// Containers.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container>,
}

/// A container.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Container {
    /// Ports.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<ContainerPort>,
}

/// A container's port.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    /// Name.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Number.
    pub(crate) container_port: u16,
}

/// A Pod's `status`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct PodStatus {
    /// Phase.
    #[serde(default)]
    pub(crate) phase: Option<String>,
    /// First address.
    #[serde(default, rename = "podIP")]
    pub(crate) pod_ip: Option<IpAddr>,
    /// All addresses.
    #[serde(default, rename = "podIPs", deserialize_with = "or_default")]
    pub(crate) pod_ips: Vec<PodIp>,
    /// Conditions.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
}

/// An address of a Pod.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PodIp {
    /// The address.
    pub(crate) ip: IpAddr,
}

/// A condition of a Pod or a ServiceExport.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Condition {
    /// Which.
    #[serde(default, rename = "type")]
    pub(crate) kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub(crate) status: String,
}

/// A ServiceImport, v1alpha1 or v1beta1.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Import {
    /// Metadata.
    pub(crate) metadata: Metadata,
    /// What there is.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: ImportSpec,
}

/// A ServiceImport's content.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct ImportSpec {
    /// Type.
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    /// Addresses.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ips: Vec<IpAddr>,
    /// Ports.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<ServicePort>,
}

/// A ServiceExport, v1alpha1 or v1beta1.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Export {
    /// Metadata.
    pub(crate) metadata: Metadata,
    /// What a controller says of it.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: ExportStatus,
}

/// A ServiceExport's `status`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct ExportStatus {
    /// Conditions.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
}

/// A ClusterProperty of the about API, which tells the cluster's own name.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Property {
    /// Metadata.
    pub(crate) metadata: Metadata,
    /// The value.
    pub(crate) spec: PropertySpec,
}

/// A ClusterProperty's `spec`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PropertySpec {
    /// The value.
    pub(crate) value: String,
}

/// A `List` of other documents.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct List {
    /// The documents.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) items: Vec<serde_json::Value>,
}

/// Takes `null` for the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
