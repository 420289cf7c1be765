//! Fuzz targets: clients of the whole broker, and the segments of its log.

use crate::{broker, log};

/// The targets of this crate.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
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
