//! The state of a member: JSON text, and the merge of patches into it.

use std::mem;

use super::json::{Entries, push_compact, string_end, value_end};

/// The state of a member: a compact JSON object whose keys are distinct and written with as few escapes as possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State(Box<str>);

impl Default for State {
    fn default() -> Self {
        Self("{}".into())
    }
}

/// A state is nested too deep.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

impl State {
    /// Creates a state of these entries.
    pub(crate) fn new(entries: Entries<'_>) -> Result<Self, TooDeep> {
        let empty = Self::default();
        Ok(empty.merged(entries)?.unwrap_or(empty))
    }

    /// Returns the JSON text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the state with the patch merged at the top level, or `None` if that changes no value. Values are compared
    /// as text without white space, so `1.0` differs from `1`.
    pub(crate) fn merged(&self, patch: Entries<'_>) -> Result<Option<Self>, TooDeep> {
        let mut patch = distinct(patch);
        // Most patches change values to others of the same length.
        let mut merged = String::with_capacity(self.0.len());
        let (mut is_changed, mut is_flat) = (false, true);
        merged.push('{');
        self.for_each_entry(|key, value| {
            push_key(key, &mut merged);
            match patch.binary_search_by(|(each, _)| each.as_ref().cmp(key)) {
                Ok(index) => {
                    let start = merged.len();
                    // No value is empty, so an empty one has been merged.
                    is_flat &= push_compact(mem::take(&mut patch[index].1), &mut merged);
                    is_changed |= merged[start..] != *value;
                }
                Err(_) => merged.push_str(value),
            }
        });
        for (key, value) in patch.iter().filter(|(_, value)| !value.is_empty()) {
            push_key(key, &mut merged);
            is_flat &= push_compact(value, &mut merged);
            is_changed = true;
        }
        merged.push('}');
        if !is_flat {
            return Err(TooDeep);
        }
        Ok(is_changed.then(|| Self(merged.into_boxed_str())))
    }

    /// Visits the entries, with their keys as [`Entries`] has them.
    fn for_each_entry<'a>(&'a self, mut visit: impl FnMut(&'a str, &'a str)) {
        let bytes = self.0.as_bytes();
        let mut at = 1;
        while at < bytes.len() && bytes[at] == b'"' {
            let key_end = string_end(bytes, at);
            let value_end = value_end(bytes, key_end + 1);
            visit(
                &self.0[at + 1..key_end - 1],
                &self.0[key_end + 1..value_end],
            );
            at = value_end + 1;
        }
    }
}

fn push_key(key: &str, target: &mut String) {
    target.push_str(if target.len() > 1 { ",\"" } else { "\"" });
    target.push_str(key);
    target.push_str("\":");
}

/// Sorts the entries of a patch by their keys; of equal keys, the last one counts.
fn distinct(mut entries: Entries<'_>) -> Entries<'_> {
    entries.reverse();
    entries.sort_by(|(first, _), (second, _)| first.cmp(second));
    entries.dedup_by(|(second, _), (first, _)| second == first);
    entries
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::super::json::entries;
    use super::*;

    fn state(text: &str) -> State {
        State::new(entries(text).unwrap()).unwrap()
    }

    fn merged(old: &str, patch: &str) -> Option<String> {
        let merged = state(old).merged(entries(patch).unwrap()).unwrap();
        merged.map(|state| state.as_str().to_owned())
    }

    #[test]
    fn a_patch_is_merged_at_the_top_level() {
        let old = r#"{"a":1,"b":{"x":1,"y":2}}"#;
        let expected = r#"{"a":1,"b":{"x":3},"c":null}"#;
        let patch = r#"{"b":{"x":3},"c":null}"#;
        assert_eq!(merged(old, patch).unwrap(), expected);
    }

    #[test]
    fn a_patch_that_changes_no_value_changes_nothing() {
        let old = r#"{"a":1.50,"b":{"x":1}}"#;
        for patch in [
            "{}",
            r#"{"a":1.50}"#,
            r#"{"\u0061":1.50}"#,
            r#"{"b": { "x" : 1 }}"#,
        ] {
            assert_eq!(merged(old, patch), None, "{patch}");
        }
        assert!(merged(old, r#"{"a":1.5}"#).is_some());
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(
            state(r#"{"a":1,"b":2,"\u0061":3}"#).as_str(),
            r#"{"a":3,"b":2}"#
        );
        assert_eq!(merged(r#"{"a":3}"#, r#"{"a":1,"a":2,"a":3}"#), None);
    }

    #[test]
    fn numbers_are_kept_as_they_were_written() {
        let text = r#"{"a":1e400,"b":-0.0,"c":123456789012345678901234567890}"#;
        assert_eq!(state(text).as_str(), text);
    }

    #[test]
    fn deep_values_are_refused_without_recursion() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(State::new(entries(&deep).unwrap()), Err(TooDeep));
    }

    /// Any JSON value with keys and strings that need escapes.
    fn any_value() -> impl Strategy<Value = Value> {
        let text =
            proptest::sample::select(vec!["", "a", "b\"", "\\", "{", "]", ",", ":", "grün", "\n"]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, move |inner| {
            let object = proptest::collection::btree_map(text.clone(), inner.clone(), 0..4);
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::from),
                object.prop_map(|map| map
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Map<String, Value>> {
        let key = proptest::sample::select(vec!["", "a", "b\"", "\\", "{", "grün", "\u{1}", "c"]);
        let entries = proptest::collection::vec((key, any_value()), 0..6);
        entries.prop_map(|entries| {
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_merge_is_that_of_the_parsed_objects(old in any_object(), patch in any_object(), is_pretty: bool) {
            let write = |map: &Map<String, Value>| if is_pretty {
                serde_json::to_string_pretty(map).unwrap()
            } else {
                serde_json::to_string(map).unwrap()
            };
            let merged = merged(&write(&old), &write(&patch));
            let mut expected = old.clone();
            expected.extend(patch);
            prop_assert_eq!(merged.is_some(), expected != old);
            if let Some(text) = merged {
                prop_assert_eq!(serde_json::from_str::<Map<String, Value>>(&text).unwrap(), expected);
            }
        }
    }
}
