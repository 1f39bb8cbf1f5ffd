//! From the directives to zones and their API.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop, value};
use engine::Setup;

use super::api::Route53;
use crate::shared::aws::{Chain, Choice, Client, Credentials};
use crate::shared::cloud::setup::{
    Wish, copies, fall, fetch, hidden, install, passed_over, secret, zone,
};
use crate::shared::cloud::{Copy, Figures};
use crate::shared::environment::Environment;
use crate::shared::fetch::endpoint;

/// The target of log lines.
const TARGET: &str = "plugin/route53";

/// The names of the metrics.
const FIGURES: Figures = Figures {
    broken: "causeway_route53_broken",
    loaded: "causeway_route53_loaded_timestamp_seconds",
    records: "causeway_route53_records",
    passed_over: "causeway_route53_passed_over_records",
};

/// What a zone is written as.
const FORM: &str = "write the zone and its ID: example.org:Z1Z2Z3Z4DZ5Z6Z7";

/// What the properties say.
#[derive(Default)]
struct Options {
    key: Option<Credentials>,
    profile: Option<(String, Option<PathBuf>)>,
    endpoint: Option<String>,
    refresh: Option<Duration>,
}

/// The properties, beside `fallthrough`.
const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "aws_access_key",
        words: "KEY_ID SECRET",
        set: |options, words| {
            let id = words.one()?;
            if id.text.is_empty() {
                return Err(id.fault("the access key ID is empty"));
            }
            let secret = secret(words.one()?)?;
            options.key = Some(Credentials { id: id.text.clone(), secret, token: None });
            Ok(())
        },
    },
    Prop {
        name: "credentials",
        words: "PROFILE [FILE]",
        set: |options, words| {
            let profile = words.one()?.text.clone();
            options.profile = Some((profile, words.maybe().map(|file| file.text.clone().into())));
            Ok(())
        },
    },
    Prop {
        name: "aws_endpoint",
        words: "URL",
        set: |options, words| {
            let word = words.one()?;
            options.endpoint = Some(endpoint(&word.text).map_err(|why| word.wrong(why))?);
            Ok(())
        },
    },
    Prop {
        name: "refresh",
        words: "DURATION",
        set: |options, words| {
            let word = words.one()?;
            let duration = value::duration(&word.text)
                .or_else(|error| value::seconds(&word.text).map_err(|_| error));
            let duration =
                duration.map_err(|error| word.wrong(format_args!("is wrong: {error}")))?;
            if duration.is_zero() {
                return Err(word.wrong("is no interval").help("write a time above 0, such as 1m"));
            }
            options.refresh = Some(duration);
            Ok(())
        },
    },
    Prop { name: "upstream", words: "[ANYTHING...]", set: passed_over },
];

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directives.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut seen = HashSet::new();
    for directive in setup.directives() {
        stanza(setup, directive, &mut seen)?;
    }
    Ok(())
}

/// Reads one directive.
fn stanza(
    setup: &mut Setup<'_>,
    directive: &Directive,
    seen: &mut HashSet<(wire::Name, String)>,
) -> Result<(), Diagnostic> {
    let copies = copies(directive, seen, ("a hosted zone", FORM), |word| {
        let parts = word.text.split_once(':').filter(|(_, id)| !id.is_empty());
        let (name, id) = parts.ok_or_else(|| word.wrong("is no hosted zone").help(FORM))?;
        let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let id = id.strip_prefix("/hostedzone/").unwrap_or(id);
        if !is_id(id) {
            return Err(word.wrong("has an ID that is none").help("IDs are letters and digits"));
        }
        Ok((id.to_owned(), Copy::new(FIGURES, zone(word, name)?, id.to_owned(), false)))
    })?;
    let (mut options, mut falls) = (Options::default(), None);
    for line in directive.lines() {
        match &*line.name.text {
            "fallthrough" => falls = Some(fall(setup, line)?),
            "aws_access_key" => {
                line.read_line(PROPS, &mut options).map_err(|wrong| hidden(line, wrong))?;
                setup.warn(
                    line.name
                        .fault("a secret key in a Corefile is not recommended: use credentials, or the environment")
                        .hide(),
                );
            }
            _ => line.read_line(PROPS, &mut options)?,
        }
    }
    let Options { key, profile, endpoint, refresh } = options;
    let interval = refresh.unwrap_or(Duration::from_secs(60));
    let wish = Wish { target: TARGET, copies, interval, fall: falls };
    install(setup, directive, wish, |setup| {
        let fetch = fetch(setup)?;
        let choice = match (key, profile) {
            (Some(credentials), _) => Choice::Stated(credentials),
            (None, Some((name, file))) => {
                Choice::Profile(name, file.map(|file| setup.root().join(file)))
            }
            (None, None) => Choice::Usual,
        };
        let chain = Chain::new(choice, Environment::of_process());
        let client = Client::new(fetch.clone(), chain);
        Ok(Box::new(Route53::new(client, fetch, endpoint)))
    })
}
