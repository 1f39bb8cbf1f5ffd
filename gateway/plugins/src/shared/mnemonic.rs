//! Mnemonics as Corefiles may spell them.

/// The response code of a mnemonic; beside those of `wire` the second name of 16 and an old spelling of 4.
pub fn rcode(text: &str) -> Option<u16> {
    match &*text.to_ascii_uppercase() {
        "BADSIG" => Some(wire::rcode::BADSIG),
        "NOTIMPL" => Some(wire::rcode::NOTIMP),
        other => wire::text::rcode_number(other),
    }
}
