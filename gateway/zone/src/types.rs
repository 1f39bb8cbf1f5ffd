//! Lists of record types, as NSEC records have them (RFC 4034 §4.1.2).

/// Appends the list of `types`, which are in ascending order; a type that comes twice is there once.
pub fn write_types<B: Extend<u8>>(types: impl IntoIterator<Item = u16>, out: &mut B) {
    let mut window = None;
    let mut bits = [0u8; 32];
    let flush = |window: Option<u8>, bits: &[u8; 32], out: &mut B| {
        let used = bits.iter().rposition(|octet| *octet != 0).map(|last| last + 1);
        if let (Some(window), Some(used)) = (window, used) {
            // A window has 32 octets at most.
            out.extend([window, u8::try_from(used).unwrap_or(32)]);
            out.extend(bits.iter().take(used).copied());
        }
    };
    for number in types {
        let [own, low] = number.to_be_bytes();
        if window != Some(own) {
            flush(window, &bits, out);
            (window, bits) = (Some(own), [0; 32]);
        }
        if let Some(octet) = bits.get_mut(usize::from(low / 8)) {
            *octet |= 0x80 >> (low % 8);
        }
    }
    flush(window, &bits, out);
}

/// The types of a list, in ascending order; ends where the list is wrong.
pub fn types_in(mut list: &[u8]) -> impl Iterator<Item = u16> {
    let windows = std::iter::from_fn(move || {
        let ([window, len], rest) = list.split_first_chunk::<2>()?;
        let (bits, rest) = rest.split_at_checked(usize::from(*len))?;
        list = rest;
        Some((*window, bits))
    });
    windows.flat_map(|(window, bits)| {
        let set = (0..=u8::MAX).filter(move |low| {
            bits.get(usize::from(low / 8)).is_some_and(|octet| octet & 0x80 >> (low % 8) != 0)
        });
        set.map(move |low| u16::from_be_bytes([window, low]))
    })
}
