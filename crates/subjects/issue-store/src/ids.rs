//! Short ids that no other issue has.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// The shortest random part of an id.
const SHORTEST: usize = 4;
/// Number of possible ids for each issue, at least. So fewer than one draw in a thousand is taken.
const SPARE: u64 = 1_000;

/// Draws the random parts of ids.
#[derive(Debug)]
pub(crate) struct Ids {
    random: StdRng,
    /// The greatest number of an issue that was seen.
    issues: Option<u64>,
}

impl Ids {
    /// Creates a generator. Without a seed, each has other ids.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            random: match seed {
                Some(seed) => StdRng::seed_from_u64(seed),
                None => rand::make_rng(),
            },
            issues: None,
        }
    }

    /// Notes the greatest number of an issue.
    pub(crate) fn note_issues(&mut self, issues: u64) {
        self.issues = Some(issues);
    }

    /// Returns the greatest number of an issue that was noted.
    pub(crate) fn issues(&self) -> Option<u64> {
        self.issues
    }

    /// Draws an id for a database with this many issues. Another issue may have it.
    pub(crate) fn draw(&mut self, prefix: &str, issues: u64) -> String {
        let mut id = format!("{prefix}-");
        for _ in 0..length(issues) {
            id.push(char::from(
                ALPHABET[self.random.random_range(0..ALPHABET.len())],
            ));
        }
        id
    }
}

/// Returns the length of the random part.
fn length(issues: u64) -> usize {
    let wanted = u128::from(issues) * u128::from(SPARE);
    let mut length = SHORTEST;
    while 36_u128.pow(length as u32) < wanted {
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_with_the_database_so_that_few_draws_are_taken() {
        assert_eq!(length(0), 4);
        assert_eq!(length(1_679), 4);
        assert_eq!(length(1_680), 5);
        assert_eq!(length(100_000), 6);
    }

    #[test]
    fn a_seed_gives_the_same_ids() {
        let draw = |seed| Ids::new(Some(seed)).draw("a", 0);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).len(), "a-".len() + SHORTEST);
    }
}
