//! The pipes of a process to the one that started it.

use std::sync::Arc;

use anyhow::Context as _;
use load::document;
use load::driver::{Driver, SharedProgress, ValidPlan};
use load::limits;
use load::recorder::WorkerSecond;
use load::workers::WorkerRange;
use measure::isolation::Isolation;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use tokio::sync::watch;

use super::{Orders, ProcessSpec, Report};
use crate::divided::Start;
use crate::part::Part;
use crate::run::Settings;
use crate::run::running_share::{Event, RunningShare};

/// The pipes of this process to the one that started it.
#[derive(Debug, Clone)]
pub struct Pipe {
    workers: WorkerRange,
    orders: watch::Receiver<Orders>,
}

impl Pipe {
    /// Follows the orders for some workers. When they end, nobody will read a result, and everything stops.
    fn follow(workers: WorkerRange, mut lines: Lines<BufReader<Stdin>>) -> Self {
        let (send, orders) = watch::channel(Orders::default());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                match Orders::parse(&line) {
                    Ok(orders) => drop(send.send_replace(orders)),
                    Err(_) => break,
                }
            }
            send.send_modify(|orders| orders.stop = Some(0));
        });
        Self { workers, orders }
    }

    /// Returns the workers of this process.
    pub(crate) fn workers(&self) -> &WorkerRange {
        &self.workers
    }

    /// Says that this process is ready, and returns the start of the run.
    ///
    /// # Errors
    /// The process that started this one has ended.
    pub(crate) async fn start(&self) -> anyhow::Result<Start> {
        Report::Ready.send()?;
        self.ordered(|orders| orders.start).await
    }

    /// Says that all connections of this process are open, and returns the begin of the load, nanoseconds of
    /// CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The process that started this one has ended.
    pub(crate) async fn load_begin(&self) -> anyhow::Result<u64> {
        Report::Opened.send()?;
        self.ordered(|orders| orders.load_begin).await
    }

    /// Reports the operations that this process has begun and not ended.
    ///
    /// # Errors
    /// The process that started this one has ended.
    pub(crate) fn report_open(&self, open: i64) -> anyhow::Result<()> {
        Report::OpenOperations(open).send()
    }

    /// Returns the progress of the operations of all processes, if it is known.
    pub(crate) fn shared_progress(&self) -> Option<SharedProgress> {
        self.orders.borrow().progress
    }

    async fn ordered<T>(&self, order: impl Fn(&Orders) -> Option<T>) -> anyhow::Result<T> {
        let mut orders = self.orders.clone();
        let orders = orders.wait_for(|orders| order(orders).is_some()).await;
        let orders = orders.context("the process that started this one has ended")?;
        Ok(order(&orders).expect("it was waited for"))
    }
}

/// Runs a process of another program.
///
/// # Errors
/// The specification can't be read or prepared. Errors of workers are reported, not returned.
pub(crate) async fn process<D: Driver>() -> anyhow::Result<()> {
    limits::raise_nofile()?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let spec = lines
        .next_line()
        .await?
        .context("no specification on stdin: a shard is started only by its parent process")?;
    let spec = ProcessSpec::parse(&spec)?;
    let (driver, load) = spec.set_up::<D>()?;
    let pipe = Pipe::follow(spec.workers, lines);
    let settings = Settings {
        processes: 1,
        threads: pipe.workers.count,
        metrics_addr: None,
        quiet: true,
        lines_on_stdout: false,
        listen: None,
        isolation: Isolation::default(),
        flamegraph: None,
        part: Part::Process(pipe.clone()),
    };
    let starting = RunningShare::start(&driver, &load, &settings, None, "");
    let mut share = starting.await?;
    // Not earlier: the threads of the workers would inherit it.
    limits::lower_thread_priority();
    let (mut running, mut orders) = (pipe.workers.count, pipe.orders);
    let mut stopped = None;
    while running > 0 {
        tokio::select! {
            event = share.next() => match event {
                Event::WorkerSecond(worker_second) => {
                    running -= u64::from(worker_second.ended.is_some());
                    report_second(*worker_second, &share)?;
                }
                event => drop(share.act(event).await),
            },
            Ok(()) = orders.changed() => {
                let stop = orders.borrow_and_update().stop;
                if let Some(grace_ns) = stop.filter(|_| stop != stopped) {
                    stopped = stop;
                    share.stop_within(grace_ns).await;
                }
            }
        }
    }
    for ledger in share.ledgers().await?.into_iter().flatten() {
        Report::Ledger(ledger).send()?;
    }
    Ok(())
}

impl ProcessSpec {
    /// Prepares the driver, which has nothing to check any more.
    fn set_up<D: Driver>(&self) -> anyhow::Result<(Arc<D>, ValidPlan<D::Config>)> {
        let plan = document::parse(&self.plan)?;
        let load = ValidPlan::described::<D>(plan, self.description.clone());
        let driver = D::setup(&load.plan, &self.target, &self.workers)?;
        driver.learn(self.learned.clone())?;
        Ok((Arc::new(driver), load))
    }
}

fn report_second(worker_second: WorkerSecond, share: &RunningShare) -> anyhow::Result<()> {
    let (worker, packed) = (worker_second.worker, worker_second.tally.pack());
    let (worker_second, tally) = worker_second.replace(packed);
    Report::WorkerSecond(Box::new(worker_second)).send()?;
    share.give_back(worker, tally);
    Ok(())
}
