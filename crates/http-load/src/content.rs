//! Whether contents are those that are expected: by a checksum of each, or of so many that it costs no time to speak of.

use std::fs;

use harness::plan::Invalid;
use serde::{Deserialize, Serialize};

use crate::answer::Sink;
use crate::checks::Keeper;

/// Bytes of content that are summed up for each answer on average: 0.1 µs on the processors of today.
const SUMMED: u64 = 4096;
/// The golden ratio's fraction in 64 bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The content that every answer should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) length: u64,
    /// CRC-32C.
    sum: u32,
    /// One answer of so many is compared.
    every: u64,
}

impl Expected {
    /// What the answers before the run had; of long ones a share is compared.
    pub(crate) fn sampled(length: u64, sum: u32) -> Self {
        Self {
            length,
            sum,
            every: length.div_ceil(SUMMED).max(1),
        }
    }

    /// What `--expect-body` asks of every answer: a text, or behind an @ the name of a file.
    ///
    /// # Errors
    /// A file that can't be read.
    pub(crate) fn named(text: &str) -> Result<Self, Invalid> {
        let content = match text.strip_prefix('@') {
            Some(path) => fs::read(path).map_err(|error| {
                let field = format!("driver.expect_body (--expect-body {text})");
                let problem = format!("{error}: name a file that can be read, or a text without @");
                Invalid::new(field, problem)
            })?,
            None => text.as_bytes().to_vec(),
        };
        Ok(Self {
            length: content.len() as u64,
            sum: crc32c::crc32c(&content),
            every: 1,
        })
    }

    /// Returns true for the operations whose answers are compared: spread evenly, the same ones in each run.
    pub(crate) fn compares(&self, index: u64) -> bool {
        self.every == 1 || (index.wrapping_mul(GOLDEN) >> 32).is_multiple_of(self.every)
    }

    /// Returns true for the checksum of the expected content.
    pub(crate) fn has(&self, sum: u32) -> bool {
        self.sum == sum
    }
}

/// The checksum of a content, piece by piece.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(pub(crate) u32);

impl Sum {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, piece);
    }
}

impl Sink for Sum {
    fn body(&mut self, piece: &[u8]) {
        self.update(piece);
    }
}

/// Keeps what checks ask for, and sums up what is compared.
pub(crate) struct Both<'a> {
    pub(crate) keeper: Keeper<'a>,
    pub(crate) sum: Option<&'a mut Sum>,
}

impl Sink for Both<'_> {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.keeper.head(status, headers);
    }

    fn body(&mut self, piece: &[u8]) {
        self.keeper.body(piece);
        if let Some(sum) = &mut self.sum {
            sum.update(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_contents_an_even_share_is_compared_and_of_short_ones_all() {
        let short = Expected::sampled(4096, 1);
        assert!((0..100).all(|index| short.compares(index)));
        let long = Expected::sampled(100 * 4096, 1);
        for users in [1, 2, 3, 100] {
            let compared = (0..100_000).filter(|turn| long.compares(turn * users));
            assert!((800..1_200).contains(&compared.count()), "{users}");
        }
    }

    #[test]
    fn an_expected_content_is_a_text_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content");
        fs::write(&path, "hello").unwrap();
        let text = Expected::named("hello").unwrap();
        assert_eq!(
            Expected::named(&format!("@{}", path.display())).unwrap(),
            text
        );
        let mut sum = Sum::default();
        for piece in ["he", "llo"] {
            sum.update(piece.as_bytes());
        }
        assert!(text.length == 5 && text.has(sum.0) && !text.has(0));
        let missing = Expected::named("@/nowhere").unwrap_err().to_string();
        assert!(missing.contains("--expect-body @/nowhere"), "{missing}");
    }
}
