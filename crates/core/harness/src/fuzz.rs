//! Fuzz targets: the lines between the processes of a divided run.

use crate::processes;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("message", processes::fuzz::message)];

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        harness_testing::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
