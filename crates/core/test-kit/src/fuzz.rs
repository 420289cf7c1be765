//! Fuzz targets: functions that feed a parser with any bytes and check what must hold. `cargo fuzz` searches for inputs,
//! and [`replay`] repeats the inputs that are kept.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// A fuzz target: its name, and the function that takes an input.
pub type Target = (&'static str, fn(&[u8]));

/// The longest input that is kept, in bytes.
const LONGEST: u64 = 4096;
/// The most inputs that a target keeps.
const MOST: usize = 30;

/// Feeds each target with the inputs in `fuzz/<target>/` of a crate.
///
/// # Panics
/// A target fails, with the path of its input. Or a folder is missing, belongs to no target, or holds too much.
pub fn replay(crate_folder: &str, targets: &[Target]) {
    let folder = Path::new(crate_folder).join("fuzz");
    let names: BTreeSet<PathBuf> = targets.iter().map(|(name, _)| folder.join(name)).collect();
    let folders: BTreeSet<PathBuf> = entries(&folder).into_iter().collect();
    assert_eq!(folders, names, "each target has a folder of inputs");
    for (name, target) in targets {
        let inputs = entries(&folder.join(name));
        assert!(inputs.len() <= MOST, "{name} keeps {} inputs", inputs.len());
        for path in inputs {
            let input = fs::read(&path).expect("an input can be read");
            assert!(input.len() as u64 <= LONGEST, "{} is long", path.display());
            let result = catch_unwind(|| target(&input));
            assert!(result.is_ok(), "{name} fails with {}", path.display());
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect();
    paths.sort();
    paths
}
