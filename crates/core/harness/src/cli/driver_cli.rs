//! The part of a command line that a driver defines.

use std::any::TypeId;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, Subcommand as _};
use load::driver::{Driver, Target};
use load::number;
use load::plan::{Invalid, Plan};
use measure::result::RunResult;
use measure::spec::SeriesRole;
use serde_json::{Value, json};

use super::command::{refuse, two_dashes};
use super::common::Common;
use super::common_load::{self, CommonLoad};
use super::{help, mistaken, plan_file, variables};
use crate::failure::Failure;
use crate::launcher::note;
use subject::manifest;

/// Number of examples in the short help.
const SHORT_EXAMPLES: usize = 4;

/// The texts of a driver's help, and the daemon that it launches by default.
#[derive(Debug)]
pub struct Program {
    /// Daemon to launch if no target is given and no daemon is named.
    pub embedded: &'static str,
    /// Description of the program: one sentence, and details after an empty line.
    pub about: &'static str,
    /// Arguments of calls that show the main uses, each with its effect.
    pub examples: &'static [(&'static str, &'static str)],
    /// Meaning of exit code 1.
    pub failed: &'static str,
    /// Meaning of exit code 3.
    pub suspect: &'static str,
    /// Names of the options that `-h` shows, besides those that all drivers share; the others are for `--help`.
    pub main: &'static [&'static str],
    /// Options by their older names, each with the name of today, both without dashes.
    pub renamed: &'static [(&'static str, &'static str)],
    /// Environment variables of the reference, each with the option that it sets, without dashes.
    pub variables: &'static [(&'static str, &'static str)],
    /// Options of other tools that do not exist here, as they are typed, each with the way to say it here.
    pub foreign: &'static [(&'static str, &'static str)],
    /// Protocols that an option chooses instead of the driver's usual one, each with that option as it is typed.
    pub protocols: &'static [(&'static str, &'static str)],
}

impl Program {
    /// A program that explains nothing: what a driver leaves out is as here.
    pub const UNKNOWN: Self = Self {
        embedded: "",
        about: "",
        examples: &[],
        failed: "an operation or the run failed",
        suspect: "suspect results",
        main: &[],
        renamed: &[],
        variables: &[],
        foreign: &[],
        protocols: &[],
    };
}

/// The command line of a driver, besides the options that all drivers share. The settings of the driver are options
/// too: each sets the field of the same name in the plan.
pub trait DriverCli: Driver<Config: clap::Args> {
    /// Further options of a run: running daemons, and those that shape the load. The latter have no defaults of clap,
    /// so that an option is present if it was given.
    type Options: clap::Args;
    /// Commands other than a run.
    type Command: clap::Subcommand;
    /// The texts of its help, and its default daemon.
    const PROGRAM: Program;

    /// Translates the words of the command line to the options of this program. By default, options with one dash
    /// (`-connections 100`), as the reference tools spell them, get two.
    ///
    /// # Errors
    /// An option of another tool that does not exist here.
    fn words(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        Ok(typed.into_iter().map(two_dashes).collect())
    }

    /// Adapts the options that all drivers share.
    fn adapt(command: Command) -> Command {
        command
    }

    /// Returns the plan to which the options of a call without `--plan` are applied. Its defaults may depend on them.
    fn plan(options: &Self::Options, settings: Self::Config) -> Plan<Self::Config>;

    /// Applies the given options to a plan: the default one, or a file's. Its settings have theirs already, and so
    /// have the fields that mean the same in every driver.
    ///
    /// # Errors
    /// An option that does not fit the groups of the plan, with the field to set instead, or whose value can't be used,
    /// such as an unreadable file.
    fn apply(options: &Self::Options, plan: &mut Plan<Self::Config>) -> Result<(), Invalid>;

    /// Returns the running daemons that the options name.
    ///
    /// # Errors
    /// An address that can't be read.
    fn target(options: &Self::Options) -> Result<Option<Target>, Failure>;

    /// Completes the plan for running daemons or, without any, for the daemon that it names.
    ///
    /// # Errors
    /// A field of the plan that doesn't fit the target.
    fn complete(_target: Option<&Target>, _plan: &mut Plan<Self::Config>) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs a subcommand; false means that a check failed (exit code 1).
    ///
    /// # Errors
    /// A wrong call, or a failed step.
    fn run_command(command: Self::Command) -> Result<bool, Failure>;

    /// Renders the results for `--output`.
    fn json(results: &[RunResult]) -> Value {
        let results: Value = results.iter().map(RunResult::to_json).collect();
        json!({ "results": results })
    }
}

/// A load to run, as a command line describes it.
#[derive(Debug)]
pub struct Job<C> {
    /// The plan, not yet validated.
    pub plan: Plan<C>,
    /// A daemon that already runs.
    pub target: Option<Target>,
    /// The options that all drivers share.
    pub common: Common,
}

/// Returns the whole command line of a driver.
#[must_use]
pub fn command<D: DriverCli>() -> Command {
    let command = D::Options::augment_args(Command::new(&*D::SPEC.driver));
    let command = D::Config::augment_args(CommonLoad::augment_args(command));
    let command = Common::augment_args(with_typed_numbers(command));
    let daemon = format!(
        "Launch the daemon with this folder name in daemons/ [default without a target: {}]",
        D::PROGRAM.embedded
    );
    let command = command.mut_arg("daemon", |arg| arg.help(daemon));
    let mut series = D::SPEC.series.iter();
    let headline = series.find(|series| series.role == SeriesRole::Headline);
    let headline = headline.map_or("lag", |series| &series.name);
    let threshold = format!(
        "Require a threshold, such as \"{headline}.p99 <= 50ms\". It is added to the plan's; exit code 4 if missed"
    );
    let command = command.mut_arg("threshold", |arg| arg.help(threshold));
    let objective = format!(
        "Count the operations that meet an objective, such as \"{headline} < 200ms\". It is added to the plan's. Operations that meet all objectives are the goodput: a rate, and a share of all due operations"
    );
    let command = command.mut_arg("objective", |arg| arg.help(objective));
    let command = variables::add(D::adapt(command), &D::SPEC.driver, D::PROGRAM.renamed);
    let command = help::with_lengths(command, D::PROGRAM.main);
    let about = D::PROGRAM.about.split("\n\n").next().unwrap_or_default();
    D::Command::augment_subcommands(command)
        .subcommand(super::merge::command())
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(D::PROGRAM.about)
        .after_help(
            examples::<D>(SHORT_EXAMPLES)
                + "\n`--help` explains all options, their variables, and the exit codes.",
        )
        .after_long_help(after_long_help::<D>())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
}

/// Lets every option that takes a number read `10k` and `1.5m`.
fn with_typed_numbers(command: Command) -> Command {
    command.mut_args(|arg| {
        let value = arg.get_value_parser().type_id();
        let number = if value == TypeId::of::<f64>() {
            arg.value_parser(number::decimal)
        } else if value == TypeId::of::<u64>() {
            arg.value_parser(number::whole::<u64>)
        } else if value == TypeId::of::<u32>() {
            arg.value_parser(number::whole::<u32>)
        } else if value == TypeId::of::<u16>() {
            arg.value_parser(number::whole::<u16>)
        } else {
            return arg;
        };
        // Its parser says what is wrong with it; clap would take it for an option.
        number.allow_negative_numbers(true)
    })
}

/// Returns calls that show the main uses, at most `most`.
fn examples<D: DriverCli>(most: usize) -> String {
    let mut help = "Examples:\n".to_owned();
    for (call, effect) in D::PROGRAM.examples.iter().take(most) {
        // Writing to a string can't fail.
        let _ = writeln!(help, "  {} {call}\n      {effect}", D::SPEC.driver);
    }
    help
}

/// Returns the end of the long help: examples, environment variables, and exit codes.
fn after_long_help<D: DriverCli>() -> String {
    let mut help = examples::<D>(usize::MAX);
    let variable = variables::name(&D::SPEC.driver, "repeat");
    let _ = write!(
        help,
        "
Numbers may be written as 10k or 1.5m, times as 30 (seconds), 500ms or 1m30s.

Precedence: --set, then options, then their variables, then the file of --plan.

Environment: every option has a variable, named after the program and the option
({variable}=3). A flag is set by 1, true, yes or on.

Exit codes:
  0  success
  1  {}
  2  invalid arguments or plan
  3  {}
  4  a threshold was missed
  5  this machine's limits do not allow the run",
        D::PROGRAM.failed,
        D::PROGRAM.suspect
    );
    help
}

/// Returns the job that parsed options describe. Options take precedence over a plan file, and `--set` over both. If
/// clap finds an option missing, the program ends.
///
/// # Errors
/// A plan or an address that can't be read, or an option that can't be applied to the plan.
pub fn job<D: DriverCli>(mut typed: ArgMatches) -> Result<Job<D::Config>, Failure> {
    let common = Common::from_arg_matches_mut(&mut typed).unwrap_or_else(|error| refuse(&error));
    let shared = CommonLoad::from_arg_matches_mut(&mut typed);
    let shared = shared.unwrap_or_else(|error| refuse(&error));
    let options = D::Options::from_arg_matches_mut(&mut typed);
    let options = options.unwrap_or_else(|error| refuse(&error));
    let mut plan = match &common.plan {
        Some(path) => {
            let mut plan = plan_file::read::<D>(&manifest::find_plan(path))?;
            common_load::update(&mut plan.driver, typed);
            plan
        }
        None => {
            let settings = D::Config::from_arg_matches_mut(&mut typed);
            D::plan(&options, settings.unwrap_or_else(|error| refuse(&error)))
        }
    };
    shared.apply(&mut plan);
    D::apply(&options, &mut plan)?;
    plan.instances = common.instances.unwrap_or(plan.instances);
    plan.objectives.extend(common.objective.iter().cloned());
    plan.thresholds.extend(common.threshold.iter().cloned());
    plan.abort_on_fail = common.abort_on_fail.or(plan.abort_on_fail);
    plan = plan.with_settings(&common.set)?;
    plan.measure_the_stages();
    let typed = D::target(&options)?;
    let target = match (&common.daemon, Target::from_plan(&mut plan)?) {
        (None, planned) => typed.or(planned),
        (Some(_), _) => typed,
    };
    plan.daemon = common.daemon.clone().or(plan.daemon);
    if plan.daemon.is_none() {
        plan.daemon = Some(D::PROGRAM.embedded.to_owned());
    }
    D::complete(target.as_ref(), &mut plan)?;
    mistaken::check_target(target.as_ref(), &command::<D>())?;
    if target.is_some() {
        plan.daemon = None;
    }
    if let Some(text) = common
        .plan
        .as_ref()
        .and_then(|path| plan_file::note_on_suite(&plan, path))
    {
        note(common.quiet || common.print_plan, &text);
    }
    Ok(Job {
        plan,
        target,
        common,
    })
}
