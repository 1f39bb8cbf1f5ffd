//! What signatures are made with (RFC 8624 §3.1).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair, RsaSignatureEncoding,
};

use super::bind::Fields;
use super::key::BadKey;

/// RSA with SHA-256 (RFC 5702).
const RSASHA256: u8 = 8;
/// RSA with SHA-512 (RFC 5702).
const RSASHA512: u8 = 10;
/// ECDSA with P-256 and SHA-256 (RFC 6605).
const ECDSAP256: u8 = 13;
/// ECDSA with P-384 and SHA-384 (RFC 6605).
const ECDSAP384: u8 = 14;
/// Ed25519 (RFC 8080).
const ED25519: u8 = 15;

/// A private key.
pub(super) enum Secret {
    /// ECDSA.
    Ecdsa(EcdsaKeyPair),
    /// Ed25519.
    Ed25519(Ed25519KeyPair),
    /// RSA with a hash.
    Rsa(Box<RsaKeyPair>, &'static RsaSignatureEncoding),
    /// One that always fails, as none of the others can be made to.
    #[cfg(test)]
    Dead,
}

impl std::fmt::Debug for Secret {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ecdsa(_) => "ECDSA",
            Self::Ed25519(_) => "Ed25519",
            Self::Rsa(..) => "RSA",
            #[cfg(test)]
            Self::Dead => "dead",
        })
    }
}

impl Secret {
    /// The private key of these fields; `public` is what the DNSKEY record has behind its algorithm.
    ///
    /// # Errors
    /// If it is none, or another one's.
    pub(super) fn read(fields: &Fields<'_>, public: &[u8]) -> Result<Self, BadKey> {
        const STRANGER: &str = "the private key is not the one of the public key";
        match fields.algorithm {
            RSASHA256 => Self::rsa(fields, public, &RSA_PKCS1_SHA256),
            RSASHA512 => Self::rsa(fields, public, &RSA_PKCS1_SHA512),
            number @ (ECDSAP256 | ECDSAP384) => {
                let (form, len) = match number {
                    ECDSAP256 => (&ECDSA_P256_SHA256_FIXED_SIGNING, 32),
                    _ => (&ECDSA_P384_SHA384_FIXED_SIGNING, 48),
                };
                let number = fields.octets("PrivateKey")?;
                // Some tools leave zeros in front out.
                let mut scalar = vec![0; len.max(number.len()) - number.len()];
                scalar.extend_from_slice(&number);
                // A point in uncompressed form (SEC 1 §2.3.3); the record leaves the first octet out (RFC 6605 §4).
                let point = [&[4], public].concat();
                let pair = EcdsaKeyPair::from_private_key_and_public_key(form, &scalar, &point);
                pair.map(Self::Ecdsa).map_err(|_| STRANGER.into())
            }
            ED25519 => {
                let seed = fields.octets("PrivateKey")?;
                let pair = Ed25519KeyPair::from_seed_and_public_key(&seed, public);
                pair.map(Self::Ed25519).map_err(|_| STRANGER.into())
            }
            1 | 3 | 5 | 6 | 7 => {
                Err("the algorithm must not be signed with any more (RFC 8624, RFC 9905): \
                 take ECDSAP256SHA256"
                    .into())
            }
            number => Err(BadKey::new(format!(
                "algorithm {number} is none of RSASHA256, RSASHA512, ECDSAP256SHA256, ECDSAP384SHA384 and ED25519"
            ))),
        }
    }

    /// An RSA key.
    fn rsa(
        fields: &Fields<'_>,
        public: &[u8],
        form: &'static RsaSignatureEncoding,
    ) -> Result<Self, BadKey> {
        let mut numbers = vec![0x02, 0x01, 0x00];
        for name in [
            "Modulus",
            "PublicExponent",
            "PrivateExponent",
            "Prime1",
            "Prime2",
            "Exponent1",
            "Exponent2",
            "Coefficient",
        ] {
            integer(&fields.octets(name)?, &mut numbers);
        }
        // An RSAPrivateKey (RFC 8017 §A.1.2).
        let mut der = vec![0x30];
        length(numbers.len(), &mut der);
        der.extend_from_slice(&numbers);
        let pair = RsaKeyPair::from_der(&der).map_err(|_| {
            BadKey::from("the private key is no sound RSA key of 2048 to 8192 bits")
        })?;
        // RFC 3110 §2: the length of the exponent in one octet, or in two behind a zero; exponent, modulus.
        let (len, rest) = match public {
            [0, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            [len, rest @ ..] => (usize::from(*len), rest),
            [] => (0, public),
        };
        let (exponent, modulus) = rest.split_at_checked(len).unwrap_or_default();
        // An RSAPublicKey (RFC 8017 §A.1.1).
        let mut numbers = Vec::new();
        integer(modulus, &mut numbers);
        integer(exponent, &mut numbers);
        let mut der = vec![0x30];
        length(numbers.len(), &mut der);
        der.extend_from_slice(&numbers);
        if pair.public_key().as_ref() != der {
            return Err("the private key is not the one of the public key".into());
        }
        Ok(Self::Rsa(Box::new(pair), form))
    }

    /// Whether a signature takes so long that nobody else should have to wait for it: about a millisecond, not some
    /// microseconds.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self, Self::Rsa(..))
    }

    /// Appends the signature of `data`; none if that fails, which leaves `out` as it was.
    pub(super) fn sign(&self, data: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            #[cfg(test)]
            Self::Dead => return None,
            Self::Ecdsa(pair) => {
                out.extend_from_slice(pair.sign(&SystemRandom::new(), data).ok()?.as_ref());
            }
            Self::Ed25519(pair) => out.extend_from_slice(pair.try_sign(data).ok()?.as_ref()),
            Self::Rsa(pair, form) => {
                let at = out.len();
                out.resize(at + pair.public_modulus_len(), 0);
                let room = out.get_mut(at..)?;
                if pair.sign(*form, &SystemRandom::new(), data, room).is_err() {
                    out.truncate(at);
                    return None;
                }
            }
        }
        Some(())
    }
}

/// Appends a whole number in DER (X.690 §8.3): no zeros in front, but one where the number would be a negative one.
fn integer(octets: &[u8], out: &mut Vec<u8>) {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    let number = octets.get(zeros..).unwrap_or_default();
    let sign = number.first().is_none_or(|first| *first >= 0x80);
    out.push(0x02);
    length(number.len() + usize::from(sign), out);
    out.extend(sign.then_some(0));
    out.extend_from_slice(number);
}

/// Appends a length in DER (X.690 §8.1.3).
fn length(len: usize, out: &mut Vec<u8>) {
    if let Ok(short @ ..0x80) = u8::try_from(len) {
        return out.push(short);
    }
    let octets = len.to_be_bytes();
    let used = octets.iter().position(|octet| *octet != 0).unwrap_or_default();
    let number = octets.get(used..).unwrap_or_default();
    // Eight octets at most.
    out.push(0x80 | u8::try_from(number.len()).unwrap_or(8));
    out.extend_from_slice(number);
}
