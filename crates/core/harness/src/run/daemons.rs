//! Manages the daemons of a run: one, or several side by side that share the load, and the services that they use.

use std::collections::BTreeSet;
use std::future::{Future as _, poll_fn};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use load::redact;
use measure::result::DaemonInfo;
use measure::spec::Spec;
use measure::units;
use measure::warning::Warning;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::scrape::{Origin, ScrapeTarget};
use super::{Settings, Subject, addresses, external};
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::store::{self, Folder};
use load::driver::Target;
use load::plan::{Fault, Invalid, Plan};
use subject::daemon::{
    Daemon, Endpoint, Limits, Options as LaunchOptions, Prepared, StopReport, Stopped,
};
use subject::listeners::{self, Listeners, NotFound};
use subject::prometheus::{self, without_user};

/// Time that a daemon has to end once the user does not want to wait.
const HURRIED_GRACE: Duration = Duration::from_secs(1);

/// The daemons of a run.
#[derive(Debug)]
pub(super) struct Daemons {
    pub(super) target: Target,
    /// The daemons that were launched for the run.
    pub(super) instances: Vec<Instance>,
    /// The services that were launched for all of them. They are dropped after the daemons.
    pub(super) services: Vec<Instance>,
    /// The number of these, from the first, that are a part of the daemon: one that stands behind it.
    behind: usize,
    /// The metrics pages of daemons that ran already.
    pages: Vec<String>,
}

/// A daemon or a service that was launched for the run.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) daemon: Daemon,
    pub(super) state: State,
    /// Number of its earlier starts.
    pub(super) restarts: u64,
}

/// The place of a daemon or a service in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DaemonId {
    Instance(usize),
    Service(usize),
}

/// The state of a daemon or a service.
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

impl Instance {
    fn new(daemon: Daemon) -> Self {
        Self {
            daemon,
            state: State::Up,
            restarts: 0,
        }
    }
}

impl Daemons {
    pub(super) async fn open<C>(
        plan: &Plan<C>,
        subject: &Subject,
        settings: &Settings,
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
                    services: Vec::new(),
                    behind: 0,
                    pages: external.metrics.clone(),
                });
            }
            Subject::Launched { prepared, .. } => prepared,
        };
        let manifest = prepared.manifest();
        let known = manifest.behind.iter().chain(manifest.services.keys());
        let known: Vec<&str> = known.map(String::as_str).collect();
        faults_fit(&plan.faults, prepared.name(), &known)?;
        let mut daemons = Self {
            target: Target {
                addresses: Vec::new(),
            },
            instances: Vec::new(),
            services: Vec::new(),
            behind: usize::from(manifest.behind.is_some()),
            pages: Vec::new(),
        };
        if !known.is_empty() {
            progress.step(&format!("starting {}", known.join(", ")));
        }
        let isolation = &settings.isolation;
        let mut options = LaunchOptions {
            cpus: isolation.daemon_cpus.clone(),
            limits: Limits {
                memory_bytes: isolation.daemon_memory_bytes,
                cores: isolation.daemon_cores,
            },
            ..LaunchOptions::default()
        };
        if let Some(listen) = settings.listen {
            require_listen(prepared, listen)?;
            options.listen = listen;
        }
        let services = prepared.start_services(&options).await?;
        for _ in 0..plan.instances {
            daemons
                .launch(plan, prepared, &services, &options, progress)
                .await?;
        }
        daemons.services = services.into_iter().map(Instance::new).collect();
        Ok(daemons)
    }

    async fn launch<C>(
        &mut self,
        plan: &Plan<C>,
        prepared: &Prepared,
        services: &[Daemon],
        options: &LaunchOptions,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let name = prepared.name();
        let step = match plan.instances {
            1 => format!("starting {name}"),
            of => format!("starting {name}, {} of {of}", self.instances.len() + 1),
        };
        progress.step(&step);
        let env: Vec<(String, String)> = plan.daemon_env.clone().into_iter().collect();
        let daemon = prepared.start_with(services, &env, options).await?;
        let endpoint = plan.endpoint.as_deref();
        let address = daemon.endpoint().address(endpoint);
        self.target
            .addresses
            .push(address.ok_or_else(|| no_address(daemon.endpoint(), name, endpoint))?);
        self.instances.push(Instance::new(daemon));
        Ok(())
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

    /// Names the metrics page of a daemon, or the command that prints its counters.
    pub(super) fn page(&self, index: usize) -> String {
        let launched = self.instances.get(index);
        let url = launched
            .and_then(|instance| instance.daemon.endpoint().metrics.as_ref())
            .or_else(|| self.pages.get(index));
        match (url, launched) {
            (Some(url), _) => without_user(url),
            (None, Some(instance)) => format!("the counters of {}", instance.daemon.name()),
            (None, None) => "its metrics page".to_owned(),
        }
    }

    /// Returns a warning if processes outside the launched trees listen at the daemons' addresses.
    pub(super) fn listeners_apart(
        &self,
        listening: &[Result<Listeners, NotFound>],
    ) -> Option<Warning> {
        let launched: BTreeSet<u32> = self.pids().into_iter().chain(self.service_pids()).collect();
        let holders = listening.iter().flat_map(|found| match found {
            Ok(found) => found.holders.iter().copied().collect(),
            Err(NotFound::Forwarder { pid, .. }) => BTreeSet::from([*pid]),
            Err(_) => BTreeSet::new(),
        });
        let holders: BTreeSet<u32> = holders.collect();
        let apart = listeners::outside(&holders, &launched);
        let is_all = apart.len() == holders.len();
        (!apart.is_empty()).then(|| Warning::listens_outside(&external::list(&apart), is_all))
    }

    /// Returns a warning if the memory limit has killed processes of daemons that went on without them.
    pub(super) fn killed_by_memory_limit(&self) -> Option<Warning> {
        let living = self.instances.iter();
        let living = living.filter(|instance| instance.state != State::Died);
        let kills: Vec<(u64, u64)> = living
            .filter_map(|instance| instance.daemon.memory_kills())
            .collect();
        let sum = kills.iter().map(|(_, kills)| kills).sum();
        let (limit, _) = kills.first().filter(|_| sum > 0)?;
        Some(Warning::killed_by_memory_limit(sum, *limit))
    }

    /// Returns a note if a metrics page was given, and none of the counters that the driver compares was on it.
    pub(super) fn without_counters(&self, spec: &Spec, has_counters: bool) -> Option<Warning> {
        let metrics = spec.compared().map(|(metric, _)| metric);
        let was_given = !self.pages.is_empty() && !has_counters;
        was_given.then(|| Warning::nothing_compared(&metrics.collect::<Vec<_>>()))
    }

    /// Returns the daemons, then the services.
    fn all(&self) -> impl Iterator<Item = (DaemonId, &Instance)> {
        let instances = self.instances.iter().enumerate();
        let services = self.services.iter().enumerate();
        instances
            .map(|(index, instance)| (DaemonId::Instance(index), instance))
            .chain(services.map(|(index, service)| (DaemonId::Service(index), service)))
    }

    pub(super) fn get(&self, id: DaemonId) -> &Instance {
        match id {
            DaemonId::Instance(index) => &self.instances[index],
            DaemonId::Service(index) => &self.services[index],
        }
    }

    pub(super) fn get_mut(&mut self, id: DaemonId) -> &mut Instance {
        match id {
            DaemonId::Instance(index) => &mut self.instances[index],
            DaemonId::Service(index) => &mut self.services[index],
        }
    }

    /// Returns what a fault affects, of what is serving.
    pub(super) fn affected(&self, fault: &Fault) -> Vec<DaemonId> {
        let is_affected = |id: DaemonId, instance: &Instance| match (id, &fault.service) {
            (DaemonId::Instance(index), None) => fault
                .instance
                .is_none_or(|number| number == index as u64 + 1),
            (DaemonId::Service(_), Some(name)) => instance.daemon.name() == name,
            _ => false,
        };
        self.all()
            .filter(|(id, instance)| instance.state == State::Up && is_affected(*id, instance))
            .map(|(id, _)| id)
            .collect()
    }

    /// Completes when a daemon or a service ends by itself, with its place and how it ended. Each end is reported once.
    pub(super) async fn next_exit(&mut self) -> (DaemonId, String) {
        let mut ends: Vec<_> = self
            .all()
            .filter(|(_, instance)| matches!(instance.state, State::Up | State::Paused))
            .map(|(id, instance)| (id, Box::pin(instance.daemon.exited())))
            .collect();
        let (id, status) = poll_fn(|context| {
            for (id, end) in &mut ends {
                if let Poll::Ready(status) = end.as_mut().poll(context) {
                    return Poll::Ready((*id, status));
                }
            }
            Poll::Pending
        })
        .await;
        drop(ends);
        self.get_mut(id).state = State::Died;
        (id, status)
    }

    /// Returns the processes that this program has started for the daemons and that are not its own.
    pub(super) fn own_pids(&self) -> Vec<u32> {
        let pids = |(_, instance): (DaemonId, &Instance)| instance.daemon.own_pids();
        self.all().flat_map(pids).collect()
    }

    /// Returns the first process of each daemon.
    pub(super) fn pids(&self) -> Vec<u32> {
        let pid = |instance: &Instance| instance.daemon.pid();
        let behind = &self.services[..self.behind];
        self.instances.iter().chain(behind).map(pid).collect()
    }

    pub(super) fn service_pids(&self) -> impl Iterator<Item = u32> {
        self.services.iter().map(|service| service.daemon.pid())
    }

    /// Returns the services that are no part of the daemon.
    pub(super) fn services_apart(&self) -> &[Instance] {
        &self.services[self.behind..]
    }

    pub(super) fn info(&self, subject: &Subject) -> DaemonInfo {
        let about = match subject {
            Subject::Launched { prepared, .. } => Some(prepared.manifest().about.clone()),
            Subject::External(_) => None,
        };
        let version = |instance: &Instance| instance.daemon.version().map(str::to_owned);
        let behind = self.services[..self.behind].first();
        let own = self.instances.first().and_then(version);
        let version = match (behind.and_then(version), own) {
            (Some(behind), Some(own)) => Some(format!("{behind}, behind {own}")),
            (behind, own) => behind.or(own),
        };
        DaemonInfo {
            name: subject.name().to_owned(),
            about,
            version,
            target: addresses(&self.target),
            instances: self.target.addresses.len() as u64,
            metrics: self.pages.iter().map(|url| without_user(url)).collect(),
            process: None,
            program_sha256: behind.or(self.instances.first()).and_then(program_sha256),
        }
    }

    /// Stops the daemons, all at the same time, then the services, and keeps their logs beside the result. They have
    /// one second if the user is in a hurry, or sends a signal meanwhile.
    pub(super) async fn close(&mut self, folder: &Folder, hurried: bool, signals: &mut Signals) {
        let (hurry, _) = watch::channel(hurried);
        let instances = self.instances.drain(..).enumerate();
        let instances = instances.map(|(index, instance)| match index {
            0 => ("daemon.log".to_owned(), instance.daemon),
            _ => (format!("daemon-{}.log", index + 1), instance.daemon),
        });
        stop_all(instances, folder, &hurry, signals).await;
        let services = self.services.drain(..);
        let services = services.map(|service| {
            let log = format!("service-{}.log", service.daemon.name());
            (log, service.daemon)
        });
        stop_all(services, folder, &hurry, signals).await;
    }
}

/// Returns the SHA-256 of the program of a daemon that still runs.
fn program_sha256(instance: &Instance) -> Option<String> {
    let program = format!("/proc/{}/exe", instance.daemon.pid());
    Some(format!("{:x}", store::sha256(Path::new(&program)).ok()?))
}

/// Stops daemons, all at the same time, and keeps each log under the given name.
async fn stop_all(
    daemons: impl Iterator<Item = (String, Daemon)>,
    folder: &Folder,
    hurry: &watch::Sender<bool>,
    signals: &mut Signals,
) {
    // One signal each: many daemons treat a second one as the order to end at once.
    let mut stopping = JoinSet::new();
    for (name, mut daemon) in daemons {
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
                report = daemon.stop() => note_if_killed(&daemon, &report),
                // Dropping the daemon kills it.
                () = grace => {}
            }
            if let (Ok(log), Ok(written)) = (log, daemon.open_log()) {
                let _ = keep_log(written, BufWriter::new(log));
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

/// Says that a daemon had to be killed: what it did not write then is missing in its log and in its data.
fn note_if_killed(daemon: &Daemon, report: &StopReport) {
    if report.how == Stopped::Killed {
        output::note(&format!(
            "{} had not ended {} after its stop signal, and was killed: `stop` in its manifest sets the signal and the time.",
            daemon.name(),
            units::duration(u64::try_from(daemon.grace().as_nanos()).unwrap_or(u64::MAX)),
        ));
    }
}

/// Copies a log without its secrets.
fn keep_log(written: impl Read, mut log: impl Write) -> io::Result<()> {
    let mut lines = BufReader::new(written);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        log.write_all(redact::text(&String::from_utf8_lossy(&line)).as_bytes())?;
        line.clear();
    }
    log.flush()
}

/// Checks that the services that faults name are among the `known` ones of the daemon.
fn faults_fit(faults: &[Fault], daemon: &str, known: &[&str]) -> Result<(), Invalid> {
    for (index, fault) in faults.iter().enumerate() {
        let Some(service) = fault
            .service
            .as_deref()
            .filter(|name| !known.contains(name))
        else {
            continue;
        };
        let remedy = match known {
            [] => "leave the fault out".to_owned(),
            known => format!("take one of {}", known.join(", ")),
        };
        let problem = format!(
            "`{service}` is not in the [services] of daemons/{daemon}/daemon.toml: {remedy}"
        );
        return Err(Invalid::new(format!("faults[{index}].service"), problem));
    }
    Ok(())
}

/// Checks that a daemon can listen on an address that the shards of a run then connect to.
fn require_listen(prepared: &Prepared, listen: IpAddr) -> Result<(), Invalid> {
    let field = format!("--listen {listen}");
    if listen.is_unspecified() {
        let problem = "is no address to connect to: give the address of this machine that the other machines reach";
        return Err(Invalid::new(field, problem));
    }
    if prepared.manifest().can_listen_elsewhere() || listen.is_loopback() {
        return Ok(());
    }
    let problem = format!(
        "daemons/{}/daemon.toml does not say how to listen on it: write {{listen}} instead of 127.0.0.1 there",
        prepared.name()
    );
    Err(Invalid::new(field, problem))
}

/// Returns the error about a daemon that has no address to drive.
fn no_address(daemon: &Endpoint, name: &str, endpoint: Option<&str>) -> anyhow::Error {
    let manifest = format!("daemons/{name}/daemon.toml");
    let Some(endpoint) = endpoint else {
        let problem =
            "has neither a `url` nor a {socket} to drive: add url = \"http://127.0.0.1:{port}/\"";
        return Invalid::new(manifest, problem).into();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_kept_without_secrets() {
        let mut log = Vec::new();
        let written =
            "listening on amqp://guest:hunter2@host/\n\nstarted with --token=hunter2\nready";
        keep_log(written.as_bytes(), &mut log).unwrap();
        assert_eq!(
            String::from_utf8(log).unwrap(),
            "listening on amqp://guest:[redacted]@host/\n\nstarted with --token=[redacted]\nready"
        );
    }
}
