//! Fuzz targets: manifests and the metrics pages of daemons.

use std::path::Path;

use crate::manifest::Manifest;
use crate::prometheus;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("manifest", manifest), ("prometheus", prometheus)];

/// A manifest is accepted, or its error has a remedy.
pub fn manifest(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    match Manifest::parse(text, Path::new("daemon.toml")) {
        Ok(manifest) => {
            let _ = manifest.ports();
            let _ = manifest.has_socket();
            let _ = manifest.can_listen_elsewhere();
        }
        Err(error) => assert!(!error.remedy.is_empty(), "{error}"),
    }
}

/// Metrics have names and numbers, and no URL is shown with its password.
pub fn prometheus(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let page = prometheus::parse(text);
    for (name, value) in &page {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_:".contains(&byte);
        assert!(!name.is_empty() && name.bytes().all(is_letter), "{name:?}");
        assert!(!value.is_nan(), "{name}");
    }
    let line = text.lines().next().unwrap_or_default();
    if prometheus::check_url(line).is_ok() {
        let shown = prometheus::without_user(line);
        let (_, rest) = shown.split_once("://").expect("a URL has a scheme");
        let authority = rest.split(['/', '?', '#']).next();
        assert!(!authority.unwrap_or_default().contains('@'), "{shown}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        harness_testing::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
