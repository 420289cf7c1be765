//! The command `merge` of every driver: makes one result of the parts of a divided run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use measure::exit;
use measure::report::{Format, list_of_names};

use super::driver_cli::DriverCli;
use super::{refuse, show_as, write_page};
use crate::failure::Failure;
use crate::merge::merge;
use crate::store::Folder;

/// Name of the command.
pub(super) const COMMAND: &str = "merge";

/// Options of the command.
#[derive(Debug, Args)]
pub struct MergeOptions {
    /// Read the parts of this folder, which was their --result-dir
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print the report in this format.
    #[arg(long, value_name = "NAME", default_value = "terminal", help = format!("Print the report to stdout in this format. It is one of {}", list_of_names()))]
    pub format: Format,
    /// Print the whole report instead of one screen, like --format markdown
    #[arg(long, conflicts_with = "format")]
    pub full: bool,
    /// Hide all notes on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// Returns the command.
pub(super) fn command() -> Command {
    MergeOptions::augment_args(Command::new(COMMAND))
        .about("Merge the results of a run on several machines")
        .long_about("Merge the results of a run on several machines into one (--result-dir)\n\nHistograms are added bucket by bucket and counters exactly, second by second. The merged result is stored in the folder as result.json, with report.html beside it, and judged like the result of one machine: thresholds, audit, and the lateness of each shard. A shard without a result, or with a damaged file, is named, and the rest is reported as INVALID (exit code 3). Results of different runs, plans or versions are refused (exit code 2).")
}

/// Carries the command out.
pub(super) fn run<D: DriverCli>(arguments: &ArgMatches) -> Result<ExitCode, Failure> {
    let options = MergeOptions::from_arg_matches(arguments).unwrap_or_else(|error| refuse(&error));
    let result = merge::<D>(&options.folder)?;
    let folder = Folder::of_merged(&options.folder);
    let path = folder.write_result(&result).map_err(Failure::Run)?;
    write_page(&folder, &result);
    let format = if options.full {
        Format::full()
    } else {
        options.format
    };
    let results = std::slice::from_ref(&result);
    show_as::<D>(results, Some(&path), format, options.quiet).map_err(Failure::Run)?;
    Ok(ExitCode::from(exit::code(&[&result])))
}
