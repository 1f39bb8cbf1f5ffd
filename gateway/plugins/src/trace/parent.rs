//! What a client says of the trace that its query is part of: Zipkin's B3 headers, and W3C's `traceparent`.

use engine::Http;

/// The span that a query belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// The span that this one belongs to in its turn.
    pub(super) above: Option<u64>,
}

/// What the headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing, or nothing that can be read.
    Nothing,
    /// That the query is not to be traced.
    Not,
    /// Whose part it is.
    Part(Parent),
}

impl Said {
    /// What there is of the headers of one or both kinds; W3C's counts first.
    pub(super) fn read(http: &Http, w3c: bool) -> Self {
        if w3c && let Some(said) = http.header("traceparent").and_then(traceparent) {
            return said;
        }
        if let Some(said) = http.header("b3").and_then(single) {
            return said;
        }
        let sampled = http.header("x-b3-sampled");
        if matches!(sampled, Some("0" | "false")) && http.header("x-b3-flags") != Some("1") {
            return Self::Not;
        }
        let part = || {
            Some(Parent {
                trace: trace(http.header("x-b3-traceid")?)?,
                span: span(http.header("x-b3-spanid")?)?,
                above: http.header("x-b3-parentspanid").and_then(span),
            })
        };
        part().map_or(Self::Nothing, Self::Part)
    }
}

/// The header `b3`: `TRACE-SPAN[-STATE[-PARENT]]`, or a state alone.
fn single(text: &str) -> Option<Said> {
    if text == "0" {
        return Some(Said::Not);
    }
    let mut parts = text.split('-');
    let (trace, span_of) = (trace(parts.next()?)?, span(parts.next()?)?);
    if parts.next() == Some("0") {
        return Some(Said::Not);
    }
    let above = parts.next().and_then(span);
    Some(Said::Part(Parent { trace, span: span_of, above }))
}

/// The header `traceparent` (W3C Trace Context §3.2): `00-TRACE-SPAN-FLAGS`.
fn traceparent(text: &str) -> Option<Said> {
    let mut parts = text.split('-');
    let version = parts.next().filter(|version| version.len() == 2 && *version != "ff")?;
    u8::from_str_radix(version, 16).ok()?;
    let (trace, span) = (parts.next().filter(|t| t.len() == 32)?, parts.next()?);
    let flags = u8::from_str_radix(parts.next().filter(|flags| flags.len() == 2)?, 16).ok()?;
    let parent = Parent { trace: self::trace(trace)?, span: self::span(span)?, above: None };
    Some(if flags & 1 == 0 { Said::Not } else { Said::Part(parent) })
}

/// A trace's number: 16 or 32 hexadecimal digits, not all zero.
fn trace(text: &str) -> Option<u128> {
    let is_hex = matches!(text.len(), 16 | 32) && text.bytes().all(|b| b.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|number| is_hex && *number != 0)
}

/// A span's number: 16 hexadecimal digits, not all zero.
fn span(text: &str) -> Option<u64> {
    let is_hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|number| is_hex && *number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What these headers say.
    fn read(headers: &[(&'static str, &str)], w3c: bool) -> Said {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Said::read(&Http { headers, ..Http::default() }, w3c)
    }

    #[test]
    fn b3_headers() {
        let part = |trace, span, above| Said::Part(Parent { trace, span, above });
        let (t, s) = ("00000000000000aa", "00000000000000bb");
        let both = [("x-b3-traceid", t), ("x-b3-spanid", s)];
        assert_eq!(read(&[], false), Said::Nothing);
        assert_eq!(read(&both, false), part(0xaa, 0xbb, None));
        assert_eq!(read(&both[..1], false), Said::Nothing);
        let all = [both[0], both[1], ("x-b3-parentspanid", "00000000000000cc")];
        assert_eq!(read(&all, false), part(0xaa, 0xbb, Some(0xcc)));
        let with = |name, value| read(&[both[0], both[1], (name, value)], false);
        assert_eq!(with("x-b3-sampled", "0"), Said::Not);
        assert_eq!(with("x-b3-sampled", "false"), Said::Not);
        assert_eq!(with("x-b3-sampled", "1"), part(0xaa, 0xbb, None));
        assert_eq!(read(&[("x-b3-sampled", "0"), ("x-b3-flags", "1")], false), Said::Nothing);
        let wide = "000000000000000000000000000000aa";
        for (text, want) in [
            ("0", Said::Not),
            ("1", Said::Nothing),
            (&*format!("{t}-{s}"), part(0xaa, 0xbb, None)),
            (&*format!("{wide}-{s}-1"), part(0xaa, 0xbb, None)),
            (&*format!("{t}-{s}-0"), Said::Not),
            (&*format!("{t}-{s}-d-00000000000000cc"), part(0xaa, 0xbb, Some(0xcc))),
            (&*format!("{t}-x"), Said::Nothing),
            (&*format!("+0000000000000aa-{s}"), Said::Nothing),
            (&*format!("0000000000000000-{s}"), Said::Nothing),
        ] {
            assert_eq!(read(&[("b3", text)], false), want, "{text}");
        }
    }

    #[test]
    fn traceparent_headers() {
        let (t, s) = ("000000000000000000000000000000aa", "00000000000000bb");
        let part = Said::Part(Parent { trace: 0xaa, span: 0xbb, above: None });
        for (text, want) in [
            (format!("00-{t}-{s}-01"), part),
            (format!("00-{t}-{s}-00"), Said::Not),
            (format!("cc-{t}-{s}-01-more"), part),
            (format!("ff-{t}-{s}-01"), Said::Nothing),
            (format!("00-aa-{s}-01"), Said::Nothing),
            (format!("00-{t}-{s}"), Said::Nothing),
        ] {
            assert_eq!(read(&[("traceparent", &text)], true), want, "{text}");
            assert_eq!(read(&[("traceparent", &text)], false), Said::Nothing, "{text}");
        }
        let older = [("traceparent", "junk"), ("b3", "0")];
        assert_eq!(read(&older, true), Said::Not);
    }
}
