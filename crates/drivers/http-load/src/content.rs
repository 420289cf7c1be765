//! Comparison of response bodies with the expected one, by a checksum of each body or of a sample small enough to cost
//! next to no time.

use std::fs;

use load::net::http1::Sink;
use load::plan::Invalid;
use serde::{Deserialize, Serialize};

use crate::roles::checks::ResponseCapture;

/// Bytes of body that are checksummed per response on average: 0.1 µs on current processors.
const SUMMED: u64 = 4096;
/// The fractional part of the golden ratio in 64 bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The body that every response should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) length: u64,
    /// CRC-32C.
    sum: u32,
    /// Every n-th response is compared.
    every: u64,
}

impl Expected {
    /// Expects the body of the responses before the run; of long bodies a sample is compared.
    pub(crate) fn sampled(length: u64, sum: u32) -> Self {
        Self {
            length,
            sum,
            every: length.div_ceil(SUMMED).max(1),
        }
    }

    /// Expects the body that `--expect-body` names: a text, or the name of a file after an @.
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

    /// Returns true for operations whose responses are compared: spread evenly, the same ones in each run.
    pub(crate) fn compares(&self, index: u64) -> bool {
        self.every == 1 || (index.wrapping_mul(GOLDEN) >> 32).is_multiple_of(self.every)
    }

    /// Returns true if `sum` is the checksum of the expected body.
    pub(crate) fn has_sum(&self, sum: u32) -> bool {
        self.sum == sum
    }
}

/// The running checksum of a body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checksum(pub(crate) u32);

impl Checksum {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, piece);
    }
}

impl Sink for Checksum {
    fn body(&mut self, piece: &[u8]) {
        self.update(piece);
    }
}

/// Keeps the parts of a response that checks need, and computes the checksum if the body is compared.
pub(crate) struct ResponseSink<'a> {
    pub(crate) capture: ResponseCapture<'a>,
    pub(crate) sum: Option<&'a mut Checksum>,
}

impl Sink for ResponseSink<'_> {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.capture.head(status, headers);
    }

    fn body(&mut self, piece: &[u8]) {
        self.capture.body(piece);
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
        let mut sum = Checksum::default();
        for piece in ["he", "llo"] {
            sum.update(piece.as_bytes());
        }
        assert!(text.length == 5 && text.has_sum(sum.0) && !text.has_sum(0));
        let missing = Expected::named("@/nowhere").unwrap_err().to_string();
        assert!(missing.contains("--expect-body @/nowhere"), "{missing}");
    }
}
