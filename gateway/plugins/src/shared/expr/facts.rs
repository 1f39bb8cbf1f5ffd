//! What an expression can ask about the query.

use std::net::IpAddr;

use wire::text::{class_name, type_name};

use super::types::Type;
use super::{Context, Value};
use crate::shared::name_text::NameText;

/// A function without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Bufsize,
    Class,
    ClientIp,
    Do,
    Id,
    Name,
    Opcode,
    Port,
    Proto,
    ServerIp,
    ServerPort,
    Size,
    Type,
}

/// Their names and types.
pub(super) const FACTS: [(&str, Fact, Type); 13] = [
    ("bufsize", Fact::Bufsize, Type::Int),
    ("class", Fact::Class, Type::Str),
    ("client_ip", Fact::ClientIp, Type::Str),
    ("do", Fact::Do, Type::Bool),
    ("id", Fact::Id, Type::Int),
    ("name", Fact::Name, Type::Str),
    ("opcode", Fact::Opcode, Type::Int),
    ("port", Fact::Port, Type::Str),
    ("proto", Fact::Proto, Type::Str),
    ("server_ip", Fact::ServerIp, Type::Str),
    ("server_port", Fact::ServerPort, Type::Str),
    ("size", Fact::Size, Type::Int),
    ("type", Fact::Type, Type::Str),
];

impl Fact {
    /// What it is for this query.
    pub(super) fn value<'a>(self, context: &Context<'a>) -> Value<'a> {
        let (query, request) = (&context.x.query, context.x.request());
        match self {
            Self::Bufsize => Value::Int(bufsize(context)),
            Self::Class => Value::text(class_name(request.class)),
            Self::ClientIp => Value::text(client(context)),
            Self::Do => Value::Bool(request.edns.dnssec_ok()),
            Self::Id => {
                Value::Int(query.wire.first_chunk().map_or(0, |id| u16::from_be_bytes(*id).into()))
            }
            Self::Name => Value::text(NameText::of(request.name.wire()).as_str()),
            Self::Opcode => Value::Int(request.flags.opcode().into()),
            Self::Port => Value::text(query.peer.port()),
            Self::Proto => Value::Str(super::Text::Borrowed(query.transport.protocol())),
            Self::ServerIp => Value::text(query.local.ip().to_canonical()),
            Self::ServerPort => Value::text(query.local.port()),
            Self::Size => Value::Int(i64::try_from(query.wire.len()).unwrap_or(i64::MAX)),
            Self::Type => Value::text(type_name(request.rtype)),
        }
    }
}

/// The groups of the client; none if it is not known.
pub(super) fn groups<'a>(context: &Context<'a>) -> &'a [String] {
    context.x.note_personal();
    context.x.identity().map(|identity| &*identity.groups).unwrap_or_default()
}

/// The client's address; one of IPv4 in IPv6's clothes is one of IPv4.
pub(super) fn client(context: &Context<'_>) -> IpAddr {
    context.x.query.peer.ip().to_canonical()
}

/// The longest reply that the client takes, in octets: over streams there is no limit but that of the length.
fn bufsize(context: &Context<'_>) -> i64 {
    if context.x.query.transport.protocol() == "tcp" {
        return 65_535;
    }
    let edns = &context.x.request().edns;
    if edns.present { edns.size.max(512).into() } else { 512 }
}
