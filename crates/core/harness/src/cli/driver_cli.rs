//! The part of a command line that a driver defines.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, Subcommand as _};
use load::driver::{Driver, Target};
use load::plan::{Invalid, Plan};
use measure::result::RunResult;
use serde_json::{Value, json};

use super::command::{refuse, two_dashes};
use super::common::Common;
use super::given::{self, Given};
use super::{help, mistaken, numbers, plan_file, variables};
use crate::failure::Failure;
use crate::launcher::note;
use subject::manifest;

/// Number of examples in the short help.
const SHORT_EXAMPLES: usize = 4;

/// The command line of a driver, besides the options that all drivers share.
pub trait DriverCli: Driver {
    /// Options of a run.
    type Options: clap::Args;
    /// Commands other than a run.
    type Command: clap::Subcommand;
    /// Daemon to launch if no target is given and no daemon is named.
    const EMBEDDED: &'static str;
    /// Description of the program: one sentence, and details after an empty line.
    const ABOUT: &'static str;
    /// Arguments of calls that show the main uses, each with its effect.
    const EXAMPLES: &'static [(&'static str, &'static str)];
    /// Meaning of exit code 1.
    const FAILED: &'static str;
    /// Meaning of exit code 3.
    const SUSPECT: &'static str = "suspect results";

    /// Names of the options that `-h` shows, besides those that all drivers share; the others are for `--help`.
    const MAIN: &'static [&'static str] = &[];
    /// Options that a plan has no field for, such as `socket`, by the names of their fields in the struct of options.
    /// Arguments without a name, such as a URL, need no entry.
    const NOT_IN_PLANS: &'static [&'static str] = &[];
    /// Options that set a field of the settings that has another name: option and field.
    const FIELDS: &'static [(&'static str, &'static str)] = &[];

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

    /// Returns the plan that the options describe, not yet validated.
    ///
    /// # Errors
    /// A value that can't be used, such as an unreadable file.
    fn plan(options: &Self::Options) -> Result<Plan<Self::Config>, Failure>;

    /// Adds the options that are fields of the settings, if there are any: `Settings::augment_args(command)`.
    fn settings_options(command: Command) -> Command {
        command
    }

    /// Applies given options that shape the load to a plan from a file. Options of the settings, of the timeline and of
    /// the seed are applied afterwards. An option that nobody takes is refused.
    ///
    /// # Errors
    /// An option that does not fit the groups of the plan, with the field to set instead.
    fn override_load(
        _plan: &mut Plan<Self::Config>,
        _options: &Self::Options,
        _given: &mut Given,
    ) -> Result<(), Invalid> {
        Ok(())
    }

    /// Returns the running daemons that the options name.
    ///
    /// # Errors
    /// An address that can't be read.
    fn target(options: &Self::Options) -> Result<Option<Target>, Failure>;

    /// Completes a plan, from options or a file, once its daemon or target is known.
    ///
    /// # Errors
    /// A field that doesn't fit the target.
    fn complete(
        _plan: &mut Plan<Self::Config>,
        _options: &Self::Options,
        _target: Option<&Target>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs a command. Returns true if all is right.
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
    let options = D::Options::augment_args(Command::new(&*D::SPEC.driver));
    let command = Common::augment_args(numbers::typed(options));
    let daemon = format!(
        "Launch the daemon with this folder name in daemons/ [default without a target: {}]",
        D::EMBEDDED
    );
    let command = command.mut_arg("daemon", |arg| arg.help(daemon));
    let command = variables::add(D::adapt(command), &D::SPEC.driver);
    let command = help::with_lengths(command, D::MAIN);
    let about = D::ABOUT.split("\n\n").next().unwrap_or_default();
    D::Command::augment_subcommands(command)
        .subcommand(super::merge::command())
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(D::ABOUT)
        .after_help(
            examples::<D>(SHORT_EXAMPLES)
                + "\n`--help` explains all options, their variables, and the exit codes.",
        )
        .after_long_help(after_long_help::<D>())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
}

/// Returns calls that show the main uses, at most `most`.
fn examples<D: DriverCli>(most: usize) -> String {
    let mut help = "Examples:\n".to_owned();
    for (call, effect) in D::EXAMPLES.iter().take(most) {
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
        D::FAILED,
        D::SUSPECT
    );
    help
}

/// Returns the job that parsed options describe. Options take precedence over a plan file, and `--set` over both. If
/// clap finds an option missing, the program ends.
///
/// # Errors
/// A plan or an address that can't be read, or an option that can't be applied to the plan.
pub fn job<D: DriverCli>(mut typed: ArgMatches) -> Result<Job<D::Config>, Failure> {
    let given = Given::from_matches(&typed);
    let common = Common::from_arg_matches_mut(&mut typed).unwrap_or_else(|error| refuse(&error));
    let options = D::Options::from_arg_matches_mut(&mut typed);
    let options = options.unwrap_or_else(|error| refuse(&error));
    let mut plan = match &common.plan {
        Some(path) => {
            let mut plan = plan_file::read::<D>(&manifest::find_plan(path))?;
            given::apply::<D>(&mut plan, &options, given)?;
            plan
        }
        None => D::plan(&options)?,
    };
    plan.instances = common.instances.unwrap_or(plan.instances);
    plan.thresholds.extend(common.threshold.iter().cloned());
    plan.daemon = common.daemon.clone().or(plan.daemon);
    plan = plan.with_settings(&common.set)?;
    plan.measure_the_stages();
    let target = D::target(&options)?;
    mistaken::check_target(target.as_ref(), &command::<D>())?;
    if let Some(text) = common
        .plan
        .as_ref()
        .and_then(|path| plan_file::note_on_suite(&plan, path))
    {
        note(common.quiet || common.print_plan, &text);
    }
    plan.daemon = match &target {
        Some(_) => None,
        None => plan.daemon.or_else(|| Some(D::EMBEDDED.to_owned())),
    };
    D::complete(&mut plan, &options, target.as_ref())?;
    Ok(Job {
        plan,
        target,
        common,
    })
}
