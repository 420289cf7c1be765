//! `drover run`: every run of a suite, each as a driver's process, and the report at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use harness::cli::Failure;
use harness::daemon::Daemon;
use harness::plan;
use harness::signals::Signals;
use harness::{clock, host, output, store};
use measure::result::RunResult;

use crate::alone::Alone;
use crate::cell::{self, Outcome};
use crate::estimate::{self, Took};
use crate::folder::Folder;
use crate::matrix::{self, Place};
use crate::progress::{Now, Progress};
use crate::project::Project;
use crate::record::{Ended, Record, Unreached, Why};
use crate::resolve::{Changes, Level, Suite};
use crate::{exit, pages};

mod capacity;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) plans: Vec<PathBuf>,
    pub(crate) changes: Changes,
    pub(crate) out: PathBuf,
    pub(crate) fresh: bool,
    pub(crate) force: bool,
}

/// Runs suites one after the other; returns the exit code of all.
///
/// # Errors
/// What keeps a suite from beginning.
pub(crate) async fn run(options: &Options) -> Result<u8, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    let read = |plan: &PathBuf| Suite::read(&project, plan, &options.changes);
    let suites: Vec<Suite> = options
        .plans
        .iter()
        .map(read)
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::Call)?;
    let alone = match Alone::on_this_machine() {
        Ok(alone) => Some(alone),
        Err(error) if !options.force => return Err(Failure::Call(error)),
        Err(_) => None,
    };
    let progress = Progress::new();
    for remark in alone.iter().flat_map(|alone| &alone.remarks) {
        progress.say(remark);
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
        codes.push(runner.whole(&project).await?);
        if runner.interrupted {
            break;
        }
    }
    Ok(exit::gravest(codes))
}

/// The program of each driver that is needed, built once.
fn programs(
    project: &Project,
    suites: &[Suite],
    progress: &Progress,
) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut programs = BTreeMap::new();
    for suite in suites {
        let driver = &suite.driver;
        if !programs.contains_key(&driver.name) {
            progress.say(&format!(
                "Making sure of a fresh release build of {}.",
                driver.name
            ));
            let program = driver.program(project).map_err(Failure::Run)?;
            programs.insert(driver.name.clone(), program);
        }
    }
    Ok(programs)
}

/// A suite at work.
#[derive(Debug)]
struct Runner<'a> {
    suite: &'a Suite,
    program: PathBuf,
    folder: Folder,
    record: Record,
    progress: &'a Progress,
    signals: &'a mut Signals,
    planned: BTreeMap<String, Duration>,
    /// The exit codes of what a search has found.
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
            Some(record) => again(record, suite, machine.git_commit, &folder, progress),
            None => Record {
                suite: suite.resolved.clone(),
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

    /// Runs what is left to run, and writes the report of what there is, however that ended.
    async fn whole(&mut self, project: &Project) -> Result<u8, Failure> {
        let ran = self.runs(project).await;
        self.progress.finish();
        let reported = self.report();
        ran.map_err(Failure::Run)?;
        reported.map_err(Failure::Run)?;
        Ok(self.code())
    }

    async fn runs(&mut self, project: &Project) -> anyhow::Result<()> {
        let able = self.ask_for_tools(project);
        match self.suite.resolved.capacity.clone() {
            Some(search) => self.search(&search, &able).await?,
            None => self.matrix(&able).await?,
        }
        // What was not reached is tried again by the same command, when the remedy may have been applied.
        if !self.interrupted && self.record.unreached.is_empty() {
            self.record.ended_at = Some(store::timestamp(SystemTime::now()));
        }
        self.record.write(self.folder.path())
    }

    /// The daemons whose tools are there; what the others miss is said once, for all of their levels.
    fn ask_for_tools(&mut self, project: &Project) -> Vec<String> {
        let mut able = Vec::new();
        for daemon in &self.suite.resolved.daemons {
            let Err(error) = Daemon::check_tools(&project.root, daemon) else {
                able.push(daemon.clone());
                continue;
            };
            let reason = error.to_string();
            self.progress.say(&format!("Left out: {reason}"));
            let search = self.suite.resolved.capacity.as_ref();
            let first = search.map(|search| self.suite.resolved.probe(search.from));
            for level in self.suite.resolved.levels.iter().chain(&first) {
                self.record.unreached.push(Unreached {
                    daemon: daemon.clone(),
                    level: level.name.clone(),
                    run: None,
                    why: Why::ToolMissing,
                    reason: reason.clone(),
                });
            }
        }
        able
    }

    async fn matrix(&mut self, able: &[String]) -> anyhow::Result<()> {
        let places = matrix::places(&self.suite.resolved);
        for (index, place) in places.iter().enumerate() {
            if self.interrupted {
                break;
            }
            if !able.contains(&place.daemon) || !self.is_open(place) {
                continue;
            }
            let after = &places[index + 1..];
            let after = self.left(after, able)?;
            self.one(place, index + 1, Some(after)).await?;
        }
        Ok(())
    }

    /// Whether a run is to be made: it has not ended and was not stopped.
    fn is_open(&self, place: &Place) -> bool {
        let (daemon, level) = (&place.daemon, &place.level.name);
        self.record.ended(daemon, level, place.run).is_none()
            && self.record.stopped(daemon, level, place.run).is_none()
    }

    fn left(&mut self, places: &[Place], able: &[String]) -> anyhow::Result<Duration> {
        let mut left = Duration::ZERO;
        for place in places {
            if able.contains(&place.daemon) && self.is_open(place) {
                left += self.about(&place.level)?;
            }
        }
        Ok(left)
    }

    /// How long a run at a level takes.
    fn about(&mut self, level: &Level) -> anyhow::Result<Duration> {
        let planned = self.planned(level)?;
        let known = |run: &Ended| {
            Some(Took {
                level: run.level.clone(),
                planned: *self.planned.get(&run.level)?,
                took: Duration::from_secs_f64(run.wall_s),
            })
        };
        let ended: Vec<Took> = self.record.runs.iter().filter_map(known).collect();
        Ok(estimate::of(&level.name, planned, &ended))
    }

    fn planned(&mut self, level: &Level) -> anyhow::Result<Duration> {
        if let Some(known) = self.planned.get(&level.name) {
            return Ok(*known);
        }
        let plan = plan::load::<toml::Table>(&self.folder.plan(), &level.set)?;
        self.planned.insert(level.name.clone(), plan.planned());
        Ok(plan.planned())
    }

    /// Makes one run and records what became of it; returns the driver's exit code and the result, where there is one.
    async fn one(
        &mut self,
        place: &Place,
        number: usize,
        after: Option<Duration>,
    ) -> anyhow::Result<Option<(u8, RunResult)>> {
        let now = Now {
            number,
            total: self.suite.resolved.total(),
            place: place.clone(),
            repeat: self.suite.resolved.repeat,
            about: self.about(&place.level)?,
            after,
            began: clock::now(),
        };
        let outcome = match cell::adopt(&self.folder, place) {
            Some(outcome) => outcome,
            None => {
                self.folder.make_room(place)?;
                let tick = || self.progress.show(&now);
                let (outcome, asked_to_end) =
                    cell::run(&self.program, &self.folder, place, self.signals, tick)
                        .await
                        .with_context(|| format!("starting {}", self.program.display()))?;
                self.interrupted |= asked_to_end;
                outcome
            }
        };
        let result = self.note(place, &now, outcome);
        self.record.write(self.folder.path()).context(
            "what was measured is kept; make room and give the same command again, and it goes on",
        )?;
        Ok(result)
    }

    fn note(&mut self, place: &Place, now: &Now, outcome: Outcome) -> Option<(u8, RunResult)> {
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
                    daemon: place.daemon.clone(),
                    level: place.level.name.clone(),
                    run: (why == Why::Failed).then_some(place.run),
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
                    daemon: place.daemon.clone(),
                    level: place.level.name.clone(),
                    run: place.run,
                    exit,
                    wall_s: result.wall_s,
                });
                Some((exit, *result))
            }
        }
    }

    /// Writes the pages and shows the summary.
    fn report(&self) -> anyhow::Result<()> {
        let suite = pages::of_folder(self.folder.path())?;
        let pages = pages::write(self.folder.path(), &suite)?;
        output::print_report("terminal", &pages::terminal(&suite)?)?;
        for found in &self.record.found {
            output::print(&pages::answer(found))?;
        }
        if self.interrupted {
            self.progress
                .say("Interrupted: the same command goes on where this has ended.");
        } else if self.record.ended_at.is_none() {
            self.progress
                .say("Not all of it was measured: the same command tries the rest again, --fresh begins anew.");
        }
        for page in pages {
            output::print(&page.display().to_string())?;
        }
        Ok(())
    }

    fn code(&self) -> u8 {
        let mut codes: Vec<u8> = match self.suite.resolved.capacity {
            Some(_) => self.answers.clone(),
            None => self.record.runs.iter().map(|run| run.exit).collect(),
        };
        let has = |why| self.record.unreached.iter().any(|missed| missed.why == why);
        let all = harness::launcher::everything_is_required();
        if has(Why::Failed) || (all && has(Why::ToolMissing)) {
            codes.push(exit::FAILED);
        }
        if self.interrupted {
            codes.push(exit::SUSPECT);
        } else if self.record.runs.is_empty() {
            codes.push(exit::FAILED);
        }
        exit::gravest(codes)
    }
}

/// The record of a suite that goes on: what has no whole result any more is run again.
fn again(
    mut record: Record,
    suite: &Suite,
    git_commit: Option<String>,
    folder: &Folder,
    progress: &Progress,
) -> Record {
    record.hope_again();
    record.runs.retain(|run| {
        let level = Level {
            name: run.level.clone(),
            set: Vec::new(),
        };
        let place = Place {
            daemon: run.daemon.clone(),
            level,
            run: run.run,
        };
        folder.has(&place).unwrap_or_else(|error| {
            progress.say(&format!("Measured again: {error:#}"));
            false
        })
    });
    let there = record.runs.len();
    let total = suite.resolved.total();
    let of = total.map_or(String::new(), |total| format!(" of {total}"));
    progress.say(&format!(
        "{there}{of} runs are there, going on in {}",
        folder.path().display()
    ));
    if record.git_commit != git_commit && there > 0 {
        progress.say(
            "They are of another revision of the sources: --fresh measures all with this one.",
        );
    }
    record.git_commit = git_commit;
    record
}
