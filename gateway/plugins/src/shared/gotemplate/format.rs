//! Values as text: Go's `Sprint` and `Sprintf`.

use crate::shared::expr::Value;

/// How wide a value may be made.
const WIDEST: usize = 1000;

/// The values one after another, with a space between two that are no strings; or, as a line, between all.
pub(super) fn print(args: &[Value<'_>], line: bool) -> String {
    let mut out = String::new();
    let mut before: Option<&Value<'_>> = None;
    for value in args {
        if let Some(before) = before {
            let strings = before.as_str().is_some() || value.as_str().is_some();
            if line || !strings {
                out.push(' ');
            }
        }
        out.push_str(&value.to_string());
        before = Some(value);
    }
    if line {
        out.push('\n');
    }
    out
}

/// How a verb is to be written.
#[derive(Debug, Default)]
struct Spec {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// The values put into a format.
///
/// # Errors
/// If a width or precision is beyond all measure.
pub(super) fn printf(format: &str, args: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = args.iter();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| matches!(c, '-' | '+' | '#' | ' ' | '0')) {
            match flag {
                '-' => spec.minus = true,
                '+' => spec.plus = true,
                '#' => spec.sharp = true,
                ' ' => spec.space = true,
                _ => spec.zero = true,
            }
        }
        let mut number =
            |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Result<Option<i64>, String> {
                if chars.next_if_eq(&'*').is_some() {
                    return Ok(match rest.next() {
                        Some(Value::Int(number)) => Some(*number),
                        _ => None,
                    });
                }
                let mut digits = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                if digits.is_empty() {
                    Ok(None)
                } else {
                    digits.parse().map(Some).map_err(|_| TOO_WIDE.to_owned())
                }
            };
        let measure = |number: i64| {
            let size = usize::try_from(number.unsigned_abs()).ok().filter(|size| *size <= WIDEST);
            size.ok_or_else(|| TOO_WIDE.to_owned())
        };
        if let Some(width) = number(&mut chars)? {
            spec.minus |= width < 0;
            spec.width = Some(measure(width)?);
        }
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(measure(number(&mut chars)?.unwrap_or(0))?);
        }
        match chars.next() {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(verb) => match rest.next() {
                None => out.push_str(&format!("%!{verb}(MISSING)")),
                Some(value) => out.push_str(&spec.padded(verb, value)),
            },
        }
    }
    let left: Vec<String> = rest.map(|value| format!("{}={value}", go_kind(value))).collect();
    if !left.is_empty() {
        out.push_str(&format!("%!(EXTRA {})", left.join(", ")));
    }
    Ok(out)
}

/// What is said of widths beyond all measure.
const TOO_WIDE: &str = "a width or precision is too large";

/// What Go calls the type of a value.
fn go_kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Float(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
        other => other.kind(),
    }
}

impl Spec {
    /// A value in the width that it shall have.
    fn padded(&self, verb: char, value: &Value<'_>) -> String {
        let text = self.text(verb, value);
        let len = text.chars().count();
        let missing = self.width.unwrap_or(0).saturating_sub(len);
        if missing == 0 {
            return text;
        }
        if self.minus {
            return text + &" ".repeat(missing);
        }
        let is_number =
            matches!(value, Value::Int(_) | Value::Float(_)) && !matches!(verb, 'q' | 'c' | 'U');
        // A precision says already how many digits a whole number has.
        if self.zero && !(matches!(value, Value::Int(_)) && self.precision.is_some()) {
            if is_number
                && let Some(sign) = text.chars().next().filter(|c| matches!(c, '+' | '-' | ' '))
            {
                return format!(
                    "{sign}{}{}",
                    "0".repeat(missing),
                    text.get(1..).unwrap_or_default()
                );
            }
            return "0".repeat(missing) + &text;
        }
        " ".repeat(missing) + &text
    }

    /// A value as a verb writes it.
    fn text(&self, verb: char, value: &Value<'_>) -> String {
        match (verb, value) {
            ('T', value) => go_kind(value).to_owned(),
            ('v', Value::Str(text)) if self.sharp => format!("{:?}", text.as_str()),
            ('v', Value::Int(number)) => self.whole(*number, 10, false),
            ('v', Value::Float(number)) => self.float('g', *number),
            ('v', value) => self.cut(&value.to_string()),
            ('t', Value::Bool(value)) => value.to_string(),
            ('s', Value::Str(text)) => self.cut(text.as_str()),
            ('s' | 'd' | 'x' | 'X' | 'q', Value::Array(all)) => {
                let members: Vec<String> = all.iter().map(|value| self.text(verb, value)).collect();
                format!("[{}]", members.join(" "))
            }
            ('q', Value::Str(text)) => format!("{:?}", self.cut(text.as_str())),
            ('x' | 'X', Value::Str(text)) => {
                let digits: String =
                    text.as_str().bytes().map(|byte| format!("{byte:02x}")).collect();
                if verb == 'X' { digits.to_uppercase() } else { digits }
            }
            ('d', Value::Int(number)) => self.whole(*number, 10, false),
            ('b', Value::Int(number)) => self.whole(*number, 2, false),
            ('o', Value::Int(number)) => self.whole(*number, 8, false),
            ('O', Value::Int(number)) => format!("0o{}", self.whole(*number, 8, false)),
            ('x', Value::Int(number)) => self.whole(*number, 16, false),
            ('X', Value::Int(number)) => self.whole(*number, 16, true),
            ('c', Value::Int(number)) => letter(*number).to_string(),
            ('q', Value::Int(number)) => format!("{:?}", letter(*number)),
            ('U', Value::Int(number)) => format!("U+{number:04X}"),
            ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Value::Float(number)) => self.float(verb, *number),
            (verb, Value::Nil) => format!("%!{verb}(<nil>)"),
            (verb, value) => format!("%!{verb}({}={value})", go_kind(value)),
        }
    }

    /// A text cut to the precision.
    fn cut(&self, text: &str) -> String {
        match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        }
    }

    /// The sign that a number begins with.
    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    /// A whole number in a base.
    fn whole(&self, number: i64, base: u32, upper: bool) -> String {
        let size = number.unsigned_abs();
        let digits = match base {
            2 => format!("{size:b}"),
            8 => format!("{size:o}"),
            16 if upper => format!("{size:X}"),
            16 => format!("{size:x}"),
            _ => size.to_string(),
        };
        let prefix = match (self.sharp, base, upper) {
            (true, 2, _) => "0b",
            (true, 8, _) => "0",
            (true, 16, false) => "0x",
            (true, 16, true) => "0X",
            _ => "",
        };
        let zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        format!("{}{prefix}{}{digits}", self.sign(number < 0), "0".repeat(zeros))
    }

    /// Another number.
    fn float(&self, verb: char, number: f64) -> String {
        let sign = self.sign(number.is_sign_negative() && !number.is_nan());
        let size = number.abs();
        let digits = match (verb.to_ascii_lowercase(), self.precision) {
            _ if !size.is_finite() => {
                Value::Float(size).to_string().trim_start_matches('+').to_owned()
            }
            ('f', precision) => format!("{size:.*}", precision.unwrap_or(6)),
            ('e', precision) => exponent(&format!("{size:.*e}", precision.unwrap_or(6))),
            (_, None) => Value::Float(size).to_string(),
            (_, Some(precision)) => significant(size, precision.max(1)),
        };
        let digits = if verb.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
        format!("{sign}{digits}")
    }
}

/// The letter of a number.
fn letter(number: i64) -> char {
    u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
}

/// An exponent as Go writes it: with its sign and two digits.
fn exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, number) = exponent.strip_prefix('-').map_or(('+', exponent), |number| ('-', number));
    format!("{digits}e{sign}{number:0>2}")
}

/// A number with so many digits that count, with an exponent where that is shorter.
fn significant(size: f64, precision: usize) -> String {
    let scientific = format!("{size:.*e}", precision - 1);
    let power: i32 =
        scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || power >= i32::try_from(precision).unwrap_or(i32::MAX) {
        let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return exponent(&format!("{}e{power}", trim(digits)));
    }
    let decimals = i32::try_from(precision).unwrap_or(0) - 1 - power;
    trim(&format!("{size:.*}", usize::try_from(decimals).unwrap_or(0)))
}
