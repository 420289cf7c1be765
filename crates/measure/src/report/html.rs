//! Comparison of any results as one HTML page.

use super::Error;
use crate::result::RunResult;
use crate::suite::Suite;

/// Renders results as a suite named after the plan of the first.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let name = results
        .first()
        .and_then(|result| result.plan.get("name")?.as_str());
    super::suite::html(&Suite {
        name: name.unwrap_or("results").to_owned(),
        question: None,
        command: None,
        results: results.to_vec(),
        unreached: Vec::new(),
    })
}
