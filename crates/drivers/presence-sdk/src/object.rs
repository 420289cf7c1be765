//! JSON objects as text: check and shallow merge.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;

/// Serializes a value that must be a JSON object.
pub(crate) fn to_text(
    value: &(impl Serialize + ?Sized),
    argument: &'static str,
) -> Result<String, Error> {
    let invalid = |reason: String| Error::InvalidArgument { argument, reason };
    let text = serde_json::to_string(value).map_err(|error| invalid(error.to_string()))?;
    if text.starts_with('{') {
        Ok(text)
    } else {
        Err(invalid(format!(
            "it must serialize to a JSON object, not to `{text:.40}`"
        )))
    }
}

/// The fields of an object. Keys are borrowed where they need no unescaping.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Fields<'a>(#[serde(borrow)] BTreeMap<Key<'a>, &'a RawValue>);

/// A key that borrows from the text.
#[derive(Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Merges `patch` into `object` at the top level, as the server does.
pub(crate) fn merge(object: &str, patch: &str) -> Result<String, serde_json::Error> {
    if object == "{}" {
        return Ok(patch.to_owned());
    }
    let mut fields: Fields<'_> = serde_json::from_str(object)?;
    fields
        .0
        .extend(serde_json::from_str::<Fields<'_>>(patch)?.0);
    serde_json::to_string(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_replaces_whole_values_and_keeps_the_other_keys() {
        let merged = merge(r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"d":3},"e":null}"#).unwrap();
        assert_eq!(merged, r#"{"a":{"d":3},"c":2,"e":null}"#);
        assert_eq!(merge("{}", r#"{"x":1}"#).unwrap(), r#"{"x":1}"#);
    }

    #[test]
    fn an_escaped_key_is_the_same_key() {
        let merged = merge("{\"\\u0061\":1}", r#"{"a":2}"#).unwrap();
        assert_eq!(merged, r#"{"a":2}"#);
    }

    #[test]
    fn only_objects_are_states() {
        assert!(to_text(&[1, 2], "the state").is_err());
        assert!(to_text("text", "the state").is_err());
        assert_eq!(to_text(&serde_json::json!({}), "the state").unwrap(), "{}");
    }
}
