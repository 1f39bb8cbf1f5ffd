//! From the directives to zones and their API.

use std::collections::HashSet;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop, Word};
use engine::Setup;
use secrecy::SecretString;

use super::api::Azure;
use super::auth::{Identity, Place, Tokens, Words};
use crate::shared::cloud::setup::{Wish, copies, fall, fetch, hidden, install, secret, zone};
use crate::shared::cloud::{Copy, Figures};
use crate::shared::environment::Environment;
use crate::shared::fetch::private_endpoint;

/// The target of log lines.
const TARGET: &str = "plugin/azure";

/// How often the zones are refreshed.
const INTERVAL: Duration = Duration::from_secs(60);

/// The names of the metrics.
const FIGURES: Figures = Figures {
    broken: "causeway_azure_broken",
    loaded: "causeway_azure_loaded_timestamp_seconds",
    records: "causeway_azure_records",
    passed_over: "causeway_azure_passed_over_records",
};

/// The clouds: their names, where resources are managed, and where tokens are given.
const CLOUDS: &[(&str, (&str, &str))] = &[
    ("AZUREPUBLICCLOUD", PUBLIC),
    ("AZURECLOUD", PUBLIC),
    ("AZUREUSGOVERNMENTCLOUD", GOVERNMENT),
    ("AZUREUSGOVERNMENT", GOVERNMENT),
    ("AZURECHINACLOUD", ("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn")),
];

/// The cloud for everybody.
const PUBLIC: (&str, &str) = ("https://management.azure.com", "https://login.microsoftonline.com");

/// The cloud of the United States' government.
const GOVERNMENT: (&str, &str) =
    ("https://management.usgovcloudapi.net", "https://login.microsoftonline.us");

/// What a zone is written as.
const FORM: &str = "write the resource group and the zone: example_group:example.org";

/// What the properties say.
#[derive(Default)]
struct Options {
    tenant: Option<String>,
    client: Option<String>,
    secret: Option<SecretString>,
    subscription: Option<String>,
    cloud: Option<(&'static str, &'static str)>,
    private: bool,
    endpoint: Option<(String, Option<String>)>,
}

/// The properties, beside `fallthrough`.
const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "tenant",
        words: "ID",
        set: |options, words| {
            options.tenant = Some(filled(words.one()?)?);
            Ok(())
        },
    },
    Prop {
        name: "client",
        words: "ID",
        set: |options, words| {
            options.client = Some(filled(words.one()?)?);
            Ok(())
        },
    },
    Prop {
        name: "secret",
        words: "SECRET",
        set: |options, words| {
            options.secret = Some(secret(words.one()?)?);
            Ok(())
        },
    },
    Prop {
        name: "subscription",
        words: "ID",
        set: |options, words| {
            options.subscription = Some(filled(words.one()?)?);
            Ok(())
        },
    },
    Prop {
        name: "environment",
        words: "NAME",
        set: |options, words| {
            let word = words.one()?;
            let upper = word.text.to_ascii_uppercase();
            let found = CLOUDS.iter().find(|(name, _)| *name == upper);
            options.cloud = Some(found.map(|(_, cloud)| *cloud).ok_or_else(|| {
                let names: Vec<&str> = CLOUDS.iter().map(|(name, _)| *name).collect();
                word.wrong("is no cloud").help(config::value::known(&upper, &names))
            })?);
            Ok(())
        },
    },
    Prop {
        name: "access",
        words: "public|private",
        set: |options, words| {
            options.private = words.choice(&[("public", false), ("private", true)])?;
            Ok(())
        },
    },
    Prop {
        name: "endpoint",
        words: "MANAGEMENT_URL [TOKEN_URL]",
        set: |options, words| {
            let read = |word: &Word| private_endpoint(&word.text).map_err(|why| word.wrong(why));
            let management = read(words.one()?)?;
            options.endpoint = Some((management, words.maybe().map(read).transpose()?));
            Ok(())
        },
    },
];

/// A word that is not empty.
fn filled(word: &Word) -> Result<String, Diagnostic> {
    if word.text.is_empty() { Err(word.wrong("is empty")) } else { Ok(word.text.clone()) }
}

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
    let (mut options, mut falls) = (Options::default(), None);
    for line in directive.lines() {
        match &*line.name.text {
            "fallthrough" => falls = Some(fall(setup, line)?),
            "secret" => {
                line.read_line(PROPS, &mut options).map_err(|wrong| hidden(line, wrong))?;
            }
            _ => line.read_line(PROPS, &mut options)?,
        }
    }
    let Options { tenant, client, secret, subscription, cloud, private, endpoint } = options;
    let copies = copies(directive, seen, ("a zone", FORM), |word| {
        let parts = word.text.split_once(':');
        let (group, name) = parts
            .filter(|(group, zone)| !group.is_empty() && !zone.is_empty())
            .ok_or_else(|| word.wrong("is no zone of a resource group").help(FORM))?;
        let copy = Copy::new(FIGURES, zone(word, name)?, word.text.clone(), private);
        Ok((group.to_ascii_lowercase(), copy))
    })?;
    let (management, authority) = cloud.unwrap_or(PUBLIC);
    let audience = management.to_owned();
    let place = match endpoint {
        None => {
            Place { management: management.to_owned(), authority: authority.to_owned(), audience }
        }
        Some((management, authority)) => {
            let authority = authority.unwrap_or_else(|| management.clone());
            Place { management, authority, audience }
        }
    };
    let wish = Wish { target: TARGET, copies, interval: INTERVAL, fall: falls };
    install(setup, directive, wish, |setup| {
        let subscription = subscription.or_else(|| env.get("AZURE_SUBSCRIPTION_ID"));
        let subscription = subscription.ok_or_else(|| {
            let wrong = directive.name.fault("there is no subscription");
            wrong.help("write subscription ID, or set AZURE_SUBSCRIPTION_ID")
        })?;
        let words = Words { tenant, client, secret };
        let identity = Identity::of(words, env).map_err(|missing| directive.name.fault(missing))?;
        let fetch = fetch(setup)?;
        let tokens = Tokens::new(identity, place.clone(), env.clone(), fetch.clone());
        Ok(Box::new(Azure::new(tokens, fetch, place, subscription)))
    })
}
