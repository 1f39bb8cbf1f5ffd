//! AWS Signature Version 4: a request is signed by a key that is good for a day, a region and a service.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use secrecy::ExposeSecret as _;

use super::{Ask, Credentials};

/// The name of the algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature is good for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// The region: `us-east-1`.
    pub(crate) region: &'a str,
    /// The service: `route53`.
    pub(crate) service: &'a str,
}

/// The lines that are added to a request's header, signed at `now`, in seconds since 1970.
pub(super) fn sign(
    ask: &Ask<'_>,
    scope: &Scope<'_>,
    credentials: &Credentials,
    now: u64,
) -> Vec<(&'static str, String)> {
    let time = stamp(now);
    let day = time.get(..8).unwrap_or_default();
    let bare = ask.endpoint.split_once("://").map_or(ask.endpoint, |(_, bare)| bare);
    let (host, base) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
    let token = credentials.token.as_ref().map(|token| token.expose_secret());
    let mut signed: Vec<(&str, &str)> = ask.headers.to_vec();
    signed.extend([("host", host), ("x-amz-date", &*time)]);
    signed.extend(token.map(|token| ("x-amz-security-token", token)));
    signed.sort_unstable();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String =
        signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical = format!(
        "{}\n{base}{}\n{}\n{lines}\n{names}\n{}",
        ask.method,
        ask.path,
        ask.query,
        hex(digest(&SHA256, ask.body).as_ref())
    );
    let Scope { region, service } = scope;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let text = format!(
        "{ALGORITHM}\n{time}\n{scope}\n{}",
        hex(digest(&SHA256, canonical.as_bytes()).as_ref())
    );
    let secret = format!("AWS4{}", credentials.secret.expose_secret());
    let key = [day, region, service, "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &text));
    let id = &credentials.id;
    let authorization = format!(
        "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
    );
    let mut added = vec![("x-amz-date", time.clone()), ("authorization", authorization)];
    added.extend(token.map(|token| ("x-amz-security-token", token.to_owned())));
    added
}

/// A text's code by a key.
fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Octets in hexadecimal.
fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A time as `20150830T123600Z`.
fn stamp(now: u64) -> String {
    let (year, month, day) = civil(now / 86_400);
    let second = now % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month and day of a number of days since 1970, in eras of 400 years that begin with a March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// Seconds since 1970 of a time such as `2030-01-02T03:04:05Z`, as far as it is one.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_era = year % 400;
    let days = year / 400 * 146_097 + of_era * 365 + of_era / 4 - of_era / 100
        + (153 * month + 2) / 5
        + day
        - 1;
    Some((days.checked_sub(719_468)? * 24 + hour) * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::Method;

    /// The key of Amazon's own examples.
    fn example(token: Option<&str>) -> Credentials {
        Credentials {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            token: token.map(Into::into),
        }
    }

    #[test]
    fn requests_are_signed_as_amazon_does() {
        let get = Ask {
            method: Method::GET,
            endpoint: "https://example.amazonaws.com",
            path: "/",
            query: "",
            headers: &[],
            body: b"",
        };
        let scope = Scope { region: "us-east-1", service: "service" };
        let now = seconds("2015-08-30T12:36:00Z").unwrap();
        // From Amazon's suite of examples: get-vanilla.
        let added = sign(&get, &scope, &example(None), now);
        let halves = Ask { endpoint: "https://example.amazonaws.com/a", path: "/b", ..get.clone() };
        let whole = Ask { path: "/a/b", ..get };
        assert_eq!(
            sign(&halves, &scope, &example(None), now),
            sign(&whole, &scope, &example(None), now)
        );
        let authorization = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
        assert_eq!(added[0], ("x-amz-date", "20150830T123600Z".to_owned()));
        assert_eq!(added[1], ("authorization", authorization.to_owned()));
    }

    #[test]
    fn queries_tokens_and_bodies_are_signed_as_botocore_does() {
        let now = seconds("2026-11-30T01:02:03Z").unwrap();
        let signature = |added: Vec<(&'static str, String)>| {
            let lines = added.into_iter().find(|(name, _)| *name == "authorization").unwrap().1;
            lines.split("SignedHeaders=").nth(1).unwrap().to_owned()
        };
        let get = Ask {
            method: Method::GET,
            endpoint: "http://127.0.0.1:5000",
            path: "/2013-04-01/hostedzone/Z1/rrset",
            query: "identifier=one%20two&maxitems=1000&name=b.example.org.&type=A",
            headers: &[],
            body: b"",
        };
        let scope = Scope { region: "us-east-1", service: "route53" };
        assert_eq!(
            signature(sign(&get, &scope, &example(Some("to+ken==")), now)),
            "host;x-amz-date;x-amz-security-token, \
             Signature=fcc63c56d88a61b2d171e23d182fd34ad8a883b05c97b68387625651b4044eee"
        );
        let post = Ask {
            method: Method::POST,
            endpoint: "https://secretsmanager.eu-west-1.amazonaws.com",
            path: "/",
            query: "",
            headers: &[
                ("content-type", "application/x-amz-json-1.1"),
                ("x-amz-target", "secretsmanager.GetSecretValue"),
            ],
            body: b"{\"SecretId\":\"x\"}",
        };
        let scope = Scope { region: "eu-west-1", service: "secretsmanager" };
        assert_eq!(
            signature(sign(&post, &scope, &example(None), now)),
            "content-type;host;x-amz-date;x-amz-target, \
             Signature=6104a8534daeb1b254d51fd6a25e21017efd2ff8e3fd249f69eb28176bc9e7a8"
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, number) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2024-12-31T00:00:00Z", 1_735_603_200),
            ("2038-01-19T03:14:08Z", 2_147_483_648),
        ] {
            assert_eq!(seconds(text), Some(number), "{text}");
            let plain: String = text.chars().filter(|c| !matches!(c, '-' | ':')).collect();
            assert_eq!(stamp(number), plain);
        }
        for wrong in
            ["", "2024", "1969-01-01T00:00:00Z", "2024-13-01T00:00:00Z", "x024-01-01T00:00:00Z"]
        {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
