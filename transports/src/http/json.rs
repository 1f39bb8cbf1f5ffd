//! Queries and answers in the form of Google's and Cloudflare's JSON interfaces (`application/dns-json`).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::text::{name_text, type_number};
use wire::{Answer, Edns, Flags, Name, Request, Section, encode_query, option, rtype, scan};

/// Appends the query that the parameters `name`, `type` (A by default), `do` and `cd` ask for to `query`.
///
/// # Errors
/// What is wrong with them.
pub(super) fn query(parameters: &str, query: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut request =
        Request { rtype: rtype::A, flags: Flags::RD.with(Flags::AD), ..Request::default() };
    request.edns.present = true;
    request.edns.size = 1232;
    let mut named = false;
    for (key, value) in parameters.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = unescape(value).ok_or("a parameter has a wrong % escape")?;
        match key {
            "name" if named => return Err("the parameter name is there twice"),
            "name" => {
                request.name = Name::parse(&value).ok_or("the name is no domain name")?;
                named = true;
            }
            "type" => request.rtype = number(&value).ok_or("the type is no record type")?,
            "do" => match flag(&value).ok_or("do is true or false")? {
                true => request.edns.flags |= Edns::DO,
                false => request.edns.flags &= !Edns::DO,
            },
            "cd" => request.flags.set(Flags::CD, flag(&value).ok_or("cd is true or false")?),
            _ => {}
        }
    }
    if !named {
        return Err("the parameter name is missing");
    }
    encode_query(&request, 0, query);
    Ok(())
}

/// A record type, by its number or its mnemonic.
fn number(text: &str) -> Option<u16> {
    text.parse().ok().or_else(|| type_number(text))
}

/// A switch; a bare `do=` is on.
fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "" => Some(true),
        "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// A parameter's value without its `%XX` escapes; none for wrong ones, and for what is no text then.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let (pair, tail) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        out.push(u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?);
        rest = tail;
    }
    String::from_utf8(out).ok()
}

/// An answer's message as JSON; an empty object for what cannot be read, which is none of ours.
pub(super) fn page(message: &[u8]) -> String {
    let mut answer = Answer::default();
    let Ok(head) = scan::read(message, &mut answer) else { return "{}".to_owned() };
    let mut out = String::with_capacity(256);
    put(&mut out, format_args!("{{\"Status\":{}", answer.rcode));
    for (name, flag) in [
        ("TC", Flags::TC),
        ("RD", Flags::RD),
        ("RA", Flags::RA),
        ("AD", Flags::AD),
        ("CD", Flags::CD),
    ] {
        put(&mut out, format_args!(",\"{name}\":{}", head.flags.has(flag)));
    }
    out.push_str(",\"Question\":[");
    if let Some((name, kind, _)) = &head.question {
        put(&mut out, format_args!("{{\"name\":{},\"type\":{kind}}}", Json(&name.to_string())));
    }
    out.push(']');
    for (title, section) in [("Answer", Section::Answer), ("Authority", Section::Authority)] {
        let mut between = "";
        for rr in answer.section(section) {
            if between.is_empty() {
                put(&mut out, format_args!(",\"{title}\":["));
            }
            let (owner, data) = (name_text(answer.owner(rr)), data(rr.rtype, answer.data(rr)));
            put(
                &mut out,
                format_args!(
                    "{between}{{\"name\":{},\"type\":{},\"TTL\":{},\"data\":{}}}",
                    Json(&owner),
                    rr.rtype,
                    rr.ttl,
                    Json(&data)
                ),
            );
            between = ",";
        }
        if !between.is_empty() {
            out.push(']');
        }
    }
    let told: Vec<String> = answer.options.iter().filter_map(comment).collect();
    if !told.is_empty() {
        put(&mut out, format_args!(",\"Comment\":{}", Json(&told.join("; "))));
    }
    out.push('}');
    out
}

/// An extended error (RFC 8914) in words.
fn comment((code, data): (u16, &[u8])) -> Option<String> {
    let (info, text) = data.split_first_chunk().filter(|_| code == option::EDE)?;
    let (info, text) = (u16::from_be_bytes(*info), String::from_utf8_lossy(text));
    Some(format!("EDE {info}: {text}").trim_end_matches(": ").to_owned())
}

/// A record's data in presentation form: that of types without one of their own is RFC 3597's.
fn data(kind: u16, data: &[u8]) -> String {
    known(kind, data).unwrap_or_else(|| {
        let mut out = format!("\\# {}", data.len());
        for (at, byte) in data.iter().enumerate() {
            put(&mut out, format_args!("{}{byte:02x}", if at == 0 { " " } else { "" }));
        }
        out
    })
}

/// The same, for the types that are known here.
fn known(kind: u16, data: &[u8]) -> Option<String> {
    let u16_at = |at: usize| Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?));
    let name_at = |at: usize| {
        let (name, len) = Name::read(data.get(at..)?)?;
        Some((name.to_string(), at + len))
    };
    Some(match kind {
        rtype::A => Ipv4Addr::from_octets(data.try_into().ok()?).to_string(),
        rtype::AAAA => Ipv6Addr::from_octets(data.try_into().ok()?).to_string(),
        rtype::CNAME | rtype::DNAME | rtype::NS | rtype::PTR => name_at(0)?.0,
        rtype::MX => format!("{} {}", u16_at(0)?, name_at(2)?.0),
        rtype::SRV => {
            format!("{} {} {} {}", u16_at(0)?, u16_at(2)?, u16_at(4)?, name_at(6)?.0)
        }
        rtype::SOA => {
            let (mname, at) = name_at(0)?;
            let (rname, at) = name_at(at)?;
            let (numbers, _) = data.get(at..)?.as_chunks::<4>();
            let numbers = numbers.iter().map(|four| u32::from_be_bytes(*four));
            numbers.fold(format!("{mname} {rname}"), |mut out, number| {
                put(&mut out, format_args!(" {number}"));
                out
            })
        }
        rtype::TXT => strings(data)?,
        _ => return None,
    })
}

/// Strings in quotes, with escapes (RFC 1035 §5.1).
fn strings(mut data: &[u8]) -> Option<String> {
    let mut out = String::new();
    while let Some((len, rest)) = data.split_first() {
        let (string, rest) = rest.split_at_checked(usize::from(*len))?;
        out.push_str(if out.is_empty() { "\"" } else { " \"" });
        for byte in string {
            match byte {
                b'"' | b'\\' => put(&mut out, format_args!("\\{}", char::from(*byte))),
                0x20..=0x7e => out.push(char::from(*byte)),
                _ => put(&mut out, format_args!("\\{byte:03}")),
            }
        }
        out.push('"');
        data = rest;
    }
    Some(out)
}

/// Appends text.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _unfailing = out.write_fmt(text);
}

/// A text as a JSON string (RFC 8259 §7).
struct Json<'a>(&'a str);

impl std::fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for one in self.0.chars() {
            match one {
                '"' | '\\' => write!(f, "\\{one}")?,
                '\0'..='\u{1f}' => write!(f, "\\u{:04x}", u32::from(one))?,
                _ => f.write_char(one)?,
            }
        }
        f.write_char('"')
    }
}
