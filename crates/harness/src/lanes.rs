//! The workers of a run: threads of this process, or of several processes that this one starts.
//!
//! Both report the same [`Interval`]s, so that nothing above can tell them apart. A shard process is this program
//! again: it reads its order from stdin, reports intervals on stdout as one JSON object a line (histograms
//! included, so that the sum is exact), and ends when stdin does.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use measure::tally::{PackedTally, Tally};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::driver::{Driver, Phases, Stop, Target, Worker};
use crate::opening::{Opening, WorkerOpening};
use crate::pacer::Pacer;
use crate::plan::Plan;
use crate::recorder::{self, Interval, LastReport, MISSED, Recorder};
use crate::schedule::Share;
use crate::{clock, limits};

/// The one argument that makes the program a shard of another: not for people.
pub const SHARD_ARGUMENT: &str = "--shard-of-parent";

/// What the workers of one process do.
#[derive(Debug, Clone)]
pub struct Crew {
    /// The first worker's place among all.
    pub first: u64,
    /// Workers here.
    pub here: u64,
    /// Workers in all processes.
    pub of: u64,
}

/// The threads of this process, and how to give tallies back to each.
#[derive(Debug)]
pub struct Threads {
    crew: Crew,
    clean: Vec<mpsc::Sender<Tally>>,
}

impl Threads {
    /// Starts the workers of a crew. Each reports to `intervals` until it says that it has ended.
    ///
    /// # Errors
    /// A thread that can't be started.
    pub fn start<D: Driver>(
        driver: &Arc<D>,
        plan: &Plan<D::Config>,
        crew: Crew,
        phases: Phases,
        opening: Option<&Arc<Opening>>,
        stop: &Arc<Stop>,
        intervals: &UnboundedSender<Interval>,
    ) -> anyhow::Result<Self> {
        limits::make_room();
        let descriptors = limits::nofile()?.soft / crew.here.max(1);
        let mut clean = Vec::new();
        for lane in crew.first..crew.first + crew.here {
            let (give, take) = mpsc::channel();
            // One to write, one to be read, from the beginning: the first seconds allocate nothing.
            let first = recorder::clean(driver.as_ref());
            give.send(recorder::clean(driver.as_ref()))
                .expect("the receiver is in hand");
            clean.push(give);
            let share = Share {
                index: lane,
                of: crew.of,
            };
            let pacer = Pacer::new(phases.begin, phases.end, plan.schedules(share));
            let response = D::response(plan);
            let (driver, stop, intervals) =
                (Arc::clone(driver), Arc::clone(stop), intervals.clone());
            let opening = WorkerOpening::new(opening.cloned());
            std::thread::Builder::new()
                .name(format!("worker-{lane}"))
                .spawn(move || {
                    let record = Recorder::new(lane, phases.origin, first, intervals, take)
                        .measuring(phases, &stop, response);
                    let worker = Worker {
                        share,
                        pacer,
                        record: record.clone(),
                        phases,
                        opening,
                        stop,
                        descriptors,
                    };
                    record.finish(run_worker(driver.as_ref(), worker));
                })
                .context("starting a worker thread")?;
        }
        Ok(Self { crew, clean })
    }

    /// Gives a tally that was read back to its worker.
    pub fn give_back(&self, lane: u64, mut tally: Tally) {
        tally.clear();
        if let Some(clean) = self.clean.get((lane - self.crew.first) as usize) {
            // A worker that has ended needs none.
            let _ = clean.send(tally);
        }
    }
}

/// Runs one worker on a current-thread runtime; a panic is an error of this worker alone.
fn run_worker<D: Driver>(driver: &D, worker: Worker) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let work = AssertUnwindSafe(|| {
        runtime.block_on(tokio::task::LocalSet::new().run_until(driver.work(worker)))
    });
    match std::panic::catch_unwind(work) {
        Ok(done) => done.map_err(|error| format!("{error:#}")),
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!(
                "panicked: {}",
                text.unwrap_or_else(|| "without a message".to_owned())
            ))
        }
    }
}

/// What a shard process is told to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order<C> {
    plan: Plan<C>,
    target: Target,
    /// What the check has learned.
    learned: serde_json::Value,
    first: u64,
    here: u64,
    of: u64,
}

/// What a shard process is told while it runs, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
enum Say {
    /// The instant at which the run begins, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
    Go { origin: u64 },
    /// The instant at which the load begins, where it is brought forward since all connections are open.
    Begin { begin: u64 },
    /// Start nothing more; what is open may take this long.
    Stop { grace_ns: u64 },
}

/// What a shard process reports, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Ready,
    /// All workers of the shard have opened all of their connections.
    Opened,
    Interval(Box<Interval<PackedTally>>),
}

/// Shard processes of this one.
#[derive(Debug)]
pub struct Processes {
    children: Vec<(Child, ChildStdin)>,
    readers: Vec<BufReader<tokio::process::ChildStdout>>,
    threads: u64,
    /// Why they were killed.
    killed: Arc<OnceLock<&'static str>>,
}

impl Processes {
    /// Starts `processes` shards with `threads` workers each and waits until all are ready.
    ///
    /// # Errors
    /// A process that can't be started or ends before it is ready.
    pub async fn start<D: Driver>(
        driver: &D,
        plan: &Plan<D::Config>,
        target: &Target,
        processes: u64,
        threads: u64,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut all = Self {
            children: Vec::new(),
            readers: Vec::new(),
            threads,
            killed: Arc::default(),
        };
        for place in 0..processes {
            // A process group of its own: Ctrl-C reaches this process, which then tells the shards.
            let mut child = Command::new(&program)
                .arg(SHARD_ARGUMENT)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("starting {} as a shard", program.display()))?;
            let mut stdin = child.stdin.take().expect("stdin is piped");
            all.readers.push(BufReader::new(
                child.stdout.take().expect("stdout is piped"),
            ));
            let order = Order {
                plan: plan.clone(),
                target: target.clone(),
                learned: driver.learned(),
                first: place * threads,
                here: threads,
                of: processes * threads,
            };
            say(&mut stdin, &order).await?;
            all.children.push((child, stdin));
        }
        for reader in &mut all.readers {
            let mut line = String::new();
            reader.read_line(&mut line).await?;
            match serde_json::from_str(&line) {
                Ok(Report::Ready) => {}
                _ => anyhow::bail!("a shard ended before it was ready: its message stands above"),
            }
        }
        Ok(all)
    }

    /// Gives all shards the instant at which the run begins, and forwards what they report.
    ///
    /// # Errors
    /// A shard that is gone.
    pub async fn go<D: Driver>(
        &mut self,
        origin: u64,
        opening: Option<&Arc<Opening>>,
        intervals: &UnboundedSender<Interval>,
    ) -> anyhow::Result<()> {
        for (_, stdin) in &mut self.children {
            say(stdin, &Say::Go { origin })
                .await
                .context("telling a shard to begin")?;
        }
        for (place, reader) in self.readers.drain(..).enumerate() {
            let first = place as u64 * self.threads;
            tokio::spawn(forward(
                reader,
                D::SERIES,
                first..first + self.threads,
                opening.cloned(),
                intervals.clone(),
                Arc::clone(&self.killed),
            ));
        }
        Ok(())
    }

    /// Tells all shards that the load begins at `begin`.
    pub async fn begin_at(&mut self, begin: u64) {
        for (_, stdin) in &mut self.children {
            // A shard that is gone is reported as lost.
            let _ = say(stdin, &Say::Begin { begin }).await;
        }
    }

    /// Kills all shards: what they have not reported is lost, for the reason `why`.
    pub fn kill(&mut self, why: &'static str) {
        let _ = self.killed.set(why);
        for (child, _) in &mut self.children {
            // One that has ended needs no signal.
            let _ = child.start_kill();
        }
    }

    /// Tells all shards to end early.
    pub async fn stop(&mut self, grace_ns: u64) {
        for (_, stdin) in &mut self.children {
            // A shard that is gone has ended already.
            let _ = say(stdin, &Say::Stop { grace_ns }).await;
        }
    }
}

async fn say(stdin: &mut ChildStdin, message: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stdin.write_all(&line).await?;
    Ok(stdin.flush().await?)
}

/// Reads a shard's reports until it ends; workers that did not say that they ended are reported as lost.
async fn forward(
    mut reader: BufReader<tokio::process::ChildStdout>,
    names: &'static [&'static str],
    lanes: std::ops::Range<u64>,
    mut opening: Option<Arc<Opening>>,
    intervals: UnboundedSender<Interval>,
    killed: Arc<OnceLock<&'static str>>,
) {
    let workers = lanes.end - lanes.start;
    let mut all_open = move || {
        if let Some(opening) = opening.take() {
            opening.opened_by(workers);
        }
    };
    let mut running: BTreeMap<u64, LastReport> =
        lanes.map(|lane| (lane, LastReport::default())).collect();
    let mut line = String::new();
    let mut why = "its process ended without a word".to_owned();
    while let Ok(1..) = reader.read_line(&mut line).await {
        let report = serde_json::from_str(&line).map_err(|error| error.to_string());
        if let Ok(Report::Opened) = report {
            all_open();
        }
        match report.and_then(|report| read(report, names)) {
            Ok(Some(interval)) => {
                match interval.ended {
                    Some(_) => drop(running.remove(&interval.lane)),
                    None => drop(running.insert(interval.lane, interval.last())),
                }
                // The collector is gone only once the run is over.
                let _ = intervals.send(interval);
            }
            Ok(None) => {}
            Err(error) => why = format!("its process reported something unreadable: {error}"),
        }
        line.clear();
    }
    // Nobody waits for connections of a shard that is gone.
    all_open();
    if let Some(reason) = killed.get() {
        why = (*reason).to_owned();
    }
    for (lane, last) in running {
        let lost = Interval::lost(lane, &last, Tally::new(names), why.clone());
        let _ = intervals.send(lost);
    }
}

fn read(report: Report, names: &'static [&'static str]) -> Result<Option<Interval>, String> {
    let Report::Interval(interval) = report else {
        return Ok(None);
    };
    let tally = Tally::unpack(names, &interval.tally).map_err(|error| error.to_string())?;
    Ok(Some((*interval).replace(tally).0))
}

/// The whole life of a shard process.
///
/// # Errors
/// An order that can't be read or prepared; errors of workers are reported, not returned.
pub async fn shard<D: Driver>() -> anyhow::Result<()> {
    limits::raise_nofile()?;
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let order = orders
        .next_line()
        .await?
        .context("a shard is started by its parent: no order on stdin")?;
    let Order {
        plan,
        target,
        learned,
        first,
        here,
        of,
    } = serde_json::from_str::<Order<D::Config>>(&order)?;
    let driver = Arc::new(D::setup(&plan, &target)?);
    driver.learn(learned)?;
    report(&Report::Ready)?;
    let Some(go) = orders.next_line().await? else {
        return Ok(());
    };
    let Say::Go { origin } = serde_json::from_str(&go)? else {
        return Ok(());
    };

    let stop = Arc::new(Stop::new()?);
    let (send, mut intervals) = tokio::sync::mpsc::unbounded_channel();
    let crew = Crew { first, here, of };
    let limit = D::opening(&plan);
    let opening = Arc::new(Opening::new(here));
    let threads = Threads::start(
        &driver,
        &plan,
        crew,
        Phases::after_opening(plan.timeline, origin, limit.unwrap_or_default()),
        limit.map(|_| &opening),
        &stop,
        &send,
    )?;
    drop(send);
    limits::give_way();
    let mut listening = true;
    let mut is_opening = limit.is_some();
    loop {
        tokio::select! {
            () = opening.all_open(), if is_opening => {
                is_opening = false;
                report(&Report::Opened)?;
            },
            order = orders.next_line(), if listening => match order?.map(|line| serde_json::from_str(&line)) {
                Some(Ok(Say::Stop { grace_ns })) => stop.ask(grace_ns),
                Some(Ok(Say::Begin { begin })) => {
                    opening.begin_at(begin);
                    stop.wake();
                }
                Some(_) => {}
                // The parent is gone: nobody will read a result.
                None => { stop.ask(0); listening = false; }
            },
            interval = intervals.recv() => match interval {
                Some(interval) => {
                    let (lane, packed) = (interval.lane, interval.tally.pack());
                    let (interval, tally) = interval.replace(packed);
                    report(&Report::Interval(Box::new(interval)))?;
                    threads.give_back(lane, tally);
                }
                None => return Ok(()),
            },
        }
    }
}

fn report(report: &Report) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}

/// Counts what a pacer will not start any more, at the end of a worker.
pub fn count_missed(pacer: &mut Pacer, record: &Recorder) {
    let missed = pacer.missed(clock::now());
    if missed > 0 {
        record.count(MISSED, missed);
    }
}
