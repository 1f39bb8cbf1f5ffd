//! Keys for tests, as BIND's `dnssec-keygen` made them.

use super::Key;

/// The two files of a key.
macro_rules! sample {
    ($name:literal) => {
        [
            include_str!(concat!("samples/Kexample.org.+", $name, ".key")),
            include_str!(concat!("samples/Kexample.org.+", $name, ".private")),
        ]
    };
}

/// RSASHA256, a KSK.
pub(crate) const RSA256: [&str; 2] = sample!("008+28591");
/// RSASHA512, a KSK.
pub(crate) const RSA512: [&str; 2] = sample!("010+06549");
/// ECDSAP256SHA256, a ZSK.
pub(crate) const ZSK: [&str; 2] = sample!("013+12921");
/// ECDSAP256SHA256, a KSK.
pub(crate) const KSK: [&str; 2] = sample!("013+17122");
/// ECDSAP384SHA384, a KSK.
pub(crate) const P384: [&str; 2] = sample!("014+03944");
/// ED25519, a KSK.
pub(crate) const ED25519: [&str; 2] = sample!("015+34131");

/// The key of two files.
pub(crate) fn key([public, private]: [&str; 2]) -> Key {
    Key::read(public, private).unwrap()
}
