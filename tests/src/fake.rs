//! An API server for sizes that a real one does not reach on one machine: it makes objects up while it sends them, keeps no history,
//! and speaks no TLS. What it says is what a real one says, by HTTP/1.1 and protobuf.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::{Duration, Instant};

use crate::process::lock;
use crate::until;

/// Octets that are sent in one chunk.
const CHUNK: usize = 64 << 10;
/// The media type of lists.
const LIST: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watches.
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// What every object carries and nobody who answers by DNS needs.
const MANAGED: &str = r#"{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}},"f:labels":{".":{},"f:app":{},"f:app.kubernetes.io/name":{}}},"f:spec":{"f:internalTrafficPolicy":{},"f:ports":{".":{},"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}},"f:selector":{},"f:type":{}}}"#;

/// How many objects there are. Each service has one slice; the last of every ten is headless.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Services.
    pub services: u32,
    /// Endpoints of each.
    pub endpoints: u32,
    /// Pods.
    pub pods: u32,
    /// Namespaces, over which the rest is spread.
    pub namespaces: u32,
}

impl Shape {
    /// The name of a service of this shape, as DNS has it.
    pub fn name(&self, service: u32) -> String {
        format!("svc-{service:06}.team-{:04}.svc.cluster.local", service % self.namespaces)
    }

    /// Whether a service has no address of its own.
    pub fn headless(service: u32) -> bool {
        service % 10 == 9
    }

    /// The cluster IP of a service.
    pub fn cluster_ip(service: u32) -> Ipv4Addr {
        Ipv4Addr::from(0x0a60_0001 + service)
    }

    /// The address of an endpoint of a service.
    pub fn endpoint(&self, service: u32, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(0x0b00_0001 + service * self.endpoints + number)
    }

    /// The address of a pod.
    pub fn pod(pod: u32) -> Ipv4Addr {
        Ipv4Addr::from(0x0c00_0001 + pod)
    }
}

/// The resources that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    /// Namespaces.
    Namespaces,
    /// Services.
    Services,
    /// EndpointSlices.
    Slices,
    /// Pods.
    Pods,
}

impl Resource {
    /// The resource of a path.
    fn of(path: &str) -> Option<Self> {
        match path {
            "/api/v1/namespaces" => Some(Self::Namespaces),
            "/api/v1/services" => Some(Self::Services),
            "/apis/discovery.k8s.io/v1/endpointslices" => Some(Self::Slices),
            "/api/v1/pods" => Some(Self::Pods),
            _ => None,
        }
    }

    /// Its API version and kind.
    const fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Namespaces => ("v1", "Namespace"),
            Self::Services => ("v1", "Service"),
            Self::Slices => ("discovery.k8s.io/v1", "EndpointSlice"),
            Self::Pods => ("v1", "Pod"),
        }
    }
}

/// Somebody who watches a resource.
type Watcher = (Resource, Sender<Arc<[u8]>>);

/// What the connections share.
#[derive(Debug)]
struct Shared {
    /// The objects.
    shape: Mutex<Shape>,
    /// The first endpoints of slices that have been changed.
    moved: Mutex<HashMap<u32, Ipv4Addr>>,
    /// The resource version.
    version: AtomicU64,
    /// Who watches.
    watchers: Mutex<Vec<Watcher>>,
    /// The connections that there were.
    connections: Mutex<Vec<TcpStream>>,
    /// Lists that were sent whole, as such or as a watch's initial events.
    lists: AtomicUsize,
}

/// A running server, for as long as the process lives.
///
/// ```no_run
/// use tests::fake::{Fake, Shape};
/// let shape = Shape { services: 1000, endpoints: 5, pods: 0, namespaces: 20 };
/// let fake = Fake::start(shape);
/// fake.change(7, "203.0.113.1".parse().unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct Fake {
    /// Where it listens.
    address: SocketAddr,
    /// What the connections share.
    shared: Arc<Shared>,
}

impl Fake {
    /// Starts a server with objects of this shape.
    pub fn start(shape: Shape) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            shape: Mutex::new(shape),
            moved: Mutex::default(),
            version: AtomicU64::new(1_000_000),
            watchers: Mutex::default(),
            connections: Mutex::default(),
            lists: AtomicUsize::new(0),
        });
        let fake = Self { address, shared };
        let serving = fake.clone();
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving.shared);
                lock(&shared.connections).extend(stream.try_clone());
                spawn(move || serve(&shared, stream));
            }
        });
        fake
    }

    /// Its address as a Corefile has it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many lists were sent whole.
    pub fn lists(&self) -> usize {
        self.shared.lists.load(SeqCst)
    }

    /// Moves the first endpoint of a service, and tells those who watch.
    pub fn change(&self, service: u32, address: Ipv4Addr) {
        lock(&self.shared.moved).insert(service, address);
        let shape = *lock(&self.shared.shape);
        self.shared.tell(Resource::Slices, "MODIFIED", |version| {
            slice(&shape, service, Some(address), version)
        });
    }

    /// Deletes services with their slices, and pods, and tells those who watch.
    pub fn delete(&self, services: Range<u32>, pods: Range<u32>) {
        let shape = *lock(&self.shared.shape);
        for number in services.clone() {
            self.shared
                .tell(Resource::Slices, "DELETED", |version| slice(&shape, number, None, version));
            self.shared
                .tell(Resource::Services, "DELETED", |version| service(&shape, number, version));
        }
        for number in pods.clone() {
            self.shared.tell(Resource::Pods, "DELETED", |version| pod(&shape, number, version));
        }
        let mut shape = lock(&self.shared.shape);
        shape.services = shape.services.min(services.start);
        shape.pods = shape.pods.min(pods.start);
    }

    /// Ends all connections; whoever comes again has to list anew, for nobody knows what changed.
    pub fn forget(&self) {
        self.shared.version.fetch_add(1, SeqCst);
        lock(&self.shared.watchers).clear();
        for stream in lock(&self.shared.connections).drain(..) {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

impl Shared {
    /// Tells those who watch a resource what happened to an object, which is made of its new version. Versions go out in order,
    /// as from a real server, whoever changes something at the same time: an older one would be a server that was restored.
    fn tell(&self, resource: Resource, happened: &str, object: impl FnOnce(u64) -> Vec<u8>) {
        let mut watchers = lock(&self.watchers);
        let version = self.version.fetch_add(1, SeqCst) + 1;
        let frame: Arc<[u8]> = frame(resource, happened, &object(version)).into();
        watchers
            .retain(|(watched, to)| *watched != resource || to.send(Arc::clone(&frame)).is_ok());
    }

    /// How many objects of a resource there are.
    fn count(&self, resource: Resource) -> u32 {
        let shape = lock(&self.shape);
        match resource {
            Resource::Namespaces => shape.namespaces,
            Resource::Services | Resource::Slices => shape.services,
            Resource::Pods => shape.pods,
        }
    }

    /// Makes an object up.
    fn object(&self, shape: &Shape, resource: Resource, number: u32) -> Vec<u8> {
        let version = 1000 + u64::from(number);
        match resource {
            Resource::Namespaces => namespace(number),
            Resource::Services => service(shape, number, version),
            Resource::Slices => {
                let moved = lock(&self.moved).get(&number).copied();
                slice(shape, number, moved, version)
            }
            Resource::Pods => pod(shape, number, version),
        }
    }
}

/// Serves a connection until it ends.
fn serve(shared: &Shared, stream: TcpStream) {
    drop(stream.set_nodelay(true));
    let Ok(read) = stream.try_clone() else { return };
    let (mut read, mut write) = (BufReader::new(read), stream);
    loop {
        let mut line = String::new();
        if !matches!(read.read_line(&mut line), Ok(1..)) {
            return;
        }
        let mut field = String::new();
        while matches!(read.read_line(&mut field), Ok(3..)) {
            field.clear();
        }
        let target = line.split(' ').nth(1).unwrap_or_default();
        if answer(shared, target, &mut write).is_err() {
            return;
        }
    }
}

/// Answers one request.
fn answer(shared: &Shared, target: &str, to: &mut TcpStream) -> std::io::Result<()> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let value =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let Some(resource) = Resource::of(path) else { return refuse(to, 404, "NotFound") };
    if value("watch").is_none() {
        let limit = value("limit").and_then(|limit| limit.parse().ok()).unwrap_or(u32::MAX);
        return list(shared, resource, limit, to);
    }
    let seconds = value("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(300);
    let until = Instant::now() + Duration::from_secs(seconds);
    let initial = value("sendInitialEvents") == Some("true");
    let (sender, events) = channel();
    let version = {
        let mut watchers = lock(&shared.watchers);
        let version = shared.version.load(SeqCst);
        let theirs = value("resourceVersion").and_then(|version| version.parse().ok());
        if !initial && theirs != Some(version) {
            drop(watchers);
            return refuse(to, 410, "Expired");
        }
        watchers.push((resource, sender));
        version
    };
    head(to, WATCH)?;
    let mut buffer = Vec::with_capacity(2 * CHUNK);
    if initial {
        let shape = *lock(&shared.shape);
        for number in 0..shared.count(resource) {
            buffer.extend(frame(resource, "ADDED", &shared.object(&shape, resource, number)));
            if buffer.len() >= CHUNK {
                chunk(to, &mut buffer)?;
            }
        }
        let mut bookmark = Vec::new();
        let mut meta = Vec::new();
        text(&mut meta, 6, &version.to_string());
        pair(&mut meta, 12, "k8s.io/initial-events-end", "true");
        bytes(&mut bookmark, 1, &meta);
        buffer.extend(frame(resource, "BOOKMARK", &bookmark));
        chunk(to, &mut buffer)?;
        shared.lists.fetch_add(1, SeqCst);
    }
    follow(&events, until, to, &mut buffer)
}

/// Sends events as they come, until a watch's time is over.
fn follow(
    events: &Receiver<Arc<[u8]>>,
    until: Instant,
    to: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<()> {
    loop {
        match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(frame) => buffer.extend_from_slice(&frame),
            Err(RecvTimeoutError::Timeout) => return to.write_all(b"0\r\n\r\n"),
            // Everybody was cut off.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(std::io::ErrorKind::NotConnected.into());
            }
        }
        while buffer.len() < CHUNK
            && let Ok(frame) = events.try_recv()
        {
            buffer.extend_from_slice(&frame);
        }
        chunk(to, buffer)?;
    }
}

/// Sends a list.
fn list(
    shared: &Shared,
    resource: Resource,
    limit: u32,
    to: &mut TcpStream,
) -> std::io::Result<()> {
    let shape = *lock(&shared.shape);
    let count = shared.count(resource).min(limit);
    let mut meta = Vec::new();
    text(&mut meta, 2, &shared.version.load(SeqCst).to_string());
    let mut start = Vec::new();
    bytes(&mut start, 1, &meta);
    let item = |number: u32| {
        let mut item = Vec::new();
        bytes(&mut item, 2, &shared.object(&shape, resource, number));
        item
    };
    // The whole length comes first, so all is made twice.
    let length = start.len() + (0..count).map(|number| item(number).len()).sum::<usize>();
    let (version, kind) = resource.kind();
    let mut buffer = b"k8s\0".to_vec();
    bytes(&mut buffer, 1, &type_meta(version, &format!("{kind}List")));
    number(&mut buffer, 2 << 3 | 2);
    number(&mut buffer, length as u64);
    buffer.extend(start);
    head(to, LIST)?;
    for number in 0..count {
        buffer.extend(item(number));
        if buffer.len() >= CHUNK {
            chunk(to, &mut buffer)?;
        }
    }
    chunk(to, &mut buffer)?;
    shared.lists.fetch_add(usize::from(limit == u32::MAX), SeqCst);
    to.write_all(b"0\r\n\r\n")
}

/// Writes the head of a response.
fn head(to: &mut TcpStream, kind: &str) -> std::io::Result<()> {
    write!(to, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n")
}

/// Sends what is in a buffer as a chunk, and empties it.
fn chunk(to: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    if buffer.is_empty() {
        return Ok(());
    }
    write!(to, "{:x}\r\n", buffer.len())?;
    buffer.extend_from_slice(b"\r\n");
    to.write_all(buffer)?;
    buffer.clear();
    Ok(())
}

/// Refuses a request.
fn refuse(to: &mut TcpStream, code: u16, reason: &str) -> std::io::Result<()> {
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"it is so","reason":"{reason}","code":{code}}}"#
    );
    write!(
        to,
        "HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Adds a number in seven-bit groups.
fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Adds a field of octets.
fn bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    number(out, field << 3 | 2);
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Adds a field of text.
fn text(out: &mut Vec<u8>, field: u64, text: &str) {
    bytes(out, field, text.as_bytes());
}

/// Adds a number's field.
fn integer(out: &mut Vec<u8>, field: u64, value: u64) {
    number(out, field << 3);
    number(out, value);
}

/// Adds an entry of a map.
fn pair(out: &mut Vec<u8>, field: u64, key: &str, value: &str) {
    let mut entry = Vec::new();
    text(&mut entry, 1, key);
    text(&mut entry, 2, value);
    bytes(out, field, &entry);
}

/// A `TypeMeta`.
fn type_meta(version: &str, kind: &str) -> Vec<u8> {
    let mut meta = Vec::new();
    text(&mut meta, 1, version);
    text(&mut meta, 2, kind);
    meta
}

/// A watch's event, with its length before it.
fn frame(resource: Resource, happened: &str, object: &[u8]) -> Vec<u8> {
    let (version, kind) = resource.kind();
    let mut raw = b"k8s\0".to_vec();
    bytes(&mut raw, 1, &type_meta(version, kind));
    bytes(&mut raw, 2, object);
    let mut extension = Vec::new();
    bytes(&mut extension, 1, &raw);
    let mut frame = vec![0; 4];
    text(&mut frame, 1, happened);
    bytes(&mut frame, 2, &extension);
    let length = u32::try_from(frame.len() - 4).expect("it is short");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// An `ObjectMeta` with what real ones have.
fn meta(name: &str, namespace: &str, version: u64, labels: &[(&str, &str)]) -> Vec<u8> {
    let mut meta = Vec::with_capacity(1024);
    text(&mut meta, 1, name);
    text(&mut meta, 3, namespace);
    text(&mut meta, 5, "6b0a3b3e-95b8-4d8b-9f9f-3c2a5c4f9a10");
    text(&mut meta, 6, &version.to_string());
    let mut time = Vec::new();
    integer(&mut time, 1, 1_700_000_000);
    bytes(&mut meta, 8, &time);
    labels.iter().for_each(|(key, value)| pair(&mut meta, 11, key, value));
    pair(&mut meta, 12, "meta.helm.sh/release-name", "checkout");
    let mut managed = Vec::new();
    text(&mut managed, 1, "helm");
    text(&mut managed, 2, "Update");
    let mut fields = Vec::new();
    text(&mut fields, 1, MANAGED);
    bytes(&mut managed, 7, &fields);
    bytes(&mut meta, 17, &managed);
    meta
}

/// A namespace.
fn namespace(number: u32) -> Vec<u8> {
    let mut object = Vec::new();
    bytes(&mut object, 1, &meta(&format!("team-{number:04}"), "", 5, &[]));
    object
}

/// A service.
fn service(shape: &Shape, service: u32, version: u64) -> Vec<u8> {
    let namespace = format!("team-{:04}", service % shape.namespaces);
    let labels =
        [("app", "checkout"), ("app.kubernetes.io/name", "checkout"), ("team", "payments")];
    let address = match Shape::headless(service) {
        true => "None".to_owned(),
        false => Shape::cluster_ip(service).to_string(),
    };
    let mut spec = Vec::new();
    for (name, port) in [("http", 80), ("https", 443)] {
        let mut one = Vec::new();
        text(&mut one, 1, name);
        text(&mut one, 2, "TCP");
        integer(&mut one, 3, port);
        bytes(&mut spec, 1, &one);
    }
    pair(&mut spec, 2, "app", "checkout");
    text(&mut spec, 3, &address);
    text(&mut spec, 4, "ClusterIP");
    text(&mut spec, 18, &address);
    let mut object = Vec::new();
    bytes(&mut object, 1, &meta(&format!("svc-{service:06}"), &namespace, version, &labels));
    bytes(&mut object, 2, &spec);
    object
}

/// The slice of a service.
fn slice(shape: &Shape, service: u32, first: Option<Ipv4Addr>, version: u64) -> Vec<u8> {
    let namespace = format!("team-{:04}", service % shape.namespaces);
    let owner = format!("svc-{service:06}");
    let labels = [
        ("app", "checkout"),
        ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
        ("kubernetes.io/service-name", &owner),
    ];
    let mut object = Vec::with_capacity(2048);
    bytes(&mut object, 1, &meta(&format!("{owner}-x7k2p"), &namespace, version, &labels));
    let mut name = String::new();
    for number in 0..shape.endpoints {
        let address = match (number, first) {
            (0, Some(first)) => first,
            _ => shape.endpoint(service, number),
        };
        let mut endpoint = Vec::new();
        text(&mut endpoint, 1, &address.to_string());
        let mut conditions = Vec::new();
        integer(&mut conditions, 1, 1);
        integer(&mut conditions, 2, 1);
        integer(&mut conditions, 3, 0);
        bytes(&mut endpoint, 2, &conditions);
        let mut target = Vec::new();
        name.clear();
        write!(name, "{owner}-7d9f8b6c5d-{number:05}").expect("memory is there");
        text(&mut target, 1, "Pod");
        text(&mut target, 2, &namespace);
        text(&mut target, 3, &name);
        text(&mut target, 4, "5d3f1a2b-0000-4d8b-9f9f-3c2a5c4f0000");
        bytes(&mut endpoint, 4, &target);
        text(&mut endpoint, 6, "ip-10-0-3-7.eu-west-1.compute.internal");
        text(&mut endpoint, 7, "eu-west-1a");
        bytes(&mut object, 2, &endpoint);
    }
    for (name, port) in [("http", 8080), ("https", 8443)] {
        let mut one = Vec::new();
        text(&mut one, 1, name);
        text(&mut one, 2, "TCP");
        integer(&mut one, 3, port);
        bytes(&mut object, 3, &one);
    }
    text(&mut object, 4, "IPv4");
    object
}

/// A pod.
fn pod(shape: &Shape, pod: u32, version: u64) -> Vec<u8> {
    let namespace = format!("team-{:04}", pod % shape.namespaces);
    let labels = [("app", "checkout"), ("pod-template-hash", "7d9f8b6c5d")];
    let mut container = Vec::new();
    text(&mut container, 1, "app");
    text(&mut container, 2, "registry.example/payments/checkout:v1.42.0");
    for number in 0..24 {
        pair(&mut container, 7, &format!("SETTING_NUMBER_{number:02}"), "vvvvvvvvvvvv");
    }
    let mut spec = Vec::new();
    bytes(&mut spec, 2, &container);
    text(&mut spec, 10, "ip-10-0-3-7.eu-west-1.compute.internal");
    let address = Shape::pod(pod).to_string();
    let mut status = Vec::new();
    text(&mut status, 1, "Running");
    text(&mut status, 5, "10.0.3.7");
    text(&mut status, 6, &address);
    let mut ip = Vec::new();
    text(&mut ip, 1, &address);
    bytes(&mut status, 12, &ip);
    let mut object = Vec::with_capacity(2048);
    let name = format!("checkout-{pod:06}-7d9f8b6c5d-0a1b2");
    bytes(&mut object, 1, &meta(&name, &namespace, version, &labels));
    bytes(&mut object, 2, &spec);
    bytes(&mut object, 3, &status);
    object
}

/// Waits until so many lists were sent whole; panics after `limit`.
pub fn lists_until(fake: &Fake, count: usize, limit: Duration) {
    let enough = until(limit, || (fake.lists() >= count).then_some(()));
    assert!(enough.is_some(), "{} of {count} lists were asked for", fake.lists());
}
