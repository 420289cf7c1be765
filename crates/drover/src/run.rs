//! `drover run`: performs every run of a suite as a driver's process, and reports at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::Args;
use harness::failure::Failure;
use harness::signals::Signals;
use harness::{output, store};
use load::clock;
use load::plan;
use measure::report::terminal;
use measure::result::RunResult;
use subject::daemon::Daemon;
use subject::host;

use crate::driver_run::{self, Outcome};
use crate::estimate::{self, PastRun};
use crate::folder::Folder;
use crate::machine_lock::MachineLock;
use crate::matrix::{self, PlannedRun};
use crate::progress::{Progress, RunProgress};
use crate::project::Project;
use crate::record::{Ended, FailureKind, Record, RunId, Unreached};
use crate::resolve::{Overrides, Suite};
use crate::{exit, suite_report};

mod capacity;

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run these plans with a [suite], such as configs/fdpass/quick.toml
    #[arg(required = true, value_name = "PLAN")]
    plans: Vec<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Store results below this folder
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Start over, even if an earlier suite can be continued
    #[arg(long)]
    fresh: bool,
    /// Run even if another suite is active on this machine
    #[arg(long)]
    force: bool,
}

/// Runs suites one after the other; returns their combined exit code.
///
/// # Errors
/// A problem that keeps a suite from beginning.
pub(crate) async fn run(options: &Options) -> Result<u8, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    let read = |plan: &PathBuf| Suite::read(&project, plan, &options.overrides);
    let suites: Vec<Suite> = options
        .plans
        .iter()
        .map(read)
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::Call)?;
    let lock = match MachineLock::acquire() {
        Ok(lock) => Some(lock),
        Err(error) if !options.force => return Err(Failure::Call(error)),
        Err(_) => None,
    };
    let progress = Progress::new();
    for note in lock.iter().flat_map(|lock| &lock.notes) {
        progress.say(note);
    }
    let programs = programs(&project, &suites, &progress)?;
    for suite in &suites {
        let check = suite.check(&programs[&suite.driver.name]);
        check
            .with_context(|| suite.file.display().to_string())
            .map_err(Failure::Call)?;
    }
    let mut signals = Signals::listen()
        .context("listening for signals")
        .map_err(Failure::Run)?;
    let mut codes = Vec::new();
    for suite in &suites {
        let program = programs[&suite.driver.name].clone();
        let mut runner = Runner::open(suite, program, options, &progress, &mut signals)?;
        codes.push(runner.run_all(&project).await?);
        if runner.interrupted {
            break;
        }
    }
    Ok(exit::most_severe(codes))
}

/// Returns the program of each required driver, built once.
fn programs(
    project: &Project,
    suites: &[Suite],
    progress: &Progress,
) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut programs = BTreeMap::new();
    for suite in suites {
        let driver = &suite.driver;
        if !programs.contains_key(&driver.name) {
            progress.say(&format!("Building {} (release).", driver.name));
            let program = driver.program(project).map_err(Failure::Run)?;
            programs.insert(driver.name.clone(), program);
        }
    }
    Ok(programs)
}

/// A suite that is being run.
#[derive(Debug)]
struct Runner<'a> {
    suite: &'a Suite,
    program: PathBuf,
    folder: Folder,
    record: Record,
    progress: &'a Progress,
    signals: &'a mut Signals,
    planned: BTreeMap<String, Duration>,
    /// The exit codes of a search's results.
    answers: Vec<u8>,
    interrupted: bool,
}

impl<'a> Runner<'a> {
    fn open(
        suite: &'a Suite,
        program: PathBuf,
        options: &Options,
        progress: &'a Progress,
        signals: &'a mut Signals,
    ) -> Result<Self, Failure> {
        let machine = host::machine();
        let (folder, known) = Folder::open(&options.out, &machine.hostname, suite, options.fresh)
            .map_err(Failure::Call)?;
        let record = match known {
            Some(record) => resume_record(record, suite, machine.git_commit, &folder, progress),
            None => Record {
                suite: suite.spec.clone(),
                question: suite.question.clone(),
                started_at: store::timestamp(SystemTime::now()),
                ended_at: None,
                git_commit: machine.git_commit,
                runs: Vec::new(),
                unreached: Vec::new(),
                found: Vec::new(),
            },
        };
        let out = || format!("--out {}", options.out.display());
        record
            .write(folder.path())
            .with_context(out)
            .map_err(Failure::Call)?;
        Ok(Self {
            suite,
            program,
            folder,
            record,
            progress,
            signals,
            planned: BTreeMap::new(),
            answers: Vec::new(),
            interrupted: false,
        })
    }

    /// Performs the remaining runs, and writes the report of all existing results, however the runs ended.
    async fn run_all(&mut self, project: &Project) -> Result<u8, Failure> {
        let ran = self.runs(project).await;
        self.progress.finish();
        let reported = self.report();
        ran.map_err(Failure::Run)?;
        reported.map_err(Failure::Run)?;
        Ok(self.exit_code())
    }

    async fn runs(&mut self, project: &Project) -> anyhow::Result<()> {
        let able = self.runnable_daemons(project);
        match self.suite.spec.capacity.clone() {
            Some(search) => self.search(&search, &able).await?,
            None => self.matrix(&able).await?,
        }
        // Unreached runs are tried again by the same command, after the remedy may have been applied.
        if !self.interrupted && self.record.unreached.is_empty() {
            self.record.ended_at = Some(store::timestamp(SystemTime::now()));
        }
        self.record.write(self.folder.path())
    }

    /// Returns the daemons whose tools are installed. A missing tool is reported once, for all levels of its daemon.
    fn runnable_daemons(&mut self, project: &Project) -> Vec<String> {
        let mut able = Vec::new();
        for daemon in &self.suite.spec.daemons {
            let Err(error) = Daemon::check_tools(&project.root, daemon) else {
                able.push(daemon.clone());
                continue;
            };
            let reason = error.to_string();
            self.progress.say(&format!("Skipped: {reason}"));
            let search = self.suite.spec.capacity.as_ref();
            let first = search.map(|search| self.suite.spec.probe(search.from));
            for level in self.suite.spec.levels.iter().chain(&first) {
                self.record.unreached.push(Unreached {
                    daemon: daemon.clone(),
                    level: level.name.clone(),
                    run: None,
                    why: FailureKind::ToolMissing,
                    reason: reason.clone(),
                });
            }
        }
        able
    }

    async fn matrix(&mut self, able: &[String]) -> anyhow::Result<()> {
        let planned = matrix::planned_runs(&self.suite.spec);
        for (index, run) in planned.iter().enumerate() {
            if self.interrupted {
                break;
            }
            if self.is_open(&run.id, able) {
                let after = self.left(&planned[index + 1..], able)?;
                self.run_one(run, index + 1, Some(after)).await?;
            }
        }
        Ok(())
    }

    /// Returns true if a run remains: its daemon can be run, and it has neither ended nor been stopped.
    fn is_open(&self, id: &RunId, able: &[String]) -> bool {
        let is_settled = self.record.has_ended(id) || self.record.stopped(id).is_some();
        able.contains(&id.daemon) && !is_settled
    }

    fn left(&mut self, planned: &[PlannedRun], able: &[String]) -> anyhow::Result<Duration> {
        let mut left = Duration::ZERO;
        for run in planned {
            if self.is_open(&run.id, able) {
                left += self.about(run)?;
            }
        }
        Ok(left)
    }

    /// Estimates the duration of a run.
    fn about(&mut self, run: &PlannedRun) -> anyhow::Result<Duration> {
        let level = &run.id.level;
        let planned = match self.planned.get(level) {
            Some(known) => *known,
            None => plan::load::<toml::Table>(&self.folder.plan(), &run.set)?.planned(),
        };
        self.planned.insert(level.clone(), planned);
        let known = |run: &Ended| {
            Some(PastRun {
                level: run.id.level.clone(),
                planned: *self.planned.get(&run.id.level)?,
                took: Duration::from_secs_f64(run.wall_s),
            })
        };
        let ended: Vec<PastRun> = self.record.runs.iter().filter_map(known).collect();
        Ok(estimate::run_time(level, planned, &ended))
    }

    /// Performs one run and records its outcome. Returns the driver's exit code and the result, if there is one.
    async fn run_one(
        &mut self,
        run: &PlannedRun,
        number: usize,
        after: Option<Duration>,
    ) -> anyhow::Result<Option<(u8, RunResult)>> {
        let now = RunProgress {
            number,
            total: self.suite.spec.total(),
            id: run.id.clone(),
            repeat: self.suite.spec.repeat,
            about: self.about(run)?,
            after,
            began: clock::now(),
        };
        let outcome = match driver_run::reuse_result(&self.folder, &run.id) {
            Some(outcome) => outcome,
            None => {
                self.folder.prepare(&run.id)?;
                let tick = || self.progress.show(&now);
                let (outcome, asked_to_end) =
                    driver_run::run(&self.program, &self.folder, run, self.signals, tick)
                        .await
                        .with_context(|| format!("starting {}", self.program.display()))?;
                self.interrupted |= asked_to_end;
                outcome
            }
        };
        let result = self.record_outcome(&now, outcome);
        self.record.write(self.folder.path()).context(
            "writing the record of the suite (results are kept; free space, then repeat the command to continue)",
        )?;
        Ok(result)
    }

    fn record_outcome(&mut self, now: &RunProgress, outcome: Outcome) -> Option<(u8, RunResult)> {
        let id = &now.id;
        match outcome {
            Outcome::Interrupted => {
                self.interrupted = true;
                self.progress.ended(now, "interrupted");
                None
            }
            Outcome::Unreached { why, reason } => {
                let first = reason.lines().next().unwrap_or_default();
                self.progress.ended(now, &format!("not measured: {first}"));
                self.record.unreached.push(Unreached {
                    daemon: id.daemon.clone(),
                    level: id.level.clone(),
                    run: (why == FailureKind::Failed).then_some(id.run),
                    why,
                    reason,
                });
                None
            }
            Outcome::Measured { exit, result } => {
                let operations = &result.operations;
                let how = format!(
                    "{} · {} ok",
                    result.verdict,
                    measure::units::count(operations.ok)
                );
                self.progress.ended(now, &how);
                self.record.runs.push(Ended {
                    id: id.clone(),
                    exit,
                    wall_s: result.wall_s,
                });
                Some((exit, *result))
            }
        }
    }

    /// Writes the pages and prints the summary.
    fn report(&self) -> anyhow::Result<()> {
        let suite = suite_report::read_folder(self.folder.path())?;
        let pages = suite_report::write(self.folder.path(), &suite)?;
        output::print_report("terminal", &terminal::render(&suite)?)?;
        for found in &self.record.found {
            output::print(&suite_report::describe_capacity(found))?;
        }
        if self.interrupted {
            self.progress
                .say("Interrupted: repeat the command to continue.");
        } else if self.record.ended_at.is_none() {
            self.progress
                .say("Some runs are missing. Repeat the command to retry them, or use --fresh to start over.");
        }
        for page in pages {
            output::print(&page.display().to_string())?;
        }
        Ok(())
    }

    fn exit_code(&self) -> u8 {
        let mut codes: Vec<u8> = match self.suite.spec.capacity {
            Some(_) => self.answers.clone(),
            None => self.record.runs.iter().map(|run| run.exit).collect(),
        };
        let has = |why| self.record.unreached.iter().any(|missed| missed.why == why);
        let all = harness::launcher::everything_is_required();
        if has(FailureKind::Failed) || (all && has(FailureKind::ToolMissing)) {
            codes.push(exit::FAILED);
        }
        if self.interrupted {
            codes.push(exit::SUSPECT);
        } else if self.record.runs.is_empty() {
            codes.push(exit::FAILED);
        }
        exit::most_severe(codes)
    }
}

/// Prepares the record of a suite that is continued: runs without an intact result are repeated.
fn resume_record(
    mut record: Record,
    suite: &Suite,
    git_commit: Option<String>,
    folder: &Folder,
    progress: &Progress,
) -> Record {
    record.clear_failures();
    record.runs.retain(|run| {
        folder.has(&run.id).unwrap_or_else(|error| {
            progress.say(&format!("Measuring again: {error:#}"));
            false
        })
    });
    let there = record.runs.len();
    let total = suite.spec.total();
    let of = total.map_or(String::new(), |total| format!(" of {total}"));
    progress.say(&format!(
        "{there}{of} runs are complete, continuing in {}",
        folder.path().display()
    ));
    if record.git_commit != git_commit && there > 0 {
        progress.say(
            "They were measured with another revision of the sources: use --fresh to measure all with this one.",
        );
    }
    record.git_commit = git_commit;
    record
}
