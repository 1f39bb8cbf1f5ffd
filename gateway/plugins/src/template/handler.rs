//! Templates at work: the first that fits answers.

use engine::{Carry, End, Exchange, Fault, Metadata, Plugin, Step};
use regex::Regex;
use wire::text::{class_name, type_name};
use wire::{Flags, Name, Section, class, rcode, rtype};
use zone::record::{Defaults, Record};

use super::data::Fitting;
use super::metrics::{Counters, Place};
use crate::shared::expr::{Context, Program, Value};
use crate::shared::fall::Fall;
use crate::shared::gotemplate::Template;
use crate::shared::name_text::NameText;
use crate::shared::zones::Zones;

/// The templates of a server block.
#[derive(Debug)]
pub(super) struct Templates {
    /// In the order of the Corefile.
    pub(super) all: Box<[Entry]>,
    /// For `.Meta` and expressions.
    pub(super) metadata: Metadata,
    /// What is counted.
    pub(super) counters: Counters,
    /// What records leave open.
    pub(super) defaults: Defaults,
}

/// One directive.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The class that it answers, or ANY.
    pub(super) class: u16,
    /// The type that it answers, or ANY.
    pub(super) rtype: u16,
    /// Its zones.
    pub(super) zones: Zones,
    /// Their texts.
    pub(super) texts: Vec<String>,
    /// The regular expressions, of which one must match, and as they were written.
    pub(super) patterns: Vec<(Regex, String)>,
    /// The variables by name, and their values.
    pub(super) vars: Vec<(String, Program)>,
    /// Their names.
    pub(super) names: Vec<String>,
    /// The conditions, all of which must hold.
    pub(super) conditions: Vec<Program>,
    /// The records, in the order of the sections.
    pub(super) records: Vec<(Section, Template)>,
    /// The response code.
    pub(super) rcode: u16,
    /// The extended error: its code and its text.
    pub(super) ede: Option<(u16, String)>,
    /// The names for which the next template, or plugin, is tried where this does not match.
    pub(super) fall: Fall,
}

/// What an entry says to a query.
enum Verdict {
    /// It is not for such queries.
    Foreign,
    /// It is, and does not match.
    Mismatch,
    /// It cannot find out.
    Unknown,
    /// It answers, with these records.
    Answer(Vec<(Section, Record)>),
    /// It should, and fails: with what, and the words for the log.
    Failure(Fault, String),
}

impl Plugin for Templates {
    fn query(&self, x: &mut Exchange) -> Step {
        for (number, entry) in self.all.iter().enumerate() {
            match self.judge(number, entry, x) {
                Verdict::Foreign => {}
                Verdict::Mismatch if entry.fall.through(&x.request().name) => {}
                Verdict::Mismatch | Verdict::Unknown => return Step::Fail(QUIET),
                Verdict::Failure(fault, why) => return x.fail(fault, why),
                Verdict::Answer(_) if entry.rcode == rcode::SERVFAIL => return Step::Fail(QUIET),
                Verdict::Answer(records) => return write(entry, &records, x),
            }
        }
        Step::Next
    }

    fn asked(&self, x: &mut Exchange, Carry(bits): Carry) -> Step {
        let (_, answer, end) = x.sub();
        if end == Some(End::Answered) {
            let truncated = answer.flags.has(Flags::TC);
            x.graft();
            x.answer_mut().flags.set(Flags::TC, truncated);
        }
        // The lower half is how many records the templates made, the upper which is next.
        chase(x, (bits >> 32) as usize, (bits & 0xffff_ffff) as usize)
    }
}

impl Templates {
    /// What an entry says to the query.
    fn judge(&self, number: usize, entry: &Entry, x: &Exchange) -> Verdict {
        let request = x.request();
        let Some(zone_number) = entry.zones.number(&request.name) else { return Verdict::Foreign };
        let zone = entry.texts.get(zone_number).map_or("", String::as_str);
        let either = |own: u16, asked: u16, any: u16| own == any || asked == any || own == asked;
        if !either(entry.class, request.class, class::ANY)
            || !either(entry.rtype, request.rtype, rtype::ANY)
        {
            return Verdict::Foreign;
        }
        let name = NameText::of(request.name.wire());
        let Some((regex, pattern)) =
            entry.patterns.iter().find(|(regex, _)| regex.is_match(name.as_str()))
        else {
            return Verdict::Mismatch;
        };
        let Some(groups) = regex.captures(name.as_str()) else { return Verdict::Mismatch };
        let mut vars: Vec<Value<'static>> = Vec::new();
        for (_, program) in &entry.vars {
            let context =
                Context { x, metadata: &self.metadata, groups: Some(&groups), vars: &vars };
            match program.run(&context) {
                Ok(value) => {
                    let value = value.into_owned();
                    vars.push(value);
                }
                Err(_) => return Verdict::Unknown,
            }
        }
        let context = Context { x, metadata: &self.metadata, groups: Some(&groups), vars: &vars };
        for condition in &entry.conditions {
            match condition.run(&context) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Verdict::Mismatch,
                Err(_) => return Verdict::Unknown,
            }
        }
        let class = if request.class == class::ANY { entry.class } else { request.class };
        let rtype = if request.rtype == rtype::ANY { entry.rtype } else { request.rtype };
        let (class_text, type_text) = (class_name(class), type_name(rtype));
        let place = Place {
            template: (number, zone_number),
            zone,
            class: (&class_text, class),
            rtype: (&type_text, rtype),
        };
        self.counters.matched(x, &place);
        if entry.rcode == rcode::SERVFAIL {
            return Verdict::Answer(Vec::new());
        }
        let data = Fitting {
            x,
            metadata: &self.metadata,
            zone,
            name: name.as_str(),
            class: &class_text,
            rtype: &type_text,
            pattern,
            regex,
            groups: &groups,
            names: &entry.names,
            vars: &vars,
        };
        self.render(entry, &data, &place)
    }

    /// The records that an entry makes.
    fn render(&self, entry: &Entry, data: &Fitting<'_>, place: &Place<'_>) -> Verdict {
        let mut records = Vec::with_capacity(entry.records.len());
        let mut text = String::new();
        for (section, template) in &entry.records {
            text.clear();
            let section_name = match section {
                Section::Answer => "answer",
                Section::Authority => "authority",
                Section::Additional => "additional",
            };
            if let Err(wrong) = template.run(data, &mut text) {
                self.counters.failed(data.x, place, section_name, template.source(), false);
                return Verdict::Failure(TEMPLATE, format!("{section_name} template: {wrong}"));
            }
            match Record::parse(&text, &self.defaults) {
                Ok(Some(record)) => records.push((*section, record)),
                // A template may make nothing.
                Ok(None) => {}
                Err(wrong) => {
                    self.counters.failed(data.x, place, section_name, template.source(), true);
                    return Verdict::Failure(
                        RECORD,
                        format!("{section_name} record '{}': {wrong}", text.trim()),
                    );
                }
            }
        }
        Verdict::Answer(records)
    }
}

/// Writes an entry's answer.
fn write(entry: &Entry, records: &[(Section, Record)], x: &mut Exchange) -> Step {
    let answer = x.answer_mut();
    answer.set_authoritative(true);
    answer.rcode = entry.rcode;
    for (section, record) in records {
        answer.push_class(
            *section,
            &record.owner,
            record.class,
            record.rtype,
            record.ttl,
            &[&record.data],
        );
    }
    if let Some((code, text)) = &entry.ede {
        answer.options.push_ede(*code, text);
    }
    let made = answer.records().len();
    chase(x, 0, made)
}

/// Looks up the target of the next alias, from record `from` of the `made` ones, for a client that wants an address.
fn chase(x: &mut Exchange, from: usize, made: usize) -> Step {
    let asked = x.request().rtype;
    if !matches!(asked, rtype::A | rtype::AAAA) {
        return Step::Done;
    }
    let answer = x.answer();
    let own = answer.records().iter().enumerate().take(made).skip(from);
    let target = own
        .filter(|(_, rr)| rr.section == Section::Answer && rr.rtype == rtype::CNAME)
        .find_map(|(at, rr)| {
            let (target, _) = Name::read(answer.data(rr))?;
            Some((at, target))
        });
    match target {
        Some((at, target)) => x.ask(&target, asked, Carry((at as u64 + 1) << 32 | made as u64)),
        None => Step::Done,
    }
}

/// No template matched, which nobody has to know.
const QUIET: Fault = Fault::servfail("");

/// A template could not be run.
const TEMPLATE: Fault = Fault::servfail("the template of the answer failed");

/// A template made no record.
const RECORD: Fault = Fault::servfail("the template of the answer made no record");
