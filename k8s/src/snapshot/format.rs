//! How a store is written down: blocks with checksums, and in them one record an object.
//!
//! A file is [`MAGIC`], [`VERSION`], and blocks. A block is its length, a checksum of everything in the file up to its end but
//! other checksums, and its bytes; the first block is the [`Head`], the last one counts the objects. Numbers of fixed length
//! are little-endian. Whatever is read is checked: a file is somebody else's word until its last block has come.

use std::{
    borrow::Cow,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use flate2::Crc;

use super::Refused;
use crate::{
    content::{IMPORTED, MORE, PREFIXED, SELECTOR, kind_of},
    exports::{CONFLICT, INVALID},
    object::{
        Endpoint, Export, Import, ImportKind, Kind, Meta, Object, Place, Pod, Port, Protocol,
        Service, ServiceKind, Slice,
    },
    pack::{HOSTNAME, NAME, POD, READY, V6, ZONE},
};

/// What a snapshot begins with: no text, so that nothing that handles texts leaves it whole unnoticed.
const MAGIC: [u8; 8] = *b"\x89cwsnap\n";
/// The version of the format.
const VERSION: u32 = 1;
/// The largest block that is read, in bytes: a single object is far smaller.
const LARGEST: usize = 16 << 20;
/// The first byte of a record that names the namespace of those that follow. Others begin with their kind's number.
const SPACE: u8 = 0xfe;
/// The first byte of the last block.
const END: u8 = 0xff;

/// What a snapshot says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// When the cluster was last heard of, in Unix seconds.
    pub(crate) taken: u64,
    /// The last change of the zone, in Unix seconds.
    pub(crate) serial: u32,
    /// The last change of external addresses, in Unix seconds.
    pub(crate) external: u32,
    /// What it is of.
    pub(crate) identity: String,
    /// The kinds that were listed.
    pub(crate) listed: Vec<Kind>,
    /// The kinds that the cluster kept from us or did not have.
    pub(crate) waived: Vec<Kind>,
}

/// Appends a number in seven-bit groups, the lowest first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes with their number.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends what names the namespace of the next records.
pub(crate) fn put_space(out: &mut Vec<u8>, name: &[u8]) {
    out.push(SPACE);
    put_bytes(out, name);
}

/// Writes blocks.
#[derive(Debug)]
pub(crate) struct Blocks<W> {
    /// Where to.
    out: W,
    /// The checksum so far.
    sum: Crc,
    /// Bytes so far.
    pub(crate) written: u64,
}

impl<W: Write> Blocks<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn new(out: W, head: &Head) -> io::Result<Self> {
        let mut blocks = Self { out, sum: Crc::new(), written: 0 };
        blocks.put(&MAGIC)?;
        blocks.put(&VERSION.to_le_bytes())?;
        let mut bytes = Vec::new();
        for number in [head.taken, head.serial.into(), head.external.into()] {
            put_number(&mut bytes, number);
        }
        put_bytes(&mut bytes, head.identity.as_bytes());
        for kinds in [&head.listed, &head.waived] {
            put_number(&mut bytes, kinds.len() as u64);
            bytes.extend(kinds.iter().map(|kind| kind.index() as u8));
        }
        blocks.block(&bytes)?;
        Ok(blocks)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// Those of writing, and a block that is too large to be read.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len as usize <= LARGEST);
        let Some(len) = len else { return Err(io::ErrorKind::FileTooLarge.into()) };
        self.put(&len.to_le_bytes())?;
        self.sum.update(bytes);
        self.out.write_all(&self.sum.sum().to_le_bytes())?;
        self.out.write_all(bytes)?;
        self.written += 4 + u64::from(len);
        Ok(())
    }

    /// Writes the last block, with the number of objects by kind, and gives what was written to.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn end(mut self, counts: &[u64; Kind::COUNT]) -> io::Result<(W, u64)> {
        let mut bytes = vec![END];
        counts.iter().for_each(|count| put_number(&mut bytes, *count));
        self.block(&bytes)?;
        Ok((self.out, self.written))
    }

    /// Writes bytes that the checksum is of.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// Reads a file from front to back: checks it, calls `head` with what it says of itself, and `each` with its objects. What was
/// called for counts only if this comes to its end.
///
/// # Errors
/// What is wrong with the file, in words; what `head` says against it.
pub(crate) fn read(
    mut file: impl Read,
    head: &mut dyn FnMut(&Head) -> Result<(), Refused>,
    each: &mut dyn FnMut(Object<'_>),
) -> Result<Head, Refused> {
    let mut sum = Crc::new();
    let mut start = [0; 12];
    fill(&mut file, &mut start)?;
    sum.update(&start);
    let [magic @ .., _, _, _, _] = start;
    let [.., a, b, c, d] = start;
    if magic != MAGIC {
        return Err(Refused("it is no snapshot".to_owned()));
    }
    match u32::from_le_bytes([a, b, c, d]) {
        VERSION => {}
        version => {
            return Err(Refused(format!(
                "it is of version {version}, and this program reads version {VERSION}"
            )));
        }
    }
    let mut block = Vec::new();
    next(&mut file, &mut sum, &mut block)?;
    let found = Head::read(&mut Strict(&block)).ok_or_else(odd)?;
    head(&found)?;
    let mut counts = [0u64; Kind::COUNT];
    let mut space = String::new();
    loop {
        next(&mut file, &mut sum, &mut block)?;
        let mut rest = Strict(&block);
        if block.first() == Some(&END) {
            rest.byte();
            let same = counts.iter().all(|count| rest.number() == Some(*count));
            let last = file.read(&mut [0]).map_err(unread)? == 0;
            return if same && last && rest.0.is_empty() { Ok(found) } else { Err(odd()) };
        }
        while !rest.0.is_empty() {
            let object = rest.object(&mut space).ok_or_else(odd)?;
            if let Some(object) = object {
                counts[object.kind().index()] += 1;
                each(object);
            }
        }
    }
}

/// What does not agree with its checksum, or was not written by this program.
fn odd() -> Refused {
    Refused("it is damaged".to_owned())
}

/// What could not be read.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` has it")]
fn unread(error: io::Error) -> Refused {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Refused("it ends too early".to_owned()),
        _ => Refused(format!("it cannot be read: {error}")),
    }
}

/// Reads so many bytes.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> Result<(), Refused> {
    file.read_exact(bytes).map_err(unread)
}

/// Reads the next block.
fn next(file: &mut impl Read, sum: &mut Crc, block: &mut Vec<u8>) -> Result<(), Refused> {
    let mut number = [0; 4];
    fill(file, &mut number)?;
    sum.update(&number);
    let len = u32::from_le_bytes(number) as usize;
    if len > LARGEST {
        return Err(odd());
    }
    fill(file, &mut number)?;
    block.clear();
    // A length that is not so long in truth takes no more memory than there is file.
    let got = file.by_ref().take(len as u64).read_to_end(block).map_err(unread)?;
    if got < len {
        return Err(unread(io::ErrorKind::UnexpectedEof.into()));
    }
    sum.update(block);
    if sum.sum() == u32::from_le_bytes(number) { Ok(()) } else { Err(odd()) }
}

impl Head {
    /// Reads what a snapshot says of itself.
    fn read(rest: &mut Strict<'_>) -> Option<Self> {
        let taken = rest.number()?;
        let serial = u32::try_from(rest.number()?).ok()?;
        let external = u32::try_from(rest.number()?).ok()?;
        let identity = rest.text()?.to_owned();
        let mut kinds = || -> Option<Vec<Kind>> {
            let count = usize::try_from(rest.number()?).ok()?;
            let numbers = rest.take(count)?;
            numbers.iter().map(|number| Kind::ALL.get(usize::from(*number)).copied()).collect()
        };
        let (listed, waived) = (kinds()?, kinds()?);
        rest.0.is_empty().then_some(Self { taken, serial, external, identity, listed, waived })
    }
}

/// Reads bytes from front to back, and says where they run short.
#[derive(Debug, Clone, Copy)]
struct Strict<'a>(&'a [u8]);

impl<'a> Strict<'a> {
    /// Takes so many bytes.
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes one byte.
    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Takes a number.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Takes bytes with their number.
    fn bytes(&mut self) -> Option<Self> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len).map(Self)
    }

    /// Takes a text.
    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?.0).ok()
    }

    /// Takes a text that an object has.
    fn word(&mut self) -> Option<Cow<'a, str>> {
        self.text().map(Cow::Borrowed)
    }

    /// Takes the texts that are left.
    fn words(&mut self) -> Option<Vec<Cow<'a, str>>> {
        let mut words = Vec::new();
        while !self.0.is_empty() {
            words.push(self.word()?);
        }
        Some(words)
    }

    /// Takes an IPv4 address.
    fn v4(&mut self) -> Option<IpAddr> {
        let octets: [u8; 4] = self.take(4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets).into())
    }

    /// Takes an IPv6 address.
    fn v6(&mut self) -> Option<IpAddr> {
        let octets: [u8; 16] = self.take(16)?.try_into().ok()?;
        Some(Ipv6Addr::from(octets).into())
    }

    /// Takes addresses.
    fn ips(&mut self) -> Option<Vec<IpAddr>> {
        let (v4, v6) = (self.number()?, self.number()?);
        let mut ips = Vec::new();
        for _ in 0..v4 {
            ips.push(self.v4()?);
        }
        for _ in 0..v6 {
            ips.push(self.v6()?);
        }
        Some(ips)
    }

    /// Takes the ports that are left.
    fn ports(&mut self) -> Option<Vec<Port<'a>>> {
        let mut ports = Vec::new();
        while !self.0.is_empty() {
            let protocol = match self.byte()? {
                0 => Protocol::Tcp,
                1 => Protocol::Udp,
                2 => Protocol::Sctp,
                _ => return None,
            };
            let number = u16::from_be_bytes([self.byte()?, self.byte()?]);
            ports.push(Port { name: self.word()?, protocol, number });
        }
        Some(ports)
    }

    /// Takes a record; none if it only names the namespace of the next ones.
    #[expect(clippy::option_option, reason = "the outer one is an error without a text")]
    fn object(&mut self, space: &mut String) -> Option<Option<Object<'a>>> {
        let first = self.byte()?;
        if first == SPACE {
            space.clear();
            space.push_str(self.text()?);
            return Some(None);
        }
        let kind = *Kind::ALL.get(usize::from(first))?;
        let meta = |name, version| Meta { namespace: Cow::Owned(space.clone()), name, version };
        Some(Some(match kind {
            Kind::Namespaces => Object::Namespace(Meta { name: self.word()?, ..Meta::default() }),
            Kind::Services | Kind::Imports => {
                let (flags, version) = (self.byte()?, self.number()?);
                let (mut blob, ports) = (self.bytes()?, self.bytes()?.ports()?);
                let meta = meta(blob.word()?, version);
                let ips = blob.ips()?;
                if kind == Kind::Imports {
                    let kind = match kind_of(flags) {
                        ServiceKind::ClusterIp => ImportKind::ClusterSetIp,
                        ServiceKind::Headless | ServiceKind::ExternalName => ImportKind::Headless,
                    };
                    return Some(Some(Object::Import(Import { meta, kind, ips, ports })));
                }
                let mut service = Service {
                    meta,
                    kind: kind_of(flags),
                    selector: flags & SELECTOR != 0,
                    cluster_ips: ips,
                    ports,
                    ..Service::default()
                };
                if flags & MORE != 0 {
                    service.external_name = blob.word()?;
                    service.external_ips = blob.ips()?;
                    service.balancer_ips = blob.ips()?;
                    service.balancer_names = blob.words()?;
                }
                Object::Service(service)
            }
            Kind::Slices | Kind::ImportSlices => {
                let (flags, service, cluster) = (self.byte()?, self.word()?, self.word()?);
                let (mut blob, ports) = (self.bytes()?, self.bytes()?.ports()?);
                let mut name = blob.word()?;
                if flags & PREFIXED != 0 {
                    name = Cow::Owned(format!("{service}{name}"));
                }
                let endpoints = blob.endpoints()?;
                let meta = meta(name, 0);
                let triggered = Cow::default();
                let slice = Slice { meta, service, cluster, ports, endpoints, triggered };
                match flags & IMPORTED != 0 {
                    true => Object::ImportSlice(slice),
                    false => Object::Slice(slice),
                }
            }
            Kind::Pods => {
                let mut blob = self.bytes()?;
                let (meta, ips) = (meta(blob.word()?, 0), blob.ips()?);
                let mut labels = Vec::new();
                while !blob.0.is_empty() {
                    labels.push((blob.word()?, blob.word()?));
                }
                Object::Pod(Pod { meta, ips, labels, terminating: false })
            }
            Kind::Exports => {
                let (flags, created) = (self.byte()?, self.number()?);
                let meta = meta(self.bytes()?.word()?, 0);
                let (invalid, conflict) = (flags & INVALID != 0, flags & CONFLICT != 0);
                Object::Export(Export { meta, created, invalid, conflict })
            }
        }))
    }

    /// Takes the endpoints that are left of a slice.
    fn endpoints(&mut self) -> Option<Vec<Endpoint<'a>>> {
        let mut zones = Vec::new();
        for _ in 0..self.number()? {
            zones.push(self.word()?);
        }
        let mut endpoints = Vec::new();
        while !self.0.is_empty() {
            let flags = self.byte()?;
            let place = if flags & NAME != 0 {
                Place::Name(self.word()?)
            } else if flags & V6 != 0 {
                Place::Ip(self.v6()?)
            } else {
                Place::Ip(self.v4()?)
            };
            let mut part = |flag| match flags & flag {
                0 => Some(Cow::default()),
                _ => self.word(),
            };
            let (hostname, pod) = (part(HOSTNAME)?, part(POD)?);
            let zone = match flags & ZONE {
                0 => Cow::default(),
                _ => zones.get(usize::from(self.byte()?))?.clone(),
            };
            endpoints.push(Endpoint { place, ready: flags & READY != 0, hostname, pod, zone });
        }
        Some(endpoints)
    }
}
