//! Topic patterns in a trie, matched word by word without backtracking (AMQP 0-9-1, 3.1.3.3).

use std::collections::HashMap;
use std::ptr;

use crate::exchange::remove_first;

/// A trie of topic patterns, or a node of it: `*` matches one word, `#` any number of words.
#[derive(Debug)]
pub(crate) struct Topics<V> {
    words: HashMap<Box<[u8]>, Self>,
    star: Option<Box<Self>>,
    hash: Option<Box<Self>>,
    values: Vec<V>,
    /// True if this node is a `#`, which loops back to itself for every word.
    is_hash: bool,
}

impl<V: PartialEq> Topics<V> {
    pub(crate) fn new() -> Self {
        Self::node(false)
    }

    fn node(is_hash: bool) -> Self {
        Self {
            words: HashMap::new(),
            star: None,
            hash: None,
            values: Vec::new(),
            is_hash,
        }
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty()
            && self.star.is_none()
            && self.hash.is_none()
            && self.values.is_empty()
    }

    pub(crate) fn insert(&mut self, pattern: &[u8], value: V) {
        let mut node = self;
        for word in words(pattern) {
            node = match word {
                b"*" => node.star.get_or_insert_with(|| Self::node(false).into()),
                b"#" => node.hash.get_or_insert_with(|| Self::node(true).into()),
                word => {
                    let entry = node.words.entry(word.into());
                    entry.or_insert_with(|| Self::node(false))
                }
            };
        }
        node.values.push(value);
    }

    /// Removes one equal value from the pattern.
    pub(crate) fn remove(&mut self, pattern: &[u8], value: &V) {
        let words: Vec<&[u8]> = words(pattern).collect();
        remove(self, &words, value);
    }

    /// Calls `found` for the values of every pattern that matches the key.
    pub(crate) fn matches(&self, key: &[u8], mut found: impl FnMut(&V)) {
        // All nodes reached by the words so far: at most the number of nodes, whatever the patterns.
        let mut reached = Vec::new();
        enter(&mut reached, self);
        let mut next = Vec::new();
        for word in words(key) {
            for node in reached.drain(..) {
                step(&mut next, node, word);
            }
            std::mem::swap(&mut reached, &mut next);
        }
        for value in reached.iter().flat_map(|node| &node.values) {
            found(value);
        }
    }
}

fn step<'a, V>(next: &mut Vec<&'a Topics<V>>, node: &'a Topics<V>, word: &[u8]) {
    if node.is_hash {
        enter(next, node);
    }
    if let Some(child) = node.words.get(word) {
        enter(next, child);
    }
    if let Some(star) = &node.star {
        enter(next, star);
    }
}

/// Adds a node, and the `#` below it, which also matches zero words.
fn enter<'a, V>(reached: &mut Vec<&'a Topics<V>>, node: &'a Topics<V>) {
    let mut entered = Some(node);
    while let Some(node) = entered {
        if reached.iter().any(|other| ptr::eq(*other, node)) {
            return;
        }
        reached.push(node);
        entered = node.hash.as_deref();
    }
}

fn remove<V: PartialEq>(node: &mut Topics<V>, words: &[&[u8]], value: &V) {
    let Some((word, rest)) = words.split_first() else {
        remove_first(&mut node.values, |other| other == value);
        return;
    };
    let link = match *word {
        b"*" => &mut node.star,
        b"#" => &mut node.hash,
        word => {
            if let Some(child) = node.words.get_mut(word) {
                remove(child, rest, value);
                if child.is_empty() {
                    node.words.remove(word);
                }
            }
            return;
        }
    };
    if let Some(child) = link {
        remove(child, rest, value);
        if child.is_empty() {
            *link = None;
        }
    }
}

/// Returns the words of a key. An empty key has none.
fn words(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = (!key.is_empty()).then(|| key.split(|byte| *byte == b'.'));
    all.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Matches as the specification defines it.
    fn is_match(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&b"#", rest)), None) => is_match(rest, key),
            (Some((&b"#", rest)), Some((_, key_rest))) => {
                is_match(rest, key) || is_match(pattern, key_rest)
            }
            (Some((&b"*", rest)), Some((_, key_rest))) => is_match(rest, key_rest),
            (Some((word, rest)), Some((key_word, key_rest))) => {
                word == key_word && is_match(rest, key_rest)
            }
            _ => false,
        }
    }

    fn split(text: &str) -> Vec<&[u8]> {
        words(text.as_bytes()).collect()
    }

    proptest! {
        #[test]
        fn the_trie_finds_what_matching_each_pattern_finds(
            patterns in prop::collection::vec("([ab*#](\\.[ab*#]){0,4})?", 0..12),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
            key in "([abc](\\.[abc]){0,5})?",
        ) {
            let mut left: Vec<(usize, String)> = patterns.into_iter().enumerate().collect();
            let mut topics = Topics::new();
            for (value, pattern) in &left {
                topics.insert(pattern.as_bytes(), *value);
            }
            for index in removed {
                if left.is_empty() { break; }
                let (value, pattern) = left.remove(index.index(left.len()));
                topics.remove(pattern.as_bytes(), &value);
            }
            let mut found = Vec::new();
            topics.matches(key.as_bytes(), |value| found.push(*value));
            found.sort_unstable();
            let expected: Vec<usize> = left
                .iter()
                .filter(|(_, pattern)| is_match(&split(pattern), &split(&key)))
                .map(|(value, _)| *value)
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_trie_that_was_emptied_holds_nothing() {
        let mut topics = Topics::new();
        for pattern in ["a.*.#", "a.b", "#", ""] {
            topics.insert(pattern.as_bytes(), 1);
        }
        for pattern in ["a.*.#", "a.b", "#", ""] {
            topics.remove(pattern.as_bytes(), &1);
        }
        assert!(topics.is_empty());
    }

    #[test]
    fn many_hashes_do_not_multiply() {
        let mut topics = Topics::new();
        topics.insert("#.".repeat(60).trim_end_matches('.').as_bytes(), 1);
        let key = "a.".repeat(120);
        let mut count = 0;
        topics.matches(key.as_bytes(), |_| count += 1);
        assert_eq!(count, 60 / 60);
    }
}
