//! Finds the programs that the pages call. The tests of the whole workspace build them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use harness::drivers;
use harness_testing::skip;
use subject::manifest::Roots;

use crate::docs::markdown::root;

/// Returns the drivers of the workspace: they print the plan of a call instead of running it.
pub(crate) fn drivers() -> Vec<String> {
    // Every manifest of the workspace is read for it.
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let drivers = drivers::list(&Roots::from(&root()));
        drivers.into_iter().map(|driver| driver.name).collect()
    });
    assert!(!NAMES.is_empty(), "no driver was found");
    NAMES.clone()
}

/// Other programs, and the example of the page on drivers.
pub(crate) const OTHERS: [&str; 3] = ["drover", "issue", "echo-load"];

/// Returns the path of a program beside the one under test.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_drover")).parent().unwrap();
    match name {
        "echo-load" => folder.join("examples").join(name),
        _ => folder.join(name),
    }
}

/// Returns false, and reports the test as skipped, if one of these programs was not built.
#[track_caller]
pub(crate) fn are_built(names: &[impl AsRef<str>]) -> bool {
    let mut names = names.iter().map(AsRef::as_ref);
    let missing = names.find(|name| !path(name).is_file());
    if let Some(name) = missing {
        skip(format!("{name}: cargo build --workspace --bins --examples"));
    }
    missing.is_none()
}
