//! Records as text and as octets.

use wire::{Name, class, rtype};

use super::{Defaults, Record, data_text, ttl};

/// The data of a record as hexadecimal digits.
fn data(text: &str) -> Result<String, String> {
    let defaults = Defaults { origin: Name::parse("o").unwrap(), ..Defaults::default() };
    let record = Record::parse(text, &defaults).map_err(|wrong| wrong.to_string())?;
    Ok(record.unwrap().data.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn owner_class_ttl_and_type_are_read_in_any_order() {
    let defaults =
        Defaults { origin: Name::parse("Example.org").unwrap(), ttl: 77, class: class::IN };
    for (text, owner, class, ttl) in [
        ("a.test. 60 IN A 198.51.100.1", "\x01a\x04test\0", class::IN, 60),
        ("A.test. IN 1h30m A 198.51.100.1", "\x01A\x04test\0", class::IN, 5400),
        ("@ A 198.51.100.1", "\x07example\x03org\0", class::IN, 77),
        ("w CH A 198.51.100.1", "\x01w\x07example\x03org\0", class::CH, 77),
        ("  w. ( 5 ; comment\n A ) 198.51.100.1 ; more", "\x01w\0", class::IN, 5),
        ("\n; nothing\nw. A 198.51.100.1\nx. A 198.51.100.2", "\x01w\0", class::IN, 77),
        (r"a\.b. A 198.51.100.1", "\x03a.b\0", class::IN, 77),
        (r"a\. A 198.51.100.1", "\x02a.\x07example\x03org\0", class::IN, 77),
        ("a. 1 CLASS3 TYPE1 198.51.100.1", "\x01a\0", class::CH, 1),
    ] {
        let record = Record::parse(text, &defaults)
            .unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
            .unwrap();
        assert_eq!(record.data, [198, 51, 100, 1], "{text}");
        let own = (&*record.owner, record.class, record.rtype, record.ttl);
        assert_eq!(own, (owner.as_bytes(), class, rtype::A, ttl), "{text}");
    }
    assert_eq!(Record::parse(" ; nothing\n", &defaults), Ok(None));
}

#[test]
fn data_of_every_type_is_read() {
    for (text, want) in [
        ("A 198.51.100.7", "c6336407"),
        ("AAAA 2001:db8::1", "20010db8000000000000000000000001"),
        ("CNAME w", "0177016f00"),
        ("NS w.", "017700"),
        ("MX 10 @", "000a016f00"),
        ("SRV 1 2 3 .", "00010002000300"),
        ("SOA a. b. ( 1 1h 60 1d 2m )", "0161000162000000000100000e100000003c0001518000000078"),
        ("TXT \"a b\" c \"\" \\065\\\"", "036120620163000241 22"),
        ("HINFO cpu \"o s\"", "03637075036f2073"),
        ("NAPTR 1 2 u \"E2U+sip\" \"!a!b!\" .", "0001000201750745 32552b7369700521612162 2100"),
        ("CAA 0 issue \"ca.test\"", "0005697373756563612e74657374"),
        ("URI 1 2 \"https://a\"", "0001000268747470733a2f2f61"),
        ("TLSA 3 1 1 ab cd", "030101abcd"),
        ("SSHFP 4 2 abcd", "0402abcd"),
        ("DS 7 ED25519 2 abcd", "00070f02abcd"),
        ("DNSKEY 257 3 13 AAEC", "0101030d000102"),
        (
            "RRSIG A 13 2 60 20250131235959 1738368000 5 o. AAA=",
            "00010d020000003c679d63ff679d6400 0005016f000000",
        ),
        ("NSEC b. A MX RRSIG TYPE257", "0162000006400100000002010140"),
        ("NSEC3 1 0 5 ab 00 A", "0100000501ab01000001 40"),
        ("NSEC3PARAM 1 0 0 -", "0100000000"),
        ("RP a. b.", "016100016200"),
        ("EUI48 00-11-22-aa-bb-cc", "001122aabbcc"),
        ("L64 5 2001:0db8:0000:0001", "000520010db800000001"),
        ("SVCB 0 a.", "0000016100"),
        (
            "HTTPS 1 . port=8443 alpn=\"h2,h3\" ipv4hint=198.51.100.1",
            "000100000100060268320268330003000220fb00040004c6336401",
        ),
        (
            "HTTPS 1 . key65000=\"a b\" no-default-alpn mandatory=port,alpn",
            "00010000000004000100030002 0000fde80003612062",
        ),
        (
            "LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m",
            "00001613 8b3cf018 810cbce0 009895b8",
        ),
        ("LOC 1 S 2 3 W 1m", "00121613 7fc91180 7f8f63e0 009896e4"),
        ("APL 1:198.51.100.0/24 !2:2001:db8::/32", "00011803c63364 0002208420010db8"),
        ("IPSECKEY 10 1 2 198.51.100.9 AAEC", "0a0102c6336409000102"),
        ("IPSECKEY 10 3 2 a", "0a030201610 16f00"),
        ("HIP 2 abcd AAEC r", "02020003abcd00010201720 16f00"),
        ("AMTRELAY 10 1 2 2001:db8::1", "0a8220010db8000000000000000000000001"),
        ("CERT PKIX 1 8 AAEC", "0001000108000102"),
        ("TYPE65280 \\# 3 ab cdef", "abcdef"),
        ("A \\# 4 c6336407", "c6336407"),
    ] {
        assert_eq!(data(&format!("x. {text}")), Ok(want.replace(' ', "")), "{text}");
        // What is written is read back as the same.
        let record = Record::parse(
            &format!("x. {text}"),
            &Defaults { origin: Name::parse("o").unwrap(), ..Defaults::default() },
        );
        let record = record.unwrap().unwrap();
        let written = data_text(record.rtype, &record.data);
        let kind = wire::text::type_name(record.rtype);
        assert_eq!(data(&format!("x. {kind} {written}")), Ok(want.replace(' ', "")), "{written}");
    }
}

#[test]
fn data_is_written_in_the_form_of_its_type() {
    for (kind, data, want) in [
        (rtype::A, &b"\xc6\x33\x64\x07"[..], "198.51.100.7"),
        (rtype::TXT, b"\x04a\"\\\x00\x00", r#""a\"\\\000" """#),
        (rtype::MX, b"\x00\x0a\x01w\x00", "10 w."),
        (rtype::DNSKEY, b"\x01\x01\x03\x0d\xff\xfe\xfd\xfc", "257 3 13 //79/A=="),
        (rtype::NSEC, b"\x01b\x00\x00\x01\x40\x01\x01\x40", "b. A CAA"),
        (rtype::NSEC, b"\x01b\x00", "b."),
        // Data that is not of its type, and that of types without a form.
        (rtype::A, b"\xc6\x33\x64", "\\# 3 c63364"),
        (65280, b"", "\\# 0"),
        (rtype::SVCB, b"\x00\x00\x01a\x00", "\\# 5 0000016100"),
    ] {
        assert_eq!(data_text(kind, data), want);
    }
}

#[test]
fn what_is_no_record_is_refused() {
    for (text, wrong) in [
        ("x.", "the record type is missing"),
        ("x. 60 IN", "the record type is missing"),
        ("x. 60 60 A 198.51.100.1", "'60' is no time to live, class or record type"),
        ("x. NONSENSE a", "'NONSENSE' is no time to live, class or record type"),
        ("x. A 198.51.100.999", "A: '198.51.100.999' is no IPv4 address"),
        ("x. A", "A: a word is missing"),
        ("x. A 198.51.100.1 b", "A: 'b' is one word too many"),
        ("x. MX a b", "MX: 'a' is no number up to 65535"),
        ("x. MX 70000 b", "MX: '70000' is no number up to 65535"),
        ("x. CNAME a..b", "CNAME: 'a..b' is no domain name"),
        ("x. TXT \"a", "a quote is not closed"),
        ("x. TXT \\2a", r"TXT: '\2a' has an escape that is none: write \DDD up to 255"),
        ("x. SOA a. b. ( 1 2 3 4 5", "a parenthesis is not closed"),
        ("x. A 198.51.100.1 )", "a parenthesis is closed that is not open"),
        ("x. EID 1 2 3", r"records of type EID are written as \# LENGTH HEXADECIMAL here"),
        ("x. LOC 1 2 3", "LOC: write: 52 22 23.000 N 4 53 32.000 E -2.00m 0m 10000m 10m"),
        ("x. APL 3:a/1", "APL: write: 1:198.51.100.0/24 !2:2001:db8::/32"),
        ("x. IPSECKEY 1 1 2 a", "IPSECKEY: 'a' is no gateway of type 1"),
        ("x. TYPE9 \\# 2 ab", "behind \\# stand a length and as many octets in hexadecimal"),
        ("x. TLSA 3 1 1", "TLSA: '' is not hexadecimal"),
        ("x. DNSKEY 1 3 8 A*", "DNSKEY: 'A*' is no Base 64"),
        ("x. HTTPS 1 . port=x", "HTTPS: 'x' is no value of 'port'"),
        ("x. HTTPS 1 . port=1 port=2", "HTTPS: 'port' is there twice"),
        ("x. HTTPS 1 . nonsense", "HTTPS: 'nonsense' is no parameter"),
        ("x. OPT a", "'OPT' is no time to live, class or record type"),
    ] {
        assert_eq!(data(text), Err(wrong.to_owned()), "{text}");
    }
}

#[test]
fn times_have_units() {
    for (text, want) in [
        ("0", Some(0)),
        ("3600", Some(3600)),
        ("1h", Some(3600)),
        ("1W2D3H4M5S", Some(788_645)),
        ("1h30", Some(3630)),
        ("h", None),
        ("", None),
        ("1x", None),
        ("4294967296", None),
        ("9999999w", None),
    ] {
        assert_eq!(ttl(text), want, "{text}");
    }
}
