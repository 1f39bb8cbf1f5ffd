//! From the directives to zones and their API.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop};
use engine::Setup;

use super::api::CloudDns;
use super::auth::{Credentials, Tokens};
use crate::shared::cloud::setup::{Wish, copies, fall, fetch, install, passed_over, zone};
use crate::shared::cloud::{Copy, Figures};
use crate::shared::environment::Environment;
use crate::shared::fetch::private_endpoint;

/// The target of log lines.
const TARGET: &str = "plugin/clouddns";

/// How often the zones are refreshed.
const INTERVAL: Duration = Duration::from_secs(60);

/// The names of the metrics.
const FIGURES: Figures = Figures {
    broken: "causeway_clouddns_broken",
    loaded: "causeway_clouddns_loaded_timestamp_seconds",
    records: "causeway_clouddns_records",
    passed_over: "causeway_clouddns_passed_over_records",
};

/// What a zone is written as.
const FORM: &str = "write the zone, its project and its name there: example.org:my-project:my-zone";

/// What the properties say.
#[derive(Default)]
struct Options {
    credentials: Option<PathBuf>,
    endpoint: Option<String>,
}

/// The properties, beside `fallthrough`.
const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "credentials",
        words: "FILE",
        set: |options, words| {
            let word = words.one()?;
            if word.text.is_empty() {
                return Err(word.wrong("is no file"));
            }
            options.credentials = Some(word.text.clone().into());
            Ok(())
        },
    },
    Prop {
        name: "endpoint",
        words: "URL",
        set: |options, words| {
            let word = words.one()?;
            let read = private_endpoint(&word.text).map_err(|why| word.wrong(why));
            options.endpoint = Some(read?);
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
        stanza(setup, directive, &Environment::of_process(), &mut seen)?;
    }
    Ok(())
}

/// Reads one directive.
fn stanza(
    setup: &mut Setup<'_>,
    directive: &Directive,
    env: &Environment,
    seen: &mut HashSet<(wire::Name, String)>,
) -> Result<(), Diagnostic> {
    let copies = copies(directive, seen, ("a managed zone", FORM), |word| {
        // A project may be of an organisation: example.com:my-project.
        let parts = word.text.split_once(':').and_then(|(name, rest)| {
            let (project, managed) = rest.rsplit_once(':')?;
            let is_whole = [name, project, managed].iter().all(|part| !part.is_empty());
            is_whole.then_some((name, rest))
        });
        let (name, id) = parts.ok_or_else(|| word.wrong("is no managed zone").help(FORM))?;
        Ok((id.to_owned(), Copy::new(FIGURES, zone(word, name)?, id.to_owned(), false)))
    })?;
    let (mut options, mut falls) = (Options::default(), None);
    for line in directive.lines() {
        if line.name.text == "fallthrough" {
            falls = Some(fall(setup, line)?);
        } else {
            line.read_line(PROPS, &mut options)?;
        }
    }
    let Options { credentials, endpoint } = options;
    let wish = Wish { target: TARGET, copies, interval: INTERVAL, fall: falls };
    install(setup, directive, wish, |setup| {
        let path = credentials.map(|file| setup.root().join(file));
        let credentials = Credentials::find(path.as_deref(), env)
            .map_err(|failure| directive.name.fault(failure.what))?;
        let endpoint = endpoint.unwrap_or_else(|| credentials.endpoint());
        let fetch = fetch(setup)?;
        let tokens = Tokens::new(credentials, path, env.clone(), fetch.clone());
        Ok(Box::new(CloudDns::new(tokens, fetch, endpoint)))
    })
}
