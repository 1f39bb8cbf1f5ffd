//! Keys, canonical forms and signatures.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use wire::{Name, rtype};

use super::samples::{self, key};
use super::{Digest, Key, Times, body, labels};

/// Octets as hexadecimal digits in upper case, as `dnssec-dsfromkey` writes them.
fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02X}")).collect()
}

#[test]
fn keys_have_the_tags_and_digests_that_bind_tells() {
    let name = Name::parse("example.org").unwrap();
    for (files, tag, entry, sha256, sha1) in [
        (
            samples::RSA256,
            28591,
            true,
            "D7157CAAFA924467A5A1C0E4C28917BACD70726B6DDE7CA565A386E8CD4BB01E",
            "B8A709328843D0CE8F6F9BE09296752724E71C09",
        ),
        (
            samples::ZSK,
            12921,
            false,
            "F6CEBC78CB8D3485ADDEB89D1F5B4FA5DDD8CF6509925B54D014A1B93E4B4AC9",
            "98AF9C5F7A326D83D6432BF28B22D60F7757EB7A",
        ),
        (
            samples::ED25519,
            34131,
            true,
            "96EEBA9BDA04D27CEAB67933687BC7DEEEE6FA65FF9E38EA87AA3EF5378D6516",
            "7854C49AC7E9A3F9845BF342F2F0018C26E0ABAB",
        ),
    ] {
        let key = key(files);
        assert_eq!((key.tag(), key.is_entry(), key.owner()), (tag, entry, &name));
        let algorithm = key.data()[3];
        for (kind, number, want) in [(Digest::Sha256, 2, sha256), (Digest::Sha1, 1, sha1)] {
            let head = hex(&[&tag.to_be_bytes()[..], &[algorithm, number]].concat());
            assert_eq!(hex(&key.ds(&name, kind)), head + want);
        }
    }
}

#[test]
fn signatures_of_every_algorithm_are_good() {
    let zone = Name::parse("example.org").unwrap();
    let times = Times { inception: 1_700_000_000, expiration: 1_700_086_400 };
    let body = body(zone.wire(), rtype::A, 60, [&[198, 51, 100, 1][..]].into_iter());
    for files in [
        samples::RSA256,
        samples::RSA512,
        samples::ZSK,
        samples::KSK,
        samples::P384,
        samples::ED25519,
    ] {
        let key = key(files);
        let data = key.signature(&zone, (rtype::A, 2, 60), times, &body).unwrap();
        let (head, signature) = data.split_at(18 + zone.wire().len());
        assert_eq!(head[2..4], [key.data()[3], 2]);
        let signed = [head, &body].concat();
        let (algorithm, public) = (key.data()[3], &key.data()[4..]);
        let point = [&[4], public].concat();
        let checked =
            match algorithm {
                8 | 10 => {
                    // An exponent of three octets.
                    let public = RsaPublicKeyComponents { n: &public[4..], e: &public[1..4] };
                    let form = if algorithm == 8 {
                        &RSA_PKCS1_2048_8192_SHA256
                    } else {
                        &RSA_PKCS1_2048_8192_SHA512
                    };
                    public.verify(form, &signed, signature)
                }
                13 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(&signed, signature),
                14 => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(&signed, signature),
                _ => UnparsedPublicKey::new(&ED25519, public).verify(&signed, signature),
            };
        assert!(checked.is_ok(), "{algorithm}");
        assert_eq!(key.is_slow(), algorithm < 13);
    }
}

#[test]
fn files_that_are_no_key_are_refused_without_their_secret() {
    let [public, private] = samples::KSK;
    let [other, _] = samples::ZSK;
    let [rsa, rsa_private] = samples::RSA256;
    let [_, rsa_other] = samples::RSA512;
    let secret = private.lines().find_map(|line| line.strip_prefix("PrivateKey: ")).unwrap();
    let rsa_stranger = rsa_other.replace("Algorithm: 10", "Algorithm: 8");
    for (public, private, want) in [
        ("", private, "is empty"),
        ("example.org. A 198.51.100.1", private, "is no DNSKEY record"),
        ("example.org. DNSKEY 257 3 13", private, "cannot be read"),
        (&public.replace("257 3", "0 3"), private, "flags are 256 or 257"),
        (&public.replace("257 3", "385 3"), private, "revoked"),
        (other, private, "not the one of the public key"),
        (rsa, private, "algorithm is 8, the private key's 13"),
        (rsa, &rsa_stranger, "not the one of the public key"),
        (rsa, &rsa_private.replace("Prime1", "Prime9"), "no field Prime1"),
        (rsa, &rsa_private.replace("Prime1: ", "Prime1: BBBB"), "no sound RSA key"),
        (public, "", "no line `Private-key-format"),
        (public, "hello", "not `Field: value`"),
        (public, &private.replace("v1.3", "v2.0"), "format is not v1"),
        (public, &private.replace("Algorithm: 13", "Algorithm: x"), "no line `Algorithm"),
        (public, &private.replace(secret, "*"), "not base64"),
        (
            &public.replace("3 13", "3 5"),
            &private.replace("Algorithm: 13", "Algorithm: 5"),
            "must not be",
        ),
        (
            &public.replace("3 13", "3 16"),
            &private.replace("Algorithm: 13", "Algorithm: 16"),
            "16 is none of",
        ),
    ] {
        let wrong = Key::read(public, private).unwrap_err().to_string();
        assert!(wrong.contains(want), "{wrong}");
        assert!(!wrong.contains(secret), "{wrong}");
    }
    // Zeros in front may be left out, comments and spaces be there.
    let commented = format!("; a comment\n\n{}", private.replace("PrivateKey:", "PrivateKey :"));
    assert!(Key::read(public, &commented).is_ok());
}

#[test]
fn sets_have_one_form_whatever_their_order_and_case() {
    let form = |owner: &[u8], kind, records: &[&[u8]]| {
        body(owner, kind, 3600, records.iter().copied()).to_vec()
    };
    let one = form(b"\x01a\x01o\0", rtype::MX, &[b"\x00\x0a\x01m\0", b"\x00\x05\x01n\0"]);
    let head = b"\x01a\x01o\0\x00\x0f\x00\x01\x00\x00\x0e\x10\x00\x05";
    let want = [&head[..], b"\x00\x05\x01n\0", &head[..], b"\x00\x0a\x01m\0"].concat();
    assert_eq!(one, want);
    let twice: [&[u8]; 3] = [b"\x00\x05\x01N\0", b"\x00\x0a\x01M\0", b"\x00\x05\x01n\0"];
    assert_eq!(form(b"\x01A\x01o\0", rtype::MX, &twice), want);
    // A shorter one comes first; text keeps its case, and so does the name in an NSEC record.
    let texts = form(b"\0", rtype::TXT, &[b"\x02Ab", b"\x01A"]);
    let head = |len| [&b"\0\x00\x10\x00\x01\x00\x00\x0e\x10\x00"[..], &[len]].concat();
    assert_eq!(texts, [&head(2)[..], b"\x01A", &head(3), b"\x02Ab"].concat());
    assert!(form(b"\0", rtype::NSEC, &[b"\x01A\0"]).ends_with(b"\x01A\0"));
    for (kind, data, want) in [
        (
            rtype::SOA,
            &b"\x01A\0\x01B\0________ABCDEFGHIJKL"[..],
            &b"\x01a\0\x01b\0________ABCDEFGHIJKL"[..],
        ),
        (rtype::SRV, b"ABCDEF\x01T\0", b"ABCDEF\x01t\0"),
        (rtype::NAPTR, b"ABCD\x01S\x02ST\0\x01N\0", b"ABCD\x01S\x02ST\0\x01n\0"),
        (rtype::RRSIG, b"ABCDEFGHIJKLMNOPQR\x01Z\0SIG", b"ABCDEFGHIJKLMNOPQR\x01z\0SIG"),
        // Data that is cut short is taken as it is.
        (rtype::NAPTR, b"AB", b"AB"),
        (rtype::MX, b"AB\x05T", b"AB\x05T"),
    ] {
        assert!(form(b"\0", kind, &[data]).ends_with(want), "{kind}");
    }
    for (owner, want) in
        [(&b"\0"[..], 0), (b"\x01*\x01a\0", 1), (b"\x02**\x01a\0", 2), (b"\x01a\0", 1)]
    {
        assert_eq!(labels(owner), want);
    }
}
