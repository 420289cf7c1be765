//! What is typed, and what becomes of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use harness::cli::{Failure, refuse};
use harness::output;
use measure::import::Tool;

use crate::resolve::Changes;
use crate::{check, doctor, exit, import, list, pages, report, run};

/// Run drivers over daemons, levels and repetitions, and compare what came out.
#[derive(Debug, Parser)]
#[command(name = "drover", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a run failed, 2 the call or a plan is wrong, \
    3 results are suspect or were interrupted, 4 a threshold was missed.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the suite of each plan: all daemons at all levels, as often as asked
    ///
    /// A suite that was cut short is continued by the same command: runs whose result is there are not made again.
    Run(Run),
    /// Write report.md, summary.md and report.html anew from the files of a suite, or of any results; of several together to stdout
    Report(Report),
    /// The report on stdout: report --format terminal
    Analyze(Analyze),
    /// Make results of the output of wrk, wrk2, k6 or oha, so that they stand in a report beside our own
    ///
    /// Read are what wrk prints (best with --latency), the JSON of k6 run --summary-export (or what its handleSummary is
    /// given), and that of oha --output-format json. A figure that the tool did not report stays absent: there are no
    /// histograms, and the verdict is never VALID. Prints where each result is; the output itself lies beside it.
    Import(Import),
    /// Let each driver check that the daemons of its protocol answer as they must
    Check {
        /// Daemons; all when none is named
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// List daemons, drivers, plans, and the suites that were run
    List {
        /// Folder of results
        #[arg(long, value_name = "DIR", default_value = "bench-results")]
        out: PathBuf,
    },
    /// Say what this machine lacks for plans, each with the command that mends it; exits with 1 if it lacks anything
    Doctor {
        /// Plans; all of configs/ when none is named
        #[arg(value_name = "PLAN")]
        plans: Vec<PathBuf>,
        /// Folder of results
        #[arg(long, value_name = "DIR", default_value = "bench-results")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Report {
    /// Folders of suites or results, or single results (result.json)
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// One report on stdout, and no file: terminal, markdown, summary, html, csv, hlog or json; needed
    /// for several folders
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// An earlier suite of the same plan: the summary then says what became better or worse since
    #[arg(long, value_name = "DIR", requires = "format")]
    base: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Analyze {
    /// Folders of suites or results, or single results (result.json)
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct Import {
    /// Outputs, one run each; several of one name and level are repetitions of each other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What was driven; the tool stands behind it in brackets [default: the name of the file]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// How much load: the level that it stands at in a report [default: connections or users, where the file says so]
    #[arg(long, value_name = "NAME")]
    level: Option<String>,
    /// Whose output it is: wrk, k6, oha or auto
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = tool)]
    format: Format,
    /// Folder of results
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Exactly this folder, for one file
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    into: Option<PathBuf>,
}

/// A tool, or none where the file tells.
#[derive(Debug, Clone, Copy)]
struct Format(Option<Tool>);

fn tool(name: &str) -> Result<Format, String> {
    match name {
        "auto" => Ok(Format(None)),
        name => name
            .parse()
            .map(|tool| Format(Some(tool)))
            .map_err(|problem| format!("{problem} or auto")),
    }
}

#[derive(Debug, Args)]
struct Run {
    /// Plans with a [suite], such as configs/fdpass/quick.toml
    #[arg(required = true, value_name = "PLAN")]
    plans: Vec<PathBuf>,
    /// Daemons in place of the plan's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    daemon: Vec<String>,
    /// Only these levels of the plan
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    level: Vec<String>,
    /// Runs of each daemon at each level
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Change a field of the plan, such as timeline.measure=10s
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Folder of results
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Begin anew, whatever was begun before
    #[arg(long)]
    fresh: bool,
    /// Go on although another suite is at work on this machine
    #[arg(long)]
    force: bool,
}

/// The whole of `main`.
#[must_use]
pub fn main() -> ExitCode {
    let ended = match Cli::try_parse()
        .unwrap_or_else(|error| refuse(&error))
        .command
    {
        Command::Run(typed) => typed.carry_out(),
        Command::Report(typed) => typed.carry_out(),
        Command::Analyze(Analyze { paths }) => Report {
            paths,
            format: Some("terminal".to_owned()),
            base: None,
        }
        .carry_out(),
        Command::Import(typed) => typed.carry_out(),
        Command::Check { names } => check::check(&names),
        Command::List { out } => list::list(&out)
            .map_err(Failure::Call)
            .and_then(|text| print(&text)),
        Command::Doctor { plans, out } => examine(&plans, &out),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => say(&failure),
    }
}

impl Run {
    fn carry_out(self) -> Result<u8, Failure> {
        let options = run::Options {
            plans: self.plans,
            changes: Changes {
                daemons: self.daemon,
                levels: self.level,
                repeat: self.repeat,
                set: self.set,
            },
            out: self.out,
            fresh: self.fresh,
            force: self.force,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Run(error.into()))?;
        runtime.block_on(run::run(&options))
    }
}

impl Report {
    fn carry_out(self) -> Result<u8, Failure> {
        if self.format.is_none() && self.paths.len() > 1 {
            let problem = "--format: the pages of several folders belong to none of them: name a format, and keep what is \
                           printed (--format html > both.html)";
            return Err(Failure::Call(anyhow::Error::msg(problem)));
        }
        let suite = report::read(&self.paths).map_err(Failure::Call)?;
        let Some(format) = self.format else {
            let pages = report::write(&self.paths, &suite).map_err(Failure::Run)?;
            let pages = pages.map(|page| page.display().to_string());
            return print(&pages.join("\n"));
        };
        let base = self.base.map(|base| report::read(&[base])).transpose();
        let base = base.map_err(Failure::Call)?;
        let text = pages::render(&suite, base.as_ref(), &format).map_err(Failure::Call)?;
        output::print_report(&format, &text).map_err(|error| Failure::Run(error.into()))?;
        Ok(exit::FINE)
    }
}

impl Import {
    fn carry_out(self) -> Result<u8, Failure> {
        let options = import::Options {
            files: self.files,
            name: self.name,
            level: self.level,
            format: self.format.0,
            place: match self.into {
                Some(folder) => import::Place::Into(folder),
                None => import::Place::Out(self.out),
            },
        };
        for imported in import::read(&options).map_err(Failure::Call)? {
            let path = import::write(&imported, &options.place).map_err(Failure::Call)?;
            print(&format!("{}\n", path.display()))?;
        }
        Ok(exit::FINE)
    }
}

fn examine(plans: &[PathBuf], out: &Path) -> Result<u8, Failure> {
    let found = doctor::look(plans, out).map_err(Failure::Call)?;
    for finding in &found {
        let mend = finding.mend.trim().replace('\n', "\n    ");
        print(&format!("lacking: {}\n    {mend}\n", finding.what.trim()))?;
    }
    if found.is_empty() {
        return print("This machine lacks nothing.\n");
    }
    Ok(exit::FAILED)
}

/// Data of the command line; what is printed is fine.
fn print(text: &str) -> Result<u8, Failure> {
    output::print(text).map_err(|error| Failure::Run(error.into()))?;
    Ok(exit::FINE)
}

fn say(failure: &Failure) -> ExitCode {
    output::remark(&format!("error: {failure}"));
    ExitCode::from(failure.exit_code())
}
