//! Options of the load that every driver has, and functions for options of one driver.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use load::duration;
use load::plan::{Group, Invalid, Plan};
use load::schedule::Arrival;

use super::refuse;

/// Options of the load that every driver accepts. Each sets a field of the plan.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct CommonLoad {
    /// Distribute the starts of a rate evenly (constant), as independent users (poisson) or in bursts (gamma:0.25) [default: constant]
    #[arg(long, value_name = "DISTRIBUTION")]
    arrival: Option<Arrival>,
    /// Apply the load for this long before measuring; it is not counted [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    warmup: Option<Duration>,
    /// Wait at most this long for operations that are open when the load ends [default: chosen by the driver]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    drain: Option<Duration>,
    /// Do not start an operation of a rate that has been due for longer than this; it counts as missed [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    deadline: Option<Duration>,
    /// Set the random seed [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl CommonLoad {
    /// Applies the given options to a plan.
    pub(super) fn apply<C>(&self, plan: &mut Plan<C>) {
        if let Some(arrival) = self.arrival {
            let groups = plan.groups.iter_mut();
            groups.for_each(|group| group.arrival = arrival);
        }
        let timeline = &mut plan.timeline;
        timeline.warmup = self.warmup.unwrap_or(timeline.warmup);
        timeline.drain = self.drain.unwrap_or(timeline.drain);
        plan.deadline = self.deadline.or(plan.deadline);
        plan.seed = self.seed.unwrap_or(plan.seed);
    }
}

/// Returns the settings of a driver as they are without options.
///
/// # Panics
/// An option of the settings is required.
#[must_use]
pub fn default_settings<C: Args>() -> C {
    let command = C::augment_args(Command::new("defaults"));
    let matches = command.try_get_matches_from(["defaults"]);
    matches
        .and_then(|matches| C::from_arg_matches(&matches))
        .expect("no option is required")
}

/// Applies options to settings from a file: those that were typed or set by a variable, and no defaults.
pub(super) fn update<C: Args>(settings: &mut C, mut typed: ArgMatches) {
    let ids: Vec<String> = typed.ids().map(ToString::to_string).collect();
    for id in ids {
        if typed.value_source(&id) == Some(ValueSource::DefaultValue) {
            let cleared = typed.try_clear_id(&id);
            cleared.expect("the matches have this option");
        }
    }
    let updated = settings.update_from_arg_matches_mut(&mut typed);
    updated.unwrap_or_else(|error| refuse(&error));
}

/// Sets the measured time of a plan, for `--duration`.
///
/// # Errors
/// The plan has stages, which set the time.
pub fn set_duration<C>(plan: &mut Plan<C>, duration: Duration) -> Result<(), Invalid> {
    let mut groups = plan.groups.iter();
    if let Some(index) = groups.position(|group| !group.stages.is_empty()) {
        let problem = format!(
            "the stages of the plan set the time: write other stages (--set 'groups.{index}.stages=[…]')"
        );
        return Err(Invalid::new("--duration", problem));
    }
    plan.timeline.measure = duration;
    Ok(())
}

/// Returns the only group that an option can change: the only one of the plan, or else the only one that `fits`.
///
/// # Errors
/// There are several, or it has stages, with the field to set instead.
pub fn only_group<'a, C>(
    plan: &'a mut Plan<C>,
    option: &str,
    field: &str,
    fits: impl Fn(&Group) -> bool,
) -> Result<&'a mut Group, Invalid> {
    let fitting: Vec<usize> = match plan.groups.len() {
        1 => vec![0],
        _ => (0..plan.groups.len())
            .filter(|index| fits(&plan.groups[*index]))
            .collect(),
    };
    let settings = |indices: &mut dyn Iterator<Item = usize>| {
        let setting = |index: usize| format!("--set groups.{index}.{field}=…");
        indices.map(setting).collect::<Vec<_>>().join(" or ")
    };
    match fitting.as_slice() {
        [index] if plan.groups[*index].stages.is_empty() => Ok(&mut plan.groups[*index]),
        [index] => {
            let problem = format!(
                "the stages of the plan set the load: write other stages (--set 'groups.{index}.stages=[…]')"
            );
            Err(Invalid::new(option, problem))
        }
        several => {
            let number = plan.groups.len();
            let remedy = match several {
                [] => settings(&mut (0..number)),
                several => settings(&mut several.iter().copied()),
            };
            let problem = format!(
                "the plan has {number} groups, and it is open which one is meant: use {remedy}"
            );
            Err(Invalid::new(option, problem))
        }
    }
}
