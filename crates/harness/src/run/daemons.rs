//! Manages the daemons of a run: one, or several side by side that share the load.

use std::future::{Future as _, poll_fn};
use std::task::Poll;
use std::time::Duration;

use measure::result::CounterComparison;
use measure::result::DaemonInfo;
use measure::spec::Spec;
use measure::warning::Warning;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Subject;
use super::scrape::{Origin, ScrapeTarget};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::store::Folder;
use load::driver::Target;
use load::plan::{Invalid, Plan};
use subject::daemon::{Daemon, Endpoint, Options as LaunchOptions, Prepared};
use subject::prometheus::{self, without_user};
use subject::usage::Backlog;

/// Time that a daemon has to end once the user does not want to wait.
const HURRIED_GRACE: Duration = Duration::from_secs(1);

/// The daemons of a run.
#[derive(Debug)]
pub(super) struct Daemons {
    pub(super) target: Target,
    /// The daemons that were launched for the run.
    pub(super) instances: Vec<Instance>,
    /// The metrics pages of daemons that ran already.
    pages: Vec<String>,
}

/// A daemon that was launched for the run.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) daemon: Daemon,
    pub(super) state: State,
    /// Number of its earlier starts.
    pub(super) restarts: u64,
}

/// The state of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Serving.
    Up,
    /// Paused by a fault.
    Paused,
    /// Ended by a fault.
    Down,
    /// Ended by itself.
    Died,
}

impl Daemons {
    pub(super) async fn open<C>(
        plan: &Plan<C>,
        subject: &Subject,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let prepared = match subject {
            Subject::External(external) => {
                launched_only("instances (--instances)", plan.instances == 1)?;
                launched_only("faults", plan.faults.is_empty())?;
                answering(&external.metrics).await?;
                return Ok(Self {
                    target: external.target.clone(),
                    instances: Vec::new(),
                    pages: external.metrics.clone(),
                });
            }
            Subject::Launched(prepared) => prepared,
        };
        let mut daemons = Self {
            target: Target {
                addresses: Vec::new(),
            },
            instances: Vec::new(),
            pages: Vec::new(),
        };
        for _ in 0..plan.instances {
            daemons.launch(plan, prepared, progress).await?;
        }
        Ok(daemons)
    }

    async fn launch<C>(
        &mut self,
        plan: &Plan<C>,
        prepared: &Prepared,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let name = prepared.name();
        let step = match plan.instances {
            1 => format!("starting {name}"),
            of => format!("starting {name}, {} of {of}", self.instances.len() + 1),
        };
        progress.step(&step);
        let env: Vec<(String, String)> = plan.daemon_env.clone().into_iter().collect();
        let daemon = prepared.start(&env, &LaunchOptions::default()).await?;
        let endpoint = plan.endpoint.as_deref();
        let address = daemon.endpoint().address(endpoint);
        self.target
            .addresses
            .push(address.ok_or_else(|| no_address(daemon.endpoint(), name, endpoint))?);
        self.instances.push(Instance {
            daemon,
            state: State::Up,
            restarts: 0,
        });
        Ok(())
    }

    /// Returns the accept queues, if the daemons listen on Unix sockets and the kernel reports them.
    pub(super) fn backlog(&self) -> Option<Backlog> {
        let sockets = self.target.sockets();
        (!sockets.is_empty()).then(|| Backlog::new(&sockets).ok())?
    }

    /// Returns the metrics pages of the daemons that can be asked now; with `counters`, before and after the load,
    /// also the commands that print counters.
    pub(super) fn scrape_targets(&self, counters: bool) -> Vec<ScrapeTarget> {
        let origin = |daemon: &Daemon| match &daemon.endpoint().metrics {
            Some(url) => Some(Origin::Url(url.clone())),
            None => daemon.counters().filter(|_| counters).map(Origin::Command),
        };
        let target = |index, restarts, origin| ScrapeTarget {
            index,
            restarts,
            origin,
        };
        let launched = self.instances.iter().enumerate();
        let launched = launched.filter(|(_, instance)| instance.state == State::Up);
        let launched = launched.filter_map(|(index, instance)| {
            Some(target(index, instance.restarts, origin(&instance.daemon)?))
        });
        let external = self.pages.iter().enumerate();
        let external = external.map(|(index, url)| target(index, 0, Origin::Url(url.clone())));
        launched.chain(external).collect()
    }

    /// Counts the daemons that may have a metrics page.
    pub(super) fn daemon_count(&self) -> usize {
        self.instances.len().max(self.pages.len())
    }

    /// Returns a note if a metrics page was given that has no counter to compare.
    pub(super) fn without_counters(
        &self,
        spec: &Spec,
        compared: &[CounterComparison],
    ) -> Option<Warning> {
        let metrics = spec.compared().map(|(metric, _)| metric);
        let was_given = !self.pages.is_empty() && compared.is_empty();
        was_given.then(|| Warning::nothing_compared(&metrics.collect::<Vec<_>>()))
    }

    /// Completes when a daemon ends by itself, with its index and how it ended. Each end is reported once.
    pub(super) async fn next_exit(&mut self) -> (usize, String) {
        let serving = self.instances.iter().enumerate();
        let mut ends: Vec<_> = serving
            .filter(|(_, instance)| matches!(instance.state, State::Up | State::Paused))
            .map(|(index, instance)| (index, Box::pin(instance.daemon.exited())))
            .collect();
        let (index, status) = poll_fn(|context| {
            for (index, end) in &mut ends {
                if let Poll::Ready(status) = end.as_mut().poll(context) {
                    return Poll::Ready((*index, status));
                }
            }
            Poll::Pending
        })
        .await;
        drop(ends);
        self.instances[index].state = State::Died;
        (index, status)
    }

    /// Returns the processes that this program has started for the daemons and that are not its own.
    pub(super) fn own_pids(&self) -> Vec<u32> {
        let pids = |instance: &Instance| instance.daemon.own_pids();
        self.instances.iter().flat_map(pids).collect()
    }

    /// Returns the first process of each daemon.
    pub(super) fn pids(&self) -> Vec<u32> {
        let pid = |instance: &Instance| instance.daemon.pid();
        self.instances.iter().map(pid).collect()
    }

    pub(super) fn info(&self, subject: &Subject) -> DaemonInfo {
        let about = match subject {
            Subject::Launched(prepared) => Some(prepared.manifest().about.clone()),
            Subject::External(_) => None,
        };
        let version = |instance: &Instance| instance.daemon.version().map(str::to_owned);
        let addresses = self.target.addresses.iter();
        let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
        DaemonInfo {
            name: subject.name().to_owned(),
            about,
            version: self.instances.first().and_then(version),
            target: addresses.join(", "),
            instances: addresses.len() as u64,
            metrics: self.pages.iter().map(|url| without_user(url)).collect(),
        }
    }

    /// Stops the daemons, all at the same time, and keeps their logs beside the result. They have one second if the
    /// user is in a hurry, or sends a signal meanwhile.
    pub(super) async fn close(&mut self, folder: &Folder, hurried: bool, signals: &mut Signals) {
        let (hurry, _) = watch::channel(hurried);
        // One signal each: many daemons treat a second one as the order to end at once.
        let mut stopping = JoinSet::new();
        for (index, mut instance) in self.instances.drain(..).enumerate() {
            let name = match index {
                0 => "daemon.log".to_owned(),
                _ => format!("daemon-{}.log", index + 1),
            };
            // The log is optional: a result is complete without it.
            let log = folder.create(&name);
            let mut hurry = hurry.subscribe();
            stopping.spawn(async move {
                let grace = async {
                    // The sender lives until all have ended.
                    let _ = hurry.wait_for(|hurried| *hurried).await;
                    tokio::time::sleep(HURRIED_GRACE).await;
                };
                tokio::select! {
                    _ = instance.daemon.stop() => {}
                    // Dropping the daemon kills it.
                    () = grace => {}
                }
                if let (Ok(mut log), Ok(mut written)) =
                    (log, std::fs::File::open(instance.daemon.log_path()))
                {
                    let _ = std::io::copy(&mut written, &mut log);
                }
            });
        }
        while !stopping.is_empty() {
            tokio::select! {
                _ = stopping.join_next() => {}
                () = signals.next() => drop(hurry.send_replace(true)),
            }
        }
    }
}

/// Returns the error about a daemon that has no address to drive.
fn no_address(daemon: &Endpoint, name: &str, endpoint: Option<&str>) -> anyhow::Error {
    let manifest = format!("daemons/{name}/daemon.toml");
    let Some(endpoint) = endpoint else {
        return anyhow::anyhow!("{manifest}: has neither a `url` nor a {{socket}} to drive");
    };
    let known: Vec<&str> = daemon.urls.keys().map(String::as_str).collect();
    let remedy = match known.as_slice() {
        [] => "leave it out".to_owned(),
        known => format!("take one of {}, or leave it out", known.join(", ")),
    };
    let problem = format!("`{endpoint}` is not a URL in the [urls] of {manifest}: {remedy}");
    Invalid::new("endpoint", problem).into()
}

/// Checks that the metrics pages of running daemons can be fetched.
async fn answering(pages: &[String]) -> Result<(), Invalid> {
    for url in pages {
        prometheus::scrape(url).await.map_err(|error| {
            let field = format!("--daemon-metrics {}", without_user(url));
            let problem = format!(
                "{error:#}: give the address of the daemon's page in the Prometheus text format, or leave it out"
            );
            Invalid::new(field, problem)
        })?;
    }
    Ok(())
}

/// Refuses a setting that needs a daemon of our own and must not be applied to somebody else's.
fn launched_only(field: &str, absent: bool) -> Result<(), Invalid> {
    let problem = "needs a daemon that is launched for the run: leave it out, or leave out the address of the running daemon (the URL, --socket, --uri)";
    absent
        .then_some(())
        .ok_or_else(|| Invalid::new(field, problem))
}
