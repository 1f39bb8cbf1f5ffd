//! A database in memory, and what it says of an address.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use maxminddb::PathElement::{self, Key};
use maxminddb::geoip2::city::Subdivision;
use maxminddb::{LookupResult, MaxMindDbError, Reader};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// What a database is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    /// Cities, or countries alone.
    City,
    /// Networks and who has them.
    Asn,
}

/// How a value is read and written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A text; nothing if there is none.
    Text,
    /// `true` or `false`, which it is if there is none.
    Flag,
    /// A whole number, 0 if there is none.
    Number,
    /// A number with a fraction; nothing if there is none.
    Degrees,
    /// The codes of a list, with commas between.
    Codes,
}

/// A label, and where its value stands.
#[derive(Debug)]
pub(super) struct Label {
    /// Its name, without the plugin's.
    pub(super) name: &'static str,
    form: Form,
    path: &'static [PathElement<'static>],
}

/// The labels of databases of cities.
static CITY: [Label; 11] = [
    label("city/name", Form::Text, &[Key("city"), Key("names"), Key("en")]),
    label("country/code", Form::Text, &[Key("country"), Key("iso_code")]),
    label("country/name", Form::Text, &[Key("country"), Key("names"), Key("en")]),
    label(
        "country/is_in_european_union",
        Form::Flag,
        &[Key("country"), Key("is_in_european_union")],
    ),
    label("continent/code", Form::Text, &[Key("continent"), Key("code")]),
    label("continent/name", Form::Text, &[Key("continent"), Key("names"), Key("en")]),
    label("latitude", Form::Degrees, &[Key("location"), Key("latitude")]),
    label("longitude", Form::Degrees, &[Key("location"), Key("longitude")]),
    label("timezone", Form::Text, &[Key("location"), Key("time_zone")]),
    label("postalcode", Form::Text, &[Key("postal"), Key("code")]),
    label("subdivisions/code", Form::Codes, &[Key("subdivisions")]),
];

/// The labels of databases of networks.
static ASN: [Label; 2] = [
    label("asn/number", Form::Number, &[Key("autonomous_system_number")]),
    label("asn/org", Form::Text, &[Key("autonomous_system_organization")]),
];

/// A label.
const fn label(name: &'static str, form: Form, path: &'static [PathElement<'static>]) -> Label {
    Label { name, form, path }
}

impl Schema {
    /// That of a type of databases, such as `GeoLite2-City`; none if its name says nothing that is known.
    fn of(kind: &str) -> Option<Self> {
        let kind = kind.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        if says(&["city", "country", "enterprise", "location"]) {
            Some(Self::City)
        } else if says(&["asn", "isp"]) {
            Some(Self::Asn)
        } else {
            None
        }
    }

    /// Its labels.
    pub(super) fn labels(self) -> &'static [Label] {
        match self {
            Self::City => &CITY,
            Self::Asn => &ASN,
        }
    }
}

/// A database.
#[derive(Debug)]
pub(super) struct Database {
    reader: Reader<Vec<u8>>,
    /// What it is about.
    pub(super) schema: Schema,
}

impl Database {
    /// Reads the octets of a file.
    ///
    /// # Errors
    /// In words, if they are no database, or one of a type that is not known.
    pub(super) fn read(octets: Vec<u8>) -> Result<Self, String> {
        let reader = Reader::from_source(octets).map_err(|error| error.to_string())?;
        let kind = &reader.metadata().database_type;
        let schema = Schema::of(kind).ok_or_else(|| {
            format!(
                "the database does not provide any supported schema (city, asn): its type is {kind}"
            )
        })?;
        Ok(Self { reader, schema })
    }

    /// Looks through the whole database, which takes seconds for a large one.
    ///
    /// # Errors
    /// In words, the first thing that is wrong.
    pub(super) fn verify(&self) -> Result<(), String> {
        self.reader.verify().map_err(|error| error.to_string())
    }

    /// When it was made, in seconds since 1970.
    pub(super) fn made(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Writes what it says under a label of an address; false if it has no such label.
    pub(super) fn write(&self, addr: IpAddr, name: &str, out: &mut String) -> bool {
        let Some(label) = self.schema.labels().iter().find(|label| label.name == name) else {
            return false;
        };
        let written = self.reader.lookup(addr).and_then(|found| put(label, &found, out));
        if let Err(error) = written {
            // A database of IPv4 knows nothing of IPv6, which is no fault.
            log::debug!(target: "plugin/geoip", "looking {addr} up: {error}");
            absent(label.form, out);
        }
        true
    }
}

/// Writes the value of a label.
fn put(
    label: &Label,
    found: &LookupResult<'_, Vec<u8>>,
    out: &mut String,
) -> Result<(), MaxMindDbError> {
    let path = label.path;
    // Writing to a string cannot fail.
    let _unfailing = match label.form {
        Form::Text => found.decode_path::<&str>(path)?.map(|text| out.write_str(text)),
        Form::Flag => found.decode_path::<bool>(path)?.map(|flag| write!(out, "{flag}")),
        Form::Number | Form::Degrees => {
            found.decode_path::<Figure>(path)?.map(|Figure(value)| write!(out, "{value}"))
        }
        Form::Codes => {
            let all = found.decode_path::<Vec<Subdivision<'_>>>(path)?.unwrap_or_default();
            for (index, one) in all.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(one.iso_code.unwrap_or_default());
            }
            return Ok(());
        }
    }
    .unwrap_or_else(|| {
        absent(label.form, out);
        Ok(())
    });
    Ok(())
}

/// A number of any of the types that databases have: writers take the smallest that fits.
struct Figure(f64);

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

/// Takes numbers.
struct Any;

impl Visitor<'_> for Any {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Figure, E> {
        Ok(Figure(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Figure, E> {
        Ok(Figure(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Figure, E> {
        Ok(Figure(value))
    }
}

/// Writes the value that stands for none.
fn absent(form: Form, out: &mut String) {
    out.push_str(match form {
        Form::Text | Form::Degrees | Form::Codes => "",
        Form::Flag => "false",
        Form::Number => "0",
    });
}
