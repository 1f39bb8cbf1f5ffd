//! Route 53's API: which requests list a hosted zone, and what their replies say.

use ::http::Method;
use tokio::sync::OnceCell;
use wire::Name;

use crate::shared::aws::xml::{Met, texts, walk};
use crate::shared::aws::{Ask, Client, Scope, partition};
use crate::shared::cloud::{Api, Asking, Copy, Listing, RecordSet};
use crate::shared::fetch::{Failure, Fetch, Kind, Reply, form};

/// The version of the API.
const VERSION: &str = "/2013-04-01";
/// How many record sets a page has.
const PAGE: &str = "1000";
/// How many pages a zone may have: more than Route 53 allows.
const PAGES: usize = 10_000;

/// Where Route 53 is, and which region its requests are signed for.
#[derive(Clone, Debug)]
struct Place {
    endpoint: String,
    region: String,
}

/// The API by somebody's credentials.
#[derive(Debug)]
pub(super) struct Route53 {
    client: Client,
    fetch: Fetch,
    /// What the Corefile says in the place of the usual one.
    endpoint: Option<String>,
    place: OnceCell<Place>,
}

impl Route53 {
    /// The API at `endpoint`, or where it usually is.
    pub(super) fn new(client: Client, fetch: Fetch, endpoint: Option<String>) -> Self {
        Self { client, fetch, endpoint, place: OnceCell::new() }
    }

    /// Where it is: one place for all regions that belong together.
    async fn place(&self) -> Result<&Place, Failure> {
        self.place
            .get_or_try_init(|| async {
                let chain = self.client.chain();
                let env = chain.env();
                let named = self.endpoint.clone();
                let named = named
                    .or_else(|| env.get("AWS_ENDPOINT_URL_ROUTE_53"))
                    .or_else(|| env.get("AWS_ENDPOINT_URL"))
                    .map(|endpoint| endpoint.trim_end_matches('/').to_owned());
                let region = match (chain.region(), &named) {
                    (Some(region), _) => region,
                    (None, Some(_)) => "us-east-1".to_owned(),
                    (None, None) => chain.region_or_machine(&self.fetch).await.map_err(|failure| {
                        Failure::new(
                            Kind::Refused,
                            format!(
                                "the region is not known: set AWS_REGION, or region in the profile (of the machine: {failure})"
                            ),
                        )
                    })?,
                };
                let partition = partition(&region);
                let endpoint = named.unwrap_or_else(|| format!("https://{}", partition.route53));
                Ok(Place { endpoint, region: partition.region.to_owned() })
            })
            .await
    }

    /// Asks for a page.
    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Reply, Failure> {
        let place = self.place().await?;
        let query = form(query);
        let ask = Ask {
            method: Method::GET,
            endpoint: &place.endpoint,
            path,
            query: &query,
            headers: &[],
            body: b"",
        };
        let scope = Scope { region: &place.region, service: "route53" };
        self.client.send(&scope, &ask, said).await
    }

    /// Reads all pages of a hosted zone.
    async fn pages(&self, copy: &Copy) -> Result<Listing, Failure> {
        let path = format!("{VERSION}/hostedzone/{}/rrset", copy.id());
        let (mut listing, mut next) = (Listing::default(), None::<Next>);
        for _ in 0..PAGES {
            // In the order that their signature wants.
            let mut query = Vec::new();
            if let Some(Next { identifier: Some(identifier), .. }) = &next {
                query.push(("identifier", &**identifier));
            }
            query.push(("maxitems", PAGE));
            if let Some(Next { name, rtype, .. }) = &next {
                query.extend([("name", &**name), ("type", &**rtype)]);
            }
            let reply = self.get(&path, &query).await?;
            let page = Page::read(reply.text()?)?;
            listing.sets.extend(page.listing.sets);
            listing.odd.extend(page.listing.odd);
            match page.next {
                None => return Ok(listing),
                Some(after) if next.as_ref() == Some(&after) => {
                    return Err(Failure::away("the API gives the same page again and again"));
                }
                after => next = after,
            }
        }
        Err(Failure::away("the API gives pages without end"))
    }
}

impl Api for Route53 {
    fn probe<'a>(&'a self, copy: &'a Copy) -> Asking<'a, ()> {
        Box::pin(async {
            let name = dotted(copy.zone());
            let query = [("dnsname", &*name), ("hostedzoneid", copy.id())];
            let reply = self.get(&format!("{VERSION}/hostedzonesbyname"), &query).await?;
            let [known] = texts(reply.text()?, ["HostedZones"])?;
            known.map(drop).ok_or_else(|| Failure::away("the reply does not list hosted zones"))
        })
    }

    fn list<'a>(&'a self, copy: &'a Copy) -> Asking<'a, Listing> {
        Box::pin(self.pages(copy))
    }
}

/// A name with its last dot.
fn dotted(name: &Name) -> String {
    let text = name.to_string();
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// The code and the message of an error.
fn said(reply: &Reply) -> (String, String) {
    let text = reply.text().unwrap_or_default();
    let [code, message] = texts(text, ["Code", "Message"]).unwrap_or_default();
    (code.unwrap_or_default(), message.unwrap_or_default())
}

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) name: String,
    pub(super) rtype: String,
    pub(super) identifier: Option<String>,
}

/// A page of record sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) listing: Listing,
    pub(super) next: Option<Next>,
}

impl Page {
    /// Reads one. Sets without records, which are aliases of Amazon's own, have none.
    ///
    /// # Errors
    /// If it is no list of record sets.
    pub(super) fn read(text: &str) -> Result<Self, Failure> {
        let mut page = Self::default();
        let (mut set, mut bad) = (RecordSet::default(), None::<String>);
        let (mut truncated, mut whole) = (None, false);
        let (mut name, mut rtype, mut identifier) = (None, None, None);
        walk(text, |path, met| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let Some(("ListResourceRecordSetsResponse", inner)) =
                path.split_first().map(|(first, rest)| (*first, rest))
            else {
                return Ok(());
            };
            match (inner, met) {
                (["ResourceRecordSets"], Met::End(_)) => whole = true,
                (["ResourceRecordSets", "ResourceRecordSet"], Met::Begin) => {
                    (set, bad) = (RecordSet::default(), None);
                }
                (["ResourceRecordSets", "ResourceRecordSet", part @ ..], Met::End(text)) => {
                    match part {
                        ["Name"] => match unescaped(text) {
                            Some(name) => set.owner = name,
                            None => bad = Some(format!("'{text}' is no name")),
                        },
                        ["Type"] => text.clone_into(&mut set.rtype),
                        ["TTL"] => match text.parse() {
                            Ok(ttl) => set.ttl = ttl,
                            Err(_) => bad = Some(format!("'{text}' is no time to live")),
                        },
                        ["ResourceRecords", "ResourceRecord", "Value"] => match unescaped(text) {
                            Some(value) => set.data.push(value),
                            None => bad = Some(format!("'{text}' has an escape that is none")),
                        },
                        [] => {
                            let done = std::mem::take(&mut set);
                            match bad.take() {
                                Some(why) => {
                                    let RecordSet { owner, rtype, .. } = done;
                                    page.listing.odd.push(format!("{owner} {rtype}: {why}"));
                                }
                                None if done.data.is_empty() => {}
                                None => page.listing.sets.push(done),
                            }
                        }
                        _ => {}
                    }
                }
                (["IsTruncated"], Met::End(text)) => truncated = Some(text == "true"),
                (["NextRecordName"], Met::End(text)) => name = Some(text.to_owned()),
                (["NextRecordType"], Met::End(text)) => rtype = Some(text.to_owned()),
                (["NextRecordIdentifier"], Met::End(text)) => identifier = Some(text.to_owned()),
                _ => {}
            }
            Ok(())
        })?;
        page.next = match (truncated, name, rtype) {
            (Some(false), ..) => None,
            (Some(true), Some(name), Some(rtype)) => Some(Next { name, rtype, identifier }),
            _ => return Err(Failure::away("the reply does not say whether there is more")),
        };
        if whole { Ok(page) } else { Err(Failure::away("the reply lists no record sets")) }
    }
}

/// A name or a value with its escapes as zone files have them: Route 53 writes octets as `\ooo`, in octal.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        let sign = behind.chars().next()?;
        if !sign.is_ascii_digit() {
            out.extend(['\\', sign]);
            rest = behind.get(sign.len_utf8()..)?;
            continue;
        }
        let octet = u8::from_str_radix(behind.get(..3)?, 8).ok()?;
        out.push_str(&format!("\\{octet:03}"));
        rest = behind.get(3..)?;
    }
    out.push_str(rest);
    Some(out)
}
