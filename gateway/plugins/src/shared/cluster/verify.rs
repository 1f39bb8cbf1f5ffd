//! `causeway verify CLUSTER`: what is known of a cluster beside a new list of it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use config::Diagnostic;
use engine::Setup;
use engine::control::{Control, Report, Running, Value};
use k8s::{Difference, Verdict, WatchSet};

/// The watches of one cluster; there are several if blocks want to see different things of it.
#[derive(Debug, Default)]
struct Verify {
    sets: Mutex<Vec<Weak<WatchSet>>>,
}

/// Has `causeway verify` compare these watches, with the others of the cluster.
///
/// # Errors
/// None of its own.
pub(super) fn register(
    setup: &mut Setup<'_>,
    cluster: &str,
    watches: &Arc<WatchSet>,
) -> Result<(), Diagnostic> {
    let verify: Arc<Verify> = setup.share(&format!("verify {cluster}"), || Ok(Arc::default()))?;
    let mut sets = verify.sets.lock().unwrap_or_else(PoisonError::into_inner);
    sets.retain(|set| set.strong_count() > 0);
    if !sets.iter().any(|set| std::ptr::eq(set.as_ptr(), Arc::as_ptr(watches))) {
        sets.push(Arc::downgrade(watches));
    }
    drop(sets);
    setup.control("verify", cluster, verify);
    Ok(())
}

impl Control for Verify {
    fn run(&self, args: Vec<String>) -> Running {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            if let Some(word) = args.first() {
                return Err(format!(
                    "verify takes the name of a cluster, and no '{word}' behind it"
                ));
            }
            let (mut verdicts, mut failures) = (Vec::new(), Vec::new());
            for set in sets.iter().filter_map(Weak::upgrade) {
                for outcome in set.verify().await {
                    match outcome {
                        Ok(verdict) => verdicts.push(verdict),
                        Err(why) => failures.push(why),
                    }
                }
            }
            Ok(report(&verdicts, &failures))
        })
    }
}

/// Tells what was found, and of the rest why nothing was.
fn report(verdicts: &[Verdict], failures: &[String]) -> Report {
    let kinds: Vec<Value> = verdicts.iter().map(value).collect();
    let equal = verdicts.iter().all(Verdict::equal);
    let mut text = String::new();
    for verdict in verdicts {
        text.push_str(&format!("{verdict}\n"));
    }
    for failure in failures {
        text.push_str(&format!("not compared: {failure}\n"));
    }
    let compared = verdicts.iter().any(|verdict| verdict.left_out.is_none());
    let sure = failures.is_empty() && compared;
    text.push_str(match (equal, sure) {
        (true, true) => "what is known is what the API server lists\n",
        (true, false) => "whether what is known is what the API server lists cannot be said\n",
        (false, _) => "what is known differs from what the API server lists, and is listed again\n",
    });
    let value = Value::fields().with("equal", (sure || !equal).then_some(equal));
    let value = value.with("kinds", kinds);
    let value = match failures {
        [] => value,
        failures => value.with("not_compared", failures.to_vec()),
    };
    let report = Report::new(value).with_text(text);
    match (equal, sure) {
        (true, true) => report,
        (true, false) => report.unknown(),
        (false, _) => report.bad(),
    }
}

/// Tells what was found of one kind.
fn value(verdict: &Verdict) -> Value {
    let mut value =
        Value::fields().with("kind", verdict.kind.word()).with("objects", verdict.objects);
    for difference in Difference::ALL {
        value = value.with(difference.word(), verdict.count(difference));
    }
    let named = |(how, name): &(Difference, String)| {
        Value::fields().with("difference", how.word()).with("object", &**name)
    };
    let value = value.with("named", verdict.names.iter().map(named).collect::<Vec<_>>());
    let value = if verdict.more { value.with("more", true) } else { value };
    match verdict.left_out {
        Some(why) => value.with("left_out", why),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use engine::control::Outcome;
    use k8s::Kind;

    use super::*;

    /// What is said of two slices that agree.
    fn equal() -> Verdict {
        let (counts, names) = ([0; 3], Vec::new());
        Verdict { kind: Kind::Slices, objects: 2, counts, names, more: false, left_out: None }
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        let more = Verdict { counts: [4096, 0, 0], more: true, ..equal() };
        let told = report(std::slice::from_ref(&more), &[]);
        assert_eq!(told.outcome, Outcome::Bad);
        assert!(told.to_text().contains(
            "2 compared, 4096 missing, 0 superfluous, 0 differing, and more, for only 4096 that differed were looked at again\n"
        ), "{}", told.to_text());
        assert!(told.value.json().contains(r#""named":[],"more":true"#), "{}", told.value.json());
        let left = Verdict { kind: Kind::Namespaces, left_out: Some("why"), ..equal() };
        let told = report(&[left.clone(), equal()], &[]);
        assert_eq!(told.outcome, Outcome::Good);
        assert!(told.to_text().starts_with("namespaces: left out, why\n"), "{}", told.to_text());
        assert!(told.value.json().contains(r#""left_out":"why""#), "{}", told.value.json());
        assert_eq!(report(&[left], &[]).outcome, Outcome::Unknown, "nothing has been compared");
    }

    #[test]
    fn a_report_names_what_differs() {
        let names = vec![(Difference::Missing, "shop/web".to_owned())];
        let good = equal();
        let bad = Verdict { kind: Kind::Services, objects: 3, counts: [1, 0, 0], names, ..equal() };
        let told = report(std::slice::from_ref(&good), &[]);
        assert_eq!(told.outcome, Outcome::Good);
        assert_eq!(
            told.to_text(),
            "endpointslices: 2 compared, equal\nwhat is known is what the API server lists\n"
        );
        let told = report(&[good, bad], &[]);
        assert_eq!(told.outcome, Outcome::Bad);
        assert!(told.to_text().contains(
            "services: 3 compared, 1 missing, 0 superfluous, 0 differing (missing shop/web)\n"
        ));
        assert_eq!(
            told.value.json(),
            r#"{"equal":false,"kinds":[{"kind":"endpointslices","objects":2,"missing":0,"superfluous":0,"differing":0,"named":[]},{"kind":"services","objects":3,"missing":1,"superfluous":0,"differing":0,"named":[{"difference":"missing","object":"shop/web"}]}]}"#
        );
    }

    #[test]
    fn what_can_not_be_compared_hides_nothing_of_the_rest() {
        let good = equal();
        let bad = Verdict { counts: [1, 0, 0], ..good.clone() };
        let failures = ["services: no".to_owned()];
        let told = report(std::slice::from_ref(&good), &failures);
        assert_eq!(told.outcome, Outcome::Unknown);
        assert_eq!(
            told.to_text(),
            "endpointslices: 2 compared, equal\nnot compared: services: no\nwhether what is known is what the API server lists cannot be said\n"
        );
        assert_eq!(told.value.field("equal"), Some(&Value::Nothing));
        assert!(told.value.json().ends_with(r#""not_compared":["services: no"]}"#));
        let told = report(&[bad], &failures);
        assert_eq!(told.outcome, Outcome::Bad, "that something differs is known");
        // A cluster that keeps everything from us has said nothing.
        assert_eq!(report(&[], &[]).outcome, Outcome::Unknown);
    }
}
