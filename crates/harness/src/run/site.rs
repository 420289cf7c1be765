//! The daemons of a run: one, or several side by side that share the load.

use std::future::{Future as _, poll_fn};
use std::task::Poll;

use measure::result::DaemonInfo;
use tokio::task::JoinSet;

use super::Subject;
use super::pages::Source;
use crate::daemon::{Daemon, Endpoint, Options as LaunchOptions, Prepared};
use crate::driver::Target;
use crate::plan::{Invalid, Plan};
use crate::progress::Progress;
use crate::store::Folder;
use crate::usage::Backlog;

/// The daemons of a run.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) target: Target,
    /// Those that were launched for the run.
    pub(super) instances: Vec<Instance>,
}

/// A daemon that was launched for the run.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) daemon: Daemon,
    pub(super) state: State,
    /// Starts of it before this one.
    pub(super) life: u64,
}

/// What a daemon is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Serving.
    Up,
    /// Held up on purpose.
    Held,
    /// Ended on purpose.
    Down,
    /// Ended by itself.
    Died,
}

impl Site {
    pub(super) async fn open<C>(
        plan: &Plan<C>,
        subject: &Subject,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let prepared = match subject {
            Subject::External(target) => {
                launched_only("instances (--instances)", plan.instances == 1)?;
                launched_only("faults", plan.faults.is_empty())?;
                return Ok(Self {
                    target: target.clone(),
                    instances: Vec::new(),
                });
            }
            Subject::Launched(prepared) => prepared,
        };
        let mut site = Self {
            target: Target {
                addresses: Vec::new(),
            },
            instances: Vec::new(),
        };
        for _ in 0..plan.instances {
            site.launch(plan, prepared, progress).await?;
        }
        Ok(site)
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
        let env: Vec<(String, String)> = plan
            .daemon_env
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let daemon = prepared.start(&env, &LaunchOptions::default()).await?;
        let endpoint = plan.endpoint.as_deref();
        let address = daemon.endpoint().address(endpoint);
        self.target
            .addresses
            .push(address.ok_or_else(|| no_address(daemon.endpoint(), name, endpoint))?);
        self.instances.push(Instance {
            daemon,
            state: State::Up,
            life: 0,
        });
        Ok(())
    }

    /// The accept queues, where the daemons listen on Unix sockets and the kernel tells.
    pub(super) fn backlog(&self) -> Option<Backlog> {
        let sockets = self.target.sockets();
        (!sockets.is_empty()).then(|| Backlog::of(&sockets).ok())?
    }

    /// The metrics pages of those that can be asked now.
    pub(super) fn sources(&self) -> Vec<Source> {
        let source = |(place, instance): (usize, &Instance)| {
            Some(Source {
                place,
                life: instance.life,
                url: instance.daemon.endpoint().metrics.clone()?,
            })
        };
        let up = self.instances.iter().enumerate();
        up.filter(|(_, instance)| instance.state == State::Up)
            .filter_map(source)
            .collect()
    }

    /// Completes when a daemon ends by itself, with its place and how it ended. Each is reported once.
    pub(super) async fn death(&mut self) -> (usize, String) {
        let serving = self.instances.iter().enumerate();
        let mut ends: Vec<_> = serving
            .filter(|(_, instance)| matches!(instance.state, State::Up | State::Held))
            .map(|(place, instance)| (place, Box::pin(instance.daemon.exited())))
            .collect();
        let (place, status) = poll_fn(|context| {
            for (place, end) in &mut ends {
                if let Poll::Ready(status) = end.as_mut().poll(context) {
                    return Poll::Ready((*place, status));
                }
            }
            Poll::Pending
        })
        .await;
        drop(ends);
        self.instances[place].state = State::Died;
        (place, status)
    }

    /// The processes that this program has started for them and that are not its own.
    pub(super) fn own_pids(&self) -> Vec<u32> {
        let pids = |instance: &Instance| instance.daemon.own_pids();
        self.instances.iter().flat_map(pids).collect()
    }

    /// The first process of each.
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
        }
    }

    /// Stops the daemons, all at the same time, and keeps their logs beside the result.
    pub(super) async fn close(&mut self, folder: &Folder) {
        // One signal each: many daemons take a second one as the order to end at once.
        let mut stopping = JoinSet::new();
        for (place, mut instance) in self.instances.drain(..).enumerate() {
            let name = match place {
                0 => "daemon.log".to_owned(),
                _ => format!("daemon-{}.log", place + 1),
            };
            let log = folder.path().join(name);
            stopping.spawn(async move {
                instance.daemon.stop().await;
                // The log helps; a result is complete without it.
                let _ = std::fs::copy(instance.daemon.log_path(), log);
            });
        }
        while stopping.join_next().await.is_some() {}
    }
}

/// What is said of a daemon that has no address to drive.
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
    let problem = format!("`{endpoint}` is no URL in the [urls] of {manifest}: {remedy}");
    Invalid::new("endpoint", problem).into()
}

/// What needs a daemon of our own, and may not be asked of somebody else's.
fn launched_only(field: &str, absent: bool) -> Result<(), Invalid> {
    let problem = "needs a daemon that is launched for the run: leave it out, or leave out the address of one that runs (the URL, --socket, --uri)";
    absent
        .then_some(())
        .ok_or_else(|| Invalid::new(field, problem))
}
