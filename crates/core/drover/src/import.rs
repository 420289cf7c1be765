//! `drover import`: converts the output of other load generators to results for a report.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use harness::store::{self, Folder};
use harness::{output, page};
use load::redact;
use measure::load_id::level_with_load_id;
use measure::result::RunResult;
use subject::host;

use crate::folder::RESULTS;
use crate::tool_output::{Subject, Tool, import};

/// Name of the folder, below the day's, for imported results.
const PLAN: &str = "imported";
/// Name of the file with the original output, beside the result: it may say more than the result has room for.
const ORIGINAL: &str = "original";
/// Size limit of an output. No summary of these tools is larger; the samples that `k6 --out json` writes are.
const MOST_BYTES: u64 = 16 << 20;

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Import these outputs, one run each; outputs of the same name and level are repetitions of each other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name the measured subject; the tool follows it in brackets [default: the name of the file]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Name the level of the load in reports [default: connections or users, if the file has them]
    #[arg(long, value_name = "NAME")]
    level: Option<String>,
    /// Name the tool that wrote the output: wrk, k6, oha or auto
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = tool)]
    format: ToolChoice,
    /// Store results below this folder
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    out: PathBuf,
    /// Store the result in exactly this folder, for one file
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    into: Option<PathBuf>,
}

/// A tool; absent if it is detected from the file.
#[derive(Debug, Clone, Copy)]
struct ToolChoice(Option<Tool>);

fn tool(name: &str) -> Result<ToolChoice, String> {
    match name {
        "auto" => Ok(ToolChoice(None)),
        name => name
            .parse()
            .map(|tool| ToolChoice(Some(tool)))
            .map_err(|problem| format!("{problem} or auto")),
    }
}

/// An output, and the result made from it.
#[derive(Debug)]
pub(crate) struct Imported {
    text: String,
    pub(crate) result: RunResult,
    name: String,
}

/// Reads all files before anything is written.
///
/// # Errors
/// A file is not complete output of a tool, or the options contradict each other.
pub(crate) fn read(options: &ImportOptions) -> anyhow::Result<Vec<Imported>> {
    if let Some(folder) = &options.into {
        ensure!(
            options.files.len() == 1,
            "--into {}: holds one result, but {} files are given: give one, or import them with --out",
            folder.display(),
            options.files.len()
        );
    }
    for (flag, name) in [("--as", &options.name), ("--level", &options.level)] {
        let is_one = |name: &String| {
            !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0'])
        };
        ensure!(
            name.as_ref().is_none_or(is_one),
            "{flag} {:?}: it is used as a folder name: use a name without slashes",
            name.as_deref().unwrap_or_default()
        );
    }
    let one = |file: &PathBuf| one(file, options);
    options.files.iter().map(one).collect()
}

fn one(file: &Path, options: &ImportOptions) -> anyhow::Result<Imported> {
    let shown = file.display();
    let text = text(file)?;
    let stem = file.file_stem().unwrap_or(file.as_os_str());
    let name = options.name.clone();
    let name = name.unwrap_or_else(|| stem.to_string_lossy().into_owned());
    let subject = Subject {
        name: name.clone(),
        level: options.level.clone(),
    };
    // The name of the file says nothing about its content, so the error puts the problem after it.
    let mut result =
        import(&text, options.format.0, &subject).with_context(|| shown.to_string())?;
    redact::result(&mut result);
    let text = redact::text(&text).into_owned();
    Ok(Imported { text, result, name })
}

fn text(file: &Path) -> anyhow::Result<String> {
    let reading = || {
        format!(
            "reading {} (name a file with the output of the tool)",
            file.display()
        )
    };
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|open| open.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .with_context(reading)?;
    ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "{}: is larger than {} MiB: expected the summary of a run, not its samples",
        file.display(),
        MOST_BYTES >> 20
    );
    String::from_utf8(bytes).ok().with_context(|| {
        format!(
            "{}: is not text in UTF-8: expected the output of wrk, or JSON of k6 or oha",
            file.display()
        )
    })
}

/// Writes a result, and its original output beside it; returns the path of the result.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn write(imported: &Imported, options: &ImportOptions) -> anyhow::Result<PathBuf> {
    let Imported { text, result, name } = imported;
    let folder = match &options.into {
        Some(path) => Folder::at(path)?,
        None => {
            let daemon = format!("{name}-{}", result.driver);
            let host = host::hostname();
            let level = level_with_load_id(&result.level, &result.plan, &result.daemon.target);
            Folder::reserve(&options.out, &host, PLAN, &daemon, &level)?
        }
    };
    let extension = if text.trim_start().starts_with('{') {
        "json"
    } else {
        "txt"
    };
    let original = folder.path().join(ORIGINAL).with_extension(extension);
    store::write_whole(&original, text.as_bytes())?;
    let path = folder.write_result(result)?;
    if let Err(error) = page::write(&folder, result) {
        output::note(&format!(
            "The page of the result was not written: {error:#}"
        ));
    }
    Ok(path)
}
