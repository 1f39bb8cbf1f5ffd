//! Label selectors: read and checked here, sent to the API server as text, and applied here to manifests.

use std::{fmt, str::FromStr};

/// A label selector in Kubernetes' full syntax: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, `a<1`,
/// joined by commas.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    /// What an object's labels must all fulfil.
    requirements: Vec<Requirement>,
}

/// One part of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Requirement {
    /// The label's key.
    key: String,
    /// What is asked of its value.
    test: Test,
}

/// What is asked of a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Test {
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
    /// Its value is one of these.
    In(Vec<String>),
    /// It is not there or its value is none of these.
    NotIn(Vec<String>),
    /// Its value is a greater integer.
    Above(i64),
    /// Its value is a lesser integer.
    Below(i64),
}

/// Why a text is no selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at character {at} of the selector {text:?}")]
pub struct SelectorError {
    /// What is wrong and what was expected.
    what: String,
    /// Where, counted from 1.
    at: usize,
    /// The whole text.
    text: String,
}

impl Selector {
    /// Says whether these labels fulfil the selector.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = label(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => {
                    value.is_some_and(|value| values.iter().any(|other| other == value))
                }
                Test::NotIn(values) => {
                    value.is_none_or(|value| values.iter().all(|other| other != value))
                }
                Test::Above(bound) => number().is_some_and(|number| number > *bound),
                Test::Below(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

impl fmt::Display for Selector {
    /// Writes the selector as the API server takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => write!(f, "{key}")?,
                Test::Absent => write!(f, "!{key}")?,
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values.join(","))?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) if values.len() == 1 => {
                    write!(f, "{key}!={}", values.join(","))?
                }
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Above(bound) => write!(f, "{key}>{bound}")?,
                Test::Below(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Parser { text, at: 0 }.selector()
    }
}

/// Reads a selector from front to back.
#[derive(Debug)]
struct Parser<'a> {
    /// The whole text.
    text: &'a str,
    /// The byte that comes next.
    at: usize,
}

impl<'a> Parser<'a> {
    /// Reads the whole.
    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = vec![self.requirement()?];
        loop {
            self.space();
            if self.rest().is_empty() {
                return Ok(Selector { requirements });
            }
            if !self.eat(",") {
                return Err(self.error("a comma or the end was expected"));
            }
            requirements.push(self.requirement()?);
        }
    }

    /// Reads one part.
    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        self.space();
        if self.eat("!") {
            self.space();
            return Ok(Requirement { key: self.key()?, test: Test::Absent });
        }
        let key = self.key()?;
        self.space();
        let test = if self.eat("==") || (!self.rest().starts_with("=>") && self.eat("=")) {
            Test::In(vec![self.value()?])
        } else if self.eat("!=") {
            Test::NotIn(vec![self.value()?])
        } else if self.eat(">") {
            Test::Above(self.number()?)
        } else if self.eat("<") {
            Test::Below(self.number()?)
        } else if self.word("notin") {
            Test::NotIn(self.values()?)
        } else if self.word("in") {
            Test::In(self.values()?)
        } else if self.rest().is_empty() || self.rest().starts_with(',') {
            Test::Exists
        } else {
            return Err(
                self.error("an operator (=, ==, !=, in, notin, >, <) or a comma was expected")
            );
        };
        Ok(Requirement { key, test })
    }

    /// Reads a key: a name of at most 63 characters, after an optional DNS name and a slash.
    fn key(&mut self) -> Result<String, SelectorError> {
        let start = self.at;
        let token = self.token();
        let (prefix, name) =
            token.rsplit_once('/').map_or((None, token), |(prefix, name)| (Some(prefix), name));
        let wrong = if token.is_empty() {
            Some("a label key was expected")
        } else if name.is_empty() || !is_name(name) {
            Some(
                "a label key's name has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit: something else was found",
            )
        } else if prefix.is_some_and(|prefix| !is_domain(prefix)) {
            Some("a label key's prefix is a DNS name in lower case: something else was found")
        } else {
            None
        };
        match wrong {
            Some(what) => {
                self.at = start;
                Err(self.error(what))
            }
            None => Ok(token.to_owned()),
        }
    }

    /// Reads a value, which may be empty.
    fn value(&mut self) -> Result<String, SelectorError> {
        self.space();
        let start = self.at;
        let token = self.token();
        if token.is_empty() || is_name(token) {
            return Ok(token.to_owned());
        }
        self.at = start;
        Err(self.error("a label value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit: something else was found"))
    }

    /// Reads values in parentheses; sorted, each once.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        self.space();
        if !self.eat("(") {
            return Err(self.error("'(' was expected"));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            self.space();
            if self.eat(")") {
                break;
            }
            if !self.eat(",") {
                return Err(self.error("a comma or ')' was expected"));
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// Reads an integer.
    fn number(&mut self) -> Result<i64, SelectorError> {
        self.space();
        let start = self.at;
        if let Ok(number) = self.token().parse() {
            return Ok(number);
        }
        self.at = start;
        Err(self.error("an integer was expected"))
    }

    /// Takes characters up to white space or an operator's.
    fn token(&mut self) -> &'a str {
        let rest = self.rest();
        let stop = |c: char| c.is_whitespace() || "=!<>(),".contains(c);
        let token = &rest[..rest.find(stop).unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    /// Takes an operator that is a word.
    fn word(&mut self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        let found =
            after.is_some_and(|after| after.starts_with(|c: char| c.is_whitespace() || c == '('));
        if found {
            self.at += word.len();
        }
        found
    }

    /// Takes an operator.
    fn eat(&mut self, operator: &str) -> bool {
        let found = self.rest().starts_with(operator);
        if found {
            self.at += operator.len();
        }
        found
    }

    /// Skips white space.
    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Gives what has not been read.
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Makes an error of this place.
    fn error(&self, what: &str) -> SelectorError {
        let at = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        SelectorError { what: what.to_owned(), at, text: self.text.to_owned() }
    }
}

/// Says whether a text is a label's name or value.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= 63
        && text.bytes().all(inner)
        && ends.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric())
}

/// Says whether a text is a DNS name in lower case, of at most 253 characters.
fn is_domain(text: &str) -> bool {
    let good = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `k=v,…` labels and asks the selector.
    fn asks(selector: &str, labels: &str) -> bool {
        let labels: Vec<_> = labels.split(',').filter_map(|label| label.split_once('=')).collect();
        let selector: Selector = selector.parse().unwrap();
        selector.matches(|key| labels.iter().find(|label| label.0 == key).map(|label| label.1))
    }

    #[test]
    fn every_operator_decides_as_kubernetes_does() {
        for (selector, labels, expected) in [
            ("app=web", "app=web", true),
            ("app==web", "app=web", true),
            ("app = web", "app=web", true),
            ("app=web", "app=db", false),
            ("app=web", "", false),
            ("app=", "app=", true),
            ("app!=web", "app=db", true),
            ("app!=web", "", true),
            ("app!=web", "app=web", false),
            (
                "environment in (staging, qa),application=nginx",
                "environment=qa,application=nginx",
                true,
            ),
            ("environment in (staging, qa),application=nginx", "environment=qa", false),
            ("environment in (staging,qa)", "environment=prod", false),
            ("environment notin (staging)", "", true),
            ("environment notin (staging)", "environment=staging", false),
            ("environment in (,a)", "environment=", true),
            ("app", "app=x", true),
            ("app", "", false),
            ("!app", "", true),
            ("! app", "app=x", false),
            ("in in (in)", "in=in", true),
            ("notin", "notin=1", true),
            ("weight>5", "weight=6", true),
            ("weight>5", "weight=5", false),
            ("weight<5", "weight=4", true),
            ("weight<5", "weight=four", false),
            ("example.org/tier=a_b.c-d", "example.org/tier=a_b.c-d", true),
            ("istio-injection=enabled", "istio-injection=enabled", true),
        ] {
            assert_eq!(asks(selector, labels), expected, "{selector} of {labels}");
        }
    }

    #[test]
    fn what_is_sent_means_the_same() {
        for (text, canonical) in [
            ("a = b , c", "a=b,c"),
            ("a in (z,b,z)", "a in (b,z)"),
            ("a notin (b)", "a!=b"),
            ("!a,b>7,c<-1", "!a,b>7,c<-1"),
            ("a=,b!=", "a=,b!="),
            ("a in (,b)", "a in (,b)"),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(selector), "{canonical}");
        }
    }

    #[test]
    fn errors_say_where_and_what_was_expected() {
        for (text, at, what) in [
            ("", 1, "label key was expected"),
            ("a,", 3, "label key was expected"),
            ("a b", 3, "an operator"),
            ("a=b c", 5, "a comma or the end"),
            ("a in b", 6, "'('"),
            ("a in (b", 8, "a comma or ')'"),
            ("a=b!", 4, "a comma or the end"),
            ("a=_b", 3, "a label value"),
            ("-a", 1, "a label key's name"),
            ("/a", 1, "a label key's prefix"),
            ("A.b/c=d", 1, "a label key's prefix"),
            ("a/", 1, "a label key's name"),
            ("a>x", 3, "an integer"),
            ("a=>b", 2, "an operator"),
            ("ключ=a", 1, "a label key's name"),
        ] {
            let error = text.parse::<Selector>().unwrap_err();
            assert!(error.what.contains(what), "{text}: {error}");
            assert_eq!(error.at, at, "{text}: {error}");
        }
    }
}
