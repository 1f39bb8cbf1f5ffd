//! Addresses of API servers, which may carry a name and password that nobody is to see.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use http::{Uri, uri::Authority};

use crate::client::Refusal;

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
            let read = |text| String::from_utf8(decoded(text)).ok();
            let both = read(user).zip(read(password));
            both.map(|(user, password)| Login { user, password })
                .ok_or_else(|| odd("has a name or password that is no UTF-8"))
        })
        .transpose()?;
    parts.authority = Some(bare);
    let url = Uri::from_parts(parts).map_err(|_| odd("is none: write https://HOST:PORT"))?;
    Ok((url, login))
}

/// Takes percent-encoding away; what is none stays.
fn decoded(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let [first, more @ ..] = rest {
        let digit = |at: usize| more.get(at).and_then(|sign| char::from(*sign).to_digit(16));
        let value = (*first == b'%').then(|| digit(0).zip(digit(1))).flatten();
        match value.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(value) => {
                out.push(value);
                rest = more.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    out
}
