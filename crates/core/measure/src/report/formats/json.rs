//! The results as JSON: an object for one, an array for several.

use crate::result::RunResult;

/// Renders results as pretty-printed JSON.
///
/// # Panics
/// Never: a result has string keys and no value that JSON lacks.
pub fn render(results: &[RunResult]) -> String {
    let text = match results {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    text.expect("a result has string keys and no value that JSON lacks") + "\n"
}
