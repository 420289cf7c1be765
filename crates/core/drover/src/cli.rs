//! Parses the command line, and calls the subcommands.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::ArgPredicate;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use harness::cli::{MergeOptions, complete, exit_with, explain, refuse, write_pages};
use harness::failure::Failure;
use harness::{launcher, output};
use measure::report::{Format, list_of_names};
use measure::warning::Kind;

use crate::folder::RESULTS;
use crate::{
    build, calibrate, check, cluster, compare, doctor, exit, history, import, list, merge, report,
    run, sample, suite_report, watch,
};

/// Run drivers against daemons at several levels, with repetitions, and compare the results.
#[derive(Debug, Parser)]
#[command(name = "drover", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a run failed, 2 the call or a plan is wrong, \
    3 results are suspect or were interrupted, 4 a threshold was missed, 6 a daemon is worse than its other version or its control.";

/// Words that are missing or unknown, each with the way to go on.
const KNOWN: [(&str, &str); 4] = [
    (
        "<PLAN>...",
        "`drover list` shows the plans: drover run configs/http/latency.toml",
    ),
    (
        "<DIR>...",
        "`drover list` shows the suites that were run, each with its folder",
    ),
    (
        "<OTHER>...",
        "name two suites, or two daemons of one: drover compare SUITE#nginx SUITE#caddy",
    ),
    (
        "bench",
        "use drover run PLAN, or the program of a driver, such as http-load",
    ),
];

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the suite of each plan: all daemons at all levels, with all repetitions
    ///
    /// The same command continues a suite that was cut short: runs with a result are not repeated.
    Run(run::SuiteOptions),
    /// Show the running suite live: the run, its rate, response times, resources, and the verdicts so far
    ///
    /// Reads the files of the suite once a second and writes none. Without a running suite it shows the run of a driver
    /// in progress, or the newest suite.
    Watch(watch::WatchOptions),
    /// Regenerate report.md, summary.md and report.html from stored results (several folders: print one combined
    /// report)
    Report(ReportArgs),
    /// Print the report to stdout, like report --full
    Analyze(Analyze),
    /// Compare daemons of suites that were made apart, such as two versions of one, or daemons of one suite with another
    ///
    /// Runs of one suite are compared in pairs. Two suites are two blocks of runs, compared only if the machine was the
    /// same: a daemon that is the same program in both, or else the driver's own CPU time per operation, differs by 3 %
    /// at most. Plan, machine, driver and answers must be the same.
    #[command(visible_alias = "diff")]
    Compare(compare::CompareOptions),
    /// Show how figures developed over all results of a folder, and export them to Apache Otava, which finds change points
    ///
    /// Prints a line for each metric of each daemon, level, plan and machine: its course, its first and last value, and its
    /// range. INVALID runs are left out.
    History(history::HistoryOptions),
    /// Import the output of wrk, wrk2, k6 or oha as results, to report them beside our own
    ///
    /// Reads the output of wrk (best with --latency), the JSON of k6 run --summary-export (or the data that its
    /// handleSummary gets), and the JSON of oha --output-format json. A figure that the tool did not report stays
    /// absent: there are no histograms, and the verdict is never VALID. Prints the path of each result; the imported
    /// output is stored beside it.
    Import(import::ImportOptions),
    /// Merge the results of a run on several machines into one
    ///
    /// The driver's own program merges and judges them, as `http-load merge` does; its exit code is passed on.
    Merge(MergeOptions),
    /// Hand a run to an engine that places its shards on many machines
    #[command(subcommand)]
    Cluster(cluster::Engine),
    /// Write what a running process uses to a CSV file, once a second, without a load
    Sample(sample::SampleOptions),
    /// Build daemons, so that a measurement later starts at once and needs no network
    ///
    /// A daemon whose tools are missing is skipped if it is not named, and the last line says which. With DROVER_PROGRAMS
    /// set, no program of the checkout is built: only daemons in other languages are.
    Build {
        /// Build only these daemons [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Measure what each driver and this machine need by themselves, against a peer that does almost nothing
    ///
    /// Stores the floor of the times, the ceiling of the rate and the CPU time per operation, for this machine, kernel and
    /// build. Later results have them, and their reports show them beside the figures. Checks besides that each driver
    /// measures planned delays of the peer: a larger error than 1 % or 50 µs beyond the floor ends with exit code 3.
    Calibrate(calibrate::CalibrateOptions),
    /// Check with each driver that the daemons of its protocol answer correctly
    Check {
        /// Check these daemons [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// List daemons, drivers, plans, and the suites that were run
    ///
    /// A manifest or a plan that cannot be used is listed with the reason, and makes the exit code 2.
    List {
        /// List only what has all these words in its name or description: `drover list http`
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Read suites from this folder of results
        #[arg(long, value_name = "DIR", default_value = RESULTS)]
        out: PathBuf,
    },
    /// Check that this machine can run the plans; print a fix for each problem (exit code 1 if any)
    Doctor {
        /// Check the machine for these plans [default: all of configs/]
        #[arg(value_name = "PLAN")]
        plans: Vec<PathBuf>,
        /// Check the free space of this folder of results
        #[arg(long, value_name = "DIR", default_value = RESULTS)]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// Read these folders of suites or results, or single results (result.json)
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
    #[arg(long, value_name = "NAME", default_value_if("base", ArgPredicate::IsPresent, "summary"), help = format!(
        "Print one report in this format to stdout, and write no file: {}; required for several folders",
        list_of_names()
    ))]
    format: Option<Format>,
    /// Print the whole report, like --format markdown
    #[arg(long, conflicts_with = "format")]
    full: bool,
    /// Compare each daemon with itself in an earlier suite of the same plan, and print what became better or worse, as
    /// --format summary does
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Analyze {
    /// Read these folders of suites or results, or single results (result.json)
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
}

/// Runs the whole program; `version` is what `--version` prints.
#[must_use]
pub fn main(version: &'static str) -> ExitCode {
    let typed = complete(Cli::command()).version(version).try_get_matches();
    let typed = typed.unwrap_or_else(|mut error| {
        explain(&mut error, &Cli::command(), &KNOWN);
        refuse(&error)
    });
    if let Some(written) = write_pages(&Cli::command(), &typed) {
        return exit_with(written.map(|()| true));
    }
    let typed = Cli::from_arg_matches(&typed).unwrap_or_else(|error| refuse(&error));
    let ended = match typed.command {
        Command::Run(options) => launcher::runtime()
            .map_err(Failure::from)
            .and_then(|runtime| runtime.block_on(run::run(&options, None))),
        Command::Watch(options) => watch::run(&options),
        Command::Report(typed) => typed.carry_out(),
        Command::Compare(options) => options.compare(),
        Command::History(options) => history::show(&options)
            .map_err(Failure::Call)
            .and_then(|text| print(&text)),
        Command::Analyze(Analyze { paths }) => ReportArgs {
            paths,
            format: Some(Format::full()),
            full: false,
            base: None,
        }
        .carry_out(),
        Command::Import(options) => import_all(&options),
        Command::Merge(options) => merge::merge(&options),
        Command::Sample(options) => launcher::runtime()
            .map_err(Failure::from)
            .and_then(|runtime| runtime.block_on(sample::sample(&options))),
        Command::Cluster(engine) => cluster::run(engine),
        Command::Build { names } => build::build(&names),
        Command::Calibrate(options) => launcher::runtime()
            .map_err(Failure::from)
            .and_then(|runtime| runtime.block_on(calibrate::run(&options))),
        Command::Check { names } => check::check(&names),
        Command::List { words, out } => list::list(&out, &words),
        Command::Doctor { plans, out } => examine(&plans, &out),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.print(),
    }
}

impl ReportArgs {
    fn carry_out(self) -> Result<u8, Failure> {
        let format = self.format.or(self.full.then(Format::full));
        if format.is_none() && self.paths.len() > 1 {
            let problem = "--format: a report on several folders belongs to none of them: name a format, and redirect the \
                           output (--format html > both.html)";
            return Err(Failure::Call(anyhow::Error::msg(problem)));
        }
        let suite = report::read(&self.paths).map_err(Failure::Call)?;
        let Some(format) = format else {
            let pages = report::write(&self.paths, &suite).map_err(Failure::Run)?;
            let pages = pages.map(|page| page.display().to_string());
            return print(&pages.join("\n"));
        };
        let suite = match &self.base {
            None => suite,
            Some(base) => report::with_base(&self.paths, suite, base).map_err(Failure::Call)?,
        };
        let text = suite_report::render(&suite, format).map_err(Failure::Call)?;
        print_report(format, &text)
    }
}

fn import_all(options: &import::ImportOptions) -> Result<u8, Failure> {
    for imported in import::read(options).map_err(Failure::Call)? {
        let path = import::write(&imported, options).map_err(Failure::Call)?;
        let warnings = imported.result.warnings.iter();
        for audit in warnings.filter(|warning| warning.kind == Kind::Audit) {
            output::note(&format!("{}: {}", path.display(), audit.message));
        }
        print(&format!("{}\n", path.display()))?;
    }
    Ok(exit::FINE)
}

fn examine(plans: &[PathBuf], out: &Path) -> Result<u8, Failure> {
    let found = doctor::check(plans, out).map_err(Failure::Call)?;
    for finding in &found {
        let fix = finding.fix.trim().replace('\n', "\n    ");
        print(&format!(
            "problem: {}\n    fix: {fix}\n",
            finding.what.trim()
        ))?;
    }
    if found.is_empty() {
        print("No problems found.\n")?;
    }
    if let Some(split) = doctor::split() {
        print(&split)?;
    }
    print(&doctor::calibrated().map_err(Failure::Call)?)?;
    Ok(if found.is_empty() {
        exit::FINE
    } else {
        exit::FAILED
    })
}

fn print_report(format: Format, text: &str) -> Result<u8, Failure> {
    output::print_report(format, text)?;
    Ok(exit::FINE)
}

/// Prints the output of a command to stdout.
fn print(text: &str) -> Result<u8, Failure> {
    output::print(text)?;
    Ok(exit::FINE)
}
