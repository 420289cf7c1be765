//! The daemon of a run.

use anyhow::Context as _;
use measure::result::DaemonInfo;

use super::{Gauges, Subject};
use crate::daemon::{Daemon, Options as LaunchOptions};
use crate::driver::Target;
use crate::gauges;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::store::Folder;

/// The daemon of a run.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) daemon: Option<Daemon>,
    pub(super) target: Target,
    pub(super) died: bool,
}

impl Site {
    pub(super) async fn open<C>(
        plan: &Plan<C>,
        subject: &Subject,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let prepared = match subject {
            Subject::External(target) => {
                return Ok(Self {
                    daemon: None,
                    target: target.clone(),
                    died: false,
                });
            }
            Subject::Launched(prepared) => prepared,
        };
        progress.step(&format!("starting {}", prepared.name()));
        let env: Vec<(String, String)> = plan
            .daemon_env
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let daemon = prepared.start(&env, &LaunchOptions::default()).await?;
        let socket = daemon.endpoint().socket.clone().with_context(|| {
            format!(
                "daemons/{}/daemon.toml: has no {{socket}} to drive",
                prepared.name()
            )
        })?;
        Ok(Self {
            daemon: Some(daemon),
            target: Target { socket },
            died: false,
        })
    }

    /// The daemon's gauges and counters, where it publishes them.
    pub(super) async fn scrape(&self) -> Option<Gauges> {
        let daemon = self.daemon.as_ref().filter(|_| !self.died)?;
        gauges::scrape(daemon.endpoint().metrics.as_deref()?)
            .await
            .ok()
    }

    /// Completes when the daemon dies by itself, once.
    pub(super) async fn death(&self) -> String {
        match &self.daemon {
            Some(daemon) if !self.died => daemon.exited().await,
            _ => std::future::pending().await,
        }
    }

    pub(super) fn info(&self, subject: &Subject) -> DaemonInfo {
        let about = match subject {
            Subject::Launched(prepared) => Some(prepared.manifest().about.clone()),
            Subject::External(_) => None,
        };
        DaemonInfo {
            name: subject.name().to_owned(),
            about,
            version: self
                .daemon
                .as_ref()
                .and_then(|daemon| daemon.version().map(str::to_owned)),
            target: self.target.socket.display().to_string(),
            instances: 1,
        }
    }

    /// Stops the daemon and keeps its log beside the result.
    pub(super) async fn close(&mut self, folder: &Folder) {
        if let Some(daemon) = &mut self.daemon {
            daemon.stop().await;
            // The log helps; a result is complete without it.
            let _ = std::fs::copy(daemon.log_path(), folder.path().join("daemon.log"));
        }
    }
}
