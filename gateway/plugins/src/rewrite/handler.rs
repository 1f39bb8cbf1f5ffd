//! The rules at work: on the way down one by one, on the way up in reverse.

use engine::{Carry, End, Exchange, Fault, Metadata, Plugin, Step};
use wire::{Flags, Name, rcode};

use super::edns::EdnsRule;
use super::names::{Pattern, Rename};
use super::response;

/// The rules of a server block.
#[derive(Debug)]
pub(super) struct Rewrite {
    /// In the order of the Corefile; at most 65,536.
    pub(super) rules: Box<[Rule]>,
    /// For the variables of EDNS rules.
    pub(super) metadata: Metadata,
}

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// Whether those behind it are left out when it applies.
    pub(super) stop: bool,
    /// What it does.
    pub(super) action: Action,
}

/// What a rule does.
#[derive(Debug)]
pub(super) enum Action {
    /// Changes the name asked for.
    Name(Box<NameRule>),
    /// Changes the type asked for.
    Type { from: u16, to: u16 },
    /// Changes the class asked for.
    Class { from: u16, to: u16 },
    /// Changes an EDNS option.
    Edns(EdnsRule),
    /// Brings times to live into a range, in seconds.
    Ttl { name: Pattern, least: u32, most: u32 },
    /// Changes the response code.
    Rcode { name: Pattern, from: u16, to: u16 },
    /// Changes the target of an alias, and looks the new one up.
    Cname(Box<Rename>),
}

/// A rule for names.
#[derive(Debug)]
pub(super) struct NameRule {
    /// What the name becomes.
    pub(super) rename: Rename,
    /// How the reply is turned back without being told how.
    pub(super) auto: Auto,
    /// How else it is changed.
    pub(super) answers: Vec<Back>,
}

/// How a reply is turned back.
#[derive(Debug)]
pub(super) enum Auto {
    /// Not at all.
    Off,
    /// By the reverse of the rule.
    Reverse(Box<Rename>),
    /// By the name that was asked for, in place of the one that the rule made of it.
    Asked,
}

/// A change of a reply.
#[derive(Debug)]
pub(super) struct Back {
    /// Whether it is of the records' owners.
    pub(super) owners: bool,
    /// Whether it is of the names in their data.
    pub(super) values: bool,
    /// The change.
    pub(super) rename: Rename,
}

impl Back {
    /// Changes a reply.
    fn apply(&self, answer: &mut wire::Answer) {
        if self.owners {
            response::rename_owners(answer, &self.rename);
        }
        if self.values {
            response::rename_values(answer, &self.rename);
        }
    }
}

impl Plugin for Rewrite {
    fn query(&self, x: &mut Exchange) -> Step {
        let mut draft = Draft { x, kept: false };
        for (index, rule) in self.rules.iter().enumerate() {
            match self.apply(&rule.action, &mut draft) {
                Did::Nothing => continue,
                Did::Apply => draft.note(index),
                Did::Spoil => {
                    let name = draft.x.request().name.clone();
                    if draft.kept {
                        x.put_back();
                    }
                    return x.fail(BAD_NAME, format_args!("a rule makes no legal name of {name}"));
                }
            }
            if rule.stop {
                break;
            }
        }
        if draft.kept { Step::WRAP } else { Step::Next }
    }

    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        let applied = x.kept().map_or(0, |(_, _, kept)| kept.notes.len());
        self.undo(x, applied)
    }

    fn asked(&self, x: &mut Exchange, Carry(number): Carry) -> Step {
        let applied = usize::try_from(number).unwrap_or(0);
        let (request, answer, end) = x.sub();
        if end == Some(End::Answered) {
            let (target, truncated) = (request.name.clone(), answer.flags.has(Flags::TC));
            if let Some(Action::Cname(rename)) = self.noted(x, applied)
                && let Some((index, _)) = response::alias(x.answer(), rename)
            {
                response::redirect(x.answer_mut(), index, &target, truncated);
                x.graft();
            }
        }
        self.undo(x, applied)
    }
}

impl Rewrite {
    /// Does what an action has to do on the way down.
    fn apply(&self, action: &Action, draft: &mut Draft<'_>) -> Did {
        let request = draft.x.request();
        let applies = match action {
            Action::Name(rule) => match rule.rename.of(&request.name) {
                None => return Did::Nothing,
                Some(Err(_)) => return Did::Spoil,
                Some(Ok(name)) => {
                    draft.change().request_mut().name = name;
                    true
                }
            },
            Action::Type { from, to } => {
                let applies = request.rtype == *from;
                if applies {
                    draft.change().request_mut().rtype = *to;
                }
                applies
            }
            Action::Class { from, to } => {
                let applies = request.class == *from;
                if applies {
                    draft.change().request_mut().class = *to;
                }
                applies
            }
            Action::Edns(rule) => match rule.data(draft.x, &self.metadata) {
                None => false,
                Some(data) => rule.apply(&mut draft.change().request_mut().edns, &data),
            },
            Action::Ttl { name, .. } | Action::Rcode { name, .. } => name.matches(&request.name),
            Action::Cname(_) => true,
        };
        if applies { Did::Apply } else { Did::Nothing }
    }

    /// Undoes the first `applied` rules that applied, in reverse order, then the changes of the request.
    fn undo(&self, x: &mut Exchange, mut applied: usize) -> Step {
        let was = x.end();
        let mut end = was;
        while let Some(number) = applied.checked_sub(1) {
            applied = number;
            let Some(action) = self.noted(x, number) else { continue };
            match (action, &mut end) {
                (Action::Rcode { from, to, .. }, Some(End::Failed(fault)))
                    if fault.rcode == *from =>
                {
                    fault.rcode = *to;
                    // An extended error explains a failure, which this is no longer.
                    if matches!(*to, rcode::NOERROR | rcode::NXDOMAIN) {
                        fault.ede = None;
                    }
                }
                (Action::Cname(rename), Some(End::Answered)) => {
                    let Some((_, target)) = response::alias(x.answer(), rename) else { continue };
                    let rtype = x.request().rtype;
                    return x.ask(&target, rtype, Carry(number as u64));
                }
                (action, Some(End::Answered)) => self.turn_back(x, action, number),
                _ => {}
            }
        }
        x.put_back();
        match end {
            Some(End::Failed(fault)) if end != was => Step::Fail(fault),
            _ => Step::Next,
        }
    }

    /// Does what an action has to do to a reply; it was the one with this number of those that applied.
    fn turn_back(&self, x: &mut Exchange, action: &Action, number: usize) {
        match action {
            Action::Name(rule) => {
                rule.answers.iter().rev().for_each(|back| back.apply(x.answer_mut()));
                let made;
                let auto = match &rule.auto {
                    Auto::Off => return,
                    Auto::Reverse(rename) => &**rename,
                    Auto::Asked => match self.names_at(x, number) {
                        Some((to, from)) => {
                            made = Rename::Below { from, to };
                            &made
                        }
                        None => return,
                    },
                };
                response::rename_owners(x.answer_mut(), auto);
                response::rename_values(x.answer_mut(), auto);
            }
            Action::Ttl { least, most, .. } => response::clamp_ttl(x.answer_mut(), *least, *most),
            Action::Rcode { from, to, .. } => {
                let answer = x.answer_mut();
                if answer.rcode == *from {
                    answer.rcode = *to;
                }
            }
            Action::Edns(rule) => {
                if let Some((_, answer, kept)) = x.kept() {
                    rule.undo(&kept.request.edns.options, &mut answer.options);
                }
            }
            Action::Type { .. } | Action::Class { .. } | Action::Cname(_) => {}
        }
    }

    /// The action of the rule that was the one with this number of those that applied.
    fn noted(&self, x: &mut Exchange, number: usize) -> Option<&Action> {
        let (_, _, kept) = x.kept()?;
        let index = usize::from(*kept.notes.get(number)?);
        self.rules.get(index).map(|rule| &rule.action)
    }

    /// The names before and after the rule that was the one with this number of those that applied, found by applying again
    /// those before it.
    fn names_at(&self, x: &mut Exchange, number: usize) -> Option<(Name, Name)> {
        let (_, _, kept) = x.kept()?;
        let mut name = kept.request.name.clone();
        let mut before = None;
        for index in kept.notes.iter().take(number + 1) {
            if let Some(Action::Name(rule)) =
                self.rules.get(usize::from(*index)).map(|rule| &rule.action)
            {
                let next = rule.rename.of(&name)?.ok()?;
                before = Some(std::mem::replace(&mut name, next));
            }
        }
        Some((before?, name))
    }
}

/// What an action did on the way down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Did {
    /// It does not apply.
    Nothing,
    /// It applies.
    Apply,
    /// It would make an illegal name.
    Spoil,
}

/// A request being changed, kept before the first change.
struct Draft<'a> {
    /// The exchange.
    x: &'a mut Exchange,
    /// Whether the request is kept already.
    kept: bool,
}

impl Draft<'_> {
    /// The exchange, to change its request.
    fn change(&mut self) -> &mut Exchange {
        if !self.kept {
            self.x.keep();
            self.kept = true;
        }
        self.x
    }

    /// Notes that the rule of this index applied.
    fn note(&mut self, index: usize) {
        // There are not more rules than numbers.
        let Ok(index) = u16::try_from(index) else { return };
        if let Some((_, _, kept)) = self.change().kept() {
            kept.notes.push(index);
        }
    }
}

/// A rule gave a name that is none.
const BAD_NAME: Fault = Fault::servfail("invalid name after rewrite");
