//! Masking of the client's frames (RFC 6455 §5.3).

/// Makes the keys of frames and handshakes from a seed. The keys are not secret: masking protects proxies from
/// scripts in browsers, and a load driver has none.
#[derive(Debug, Clone)]
pub struct Masks {
    state: u64,
}

impl Masks {
    /// Creates the keys of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the key of the next frame.
    pub fn next_key(&mut self) -> [u8; 4] {
        (self.next_word() as u32).to_ne_bytes()
    }

    /// Returns the next 64 bits (SplitMix64, Steele et al. 2014).
    pub(super) fn next_word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Masks or unmasks a whole payload: eight bytes at a time, which the compiler widens further.
pub fn apply_mask(payload: &mut [u8], key: [u8; 4]) {
    let half = u64::from(u32::from_ne_bytes(key));
    let wide = half | half << 32;
    let mut words = payload.chunks_exact_mut(8);
    for word in &mut words {
        let bytes: [u8; 8] = (&*word).try_into().expect("a chunk has eight bytes");
        word.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
    }
    let rest = words.into_remainder();
    rest.iter_mut()
        .zip(key.iter().cycle())
        .for_each(|(byte, key)| *byte ^= key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_combined_with_its_byte_of_the_key() {
        for length in 0..70 {
            let plain: Vec<u8> = (0..length).collect();
            let key = [1, 20, 77, 250];
            let mut masked = plain.clone();
            apply_mask(&mut masked, key);
            let expected = plain.iter().zip(key.iter().cycle());
            let expected: Vec<u8> = expected.map(|(byte, key)| byte ^ key).collect();
            assert_eq!(masked, expected);
        }
    }

    #[test]
    fn a_seed_gives_the_same_keys_again_and_the_keys_differ() {
        let (mut one, mut same, mut other) = (Masks::new(1), Masks::new(1), Masks::new(2));
        let keys: Vec<_> = (0..100).map(|_| one.next_key()).collect();
        assert!(keys.iter().all(|key| *key == same.next_key()));
        assert_ne!(keys[0], other.next_key());
        assert_eq!(
            keys.iter().collect::<std::collections::HashSet<_>>().len(),
            100
        );
    }
}
