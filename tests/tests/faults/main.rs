//! The table of faults: each is done to a gateway that is asked for all it knows the whole time. No answer may be wrong or
//! missing, what happened meanwhile must be answered soon after, and log, metrics and EDE must say what was the matter.

mod rows;
mod stage;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::{Cluster, Gateway, Pki, Query, Watchman, stated, watchman};

use self::rows::{ROWS, Row, Told, Way};
use self::stage::{Stage, TOKEN};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// How long a fault lasts at least that answers must tell of.
const OUTAGE: Duration = Duration::from_millis(11_500);

/// How long it may take until a fault is found out by silence alone.
const PATIENCE: Duration = Duration::from_secs(400);

/// How long a gateway follows before such a fault: a bookmark comes about once a minute.
const BOOKMARKS: Duration = Duration::from_secs(100);

/// Before that nobody is told anything: connections break and are made again all the time.
const GRACE: Duration = Duration::from_secs(10);

/// How many more may come when it is over.
const AFTER: usize = 2;

/// How many rows are tried at once.
const LANES: usize = 6;

/// EDE 3: the answer may be out of date (RFC 8914 4.4).
const STALE: u16 = 3;

/// What came of a row.
struct Outcome {
    /// Answers to those who asked all the time; none was wrong, none was lost.
    answers: usize,
    /// Seconds until what had happened meanwhile was answered.
    over: f64,
    /// How many lines of trouble the log had.
    lines: usize,
    /// The line of the log.
    line: String,
    /// The text of the EDE.
    ede: String,
}

/// Tries a row.
fn attempt(
    row: &Row,
    number: usize,
    steady: (&Cluster, &Pki),
    own: Option<&mut Cluster>,
) -> Outcome {
    let mut stage = Stage::new(row, number, steady, own);
    if row.way == Way::Damaged {
        stage.damage(stage.gateway(row.way));
    }
    let gateway = stage.gateway(row.way);
    let known = stage.known();
    for name in &known {
        let reply = gateway.ask(name.as_str());
        let empty = name.starts_with("nothing");
        assert!(reply.answers().is_empty() == empty, "{name}: {reply:?}\n{}", gateway.output());
    }
    let began = Arc::new(OnceLock::new());
    let watchman = Watchman::start(vec![gently(&gateway, &known, row.told, Arc::clone(&began))]);
    let limit = if row.long { PATIENCE } else { LIMIT };
    if row.long {
        sleep(BOOKMARKS);
    }
    let begin = *began.get_or_init(Instant::now);
    (row.inject)(&mut stage);
    let server = row.way == Way::Server;
    let happened = Instant::now();
    if !server {
        stage.happen();
    }
    let line = if row.log.is_empty() { String::new() } else { gateway.line(row.log) };
    let told = || {
        stage.told(&gateway, limit);
        happened.elapsed().as_secs_f64()
    };
    let during = row.through.then(told);
    sleep(row.lasts.saturating_sub(begin.elapsed()));
    let [name, labels @ ..] = row.metric else { panic!("the row says no metric") };
    counted(&gateway, name, labels, limit);
    let mut ede = String::new();
    if row.told == Told::Then {
        sleep(OUTAGE.saturating_sub(begin.elapsed()));
        let query = Query::from(&*known[0]).bufsize(1232);
        let told = query.ask_until(gateway.address(), limit, |r| stale(r).is_some());
        ede = stale(&told).unwrap_or_default();
        assert!(ede.contains("not heard of for"), "{ede}");
        // That is counted once a second.
        counted(&gateway, "causeway_kubernetes_stale", &[], LIMIT);
    }
    let during = if row.long { Some(told()) } else { during };
    let lines = troubles(&gateway);
    (row.mend)(&mut stage);
    let mended = Instant::now();
    if server {
        stage.happen();
    }
    stage.told(&gateway, LIMIT);
    let over = during.unwrap_or_else(|| mended.elapsed().as_secs_f64());
    if !row.healed.is_empty() {
        let healed = || gateway.output().contains(row.healed).then_some(());
        tests::until(LIMIT, healed).unwrap_or_else(|| panic!("{}", gateway.output()));
    }
    if row.name.starts_with("kind change") {
        let name = format!("flip.{}.svc.cluster.local", stage.namespace);
        let other = format!("{}.77", stage.net);
        gateway.ask_until(&*name, LIMIT, |r| {
            r.addresses().iter().map(ToString::to_string).eq([other.clone()])
        });
    }
    if row.name.starts_with("restored") {
        let name = format!("lost.{}.svc.cluster.local", stage.namespace);
        gateway.ask_until(&*name, LIMIT, |r| r.rcode() == ResponseCode::NXDomain);
    }
    // Nobody is told of an outage that is over.
    let query = Query::from(&*known[0]).bufsize(1232);
    query.ask_until(gateway.address(), LIMIT, |r| stale(r).is_none());
    let enough = tests::until(LIMIT, || (watchman.count() >= 100).then_some(()));
    assert!(enough.is_some(), "{}", gateway.output());
    let answers = watchman.end(&gateway);
    let log = gateway.output();
    assert!(over < row.within, "it took {over} s:\n{log}");
    assert!(!log.contains("panicked") && !log.contains(TOKEN), "{log}");
    assert!(lines <= row.lines, "{lines} lines of trouble, not {} at most:\n{log}", row.lines);
    // The end of a fault breaks what is under way.
    let after = troubles(&gateway);
    assert!(after <= row.lines + AFTER, "{after} lines of trouble in the end:\n{log}");
    let line = said_of(&line);
    Outcome { answers, over, lines, line, ede }
}

/// How many lines of trouble are in the log.
fn troubles(gateway: &Gateway) -> usize {
    let trouble = |line: &&str| line.contains("[ERROR]") || line.contains("[WARNING]");
    gateway.output().lines().filter(trouble).count()
}

/// What a line of the log says, without where the files of the test are and what goes on.
fn said_of(line: &str) -> String {
    let text = line.split_once("plugin/kubernetes: ").map_or(line, |(_, text)| text);
    let text = ["; what is known", "; all else", "; serving goes on"]
        .iter()
        .fold(text, |text, end| text.split_once(end).map_or(text, |(text, _)| text));
    let text = text.split_once("kubeconfig: ").map_or(text, |(_, text)| text);
    let words = text.split(' ').map(|word| match Path::new(word).file_name() {
        Some(_) if word.ends_with(".snapshot") => "NAME.snapshot",
        Some(name) if word.starts_with('/') => name.to_str().unwrap_or(word),
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Waits until a metric with these labels is at least 1.
fn counted(gateway: &Gateway, name: &str, labels: &[&str], limit: Duration) {
    let seen = tests::until(limit, || {
        let metrics = gateway.metrics("metrics");
        let fits = |(key, value): (&String, &f64)| {
            key.starts_with(name) && labels.iter().all(|l| key.contains(l)) && *value >= 1.0
        };
        metrics.iter().any(fits).then_some(())
    });
    assert!(seen.is_some(), "{name} {labels:?} is not there:\n{}", gateway.output());
}

/// The text of EDE 3.
fn stale(reply: &tests::Reply) -> Option<String> {
    reply.extended().filter(|(code, _)| *code == STALE).map(|(_, text)| text)
}

/// A client that asks for all names all the time and leaves the machine to the others between. Now and then it looks whether it is
/// told of an outage that it should not know of: never, or in the first ten seconds since the fault began.
fn gently(
    gateway: &Gateway,
    names: &[String],
    told: Told,
    began: Arc<OnceLock<Instant>>,
) -> watchman::Asker {
    let (server, first) = (gateway.address(), names[0].clone());
    let mut ask = watchman::steady(server, names);
    let mut turn = 0;
    Box::new(move || {
        sleep(Duration::from_millis(4));
        turn += 1;
        if turn % 8 == 0
            && let Some(text) =
                Query::from(&*first).bufsize(1232).ask(server).and_then(|r| stale(&r))
            && (told == Told::Never || began.get().is_none_or(|began| began.elapsed() < GRACE))
        {
            return Err(format!("too soon: {text}"));
        }
        ask()
    })
}

#[test]
fn no_fault_makes_an_answer_wrong_or_lost() {
    let only = std::env::var("FAULT").unwrap_or_default();
    let long = stated("FAULT_LONG", 0.0) > 0.0;
    let wanted = |server: bool| {
        let fits = move |row: &Row| (row.way == Way::Server) == server && (long || !row.long);
        let rows = ROWS.iter().enumerate().filter(move |(_, row)| fits(row));
        rows.filter(|(_, row)| row.name.contains(&*only)).collect::<VecDeque<_>>()
    };
    let lanes = stated("FAULT_LANES", LANES as f64) as usize;
    let begin = Instant::now();
    let (queue, done) = (Mutex::new(wanted(false)), Mutex::new(Vec::new()));
    let (steady, pki) = (Cluster::start(), Pki::new());
    // A row that fails is told of when all have been tried.
    let try_one = |number: usize, row: &Row, own: Option<&mut Cluster>| {
        let attempt = std::panic::AssertUnwindSafe(|| attempt(row, number, (&steady, &pki), own));
        let outcome = std::panic::catch_unwind(attempt);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome.ok()));
    };
    scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((number, row)) = next else { return };
                    try_one(number, row, None);
                }
            });
        }
        let rows = wanted(true);
        if !rows.is_empty() {
            let mut cluster = Cluster::start();
            cluster.add_multicluster();
            for (number, row) in rows {
                cluster.restart();
                try_one(number, row, Some(&mut cluster));
            }
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    println!(
        "| layer | fault | answers, all right | over after | lines | log | metric | EDE 3 |\n|---|---|---|---|---|---|---|---|"
    );
    let mut failed = Vec::new();
    for (number, outcome) in &done {
        let row = &ROWS[*number];
        let Some(Outcome { answers, over, lines, line, ede }) = outcome else {
            failed.push(row.name);
            continue;
        };
        let metric = row.metric.join(" ").replace('"', "");
        println!(
            "| {} | {} | {answers} | {}{over:.1} s | {lines} | {line} | {metric} | {ede} |",
            row.area,
            row.name,
            if row.through || row.long { "meanwhile: " } else { "" }
        );
    }
    println!("{} faults in {:?}", done.len(), begin.elapsed());
    assert!(failed.is_empty(), "{failed:?} failed");
}
