//! Fuzz targets: clients of the whole broker, and the segments of its log.

use crate::{broker, log};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("broker", broker::fuzz::clients),
    ("segment", log::fuzz::segment),
];

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
