//! Short ids that no other issue has.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// The shortest random part of an id.
const SHORTEST: usize = 4;
/// Number of possible ids for each issue, at least. So fewer than one draw in a thousand is taken.
const SPARE: u64 = 1_000;
/// Characters of the random part that consecutive ids do not share.
const OWN: usize = 3;
/// Consecutive ids that share the characters before those, at most: one draw in a thousand is taken by another of them.
const CONSECUTIVE: usize = 64;

/// Draws the random parts of ids.
///
/// Consecutive ids of a transaction share their first characters, so that they are on one page of the index. If each were
/// elsewhere, a group of 64 creates would write 89 pages instead of 30.
#[derive(Debug)]
pub(crate) struct Ids {
    random: StdRng,
    /// The greatest number of an issue that was seen.
    issues: Option<u64>,
    shared: String,
    /// The number of ids that may still share the characters.
    left: usize,
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
            shared: String::new(),
            left: 0,
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
        let shared = length(issues) - OWN;
        if self.left == 0 || self.shared.len() != shared {
            self.shared = self.characters(shared);
            self.left = CONSECUTIVE;
        }
        self.left -= 1;
        let own = self.characters(OWN);
        format!("{prefix}-{}{own}", self.shared)
    }

    /// Lets the next id share nothing with those before it.
    pub(crate) fn separate(&mut self) {
        self.left = 0;
    }

    fn characters(&mut self, count: usize) -> String {
        let mut draw = || ALPHABET[self.random.random_range(0..ALPHABET.len())];
        (0..count).map(|_| char::from(draw())).collect()
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
    fn consecutive_ids_share_their_beginning_until_they_are_separated_or_many() {
        let mut ids = Ids::new(Some(1));
        let mut draw = |count| -> Vec<String> {
            ids.separate();
            (0..count).map(|_| ids.draw("a", 100_000)).collect()
        };
        let (first, second) = (draw(CONSECUTIVE + 1), draw(1));
        let shared = |id: &String| id[..id.len() - OWN].to_owned();
        let with_first = first.iter().filter(|id| shared(id) == shared(&first[0]));
        assert_eq!(with_first.count(), CONSECUTIVE);
        assert_ne!(shared(&first[CONSECUTIVE]), shared(&second[0]));
        assert_ne!(shared(&first[0]), shared(&second[0]));
        let different: std::collections::HashSet<_> = first.iter().collect();
        assert!(different.len() >= CONSECUTIVE, "their ends differ");
    }

    #[test]
    fn a_seed_gives_the_same_ids() {
        let draw = |seed| Ids::new(Some(seed)).draw("a", 0);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).len(), "a-".len() + SHORTEST);
    }
}
