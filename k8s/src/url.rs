//! Addresses of API servers, which may carry a name and password that nobody is to see.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use http::{Uri, uri::Authority};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::client::Refusal;

/// What is escaped in a segment of a path: all but letters, digits and `-_~`. Dots alone would be steps of the path (RFC 3986 §5.2.4).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
/// What is escaped in the value of a query: all but what is reserved for nothing (§2.3).
const VALUE: &AsciiSet = &SEGMENT.remove(b'.');

/// Gives a text as one segment of a path, which it does not leave whatever is in it (RFC 3986 §3.3).
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Gives a text as the value of a query.
pub(crate) fn value(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}

/// Reads the address of an API server; none if it is no URL of http or https with a host. A name and password are not in what is
/// given.
pub fn address(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let known = matches!(url.scheme_str(), Some("http" | "https"));
    let (url, _) = apart(url).ok()?;
    (known && url.host().is_some_and(|host| !host.is_empty())).then_some(url)
}

/// Gives an address without a name and password in it.
pub(crate) fn bare(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Gives a number for an address with all that is in it, the same as long as the process runs.
pub(crate) fn number(url: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(url)
}

/// A name and a password.
#[derive(PartialEq, Eq)]
pub(crate) struct Login {
    /// The name.
    pub(crate) user: String,
    /// The password; empty if there is none.
    pub(crate) password: String,
}

/// Takes the name and password out of an address. They are percent-encoded there (RFC 3986 §3.2.1).
///
/// # Errors
/// The address has no host and port, as where a sign of the password ends them, or the name or password is no text. No error has
/// anything of them.
pub(crate) fn apart(url: Uri) -> Result<(Uri, Option<Login>), Refusal> {
    let odd = |why: &str| Refusal(format!("the address of the API server {why}"));
    let mut parts = url.into_parts();
    let Some(authority) = parts.authority.take() else {
        return Err(odd("has no host: write https://HOST:PORT"));
    };
    let (login, place) = match authority.as_str().rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, authority.as_str()),
    };
    let bare: Authority = place.parse().map_err(|_| odd("has no valid host"))?;
    let port = bare.as_str().strip_prefix(bare.host()).unwrap_or_default();
    if !matches!(port, "" | ":") && bare.port_u16().is_none() {
        return Err(odd(
            "has no valid port: write /, ? and # in a name or password as %2F, %3F and %23",
        ));
    }
    let login = login
        .map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            let read = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
            let both = read(user).zip(read(password));
            both.map(|(user, password)| Login { user, password })
                .ok_or_else(|| odd("has a name or password that is no UTF-8"))
        })
        .transpose()?;
    parts.authority = Some(bare);
    let url = Uri::from_parts(parts).map_err(|_| odd("is none: write https://HOST:PORT"))?;
    Ok((url, login))
}

#[cfg(test)]
mod tests {
    use super::{segment, value};

    #[test]
    fn a_name_stays_one_segment_of_a_path() {
        for (name, want) in [
            ("shop-1", "shop-1"),
            ("*", "%2A"),
            ("..", "%2E%2E"),
            ("../../version", "%2E%2E%2F%2E%2E%2Fversion"),
            ("shop?x=y#z", "shop%3Fx%3Dy%23z"),
            ("sh\u{f6}p", "sh%C3%B6p"),
        ] {
            assert_eq!(segment(name), want);
        }
        assert_eq!(value("a.b-c_d~e=1,2"), "a.b-c_d~e%3D1%2C2");
    }
}
