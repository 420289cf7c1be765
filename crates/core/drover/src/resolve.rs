//! Combines a plan and a command line to the whole suite, before anything runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use harness::cli::IsolationOptions;
use harness::drivers::KnownDriver;
use harness::run::Sampled;
use load::plan::{self, Capacity, Plan};
use load::redact;
use measure::isolation::Isolation;
use measure::suite::Planned;
use serde::{Deserialize, Serialize};

use crate::against::Against;
use crate::cluster::ssh::Placement;
use crate::doctor::Needs;
use crate::project::{self, Project, listed};

/// Runs of a daemon and of its other version, unless the call or the plan says that there are more.
const LEAST_AGAINST: u32 = 5;

/// Overrides of a plan's suite from the command line.
#[derive(Debug, Default, Args)]
pub(crate) struct Overrides {
    /// Run these daemons instead of the plan's
    #[arg(long = "daemon", value_name = "NAME,…", value_delimiter = ',')]
    daemons: Vec<String>,
    /// Run only these levels of the plan
    #[arg(long = "level", value_name = "NAME,…", value_delimiter = ',')]
    levels: Vec<String>,
    /// Run each daemon this often at each level (overrides the plan)
    #[arg(long, value_name = "N", value_parser = load::number::within(1..=1000_u32))]
    repeat: Option<u32>,
    /// Make an INVALID run again this often before its result is kept (overrides the plan) [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(plan::MOST_RETRIES)))]
    retry_invalid: Option<u32>,
    /// Compare the daemon with another version of it: a commit or branch, another checkout, a manifest (daemon.toml) or a
    /// program. Both run in turn on this machine, at least five times each unless --repeat says otherwise
    #[arg(long, value_name = "WHAT")]
    against: Option<String>,
    /// Override a field of the plan, such as timeline.measure=10s
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Take CPU samples of this side in every run, with `perf`, and draw a flame graph beside its result
    #[arg(long, value_name = "SIDE")]
    flamegraph: Option<Sampled>,
    #[command(flatten)]
    isolation: IsolationOptions,
}

/// Everything that determines the runs. Two suites that are equal in it are the same suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SuiteSpec {
    /// The plan's name.
    pub(crate) name: String,
    /// The protocol of its driver.
    pub(crate) protocol: String,
    /// The plan as TOML, with the settings of the command line, without its suite.
    pub(crate) plan: String,
    /// The settings of the command line.
    pub(crate) set: Vec<String>,
    /// The daemons, in the plan's order; before the only one its other version, if there is one.
    pub(crate) daemons: Vec<String>,
    /// The other version of the daemon, which is the control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) against: Option<Against>,
    /// The loads, from the first to the last.
    pub(crate) levels: Vec<Level>,
    /// The search, instead of levels.
    pub(crate) capacity: Option<Capacity>,
    /// Runs of each daemon at each level.
    pub(crate) repeat: u32,
    /// Determines which daemon begins.
    pub(crate) seed: u64,
    /// The hosts of its runs, if they are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) placement: Option<Placement>,
    /// The CPUs and limits of driver and daemon in all runs.
    #[serde(default, skip_serializing_if = "Isolation::is_none")]
    pub(crate) isolation: Isolation,
    /// The sides whose CPU samples are taken in all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flamegraph: Option<Sampled>,
}

/// A load: its name, and the fields that it changes in the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Level {
    /// Name of the level and of the folder of its results.
    pub(crate) name: String,
    /// `path=value`, as `--set` takes them.
    pub(crate) set: Vec<String>,
}

/// A suite that can be run.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) spec: SuiteSpec,
    pub(crate) question: Option<String>,
    /// Number of times that an INVALID run is made again. It is no part of the definition: another number continues
    /// the same suite.
    pub(crate) retry_invalid: u32,
    /// The size of the plan without the overrides; absent for a search.
    pub(crate) planned: Option<Planned>,
    pub(crate) driver: KnownDriver,
    /// The file of the plan.
    pub(crate) file: PathBuf,
    /// The same, as the call named it.
    pub(crate) named: PathBuf,
    /// The lock of the work tree of the other version.
    _lock: Option<File>,
}

impl Overrides {
    /// Returns overrides of these fields of the plan alone.
    pub(crate) fn with_settings(set: Vec<String>) -> Self {
        Self {
            set,
            ..Self::default()
        }
    }

    /// Returns the CPUs and limits of all runs.
    fn isolation(&self, placement: Option<&Placement>) -> anyhow::Result<Isolation> {
        let isolation = self.isolation.checked(true)?;
        let mut options = isolation.options();
        options.extend(self.flamegraph.into_iter().flat_map(Sampled::option));
        if let (Some(option), Some(_)) = (options.first(), placement) {
            bail!(
                "{option}: is only for runs on this machine: leave it out, or restrict programs on each host (taskset)"
            );
        }
        Ok(isolation)
    }
}

impl Suite {
    /// Reads a plan and applies the overrides of the command line.
    ///
    /// # Errors
    /// An invalid field or flag, with the remedy.
    pub(crate) fn read(
        project: &Project,
        named: &Path,
        overrides: &Overrides,
        placement: Option<&Placement>,
    ) -> anyhow::Result<Self> {
        let file = &project.find_plan(named)?;
        let mut plan: Plan<toml::Table> = plan::load(file, &overrides.set)?;
        let shown = file.display();
        holds_no_secret(&plan).with_context(|| shown.to_string())?;
        // Daemons of the command line make a suite of a plan that has none.
        let chosen = Some(overrides.daemons.clone()).filter(|daemons| !daemons.is_empty());
        let only = plan.daemon.clone().filter(|_| overrides.against.is_some());
        let chosen =
            chosen.or_else(|| only.filter(|_| plan.suite.is_none()).map(|only| vec![only]));
        let suite = plan.suite.take();
        let suite = suite.or_else(|| chosen.clone().map(load::plan::Suite::new));
        let mut suite = suite.with_context(|| {
            format!("{shown}: has no [suite]: name daemons (--daemon NAME,…), add `daemons = […]` below [suite], or run the plan with its driver (--plan {shown})")
        })?;
        suite.daemons = chosen.unwrap_or(suite.daemons);
        let planned_repeat = suite.repeat;
        let least = overrides.against.as_ref().map_or(1, |_| LEAST_AGAINST);
        suite.repeat = overrides.repeat.unwrap_or(suite.repeat.max(least));
        suite.validate().with_context(|| format!("{shown}"))?;
        project.require_daemons(&suite.daemons)?;
        let driver = project
            .driver_of(file, plan.protocol.as_deref(), &suite.daemons)?
            .clone();
        project
            .require_protocol(&suite.daemons, &driver)
            .with_context(|| shown.to_string())?;
        refuse_variables(&driver.name)?;
        let (against, lock) = other_version(project, overrides, &mut suite, placement)?.unzip();
        let levels = levels(&suite.levels, &plan, suite.capacity.is_some());
        let planned = suite.capacity.is_none().then_some(Planned {
            levels: levels.len() as u64,
            repetitions: u64::from(planned_repeat),
        });
        if plan.groups.iter().any(|group| !group.stages.is_empty()) {
            // The measured time follows the stages, which a level may change.
            plan.timeline.measure = Duration::ZERO;
        }
        let spec = SuiteSpec {
            name: plan.name.clone(),
            protocol: driver.protocol.clone(),
            plan: toml::to_string(&plan).context("writing the plan as TOML")?,
            set: overrides.set.clone(),
            daemons: suite.daemons,
            against,
            levels: select_levels(levels, &overrides.levels, suite.capacity.is_some())?,
            capacity: suite.capacity,
            repeat: suite.repeat,
            seed: plan.seed,
            placement: placement.cloned(),
            isolation: overrides.isolation(placement)?,
            flamegraph: overrides.flamegraph,
        };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        Ok(Self {
            spec,
            question: project::question(&text),
            retry_invalid: overrides.retry_invalid.unwrap_or(suite.retry_invalid),
            planned,
            driver,
            file: file.to_owned(),
            named: named.to_owned(),
            _lock: lock.flatten(),
        })
    }
}

/// Finds the other version of the daemon, if the call names one, and puts it before the daemon.
///
/// # Errors
/// There is no such version, or the suite can't compare it.
fn other_version(
    project: &Project,
    overrides: &Overrides,
    suite: &mut plan::Suite,
    placement: Option<&Placement>,
) -> anyhow::Result<Option<(Against, Option<File>)>> {
    match (&overrides.against, &*suite.daemons) {
        (None, _) => Ok(None),
        (Some(_), _) if suite.capacity.is_some() || placement.is_some() => {
            bail!(
                "--against: compares runs at the levels of a plan on this machine: use it without a search and without hosts"
            )
        }
        (Some(what), [daemon]) => {
            let found = Against::find(project, daemon, what).context("--against")?;
            suite.daemons.insert(0, found.0.name.clone());
            Ok(Some(found))
        }
        (Some(_), several) => bail!(
            "--against: compares one daemon with another version of it, and the plan has {}: choose one with --daemon NAME",
            listed(several)
        ),
    }
}

/// Refuses variables that would change every run of a suite without being part of its record.
fn refuse_variables(driver: &str) -> anyhow::Result<()> {
    match harness::cli::load_variables(driver).as_slice() {
        [] => Ok(()),
        set => bail!(
            "{}: would change every run of the suite: unset it, and use --set, which the suite records",
            listed(set)
        ),
    }
}

/// Refuses a plan with a secret. The plan of a suite is stored beside its results, and its settings appear in process
/// listings.
///
/// # Errors
/// The plan contains one; the error names the remedy.
pub(crate) fn holds_no_secret(plan: &Plan<toml::Table>) -> anyhow::Result<()> {
    let plain = serde_json::to_value(plan).context("reading the plan")?;
    let mut redacted = plain.clone();
    redact::value(&mut redacted);
    if redacted != plain {
        bail!(
            "contains a password, a token or a header field that authenticates, and would be stored beside the results: keep such fields in a file, as headers = [\"@FILE\"], and variables of daemons in `pass_env` of their manifest"
        );
    }
    Ok(())
}

impl Suite {
    /// Checks the plan at every load before the first run: the common fields here, the rest by the driver.
    ///
    /// # Errors
    /// The first setting that no plan has, or value that can't be run.
    pub(crate) fn check(&self, program: &Path) -> anyhow::Result<()> {
        let search = self.spec.capacity.as_ref();
        let ends = search.map(|search| [search.from, search.most]);
        let probes = ends.into_iter().flatten();
        let probes: Vec<Level> = probes.map(|load| self.spec.probe(load)).collect();
        for level in self.spec.levels.iter().chain(&probes) {
            let set = [self.spec.set.as_slice(), &level.set].concat();
            let about = || format!("level {}", level.name);
            plan::load::<toml::Table>(&self.file, &set).with_context(about)?;
            self.check_with_driver(program, &set).with_context(about)?;
        }
        Ok(())
    }

    /// Returns what its highest load needs.
    ///
    /// # Errors
    /// The plan can't be read.
    pub(crate) fn needs(&self) -> anyhow::Result<Needs> {
        let search = self.spec.capacity.as_ref();
        let most = search.map(|search| self.spec.probe(search.most));
        let levels = self.spec.levels.iter().chain(&most);
        let settings = levels.map(|level| [self.spec.set.as_slice(), &level.set].concat());
        let own = self
            .spec
            .daemons
            .iter()
            .filter(|name| self.spec.version(name).is_none());
        Needs::at_settings(&self.file, own.cloned().collect(), settings)
    }

    /// Has the driver print the plan that it would run; returns its error if the plan is invalid.
    fn check_with_driver(&self, program: &Path, set: &[String]) -> anyhow::Result<()> {
        let output = Command::new(program)
            .arg("--plan")
            .arg(&self.file)
            .args(set.iter().flat_map(|setting| ["--set", setting]))
            .arg("--daemon")
            .args(self.spec.daemons.last())
            .arg("--print-plan")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {}", program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{}", message.trim().trim_start_matches("error: "))
    }
}

impl SuiteSpec {
    /// Returns the options that each driver gets in every run, besides its plan.
    pub(crate) fn driver_options(&self) -> Vec<String> {
        let sampled = self.flamegraph.into_iter().flat_map(Sampled::option);
        self.isolation
            .options()
            .into_iter()
            .chain(sampled)
            .collect()
    }

    /// Returns the level of a load of the search.
    pub(crate) fn probe(&self, load: u64) -> Level {
        let set = self.capacity.iter().map(|search| search.setting(load));
        Level {
            name: load.to_string(),
            set: set.collect(),
        }
    }

    /// Returns true if `next` is this suite, with at least as many repetitions.
    pub(crate) fn is_continued_by(&self, next: &Self) -> bool {
        let repeat = next.repeat;
        repeat >= self.repeat
            && *next
                == Self {
                    repeat,
                    ..self.clone()
                }
    }

    /// Returns the other version, if that is the daemon with this name.
    pub(crate) fn version(&self, daemon: &str) -> Option<&Against> {
        self.against
            .as_ref()
            .filter(|against| against.name == daemon)
    }

    /// Returns the total number of runs; unknown for a search.
    pub(crate) fn total(&self) -> Option<usize> {
        let runs = self.daemons.len() * self.levels.len() * self.repeat as usize;
        self.capacity.is_none().then_some(runs)
    }
}

fn levels(written: &[plan::Level], plan: &Plan<toml::Table>, search: bool) -> Vec<Level> {
    if written.is_empty() && !search {
        return vec![Level {
            name: plan.level(),
            set: Vec::new(),
        }];
    }
    let level = |level: &plan::Level| Level {
        name: level.name.clone(),
        set: level.settings(),
    };
    written.iter().map(level).collect()
}

fn select_levels(levels: Vec<Level>, names: &[String], search: bool) -> anyhow::Result<Vec<Level>> {
    if names.is_empty() {
        return Ok(levels);
    }
    if search {
        bail!("--level: the plan searches for its load and has no levels: leave --level out");
    }
    for name in names {
        if !levels.iter().any(|level| level.name == *name) {
            let known = listed(levels.iter().map(|level| &level.name));
            bail!("--level {name}: the plan has no such level: use one of {known}");
        }
    }
    Ok(levels
        .into_iter()
        .filter(|level| names.contains(&level.name))
        .collect())
}
