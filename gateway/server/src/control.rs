//! The control socket: what it answers, which is what `causeway status` and its like print.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::admin::{Ask, Handler, Later, Told};
use engine::control::{Controlled, Outcome, Report, Value};
use engine::explain::{Inquiry, explain};
use engine::{Gateway, Live, Process};
use percent_encoding::percent_decode_str;
use tokio::task::JoinSet;

use crate::banner;

pub(crate) mod client;

/// The socket's name in `run_dir`.
const NAME: &str = "causeway.sock";

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(50);

/// The status of a report that says that it cannot be known whether all is well. What is no report has others.
const REPORTED: u16 = 503;

/// The verbs that plugins answer, about a subject each.
const SUBJECTS: &[&str] = &["verify"];

/// Where the socket is, with the folder `run_dir`.
pub(crate) fn path(run_dir: &Path) -> PathBuf {
    run_dir.join(NAME)
}

/// Answers at the socket, from the configuration that is at work.
#[derive(Debug)]
pub(crate) struct Counter {
    gateway: Arc<Gateway>,
    process: Arc<Process>,
    begun: Instant,
}

impl Counter {
    /// What answers for this process.
    pub(crate) fn new(gateway: Arc<Gateway>, process: Arc<Process>) -> Self {
        Self { gateway, process, begun: Instant::now() }
    }
}

impl Handler for Counter {
    fn handle(&self, _ask: Ask<'_>) -> Told {
        Told::text(500, "nothing is answered at once\n")
    }

    fn later(&self, ask: Ask<'_>) -> Option<Later> {
        let Question { args, json } = Question::read(ask.query.unwrap_or_default());
        let live = self.gateway.live();
        let verb = ask.path.trim_start_matches('/').to_owned();
        let own = Own { process: Arc::clone(&self.process), up: self.begun.elapsed() };
        Some(Box::pin(async move {
            let report = tokio::time::timeout(LIMIT, answer(&verb, args, &live, own)).await;
            match report {
                Ok(Ok(report)) => told(&report, json),
                Ok(Err(why)) => Told::text(400, why + "\n"),
                Err(_) => Told::text(504, format!("there is no answer within {LIMIT:?}\n")),
            }
        }))
    }
}

/// A report as it is sent: 200 if all is well, 409 if not, 503 if that cannot be known.
fn told(report: &Report, json: bool) -> Told {
    let status = match report.outcome {
        Outcome::Good => 200,
        Outcome::Bad => 409,
        Outcome::Unknown => REPORTED,
    };
    if !json {
        return Told::text(status, report.to_text());
    }
    let body = (report.value.json() + "\n").into_bytes();
    Told { status, content_type: "application/json", body }
}

/// What is asked of a verb.
#[derive(Debug, Default, PartialEq, Eq)]
struct Question {
    /// Its arguments, in order.
    args: Vec<String>,
    /// Whether the answer is for a program.
    json: bool,
}

impl Question {
    /// Reads the query of a URL: `json` and any number of `arg=`.
    fn read(query: &str) -> Self {
        let mut question = Self::default();
        for part in query.split('&') {
            match part.split_once('=') {
                Some(("arg", value)) => question.args.push(decoded(value)),
                None if part == "json" => question.json = true,
                _ => {}
            }
        }
        question
    }
}

/// Takes percent-encoding (RFC 3986 §2.1) away; what is no such stays as it is.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// What the process knows of itself.
struct Own {
    process: Arc<Process>,
    up: Duration,
}

/// Answers a verb.
///
/// # Errors
/// What is wrong with the question, or keeps it from being answered.
async fn answer(
    verb: &str,
    args: Vec<String>,
    live: &Arc<Live>,
    own: Own,
) -> Result<Report, String> {
    match verb {
        "status" => status(args, live, own).await,
        "explain" => explain(live, &Inquiry::read(&args)?).await,
        verb if SUBJECTS.contains(&verb) => of_subjects(verb, args, live).await,
        _ => {
            Err(format!("there is no '{verb}': ask for status, explain or {}", SUBJECTS.join(", ")))
        }
    }
}

/// The state of the process, then what plugins say of theirs.
///
/// # Errors
/// Arguments, which it has none of.
async fn status(args: Vec<String>, live: &Live, own: Own) -> Result<Report, String> {
    if let Some(word) = args.first() {
        return Err(format!("status takes no '{word}'"));
    }
    let (reloads, failed) = own.process.reloads();
    let reload = match (reloads, failed) {
        (0, _) => "none since the start".to_owned(),
        (count, false) => format!("{count}, the last one succeeded"),
        (count, true) => {
            format!("{count}, the last one failed: the configuration before it is served")
        }
    };
    let mut value = Value::fields()
        .with("version", banner::VERSION)
        .with("commit", banner::COMMIT)
        .with("pid", std::process::id())
        .with("up_seconds", own.up.as_secs())
        .with("reloads", reload)
        .with("listeners", listeners(live));
    let mut sections: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut outcome = Outcome::Good;
    for one in live.controls("status") {
        let section = one.subject.split('/').next().unwrap_or_default();
        let report = one.handler.run(Vec::new()).await?;
        outcome = outcome.max(report.outcome);
        match sections.iter_mut().find(|(own, _)| *own == section) {
            Some((_, all)) => all.push(report.value),
            None => sections.push((section, vec![report.value])),
        }
    }
    for (section, all) in sections {
        value = value.with(section.to_owned(), all);
    }
    Ok(Report::new(value).at_least(outcome))
}

/// Each listener with its zones.
fn listeners(live: &Live) -> Value {
    let mut groups: Vec<_> = live.groups().collect();
    groups.sort_by_key(|group| group.key);
    let groups = groups.into_iter().map(|group| {
        let mut zones: Vec<String> = group.zones().map(wire::text::name_text).collect();
        zones.sort_unstable();
        Value::fields().with("listener", group.key.to_string()).with("zones", zones)
    });
    Value::List(groups.collect())
}

/// What those say that answer `verb`: the one that the first argument names, or each if there is none.
///
/// # Errors
/// A subject that nobody knows.
async fn of_subjects(verb: &str, mut args: Vec<String>, live: &Live) -> Result<Report, String> {
    let known: Vec<&Controlled> = live.controls(verb).collect();
    if known.is_empty() {
        return Err(format!("nothing in the configuration has anything to {verb}"));
    }
    let named = args.first().is_some_and(|word| !word.starts_with('-'));
    if named {
        let subject = args.remove(0);
        let Some(one) = known.iter().find(|one| one.subject == subject) else {
            let names = known.iter().map(|one| &*one.subject);
            let near = config::value::nearest(&subject, names.clone());
            let near = near.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default();
            let names: Vec<&str> = names.collect();
            return Err(format!("there is no '{subject}'{near}; there is: {}", names.join(", ")));
        };
        return one.handler.run(args).await;
    }
    // At once, since none is to wait for another's outage; those left over end with the set.
    let mut running = JoinSet::new();
    for (at, one) in known.iter().enumerate() {
        let report = one.handler.run(args.clone());
        running.spawn(async move { (at, report.await) });
    }
    let mut ended = Vec::new();
    while let Some(done) = running.join_next().await {
        ended.push(done.map_err(|error| error.to_string())?);
    }
    ended.sort_unstable_by_key(|(at, _)| *at);
    let ended = ended.into_iter().map(|(_, outcome)| outcome);
    Ok(of_all(known.iter().map(|one| &*one.subject).zip(ended)))
}

/// One report of what was found of each subject, or why nothing was.
fn of_all<'s>(found: impl Iterator<Item = (&'s str, Result<Report, String>)>) -> Report {
    let mut all = Vec::new();
    let mut text = String::new();
    let mut whole = Outcome::Good;
    for (subject, outcome) in found {
        let report =
            outcome.unwrap_or_else(|why| Report::new(Value::fields().with("error", why)).unknown());
        text.push_str(&format!("{subject}:\n"));
        report.to_text().lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        all.push(Value::fields().with("subject", subject).with("report", report.value));
        whole = whole.max(report.outcome);
    }
    Report::new(Value::List(all)).with_text(text).at_least(whole)
}

#[cfg(test)]
mod tests;
