//! The options that a caller gave, and their precedence over a plan file.

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use load::document;
use load::plan::{Group, Invalid, Plan};

use super::common::Common;
use super::driver_cli::DriverCli;
use crate::failure::Failure;

/// The options that were typed or set by a variable, and not by their defaults, by the names of their fields. An
/// option is taken once it has changed the plan; one that is left can't be applied to a plan.
#[derive(Debug)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Returns the given options of a command line.
    pub(super) fn from_matches(matches: &ArgMatches) -> Self {
        let is_given = |id: &&str| {
            let source = matches.value_source(id);
            source.is_some_and(|source| source != ValueSource::DefaultValue)
        };
        let ids = matches.ids().map(clap::Id::as_str);
        Self(ids.filter(is_given).map(str::to_owned).collect())
    }

    /// Returns true if an option was given and not taken.
    #[must_use]
    pub fn contains(&self, option: &str) -> bool {
        self.0.contains(option)
    }

    /// Takes an option. Returns true if it was given.
    pub fn take(&mut self, option: &str) -> bool {
        self.0.remove(option)
    }
}

/// Applies given options to a plan from a file: those of the settings and of the timeline here, those that shape the load
/// by the driver.
///
/// # Errors
/// An option that can't be applied to this plan, with the field to set instead.
pub(super) fn apply<D: DriverCli>(
    plan: &mut Plan<D::Config>,
    options: &D::Options,
    mut given: Given,
) -> Result<(), Failure> {
    let ids = |command: Command| -> Vec<String> {
        let arguments = command.get_arguments();
        arguments.map(|arg| arg.get_id().to_string()).collect()
    };
    let elsewhere = ids(Common::augment_args(Command::new("common")));
    for id in elsewhere
        .iter()
        .map(String::as_str)
        .chain(D::NOT_IN_PLANS.iter().copied())
    {
        given.take(id);
    }
    // Groups of options count as given if one of theirs is.
    let options_of_driver = D::Options::augment_args(Command::new("options"));
    let known: Vec<&str> = options_of_driver
        .get_opts()
        .map(|option| option.get_id().as_str())
        .collect();
    given.0.retain(|id| known.contains(&id.as_str()));
    if given.0.is_empty() {
        return Ok(());
    }
    D::override_load(plan, options, &mut given)?;
    let described = D::plan(options)?;
    let of_settings = ids(D::settings_options(Command::new("settings")));
    let fields = of_settings.iter().map(|id| (id.as_str(), id.as_str()));
    let fields = fields.chain(D::FIELDS.iter().copied());
    let fields: Vec<&str> = fields
        .filter(|(option, _)| given.take(option))
        .map(|(_, field)| field)
        .collect();
    apply_common(plan, &described, &mut given)?;
    replace_fields(&mut plan.driver, &described.driver, &fields)?;
    match given.0.first() {
        None => Ok(()),
        Some(option) => {
            let problem = "describes a whole load and can't change one of a plan: leave it out, and set the fields of the plan (--set groups.0.rate=500; --print-plan shows them)";
            Err(Invalid::new(spelling::<D>(option), problem).into())
        }
    }
}

/// Returns an option as it is typed.
fn spelling<D: DriverCli>(option: &str) -> String {
    let command = D::Options::augment_args(Command::new("options"));
    let mut arguments = command.get_arguments();
    let long = arguments
        .find(|arg| arg.get_id() == option)
        .and_then(|arg| arg.get_long());
    long.map_or_else(|| option.to_owned(), |long| format!("--{long}"))
}

/// Replaces fields of the settings with those that options describe.
fn replace_fields<C>(settings: &mut C, described: &C, fields: &[&str]) -> Result<(), Failure>
where
    C: serde::Serialize + serde::de::DeserializeOwned,
{
    if fields.is_empty() {
        return Ok(());
    }
    let plain = |settings: &C| toml::Table::try_from(settings);
    let of_call = |error: toml::ser::Error| Failure::Run(error.into());
    let mut into = plain(settings).map_err(of_call)?;
    let from = plain(described).map_err(of_call)?;
    for &field in fields {
        match from.get(field) {
            Some(value) => into.insert(field.to_owned(), value.clone()),
            None => into.remove(field),
        };
    }
    *settings = document::from_table(into).map_err(|error| Failure::Run(error.into()))?;
    Ok(())
}

/// Applies the options whose meaning is the same in every driver.
fn apply_common<C>(
    plan: &mut Plan<C>,
    described: &Plan<C>,
    given: &mut Given,
) -> Result<(), Invalid> {
    if given.take("seed") {
        plan.seed = described.seed;
    }
    if given.take("warmup") {
        plan.timeline.warmup = described.timeline.warmup;
    }
    if given.take("drain") {
        plan.timeline.drain = described.timeline.drain;
    }
    if given.take("duration") {
        if let Some(index) = staged(plan) {
            let problem = format!(
                "the stages of the plan set the time: write other stages (--set 'groups.{index}.stages=[…]')"
            );
            return Err(Invalid::new("--duration", problem));
        }
        plan.timeline.measure = described.timeline.measure;
    }
    if given.take("arrival") {
        let arrival = described.groups.first().map(|group| group.arrival);
        for group in &mut plan.groups {
            group.arrival = arrival.unwrap_or(group.arrival);
        }
    }
    Ok(())
}

fn staged<C>(plan: &Plan<C>) -> Option<usize> {
    plan.groups
        .iter()
        .position(|group| !group.stages.is_empty())
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
