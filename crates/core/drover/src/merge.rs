//! `drover merge`: makes one result of the parts of a divided run, with the program of the driver that made them.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use harness::cli::MergeOptions;
use harness::failure::Failure;
use harness::store::{self, RESULT};
use serde::Deserialize;

use crate::driver_program;
use crate::project::Project;

/// The field of a result that names its driver.
#[derive(Debug, Deserialize)]
struct Part {
    driver: String,
}

/// Calls `<driver> merge DIR`, and returns its exit code.
///
/// # Errors
/// The folder has no result, or the driver is unknown or can't be built.
pub(crate) fn merge(options: &MergeOptions) -> Result<u8, Failure> {
    let name = driver_of(options).map_err(Failure::Call)?;
    let project = Project::find().map_err(Failure::Call)?;
    let driver = project.drivers.iter().find(|driver| driver.name == name);
    let driver = driver.ok_or_else(|| {
        Failure::Call(anyhow!(
            "the results are of `{name}`, which is no driver of this project: merge them with `{name} merge {}`",
            options.folder.display()
        ))
    })?;
    let folder = options.folder.as_os_str();
    let mut arguments = vec![OsStr::new("merge"), folder];
    if options.full {
        arguments.push(OsStr::new("--full"));
    } else {
        arguments.extend(["--format", options.format.name].map(OsStr::new));
    }
    arguments.extend(options.quiet.then_some(OsStr::new("--quiet")));
    driver_program::call(driver, &arguments, options.quiet).map_err(Failure::Run)
}

/// Returns the name of the driver that made the first result that can be read.
fn driver_of(options: &MergeOptions) -> anyhow::Result<String> {
    let folder = options.folder.display();
    let entries = fs::read_dir(&options.folder)
        .with_context(|| format!("reading {folder} (name the folder of --result-dir)"))?;
    let mut parts: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join(RESULT)))
        .filter(|path| path.is_file())
        .collect();
    parts.sort_unstable();
    let read =
        |path: &PathBuf| -> Option<Part> { serde_json::from_slice(&store::read(path).ok()?).ok() };
    let part = parts.iter().find_map(read).with_context(|| {
        format!("{folder}: has no complete shard-I/{RESULT}: name the folder of --result-dir, once a shard has ended")
    })?;
    Ok(part.driver)
}

#[cfg(test)]
mod tests {
    use measure::report::Format;

    use super::*;

    #[test]
    fn a_damaged_result_does_not_hide_the_driver_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let options = MergeOptions {
            folder: folder.path().to_owned(),
            format: Format::screen(),
            full: false,
            quiet: true,
        };
        for (shard, text) in [("shard-0", "{\"driver\":\"oth"), ("shard-1", "")] {
            fs::create_dir(folder.path().join(shard)).unwrap();
            fs::write(folder.path().join(shard).join(RESULT), text).unwrap();
        }
        let error = driver_of(&options).unwrap_err().to_string();
        assert!(error.contains("no complete shard-I/result.json"), "{error}");
        let whole = "{\"driver\":\"http-load\",\"series\":[]}";
        fs::write(folder.path().join("shard-1").join(RESULT), whole).unwrap();
        assert_eq!(driver_of(&options).unwrap(), "http-load");
    }
}
