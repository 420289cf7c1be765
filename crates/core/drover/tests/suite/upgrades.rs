//! Plans that earlier versions printed: each driver still takes them, and they mean what they meant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness_testing::program::beside;
use toml::Value;

/// Returns the first path at which a table of the old plan differs from the new one. Keys that are new do not count.
fn difference(old: &Value, new: &Value, path: &str) -> Option<String> {
    match (old, new) {
        (Value::Table(old), Value::Table(new)) => old.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match new.get(key) {
                Some(new) => difference(value, new, &path),
                None => Some(format!("{path} is missing")),
            }
        }),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => (0..)
            .zip(old.iter().zip(new))
            .find_map(|(index, (old, new))| difference(old, new, &format!("{path}.{index}"))),
        _ if old == new => None,
        _ => Some(format!("{path} is {new}, and was {old}")),
    }
}

#[test]
fn plans_of_earlier_versions_mean_what_they_meant() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let versions = fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_version = |path: &PathBuf| path.to_str().unwrap().contains("plans-");
    let mut plans = 0;
    for file in versions
        .filter(is_version)
        .flat_map(|folder| fs::read_dir(folder).unwrap())
    {
        let file = file.unwrap().path();
        let driver = file.file_stem().unwrap().to_str().unwrap();
        let Some([program]) = beside(env!("CARGO_BIN_EXE_drover"), [driver]) else {
            return;
        };
        let mut command = Command::new(program);
        command.arg("--plan").arg(&file).arg("--print-plan");
        let output = command.output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{}: {stderr}", file.display());
        let old = fs::read_to_string(&file).unwrap().parse::<toml::Table>();
        let new = stdout.parse::<toml::Table>().unwrap();
        let found = difference(&Value::Table(old.unwrap()), &Value::Table(new), driver);
        assert_eq!(found, None);
        plans += 1;
    }
    assert!(plans >= 5, "{plans} plans");
}
