//! What is answered to CAs that ask whether a domain is ours.

use std::sync::Arc;

use certs::Answers;
use engine::admin::{Ask, Handler, Told};
use engine::{Exchange, Plugin, Setup, Step};
use wire::{class, rtype};

/// The first label of the names that CAs ask for (RFC 8555 §8.4).
const LABEL: &[u8] = b"_acme-challenge";

/// Answers for `_acme-challenge` names while a CA is to look at them.
#[derive(Debug)]
pub(super) struct Records(Arc<Answers>);

impl Records {
    /// Puts it into all blocks: the domain may be in another one than its certificate.
    pub(super) fn install(setup: &mut Setup<'_>, answers: Arc<Answers>) {
        let known = Arc::clone(&answers);
        setup.install_everywhere(
            move || Box::new(Self(Arc::clone(&answers))),
            move |x| texts(&known, x, |_| {}),
        );
    }
}

/// Calls `each` with the texts of the name that is asked for; false if it has none.
fn texts(answers: &Answers, x: &Exchange, each: impl FnMut(&str)) -> bool {
    let request = x.request();
    if answers.has_no_records()
        || request.class != class::IN
        || !request.name.each_label().next().is_some_and(|label| label.eq_ignore_ascii_case(LABEL))
    {
        return false;
    }
    let name = request.name.to_string().to_ascii_lowercase();
    answers.records(name.strip_suffix('.').unwrap_or(&name), each)
}

impl Plugin for Records {
    fn query(&self, x: &mut Exchange) -> Step {
        let mut all = Vec::new();
        if !texts(&self.0, x, |text| all.push(text.to_owned())) {
            return Step::Next;
        }
        let (request, answer) = x.parts_mut();
        answer.set_authoritative(true);
        // Other types have no data: that the name does not exist would be kept by resolvers (RFC 8020).
        if matches!(request.rtype, rtype::TXT | rtype::ANY) {
            for text in &all {
                answer.txt(&request.name, class::IN, 0, text.as_bytes());
            }
        }
        Step::Done
    }
}

/// The pages that CAs fetch over plain HTTP (RFC 8555 §8.3).
#[derive(Debug)]
pub(super) struct Page {
    prefix: &'static str,
    answers: Arc<Answers>,
}

impl Page {
    /// Those below `prefix`.
    pub(super) fn new(prefix: &'static str, answers: Arc<Answers>) -> Self {
        Self { prefix, answers }
    }
}

impl Handler for Page {
    fn handle(&self, ask: Ask<'_>) -> Told {
        let page = ask.path.strip_prefix(self.prefix).and_then(|token| self.answers.page(token));
        match page {
            Some(text) => Told::text(200, text),
            None => Told::text(404, "404 page not found\n"),
        }
    }
}
