//! Files in the form of resolv.conf.

use super::Endpoint;
use std::time::Duration;

/// What a file in the form of resolv.conf says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// The servers, without what is no address.
    pub nameservers: Vec<Endpoint>,
    /// The domains that are tried behind a name.
    pub search: Vec<String>,
    /// How many dots a name needs to be tried alone first: 0 to 15.
    pub ndots: u32,
    /// How long a server is waited for, in whole seconds, at least one.
    pub timeout: Duration,
    /// How often a server is asked, at least once.
    pub attempts: u32,
}

impl Default for ResolvConf {
    /// What an empty file says.
    fn default() -> Self {
        Self {
            nameservers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        }
    }
}

impl ResolvConf {
    /// Reads a text. What it does not know, it leaves out; of several `search` and `domain` lines the last counts.
    pub fn read(text: &str) -> Self {
        let mut conf = Self::default();
        for line in text.lines() {
            if line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    conf.nameservers.extend(words.next().and_then(|word| word.parse().ok()))
                }
                Some("domain") => conf.search = words.take(1).map(String::from).collect(),
                Some("search") => conf.search = words.map(String::from).collect(),
                Some("options") => words.for_each(|word| conf.option(word)),
                _ => {}
            }
        }
        conf
    }

    /// Reads one option.
    fn option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let value: u32 = value.parse().unwrap_or(0);
        match name {
            "ndots" => self.ndots = value.min(15),
            "timeout" => self.timeout = Duration::from_secs(value.max(1).into()),
            "attempts" => self.attempts = value.max(1),
            _ => {}
        }
    }
}
