//! What the templates of an answer can use of its query.

use std::collections::BTreeMap;
use std::rc::Rc;

use config::value::nearest;
use engine::{Exchange, Metadata};
use regex::{Captures, Regex};
use wire::Flags;

use crate::shared::expr::{Text, Value};
use crate::shared::gotemplate::{Data, Fail};
use crate::shared::name_text::{NameText, spelled};

/// The fields, each with what it has itself; none where that is not fixed.
const FIELDS: [(&str, &[&str]); 12] = [
    ("Zone", &[]),
    ("Name", &[]),
    ("Class", &[]),
    ("Type", &[]),
    ("Remote", &[]),
    ("Regex", &[]),
    ("Match", &[]),
    ("Group", &[]),
    ("Var", &[]),
    ("Meta", &[]),
    ("Question", &["Name", "Qtype", "Qclass"]),
    (
        "Message",
        &[
            "Id",
            "Response",
            "Opcode",
            "Authoritative",
            "Truncated",
            "RecursionDesired",
            "RecursionAvailable",
            "Zero",
            "AuthenticatedData",
            "CheckingDisabled",
            "Rcode",
            "Question",
        ],
    ),
];

/// Refuses fields that there are not; `vars` are the variables of the template.
pub(super) fn known(path: &[String], vars: &[String]) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let Some((_, members)) = FIELDS.iter().find(|(name, _)| name == first) else {
        let hint = nearest(first, FIELDS.iter().map(|(name, _)| *name))
            .map(|name| format!(", did you mean .{name}?"));
        return Err(format!("there is no field .{first}{}", hint.unwrap_or_default()));
    };
    let Some(second) = rest.first() else { return Ok(()) };
    match &**first {
        "Group" => Ok(()),
        "Var" if vars.contains(second) => Ok(()),
        "Var" => Err(format!("there is no variable {second}")),
        _ if members.contains(&&**second) => Ok(()),
        _ => Err(format!("there is no field .{}", path.join("."))),
    }
}

/// A query that a template fits.
pub(super) struct Fitting<'a> {
    /// The exchange.
    pub(super) x: &'a Exchange,
    /// The block's metadata.
    pub(super) metadata: &'a Metadata,
    /// The zone, as text.
    pub(super) zone: &'a str,
    /// The name, in lower case.
    pub(super) name: &'a str,
    /// The class, that of the template if all are asked for.
    pub(super) class: &'a str,
    /// The type, likewise.
    pub(super) rtype: &'a str,
    /// The regular expression that matched, as it was written.
    pub(super) pattern: &'a str,
    /// The same, for the names of its groups.
    pub(super) regex: &'a Regex,
    /// What it matched.
    pub(super) groups: &'a Captures<'a>,
    /// The names of the template's variables.
    pub(super) names: &'a [String],
    /// Their values.
    pub(super) vars: &'a [Value<'static>],
}

impl<'a> Data<'a> for Fitting<'a> {
    fn get(&self, path: &[String], args: &[Value<'a>]) -> Result<(Value<'a>, usize), Fail> {
        let (first, second) = (path.first().map(String::as_str).unwrap_or_default(), path.get(1));
        if first == "Meta" {
            return self.meta(path, args).map(|value| (value, 1));
        }
        if !args.is_empty() {
            return Err(Fail::new(format!(
                "{first} has arguments but cannot be invoked as function"
            )));
        }
        let borrowed = |text: &'a str| Value::Str(Text::Borrowed(text));
        let value = match first {
            "Zone" => borrowed(self.zone),
            "Name" => borrowed(self.name),
            "Class" => borrowed(self.class),
            "Type" => borrowed(self.rtype),
            "Regex" => borrowed(self.pattern),
            "Remote" => text(self.x.query.peer.ip().to_canonical().to_string()),
            "Match" => {
                let groups = self
                    .groups
                    .iter()
                    .map(|group| borrowed(group.map_or("", |group| group.as_str())));
                Value::Array(Rc::new(groups.collect()))
            }
            "Group" => match second {
                Some(name) => return Ok((self.group(name), 2)),
                None => self.group_map(),
            },
            "Var" => match second {
                Some(name) => {
                    let at = self.names.iter().rposition(|own| own == name);
                    let value = at.and_then(|at| self.vars.get(at)).cloned().unwrap_or(Value::Nil);
                    return Ok((value, 2));
                }
                None => {
                    let pairs = self.names.iter().zip(self.vars);
                    Value::Map(Rc::new(
                        pairs.map(|(name, value)| (name.clone(), value.clone())).collect(),
                    ))
                }
            },
            "Question" => self.question(),
            "Message" => self.message(),
            other => return Err(Fail::new(format!("there is no field .{other}"))),
        };
        Ok((value, 1))
    }
}

impl<'a> Fitting<'a> {
    /// The value of a metadata label, empty if there is none.
    fn meta(&self, path: &[String], args: &[Value<'a>]) -> Result<Value<'a>, Fail> {
        let ([_], [Value::Str(label)]) = (path, args) else {
            return Err(Fail::new("Meta takes one label: .Meta \"kubernetes/namespace\""));
        };
        let mut value = String::new();
        // No value is an empty one.
        let _absent = self.metadata.value(self.x, label.as_str(), &mut value);
        Ok(text(value))
    }

    /// A group by number or name, empty if it took no part in the match; nothing if there is none.
    fn group(&self, name: &str) -> Value<'a> {
        let number = name.parse().ok().filter(|number| *number < self.groups.len());
        let number =
            number.or_else(|| self.regex.capture_names().position(|own| own == Some(name)));
        let text = |number| self.groups.get(number).map_or("", |group| group.as_str());
        number.map_or(Value::Nil, |number| Value::Str(Text::Borrowed(text(number))))
    }

    /// All groups by number, and those that have one by name.
    fn group_map(&self) -> Value<'a> {
        let mut map = BTreeMap::new();
        for (number, (group, name)) in
            self.groups.iter().zip(self.regex.capture_names()).enumerate()
        {
            let value = Value::Str(Text::Borrowed(group.map_or("", |group| group.as_str())));
            if let Some(name) = name {
                map.insert(name.to_owned(), value.clone());
            }
            map.entry(number.to_string()).or_insert(value);
        }
        Value::Map(Rc::new(map))
    }

    /// The question, its name as the client spells it.
    fn question(&self) -> Value<'a> {
        let request = self.x.request();
        map([
            ("Name", text(NameText::of(spelled(self.x)).as_str().to_owned())),
            ("Qtype", Value::Int(request.rtype.into())),
            ("Qclass", Value::Int(request.class.into())),
        ])
    }

    /// The header of the query, and its question.
    fn message(&self) -> Value<'a> {
        let flags = self.x.request().flags;
        let id = self.x.query.wire.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let bit = |bit: Flags| Value::Bool(flags.has(bit));
        map([
            ("Id", Value::Int(id.into())),
            ("Response", bit(Flags::QR)),
            ("Opcode", Value::Int(flags.opcode().into())),
            ("Authoritative", bit(Flags::AA)),
            ("Truncated", bit(Flags::TC)),
            ("RecursionDesired", bit(Flags::RD)),
            ("RecursionAvailable", bit(Flags::RA)),
            ("Zero", bit(Flags::Z)),
            ("AuthenticatedData", bit(Flags::AD)),
            ("CheckingDisabled", bit(Flags::CD)),
            ("Rcode", Value::Int(0)),
            ("Question", Value::Array(Rc::new(vec![self.question()]))),
        ])
    }
}

/// A string as a value.
fn text<'a>(text: String) -> Value<'a> {
    Value::Str(Text::Own(text.into_bytes().into()))
}

/// A map of fields.
fn map<'a, const N: usize>(fields: [(&str, Value<'a>); N]) -> Value<'a> {
    Value::Map(Rc::new(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()))
}
