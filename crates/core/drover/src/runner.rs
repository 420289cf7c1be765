//! The runs of a suite, each as a driver's process, and the report at their end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use harness::failure::Failure;
use harness::signals::Signals;
use harness::{output, store};
use load::clock;
use load::plan::{self, Invalid};
use measure::report::{Format, Judgement, Options as ReportOptions};
use measure::result::RunResult;
use subject::daemon::{Daemon, DaemonError};
use subject::host;

use crate::cluster::ssh::Hosts;
use crate::driver_run::{self, Outcome};
use crate::estimate::{self, PastRun};
use crate::fail_on::{self, FailOn};
use crate::folder::Folder;
use crate::matrix::{self, PlannedRun};
use crate::progress::{LiveView, Progress, RunProgress};
use crate::project::Project;
use crate::record::{Ended, FailureKind, Record, RunId, Unreached};
use crate::resolve::Suite;
use crate::run::SuiteOptions;
use crate::{exit, steps, suite_report};

mod capacity;
mod resume;
mod retry;
mod worse;

/// A suite that was run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code of its runs.
    pub(crate) code: u8,
    pub(crate) folder: PathBuf,
    /// The driver's program.
    pub(crate) program: PathBuf,
}

/// A suite that is being run.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    suite: &'a Suite,
    program: PathBuf,
    /// The hosts of a suite whose runs are divided.
    hosts: Option<&'a mut Hosts>,
    folder: Folder,
    record: Record,
    progress: &'a Progress,
    signals: &'a mut Signals,
    planned: BTreeMap<String, Duration>,
    /// Number of times that this call has made each INVALID run again.
    retried: BTreeMap<RunId, u32>,
    /// The exit codes of a search's results.
    answers: Vec<u8>,
    pub(crate) interrupted: bool,
    fail_on: Option<FailOn>,
    /// The judgement of the daemon against its other version, if one is asked for.
    judgement: Option<Judgement>,
    /// True if the whole report is printed at the end.
    full: bool,
    is_silent: bool,
    /// Further options of the driver.
    further: Vec<String>,
}

impl<'a> Runner<'a> {
    pub(crate) fn open(
        suite: &'a Suite,
        program: PathBuf,
        options: &SuiteOptions,
        hosts: Option<&'a mut Hosts>,
        progress: &'a Progress,
        signals: &'a mut Signals,
    ) -> Result<Self, Failure> {
        let machine = host::machine();
        let commit = machine.git_commit.as_deref();
        let (folder, known) = Folder::open(
            &options.out,
            &machine.hostname,
            suite,
            commit,
            // Both versions may have changed since.
            options.fresh || suite.spec.against.is_some(),
        )
        .map_err(Failure::Call)?;
        let record = match known {
            Some(record) => resume::resume(record, suite, &machine, &folder, progress),
            None => Record {
                suite: suite.spec.clone(),
                plan: Some(suite.named.display().to_string()),
                question: suite.question.clone(),
                planned: suite.planned,
                started_at: store::timestamp(SystemTime::now()),
                ended_at: None,
                git_commit: machine.git_commit.clone(),
                running: None,
                runs: Vec::new(),
                unreached: Vec::new(),
                set_aside: Vec::new(),
                looks: Vec::new(),
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
            hosts,
            folder,
            record,
            progress,
            signals,
            planned: BTreeMap::new(),
            retried: BTreeMap::new(),
            answers: Vec::new(),
            interrupted: false,
            fail_on: options.fail_on.clone(),
            judgement: None,
            full: options.full,
            is_silent: options.is_silent,
            further: options.of_driver(suite),
        })
    }

    /// Performs the remaining runs, and writes the report of all existing results, however the runs ended.
    pub(crate) async fn run_all(&mut self, project: &Project) -> Result<Ran, Failure> {
        let ran = self.runs(project).await;
        self.progress.finish();
        let reported = self.report();
        ran.map_err(|error| {
            if error.is::<Invalid>() {
                Failure::Call(error)
            } else {
                Failure::Run(error)
            }
        })?;
        reported.map_err(Failure::Run)?;
        if let Some((text, _)) = self.failure() {
            self.progress.say(&text);
        }
        Ok(Ran {
            code: self.exit_code(),
            folder: self.folder.path().to_owned(),
            program: self.program.clone(),
        })
    }

    async fn runs(&mut self, project: &Project) -> anyhow::Result<()> {
        let able = match self.record.ended_at {
            // Nothing is run, so that no tool is needed.
            Some(_) => self.suite.spec.daemons.clone(),
            // The hosts have been checked, and build what has to be built.
            None if self.hosts.is_some() => self.suite.spec.daemons.clone(),
            None => self.prepare_daemons(project).await?,
        };
        match self.suite.spec.capacity.clone() {
            Some(search) => self.search(&search, &able).await?,
            None => {
                self.matrix(&able).await?;
                self.confirm(&able).await?;
            }
        }
        // Unreached and INVALID runs are tried again by the same command, after the remedy may have been applied.
        if !self.interrupted && self.record.unreached.is_empty() && !self.has_retries() {
            let now = || store::timestamp(SystemTime::now());
            self.record.ended_at.get_or_insert_with(now);
        }
        self.record.write(self.folder.path())
    }

    /// Builds the daemons. Returns those that can be run: a missing tool and a failed build are reported once, for all
    /// levels of the daemon.
    async fn prepare_daemons(&mut self, project: &Project) -> anyhow::Result<Vec<String>> {
        let mut able = Vec::new();
        for daemon in self.suite.spec.daemons.clone() {
            if self.suite.spec.version(&daemon).is_some() {
                able.push(daemon);
                continue;
            }
            let (roots, name) = (project.root.clone(), daemon.clone());
            let protocol = project.spoken(&self.suite.spec.protocol, &daemon);
            let prepared = steps::perform(self.signals, move |on_step| {
                Daemon::prepare(roots, &name, &protocol, on_step)
            });
            match prepared.await? {
                Some(Ok(_)) => able.push(daemon),
                Some(Err(error)) => self.skip_daemon(&daemon, &error),
                None => {
                    self.interrupted = true;
                    break;
                }
            }
        }
        Ok(able)
    }

    fn skip_daemon(&mut self, daemon: &str, error: &DaemonError) {
        let reason = error.to_string();
        self.progress.say(&format!("Skipped: {reason}"));
        let why = match error {
            DaemonError::ToolMissing { .. } | DaemonError::ProgramMissing { .. } => {
                FailureKind::ToolMissing
            }
            _ => FailureKind::Failed,
        };
        let search = self.suite.spec.capacity.as_ref();
        let first = search.map(|search| self.suite.spec.probe(search.from));
        for level in self.suite.spec.levels.iter().chain(&first) {
            self.record.unreached.push(Unreached {
                daemon: daemon.to_owned(),
                level: level.name.clone(),
                run: None,
                why,
                reason: reason.clone(),
            });
        }
    }

    async fn matrix(&mut self, able: &[String]) -> anyhow::Result<()> {
        let planned = matrix::planned_runs(&self.record.suite);
        let is_same_repetition = |one: &PlannedRun, other: &PlannedRun| one.id.run == other.id.run;
        let mut first = 0;
        for repetition in planned.chunk_by(is_same_repetition) {
            let numbered = (first + 1..).zip(repetition);
            first += repetition.len();
            for (number, run) in numbered.clone() {
                if !self.interrupted && self.is_open(&run.id, able) {
                    self.run_planned(run, number, &planned, able).await?;
                }
            }
            // After the others of the repetition: what disturbed the run may have passed by then, and the machine is
            // still in the state in which the others were measured.
            for _ in 0..self.most_retries() {
                for (number, run) in numbered.clone() {
                    let is_able = able.contains(&run.id.daemon);
                    if !self.interrupted && is_able && self.is_retried(&run.id) {
                        self.set_aside(&run.id)?;
                        self.run_planned(run, number, &planned, able).await?;
                    }
                }
            }
            if first == repetition.len() && !self.interrupted {
                // An unknown metric must not show after all runs.
                self.judge()?;
            }
        }
        Ok(())
    }

    async fn run_planned(
        &mut self,
        run: &PlannedRun,
        number: usize,
        planned: &[PlannedRun],
        able: &[String],
    ) -> anyhow::Result<()> {
        self.run_one(run, number, Some((planned, able))).await?;
        Ok(())
    }

    /// Returns true if a run remains: its daemon can be run, and it has neither ended nor been stopped.
    fn is_open(&self, id: &RunId, able: &[String]) -> bool {
        let is_settled = self.record.has_ended(id) || self.record.stopped(id).is_some();
        able.contains(&id.daemon) && !is_settled
    }

    /// Estimates the duration of the runs after the current attempt at one, with the expected further attempts at INVALID
    /// runs.
    fn after(
        &mut self,
        current: &RunId,
        planned: &[PlannedRun],
        able: &[String],
    ) -> anyhow::Result<Duration> {
        let mut left = Duration::ZERO;
        for run in planned {
            if self.is_open(&run.id, able) || self.is_retried(&run.id) {
                let is_running = run.id == *current && !self.record.has_ended(current);
                let attempts = self.expected_attempts(&run.id) - f64::from(is_running);
                left += self.about(run)?.mul_f64(attempts);
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
    /// `matrix` has all planned runs and the daemons that can be run; it is absent in a search.
    async fn run_one(
        &mut self,
        run: &PlannedRun,
        number: usize,
        matrix: Option<(&[PlannedRun], &[String])>,
    ) -> anyhow::Result<Option<(u8, RunResult)>> {
        let mut now = RunProgress {
            number,
            total: self.record.suite.total(),
            id: run.id.clone(),
            repeat: self.record.suite.repeat,
            attempt: self.record.attempts_set_aside(&run.id) + 1,
            about: self.about(run)?,
            after: matrix
                .map(|(planned, able)| self.after(&run.id, planned, able))
                .transpose()?,
            began: clock::now(),
        };
        let outcome = match driver_run::reuse_result(&self.folder, &run.id) {
            Some(outcome) => outcome,
            None => {
                self.folder.prepare(&run.id)?;
                self.record.running = Some(now.running());
                self.write_record()?;
                let mut live = LiveView::new(&run.id.folder(self.folder.path()));
                let tick = || self.progress.show(&now, &mut live);
                let (program, folder) = (&self.program, &self.folder);
                let (outcome, asked_to_end) = match &mut self.hosts {
                    Some(hosts) => hosts.run(program, folder, run, self.signals, tick).await?,
                    None => {
                        let version = self.suite.spec.version(&run.id.daemon);
                        driver_run::run(
                            program,
                            folder,
                            run,
                            version,
                            &self.further,
                            self.signals,
                            tick,
                        )
                        .await
                        .with_context(|| format!("starting {}", self.program.display()))?
                    }
                };
                // Without a host no run is whole: the same command connects again.
                let has_lost = self.hosts.as_ref().is_some_and(|it| it.lost().is_some());
                self.interrupted |= asked_to_end || has_lost;
                outcome
            }
        };
        self.record.running = None;
        let (how, result) = self.record_outcome(&now.id, outcome);
        if let Some((planned, able)) = matrix {
            now.after = Some(self.after(&run.id, planned, able)?);
        }
        self.progress.ended(&now, &how);
        self.write_record()?;
        Ok(result)
    }

    fn write_record(&self) -> anyhow::Result<()> {
        self.record.write(self.folder.path()).context(
            "writing the record of the suite (results are kept; free space, then repeat the command to continue)",
        )
    }

    /// Records how a run has ended. Returns it in words, and the driver's exit code and the result, if there is one.
    fn record_outcome(
        &mut self,
        id: &RunId,
        outcome: Outcome,
    ) -> (String, Option<(u8, RunResult)>) {
        match outcome {
            Outcome::Interrupted => {
                self.interrupted = true;
                ("interrupted".to_owned(), None)
            }
            Outcome::Unreached { why, reason } => {
                let first = reason.lines().next().unwrap_or_default();
                let how = format!("not measured: {first}");
                self.record.unreached.push(Unreached {
                    daemon: id.daemon.clone(),
                    level: id.level.clone(),
                    run: (why == FailureKind::Failed).then_some(id.run),
                    why,
                    reason,
                });
                (how, None)
            }
            Outcome::Measured { exit, result } => {
                self.record.runs.push(Ended {
                    id: id.clone(),
                    exit,
                    wall_s: result.wall_s,
                    verdict: Some(result.verdict),
                });
                let again = if self.is_retried(id) {
                    " · to be made again"
                } else {
                    ""
                };
                let ok = measure::units::count(result.operations.ok);
                let how = format!("{} · {ok} ok{again}", result.verdict);
                (how, Some((exit, *result)))
            }
        }
    }

    /// Writes the pages and prints the summary.
    fn report(&self) -> anyhow::Result<()> {
        let suite = suite_report::read_folder(self.folder.path())?;
        let [.., page] = suite_report::write(self.folder.path(), &suite)?;
        if self.is_silent {
            return Ok(());
        }
        let format = if self.full {
            Format::full()
        } else {
            Format::screen()
        };
        let (page, folder) = (page.display(), self.folder.path().display());
        let options = ReportOptions {
            width: output::columns(),
            page: Some(&page.to_string()),
            more: Some(&format!("drover analyze {folder},")),
        };
        output::print_report(format, &format.render_suite(&suite, &options)?)?;
        if self.interrupted {
            self.progress
                .say("Interrupted: repeat the command to continue.");
        } else if !self.record.unreached.is_empty() {
            self.progress
                .say("Some runs are missing. Repeat the command to retry them, or use --fresh to start over.");
        }
        if let Some(text) = self.about_invalid() {
            self.progress.say(&text);
        }
        if self.full {
            output::print(&page.to_string())?;
        }
        Ok(())
    }

    /// Returns what is said, and the exit code, if the judgement fails the call.
    fn failure(&self) -> Option<(String, u8)> {
        self.judgement.as_ref().and_then(fail_on::failure)
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
        codes.extend(self.failure().map(|(_, code)| code));
        if self.interrupted {
            codes.push(exit::SUSPECT);
        } else if self.record.runs.is_empty() {
            codes.push(exit::FAILED);
        }
        exit::most_severe(codes)
    }
}
