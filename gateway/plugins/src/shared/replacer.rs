//! Texts with placeholders for what is known of an exchange: the formats of `log` and `dnstap`.

use std::fmt;
use std::net::SocketAddr;

use engine::{End, Exchange, Metadata};
use wire::{Flags, text};

use super::asked;

/// The format behind `{common}`.
pub const COMMON: &str = r#"{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration}"#;

/// What stands for a value that there is not.
const NONE: &str = "-";

/// A format, taken apart once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Box<[Part]>);

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Words as they are.
    Text(Box<str>),
    /// A placeholder.
    Value(Value),
    /// A metadata label.
    Label(Box<str>),
}

/// The placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Type,
    Class,
    Name,
    Proto,
    Size,
    Remote,
    Port,
    Local,
    Rcode,
    Rsize,
    Duration,
    Id,
    Opcode,
    Do,
    Bufsize,
    Rflags,
}

/// Their names.
const VALUES: [(&str, Value); 16] = [
    ("type", Value::Type),
    ("class", Value::Class),
    ("name", Value::Name),
    ("proto", Value::Proto),
    ("size", Value::Size),
    ("remote", Value::Remote),
    ("port", Value::Port),
    ("local", Value::Local),
    ("rcode", Value::Rcode),
    ("rsize", Value::Rsize),
    ("duration", Value::Duration),
    (">id", Value::Id),
    (">opcode", Value::Opcode),
    (">do", Value::Do),
    (">bufsize", Value::Bufsize),
    (">rflags", Value::Rflags),
];

impl Format {
    /// Takes a format apart. What stands in braces and is no placeholder stays as it is.
    pub fn read(format: &str) -> Self {
        let combined = format!("{COMMON} \"{{>opcode}}\"");
        let format = format.replace("{common}", COMMON).replace("{combined}", &combined);
        let mut parts = Vec::new();
        let mut words = String::new();
        let mut rest = &*format;
        // A closing brace belongs to the last opening one before it, so that braces around placeholders stay.
        while let Some((before, behind)) = rest.split_once('}') {
            rest = behind;
            let found = before.rsplit_once('{').and_then(|(lead, inside)| {
                let part = match inside.strip_prefix('/') {
                    Some(label) => Part::Label(label.into()),
                    None => Part::Value(VALUES.iter().find(|(name, _)| *name == inside)?.1),
                };
                Some((lead, part))
            });
            match found {
                None => {
                    words.push_str(before);
                    words.push('}');
                }
                Some((lead, part)) => {
                    words.push_str(lead);
                    if !words.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut words).into()));
                    }
                    parts.push(part);
                }
            }
        }
        words.push_str(rest);
        if !words.is_empty() {
            parts.push(Part::Text(words.into()));
        }
        Self(parts.into())
    }

    /// The format with the values of an exchange that has ended, to be written.
    pub fn of<'a>(&'a self, x: &'a Exchange, end: End, metadata: &'a Metadata) -> Filled<'a> {
        Filled { format: self, x, end: Some(end), metadata }
    }

    /// The same for one that has not: there is nothing of a reply yet.
    pub fn before<'a>(&'a self, x: &'a Exchange, metadata: &'a Metadata) -> Filled<'a> {
        Filled { format: self, x, end: None, metadata }
    }
}

/// A format and the exchange whose values it gets.
#[derive(Debug)]
pub struct Filled<'a> {
    format: &'a Format,
    x: &'a Exchange,
    end: Option<End>,
    metadata: &'a Metadata,
}

impl fmt::Display for Filled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.format.0.iter().try_for_each(|part| match part {
            Part::Text(words) => f.write_str(words),
            Part::Value(value) => self.value(*value, f),
            Part::Label(label) => {
                let mut value = String::new();
                match self.metadata.value(self.x, label, &mut value) {
                    Some(()) => plain(&value, f),
                    None => f.write_str(NONE),
                }
            }
        })
    }
}

impl Filled<'_> {
    /// Writes one value.
    fn value(&self, value: Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (x, query) = (self.x, &self.x.query);
        let answered = self.end == Some(End::Answered);
        match value {
            Value::Type => f.write_str(&text::type_name(asked::rtype_and_class(x).0)),
            Value::Class => f.write_str(&text::class_name(asked::rtype_and_class(x).1)),
            Value::Name => write!(f, "{}", asked::name(x)),
            Value::Proto => f.write_str(query.transport.protocol()),
            Value::Size => write!(f, "{}", query.wire.len()),
            Value::Remote => address(query.peer, f),
            Value::Port => write!(f, "{}", query.peer.port()),
            Value::Local => address(query.local, f),
            Value::Rcode if matches!(self.end, None | Some(End::Silent)) => f.write_str(NONE),
            Value::Rcode => f.write_str(&text::rcode_name(x.answer().rcode)),
            Value::Rsize if answered => {
                write!(f, "{}", x.answer().message_len(query.parts.question_len))
            }
            Value::Rsize | Value::Duration if self.end.is_none() => f.write_str(NONE),
            Value::Rsize => f.write_str("0"),
            Value::Duration => write!(f, "{}s", x.elapsed().as_secs_f64()),
            Value::Id => {
                let id = query.wire.first_chunk::<2>().copied().unwrap_or_default();
                write!(f, "{}", u16::from_be_bytes(id))
            }
            Value::Opcode => write!(f, "{}", x.client_request().flags.opcode()),
            Value::Do => write!(f, "{}", x.client_request().edns.dnssec_ok()),
            Value::Bufsize if !query.transport.is_datagram() => f.write_str("65535"),
            Value::Bufsize => {
                let edns = &x.client_request().edns;
                write!(f, "{}", if edns.present { edns.size.max(512) } else { 512 })
            }
            Value::Rflags if answered => flags(x.answer().flags, f),
            Value::Rflags => f.write_str(NONE),
        }
    }
}

/// Writes an address, one of IPv6 in brackets.
fn address(addr: SocketAddr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match addr {
        SocketAddr::V4(addr) => write!(f, "{}", addr.ip()),
        SocketAddr::V6(addr) if addr.scope_id() == 0 => write!(f, "[{}]", addr.ip()),
        SocketAddr::V6(addr) => write!(f, "[{}%{}]", addr.ip(), addr.scope_id()),
    }
}

/// Writes a reply's flags.
fn flags(flags: Flags, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("qr")?;
    let names = [
        (Flags::AA, ",aa"),
        (Flags::TC, ",tc"),
        (Flags::RD, ",rd"),
        (Flags::RA, ",ra"),
        (Flags::Z, ",z"),
        (Flags::AD, ",ad"),
        (Flags::CD, ",cd"),
    ];
    names.iter().filter(|(flag, _)| flags.has(*flag)).try_for_each(|(_, name)| f.write_str(name))
}

/// Writes a value without what would break a line or a terminal: octets that are not printable as `\DDD`, as in names
/// (RFC 1035 §5.1).
fn plain(value: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in value.chars() {
        match c {
            c if !c.is_control() => write!(f, "{c}")?,
            c => {
                let mut octets = [0; 4];
                c.encode_utf8(&mut octets).bytes().try_for_each(|byte| write!(f, "\\{byte:03}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_placeholder_stays() {
        let shown = |format: &str| {
            let parts = Format::read(format).0;
            let parts = parts.iter().map(|part| match part {
                Part::Text(words) => format!("'{words}'"),
                other => format!("{other:?}"),
            });
            parts.collect::<Vec<_>>().join(" ")
        };
        for (format, want) in [
            ("", ""),
            ("plain", "'plain'"),
            ("{type}", "Value(Type)"),
            ("a {nothing} b", "'a {nothing} b'"),
            ("A } {/a/b}", "'A } ' Label(\"a/b\")"),
            ("{ {name} }", "'{ ' Value(Name) ' }'"),
            ("{", "'{'"),
            ("{>id}{>do}", "Value(Id) Value(Do)"),
            ("{Type}", "'{Type}'"),
            ("100% {rcode}%s", "'100% ' Value(Rcode) '%s'"),
        ] {
            assert_eq!(shown(format), want, "{format}");
        }
        assert!(shown("x {common} y").starts_with("'x ' Value(Remote) ':' Value(Port)"));
        assert!(shown("{combined}").ends_with("Value(Duration) ' \"' Value(Opcode) '\"'"));
    }
}
