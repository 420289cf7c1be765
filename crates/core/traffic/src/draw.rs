//! Random numbers without a state: each follows from a seed and a number.

/// Returns a number that looks random: the finalizer of SplitMix64 (Steele et al., 2014) over the seed and the number.
pub(crate) fn draw(seed: u64, number: u64) -> u64 {
    let mut bits = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Returns a drawn number as a fraction from 0 to 1, without 1.
pub(crate) fn fraction(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}
