//! Why a name is answered as it is: the question goes through the real chain, and every hook is written down.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use wire::{Answer, Flags, Name, Request, Section, rcode, rtype, scan, text};

use crate::control::{Report, Value};
use crate::door::{Identity, Method};
use crate::exchange::{Begin, End, Exchange, Fault, Transport};
use crate::live::{Live, Progress};
use crate::plugin::Step;
use crate::route::{Group, Route};
use crate::testing::show_data;

/// How long a question may take where the block states nothing.
const DEADLINE: Duration = Duration::from_secs(10);

/// The port that whoever asks is taken to have.
const PORT: u16 = 49_152;

/// How `explain` is called.
const USAGE: &str = "explain NAME [TYPE] [--view VIEW] [--from ADDRESS] [--as IDENTITY[,GROUP...]] [--at LISTENER] [--tcp]";

/// In which direction a hook was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The way down.
    Query,
    /// The way up.
    Answer,
    /// After a nested query.
    Asked,
    /// After a wait.
    Work,
}

/// Sees every hook of an exchange when it has been called.
pub(crate) trait Watch: Send {
    /// The plugin in hand has said `step`.
    fn hook(&mut self, live: &Live, x: &Exchange, phase: Phase, step: Step);
}

impl Watch for () {
    fn hook(&mut self, _live: &Live, _x: &Exchange, _phase: Phase, _step: Step) {}
}

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// The name.
    pub name: Name,
    /// The type.
    pub rtype: u16,
    /// The view whose block is asked; else the views say.
    pub view: Option<String>,
    /// Who asks.
    pub from: IpAddr,
    /// As whom.
    pub identity: Option<Identity>,
    /// At which listener, such as `tls://:853`; else at the first one that has a block for the name.
    pub at: Option<String>,
    /// Whether over TCP.
    pub tcp: bool,
}

impl Inquiry {
    /// Reads what stands behind the verb.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(args: &[String]) -> Result<Self, String> {
        let mut inquiry = Self {
            name: Name::ROOT,
            rtype: rtype::A,
            view: None,
            from: Ipv4Addr::LOCALHOST.into(),
            identity: None,
            at: None,
            tcp: false,
        };
        let mut args = args.iter();
        let mut words: Vec<&str> = Vec::new();
        while let Some(arg) = args.next() {
            let Some(flag) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
                words.push(arg);
                continue;
            };
            if flag == "tcp" {
                inquiry.tcp = true;
                continue;
            }
            let (flag, given) = flag.split_once('=').map_or((flag, None), |(f, v)| (f, Some(v)));
            if !matches!(flag, "view" | "from" | "as" | "at") {
                return Err(format!("explain knows no '{arg}'; write: {USAGE}"));
            }
            let value = given.or_else(|| args.next().map(String::as_str));
            let value = value.ok_or_else(|| format!("{arg} needs a value; write: {USAGE}"))?;
            match flag {
                "view" => inquiry.view = Some(value.to_owned()),
                "at" => inquiry.at = Some(value.to_owned()),
                "as" => {
                    let mut names = value.split(',').map(str::to_owned);
                    let name = names.next().unwrap_or_default();
                    let method = Method::Network;
                    inquiry.identity = Some(Identity { name, groups: names.collect(), method });
                }
                _ => {
                    inquiry.from = value.parse().map_err(|_| format!("'{value}' is no address"))?;
                }
            }
        }
        let (name, kind) = match *words {
            [name] => (name, None),
            [name, kind] => (name, Some(kind)),
            _ => return Err(format!("write: {USAGE}")),
        };
        match name.parse::<IpAddr>() {
            Ok(ip) => {
                inquiry.name =
                    reverse(ip).ok_or_else(|| format!("'{name}' has no reverse name"))?;
                inquiry.rtype = rtype::PTR;
            }
            Err(_) => {
                let dotted = if name.ends_with('.') { name.to_owned() } else { format!("{name}.") };
                inquiry.name =
                    Name::parse(&dotted).ok_or_else(|| format!("'{name}' is no domain name"))?;
            }
        }
        if let Some(kind) = kind {
            let upper = kind.to_ascii_uppercase();
            inquiry.rtype =
                text::type_number(&upper).ok_or_else(|| format!("'{kind}' is no type"))?;
        }
        if matches!(inquiry.rtype, rtype::AXFR | rtype::IXFR) {
            return Err("transfers are not explained; ask for a name's records".to_owned());
        }
        Ok(inquiry)
    }
}

/// The reverse name of an address (RFC 1035 §3.5, RFC 3596 §2.5).
fn reverse(ip: IpAddr) -> Option<Name> {
    let text = match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev();
            let nibbles = nibbles.map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4));
            nibbles.collect::<String>() + "ip6.arpa."
        }
    };
    Name::parse(&text)
}

/// Something that a plugin did.
#[derive(Debug)]
struct Deed {
    /// How many queries it was nested in.
    depth: usize,
    /// The plugin.
    plugin: &'static str,
    /// What it did, in words.
    did: String,
    /// Why, in its own words and facts.
    why: Option<Value>,
}

/// Writes down what plugins do.
#[derive(Debug, Default)]
struct Account {
    /// All that was done, in order.
    deeds: Vec<Deed>,
    /// What each depth was asked when it was last looked at.
    questions: Vec<Option<(Name, u16)>>,
    /// The answer of the depth in hand when it was last looked at.
    answer: Option<(usize, Shape)>,
    /// The upstream that was last asked.
    upstream: Option<SocketAddr>,
}

/// An answer's outline.
type Shape = (Option<End>, u16, [usize; 3]);

/// The outline of the answer in hand.
fn shape(x: &Exchange) -> Shape {
    let answer = x.answer();
    let sections = [Section::Answer, Section::Authority, Section::Additional];
    (x.end(), answer.rcode, sections.map(|section| answer.section(section).count()))
}

impl Watch for Account {
    fn hook(&mut self, live: &Live, x: &Exchange, phase: Phase, step: Step) {
        let (depth, frame) = (x.depth, x.top());
        let plugin = live.sites()[frame.site].chain.get(frame.at).map_or("", |link| link.name);
        self.questions.resize(depth + 1, None);
        let asks = (frame.request.name.clone(), frame.request.rtype);
        let before = self.questions[depth].replace(asks.clone());
        let changed = matches!(phase, Phase::Query | Phase::Work)
            .then(|| before.filter(|before| *before != asks))
            .flatten()
            .map(|_| format!(" as {}", question(&asks.0, asks.1)));
        let now = (depth, shape(x));
        let same = self.answer.replace(now) == Some(now);
        let asked = x.upstream.filter(|upstream| self.upstream != Some(*upstream));
        self.upstream = x.upstream;
        let mut did = match (phase, step) {
            (_, Step::Wait(_)) => return,
            (Phase::Answer, Step::Next) if same => return,
            (Phase::Answer, Step::Next) => "changes the answer".to_owned(),
            (Phase::Answer, Step::Wrap(_)) => "asks the next ones again".to_owned(),
            (Phase::Answer, Step::Done) => "answers in their place".to_owned(),
            (_, Step::Next) => "passes it on".to_owned(),
            (_, Step::Wrap(_)) => "passes it on and sees the answer".to_owned(),
            (Phase::Asked, Step::Done) => "answers with what came of it".to_owned(),
            (_, Step::Done) => "answers".to_owned(),
            (_, Step::Drop) => "has nothing sent".to_owned(),
            (_, Step::Fail(fault)) => {
                let more = Some(x.detail()).filter(|detail| !detail.is_empty());
                let more = more.map(|detail| format!(": {detail}")).unwrap_or_default();
                format!("says {}: {}{more}", text::rcode_name(fault.rcode), fault.why)
            }
            (_, Step::Ask) => match x.frames.get(depth + 1) {
                Some(sub) => {
                    format!("asks for {}", question(&sub.request.name, sub.request.rtype))
                }
                None => "asks for another name".to_owned(),
            },
        };
        did.push_str(&changed.unwrap_or_default());
        if let Some(upstream) = asked {
            did.push_str(&format!(", having asked {upstream}"));
        }
        let why = match phase {
            Phase::Query | Phase::Work => live.plugin(x).explain(x, step),
            Phase::Answer | Phase::Asked => None,
        };
        self.deeds.push(Deed { depth, plugin, did, why });
    }
}

/// A question in words.
fn question(name: &Name, rtype: u16) -> String {
    format!("{} {}", text::name_text(name.wire()), text::type_name(rtype))
}

/// Where a question goes.
struct Way<'l> {
    /// The listener.
    group: &'l Group,
    /// The block and the route, or why there is none.
    found: Result<(usize, usize), Fault>,
}

impl Way<'_> {
    /// The route, if there is one.
    fn route<'l>(&self, live: &'l Live) -> Option<&'l Route> {
        let (site, route) = self.found.ok()?;
        live.sites().get(site)?.routes.all().get(route)
    }
}

/// Asks, and says all that happened. Caches and upstreams are used as for a client; logs, metrics and taps of queries do not see it.
///
/// # Errors
/// A listener or a view that is not there.
pub async fn explain(live: &Arc<Live>, inquiry: &Inquiry) -> Result<Report, String> {
    let mut ways: Vec<(Box<Exchange>, Way<'_>)> = Vec::new();
    let mut groups: Vec<&Group> = live.groups().collect();
    groups.sort_by_key(|group| group.key);
    if let Some(at) = &inquiry.at {
        let known: Vec<String> = groups.iter().map(|group| group.key.to_string()).collect();
        groups.retain(|group| group.key.to_string() == *at);
        if groups.is_empty() {
            return Err(format!("there is no listener '{at}'; there is: {}", known.join(", ")));
        }
    }
    for group in groups {
        let mut x = exchange(inquiry, group);
        let found = match (x.begin(), &inquiry.view) {
            (Begin::Run, view) => {
                x.identity_from(inquiry.identity.as_ref());
                match view {
                    None => group.route(live.sites(), &x),
                    Some(view) => {
                        group.route_of_view(live.sites(), &inquiry.name, view).ok_or(Fault::NO_ZONE)
                    }
                }
            }
            _ => Err(Fault::NO_ZONE),
        };
        ways.push((x, Way { group, found }));
    }
    if ways.is_empty() {
        return Err("nothing is served: there is no listener".to_owned());
    }
    if let Some(view) = &inquiry.view
        && ways.iter().all(|(_, way)| way.found.is_err())
    {
        return Err(format!("no block with the view '{view}' has a zone of this name"));
    }
    let first = ways.iter().position(|(_, way)| way.found.is_ok()).unwrap_or(0);
    let (mut x, way) = ways.remove(first);
    let mut account = Account::default();
    let end = run(live, &mut x, &way, &mut account).await;
    let mut wire = Vec::new();
    x.reply(end, 65535, &mut wire);
    live.fork(&mut x);
    let others: Vec<Value> = ways
        .iter()
        .filter(|(_, other)| {
            other.found.is_ok_and(|(site, _)| way.found.is_ok_and(|(own, _)| own != site))
        })
        .map(|(_, other)| place(live, other))
        .collect();
    Ok(report(live, inquiry, &x, &way, &account, &wire, others))
}

/// The exchange of a client that asks at a listener.
fn exchange(inquiry: &Inquiry, group: &Group) -> Box<Exchange> {
    let transport = match group.key.transport {
        Transport::Udp if inquiry.tcp => Transport::Tcp,
        transport => transport,
    };
    let local = group.key.addr.map_or_else(
        || SocketAddr::from((Ipv4Addr::LOCALHOST, group.key.port)),
        |addr| addr.at(group.key.port),
    );
    let mut x = Exchange::new(group.id, transport, local);
    // Any port but the one that is asked: who asks itself gets nothing.
    let port = if group.key.port == PORT { PORT + 1 } else { PORT };
    x.query.peer = SocketAddr::new(inquiry.from, port);
    let mut request = Request {
        name: inquiry.name.clone(),
        rtype: inquiry.rtype,
        flags: Flags::RD,
        ..Request::default()
    };
    request.edns.present = true;
    request.edns.size = 1232;
    wire::encode_query(&request, 1, &mut x.query.wire);
    x
}

impl Exchange {
    /// Has the exchange be that of somebody known.
    fn identity_from(&mut self, identity: Option<&Identity>) {
        if let Some(identity) = identity {
            self.identify(Arc::new(identity.clone()));
        }
    }
}

/// Runs the chain.
async fn run(live: &Live, x: &mut Exchange, way: &Way<'_>, account: &mut Account) -> End {
    let (site, route) = match way.found {
        Ok(found) => found,
        Err(fault) => return End::Failed(fault),
    };
    let frame = x.top_mut();
    (frame.site, frame.route) = (site, route);
    let timeout = live.sites()[site].timeout.unwrap_or(DEADLINE);
    x.deadline = x.query.received.checked_add(timeout);
    let begun = catch_unwind(AssertUnwindSafe(|| live.advance_watched(x, account)));
    match begun {
        Ok(Progress::Finished(end)) => end,
        Ok(Progress::Waiting) => live.finish_watched(x, account).await,
        Err(panic) => live.panicked(x, &*panic),
    }
}

/// A listener with the block that takes the question there.
fn place(live: &Live, way: &Way<'_>) -> Value {
    let value = Value::fields().with("listener", way.group.key.to_string());
    match (way.route(live), way.found) {
        (Some(route), _) => {
            let view = Some(&*route.view).filter(|view| !view.is_empty());
            value.with("zone", &*route.zone).with("view", view).with("refused", Value::Nothing)
        }
        (None, found) => value
            .with("zone", Value::Nothing)
            .with("view", Value::Nothing)
            .with("refused", found.err().map(|fault| fault.why)),
    }
}

/// The records of a section, as in a zone file.
fn records(answer: &Answer, section: Section) -> Vec<String> {
    let line = |rr: &wire::Rr| {
        let (owner, class) = (text::name_text(answer.owner(rr)), text::class_name(rr.class));
        let kind = text::type_name(rr.rtype);
        format!("{owner} {} {class} {kind} {}", rr.ttl, show_data(rr.rtype, answer.data(rr)))
    };
    answer.section(section).map(line).collect()
}

/// Puts everything together.
fn report(
    live: &Live,
    inquiry: &Inquiry,
    x: &Exchange,
    way: &Way<'_>,
    account: &Account,
    wire: &[u8],
    others: Vec<Value>,
) -> Report {
    let mut answer = Answer::default();
    let head = scan::read(wire, &mut answer).ok();
    let code = match &head {
        Some(_) => text::rcode_name(answer.rcode).into_owned(),
        None => "nothing is sent".to_owned(),
    };
    let authoritative = head.as_ref().is_some_and(|head| head.flags.has(Flags::AA));
    let errors: Vec<Value> = answer
        .options
        .iter()
        .filter_map(|(number, data)| match data {
            [high, low, rest @ ..] if number == wire::option::EDE => {
                let code = u16::from_be_bytes([*high, *low]);
                let said = String::from_utf8_lossy(rest).into_owned();
                Some(Value::fields().with("code", u32::from(code)).with("text", said))
            }
            _ => None,
        })
        .collect();
    let by = Some(x.answered_by()).filter(|name| !name.is_empty() && way.found.is_ok());
    let asked = question(&inquiry.name, inquiry.rtype);
    let deeds = account.deeds.iter().map(|deed| {
        Value::fields()
            .with("nested", deed.depth)
            .with("plugin", deed.plugin)
            .with("did", &*deed.did)
            .with("because", deed.why.clone().unwrap_or_default())
    });
    let sections = [
        ("answer", records(&answer, Section::Answer)),
        ("authority", records(&answer, Section::Authority)),
        ("additional", records(&answer, Section::Additional)),
    ];
    let mut lines = format!("{asked}: {code}");
    if authoritative {
        lines.push_str(", authoritative");
    }
    if let Some(by) = by {
        lines.push_str(&format!(", from {by}"));
    }
    lines.push('\n');
    let listener = &way.group.key;
    match (way.route(live), way.found) {
        (Some(Route { zone, view, .. }), _) => {
            let view = if view.is_empty() { String::new() } else { format!(", view {view}") };
            lines.push_str(&format!("block: {zone} at {listener}{view}\n"));
        }
        (None, found) => {
            let why = found.err().map_or("", |fault| fault.why);
            lines.push_str(&format!("block: none at {listener}: {why}\n"));
        }
    }
    lines.push_str("way:\n");
    for deed in &account.deeds {
        let indent = 2 + deed.depth * 2;
        lines.push_str(&format!("{:indent$}{} {}\n", "", deed.plugin, deed.did));
        let Some(why) = &deed.why else { continue };
        if let Some(Value::Text(sentence)) = why.field("why") {
            lines.push_str(&format!("{:indent$}  {sentence}\n", ""));
        }
        let facts = match why {
            Value::Fields(fields) => {
                let facts = fields
                    .iter()
                    .filter(|(name, value)| name != "why" && !matches!(value, Value::Nothing));
                Value::Fields(facts.cloned().collect())
            }
            other => other.clone(),
        };
        if !matches!(&facts, Value::Fields(fields) if fields.is_empty()) {
            for line in facts.text().lines() {
                lines.push_str(&format!("{:indent$}  {line}\n", ""));
            }
        }
    }
    for (name, records) in &sections {
        if !records.is_empty() {
            lines.push_str(&format!("{name}:\n"));
            records.iter().for_each(|record| lines.push_str(&format!("  {record}\n")));
        }
    }
    for error in &errors {
        if let (Some(Value::Count(code)), Some(Value::Text(said))) =
            (error.field("code"), error.field("text"))
        {
            lines.push_str(&format!("extended error: {code} {said}\n"));
        }
    }
    if !others.is_empty() {
        lines.push_str("other listeners have other blocks for it:\n");
        let table = Value::List(others.clone()).text();
        table.lines().for_each(|line| lines.push_str(&format!("  {line}\n")));
    }
    let value = Value::fields()
        .with("name", text::name_text(inquiry.name.wire()))
        .with("type", &*text::type_name(inquiry.rtype))
        .with("from", inquiry.from.to_string())
        .with("block", place(live, way))
        .with("rcode", if head.is_some() { Value::from(code) } else { Value::Nothing })
        .with("authoritative", authoritative)
        .with("answered_by", by)
        .with("way", Value::List(deeds.collect()));
    let value =
        sections.into_iter().fold(value, |value, (name, records)| value.with(name, records));
    let value = value.with("extended_errors", Value::List(errors)).with("elsewhere", others);
    // What a client gets as a failure is one for who asked here too.
    let fails = matches!(answer.rcode, rcode::SERVFAIL | rcode::REFUSED) || head.is_none();
    let report = Report::new(value).with_text(lines);
    if fails { report.bad() } else { report }
}

#[cfg(test)]
mod tests;
