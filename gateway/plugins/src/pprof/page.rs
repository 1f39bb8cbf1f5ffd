//! `/debug/pprof/` and what is below it.

use std::time::Duration;

use engine::admin::{Ask, Handler, Later, Told};

use super::{heap, profile};

/// Where the pages are.
pub(super) const PATH: &str = "/debug/pprof/";

/// How long a profile takes if nothing is said.
const SECONDS: u64 = 30;

/// How long one may take: connections of admin listeners live for a minute.
const MOST: u64 = 50;

/// The media type of profiles.
const PROFILE: &str = "application/octet-stream";

/// The list of pages.
const INDEX: &str = "<!doctype html>
<title>/debug/pprof/</title>
<h1>/debug/pprof/</h1>
<ul>
<li><a href=\"/debug/pprof/profile?seconds=30\">profile</a>: processor time, for the seconds to come
<li><a href=\"/debug/pprof/heap\">heap</a>: resident memory by mapping
<li><a href=\"/debug/pprof/cmdline\">cmdline</a>: the command line
</ul>
<p>goroutine, threadcreate, block, mutex, allocs and trace are about Go's runtime, which this program does not have.
";

/// Shows the pages.
#[derive(Debug)]
pub(super) struct Page;

/// What stands behind [`PATH`].
fn below<'a>(ask: Ask<'a>) -> &'a str {
    ask.path.strip_prefix(PATH).unwrap_or_default()
}

impl Handler for Page {
    fn handle(&self, ask: Ask<'_>) -> Told {
        match below(ask) {
            "" => Told {
                status: 200,
                content_type: "text/html; charset=utf-8",
                body: INDEX.as_bytes().to_vec(),
            },
            "cmdline" => Told::text(200, command_line()),
            "symbol" => Told::text(200, "num_symbols: 0\n"),
            "goroutine" | "threadcreate" | "block" | "mutex" | "allocs" | "trace" => {
                Told::text(501, "This is about Go's runtime, which this program does not have.\n")
            }
            _ => Told::text(404, "404 page not found\n"),
        }
    }

    fn later(&self, ask: Ask<'_>) -> Option<Later> {
        match below(ask) {
            "profile" => Some(match seconds(ask.query) {
                Ok(seconds) => Box::pin(taken(move || profile::take(Duration::from_secs(seconds)))),
                Err(told) => Box::pin(std::future::ready(told)),
            }),
            "heap" => Some(Box::pin(taken(heap::take))),
            _ => None,
        }
    }
}

/// Takes a profile where that holds up nobody.
async fn taken(take: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static) -> Told {
    match tokio::task::spawn_blocking(take).await {
        Ok(Ok(body)) => Told { status: 200, content_type: PROFILE, body },
        Ok(Err(why)) => Told::text(500, why + "\n"),
        Err(error) => Told::text(500, format!("the profile ended early: {error}\n")),
    }
}

/// The seconds that a query asks for.
fn seconds(query: Option<&str>) -> Result<u64, Told> {
    let mut pairs = query.unwrap_or_default().split('&');
    let Some(text) = pairs.find_map(|pair| pair.strip_prefix("seconds=")) else {
        return Ok(SECONDS);
    };
    match text.parse() {
        Ok(seconds @ 1..=MOST) => Ok(seconds),
        _ => Err(Told::text(400, format!("seconds is a number from 1 to {MOST}\n"))),
    }
}

/// The words of the command line, with zeros between.
fn command_line() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join("\0")
}
