//! Rules that change the EDNS options of a request.

use std::net::IpAddr;

use engine::{Exchange, Metadata};
use smallvec::SmallVec;
use wire::{Edns, Options, option};

use crate::shared::name_text::{NameText, spelled};

/// The datagram size of an OPT record that a rule adds.
const SIZE: u16 = 4096;

/// A rule for one option.
#[derive(Debug)]
pub(super) struct EdnsRule {
    /// What is done.
    pub(super) action: Action,
    /// With what.
    pub(super) content: Content,
    /// Whether it is undone in the reply.
    pub(super) revert: bool,
}

/// What a rule does with its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Replaces or adds it.
    Set,
    /// Adds it if it is not there.
    Append,
    /// Replaces it if it is there.
    Replace,
    /// Takes it out.
    Unset,
}

/// What a rule writes.
#[derive(Debug)]
pub(super) enum Content {
    /// An option of any code.
    Local(u16, Data),
    /// The question for the server's identifier (RFC 5001).
    Nsid,
    /// The client's network (RFC 7871): so many bits of an IPv4 and of an IPv6 address.
    Subnet(u8, u8),
}

/// The data of a local option.
#[derive(Debug)]
pub(super) enum Data {
    /// As it stands.
    Fixed(Box<[u8]>),
    /// Found out for each query.
    Variable(Variable),
}

/// What can be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// The name asked for, as text.
    Name,
    /// The type asked for, two octets.
    Type,
    /// The client's address, four or sixteen octets.
    ClientIp,
    /// Its port, two octets.
    ClientPort,
    /// `udp` or `tcp`.
    Protocol,
    /// The address asked, four or sixteen octets.
    ServerIp,
    /// Its port, two octets.
    ServerPort,
    /// A metadata label's value.
    Metadata(String),
}

/// Room for most options.
type Bytes = SmallVec<[u8; 64]>;

impl EdnsRule {
    /// The option's code.
    pub(super) fn code(&self) -> u16 {
        match self.content {
            Content::Local(code, _) => code,
            Content::Nsid => option::NSID,
            Content::Subnet(..) => option::SUBNET,
        }
    }

    /// What the rule would write for this query; none if there is nothing to write, so that the rule does not apply.
    pub(super) fn data(&self, x: &Exchange, metadata: &Metadata) -> Option<Bytes> {
        if self.action == Action::Unset {
            return Some(Bytes::new());
        }
        match &self.content {
            Content::Local(_, Data::Fixed(data)) => Some(Bytes::from_slice(data)),
            Content::Local(_, Data::Variable(variable)) => variable.data(x, metadata),
            Content::Nsid => Some(Bytes::new()),
            Content::Subnet(v4, v6) => Some(subnet(x.query.peer.ip().to_canonical(), *v4, *v6)),
        }
    }

    /// Writes `data` into the request's options; whether the rule applied. There is an OPT record in any case then.
    pub(super) fn apply(&self, edns: &mut Edns, data: &[u8]) -> bool {
        if !edns.present {
            edns.clear();
            edns.present = true;
            edns.size = SIZE;
        }
        let (code, options) = (self.code(), &mut edns.options);
        let there = options.get(code).is_some();
        match (self.action, there) {
            (Action::Unset, _) => {
                options.remove(code);
            }
            (Action::Append, true) | (Action::Replace, false) => return false,
            _ => {
                options.remove(code);
                options.push(code, data);
            }
        }
        true
    }

    /// Undoes the option in the reply's: `before` are those of the request before this plugin.
    pub(super) fn undo(&self, before: &Options, reply: &mut Options) {
        if self.revert
            && reply.remove(self.code())
            && let Some(old) = before.get(self.code())
        {
            reply.push(self.code(), old);
        }
    }
}

impl Variable {
    /// The variable of a name without its braces.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "qname" => Self::Name,
            "qtype" => Self::Type,
            "client_ip" => Self::ClientIp,
            "client_port" => Self::ClientPort,
            "protocol" => Self::Protocol,
            "server_ip" => Self::ServerIp,
            "server_port" => Self::ServerPort,
            label => {
                let (plugin, rest) = label.split_once('/')?;
                if plugin.is_empty() || rest.is_empty() {
                    return None;
                }
                Self::Metadata(label.to_owned())
            }
        })
    }

    /// Its value; none where there is none.
    fn data(&self, x: &Exchange, metadata: &Metadata) -> Option<Bytes> {
        let query = &x.query;
        Some(match self {
            Self::Name => Bytes::from_slice(NameText::of(spelled(x)).as_str().as_bytes()),
            Self::Type => Bytes::from_slice(&x.request().rtype.to_be_bytes()),
            Self::ClientIp => octets(query.peer.ip()),
            Self::ClientPort => Bytes::from_slice(&query.peer.port().to_be_bytes()),
            Self::Protocol => Bytes::from_slice(query.transport.protocol().as_bytes()),
            Self::ServerIp => octets(query.local.ip()),
            Self::ServerPort => Bytes::from_slice(&query.local.port().to_be_bytes()),
            Self::Metadata(label) => {
                let mut value = String::new();
                let (found, is_personal) =
                    x.watch_personal(|| metadata.value(x, label, &mut value));
                if is_personal {
                    x.tell_who();
                }
                found?;
                if value.is_empty() {
                    return None;
                }
                Bytes::from_slice(value.as_bytes())
            }
        })
    }
}

/// An address in wire form; one of IPv4 in IPv6's clothes is one of IPv4.
fn octets(addr: IpAddr) -> Bytes {
    match addr.to_canonical() {
        IpAddr::V4(addr) => Bytes::from_slice(&addr.octets()),
        IpAddr::V6(addr) => Bytes::from_slice(&addr.octets()),
    }
}

/// The data of a client-subnet option (RFC 7871 §6): as many octets of the address as its bits need.
fn subnet(addr: IpAddr, v4: u8, v6: u8) -> Bytes {
    let (family, bits) = if addr.is_ipv4() { (1, v4) } else { (2, v6) };
    let mut data = Bytes::from_slice(&[0, family, bits, 0]);
    let octets = octets(addr);
    data.extend_from_slice(octets.get(..usize::from(bits.div_ceil(8))).unwrap_or(&octets));
    let spare = data.len() * 8 - 32 - usize::from(bits);
    if let (1..8, Some(last)) = (spare, data.last_mut()) {
        *last &= 0xff << spare;
    }
    data
}
