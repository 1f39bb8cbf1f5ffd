//! Private keys as BIND's tools write them: a line `Private-key-format: v1.3`, and others of the form `Field: value`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::key::BadKey;

/// The fields of such a file.
pub(super) struct Fields<'a> {
    /// The number of the algorithm.
    pub(super) algorithm: u8,
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Takes a file apart.
    ///
    /// # Errors
    /// If it is no such file. None of its text is told.
    pub(super) fn read(text: &'a str) -> Result<Self, BadKey> {
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            let pair = line.split_once(':');
            let (name, value) =
                pair.ok_or("the private key has a line that is not `Field: value`")?;
            lines.push((name.trim(), value.trim()));
        }
        let fields = Self { algorithm: 0, lines };
        let format = fields.text("Private-key-format");
        let format = format.ok_or("the private key has no line `Private-key-format: v1.3`")?;
        if !format.starts_with("v1.") {
            return Err("the private key's format is not v1".into());
        }
        let algorithm = fields.text("Algorithm").and_then(|text| text.split(' ').next());
        let number = algorithm.and_then(|word| word.parse().ok());
        let algorithm = number.ok_or("the private key has no line `Algorithm: NUMBER`")?;
        Ok(Self { algorithm, ..fields })
    }

    /// The octets of a field.
    ///
    /// # Errors
    /// If it is not there, or is not base64.
    pub(super) fn octets(&self, name: &str) -> Result<Vec<u8>, BadKey> {
        let text = self.text(name);
        let text =
            text.ok_or_else(|| BadKey::new(format!("the private key has no field {name}")))?;
        let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let octets = STANDARD.decode(packed);
        octets.map_err(|_| BadKey::new(format!("the private key's field {name} is not base64")))
    }

    /// The text of a field.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.lines.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}
