//! The hosts of a suite, connected: each has this program, the drivers, and what the daemons need.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use harness::progress::StepLine;
use harness::signals::Signals;
use load::clock;
use subject::daemon::{Daemon, Step};
use subject::manifest::Manifest;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::message::{FileKind, ToHost};
use super::session::{Event, Session};
use super::{PROJECT, PlacedHost, Placement, files_below};
use crate::cluster::has_own_daemons;
use crate::project::Project;
use crate::resolve::Suite;
use crate::steps;

/// Says to the user how to make a host usable.
const REMEDY: &str = "`ssh HOST true` must succeed without a question. The host must be able to run the programs of this machine: \
    it needs the same architecture, a C library that is not older, and room for them in $TMPDIR or /tmp, where programs may be executed";
/// Time between two updates of the line that says who is waited for.
const TICK: Duration = Duration::from_secs(1);

/// The hosts of a suite. Dropping them ends all that they run.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(super) placed: Vec<PlacedHost>,
    pub(super) sessions: Vec<Session>,
    pub(super) events: UnboundedReceiver<(usize, Event)>,
    /// The hosts that were lost, with the reason of each.
    pub(super) lost: Vec<Option<String>>,
    /// True if each shard launches a daemon of its own.
    pub(super) own_daemons: bool,
    /// The address that the daemon listens on; `None` if nobody else needs to reach it.
    pub(super) listen: Option<IpAddr>,
}

impl Hosts {
    /// Connects to the hosts, copies the programs and daemons of the suites there, and checks them. Returns `None` after a
    /// signal.
    ///
    /// # Errors
    /// Hosts that cannot be reached or used, each by its name.
    pub(crate) async fn open(
        placement: &Placement,
        project: &Project,
        suites: &[Suite],
        programs: impl Iterator<Item = &PathBuf>,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<Self>> {
        let own_daemons = own_daemons(project, suites)?;
        let placed = placement.parts(own_daemons)?;
        let Some(of_daemons) = daemon_programs(project, suites, signals).await? else {
            return Ok(None);
        };
        let program = std::env::current_exe().context("finding this program")?;
        let (sender, events) = unbounded_channel();
        let open = |(index, host): (usize, &PlacedHost)| {
            Session::open(index, &host.name, &placement.ssh, &program, sender.clone())
        };
        let sessions = placed.iter().enumerate().map(open);
        let mut hosts = Self {
            sessions: sessions.collect::<anyhow::Result<_>>()?,
            lost: vec![None; placed.len()],
            placed,
            events,
            own_daemons,
            listen: placement.listen,
        };
        let opened = async {
            let is_ready = |event| matches!(event, Event::Ready).then_some(());
            hosts
                .gather("connecting", |_, _, event| is_ready(event))
                .await?;
            hosts.copy(project, programs, &of_daemons)?;
            hosts.check(suites).await
        };
        tokio::select! {
            opened = opened => opened?,
            () = signals.next() => return Ok(None),
        }
        Ok(Some(hosts))
    }

    /// Returns the hosts that were lost, each with the reason; `None` if there are none.
    pub(crate) fn lost(&self) -> Option<String> {
        let lost = self.placed.iter().zip(&self.lost);
        let lost: Vec<String> = lost
            .filter_map(|(host, lost)| Some(format!("{}: {}", host.name, lost.as_ref()?)))
            .collect();
        (!lost.is_empty()).then(|| lost.join("\n"))
    }

    /// Returns the next event that is not the loss of a host, which it remembers.
    pub(super) async fn next(&mut self) -> Option<(usize, Event)> {
        let (host, event) = self.events.recv().await?;
        match &event {
            Event::Ready => self.sessions[host].is_ready = true,
            Event::Lost(reason) => self.lost[host] = Some(reason.clone()),
            Event::Message(..) => {}
        }
        Some((host, event))
    }

    /// Waits for an answer of each host, and shows who has not answered yet.
    ///
    /// # Errors
    /// Hosts that were lost.
    pub(super) async fn gather<T>(
        &mut self,
        what: &str,
        mut answer: impl FnMut(&Session, usize, Event) -> Option<T>,
    ) -> anyhow::Result<Vec<T>> {
        let mut line = StepLine::new(false);
        let began = clock::now();
        let mut answers: Vec<Option<T>> = self.placed.iter().map(|_| None).collect();
        loop {
            let is_open = |index: &usize| answers[*index].is_none() && self.lost[*index].is_none();
            let open = (0..self.placed.len()).filter(is_open);
            let names: Vec<&str> = open.map(|index| &*self.placed[index].name).collect();
            if names.is_empty() {
                break;
            }
            line.show(&Step {
                what,
                command: None,
                elapsed: Duration::from_nanos(clock::now().saturating_sub(began)),
                detail: &names.join(", "),
            });
            // Without an event the line goes on.
            let next = tokio::time::timeout(TICK, self.next()).await;
            if let Ok(Some((host, event))) = next
                && let Some(given) = answer(&self.sessions[host], host, event)
            {
                answers[host] = Some(given);
            }
        }
        drop(line);
        match self.lost() {
            Some(lost) => bail!("{lost}\n{REMEDY}"),
            None => Ok(answers.into_iter().flatten().collect()),
        }
    }

    /// Sends all programs, and the folders of the daemons to the hosts that launch one.
    fn copy<'p>(
        &self,
        project: &Project,
        programs: impl Iterator<Item = &'p PathBuf>,
        of_daemons: &BTreeSet<PathBuf>,
    ) -> anyhow::Result<()> {
        let launches = |host: &PlacedHost| host.has_daemon || self.own_daemons;
        for program in programs {
            self.copy_file(&own_name(program)?, program, FileKind::Program, |_| true)?;
        }
        for program in of_daemons {
            self.copy_file(&own_name(program)?, program, FileKind::Program, launches)?;
        }
        // The nearest root decides: it is copied last.
        for root in project.root.iter().collect::<Vec<_>>().into_iter().rev() {
            for file in files_below(&root.path.join("daemons")) {
                let below = file.strip_prefix(&root.path).unwrap_or(&file);
                let path = format!("{PROJECT}/{}", below.display());
                let mode = fs::metadata(&file).map_or(0, |file| file.permissions().mode());
                let kind = if mode & 0o100 == 0 {
                    FileKind::Whole
                } else {
                    FileKind::Program
                };
                self.copy_file(&path, &file, kind, launches)?;
            }
        }
        Ok(())
    }

    fn copy_file(
        &self,
        path: &str,
        file: &Path,
        kind: FileKind,
        is_for: impl Fn(&PlacedHost) -> bool,
    ) -> anyhow::Result<()> {
        let content = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let content: Arc<[u8]> = content.into();
        let hosts = self.placed.iter().zip(&self.sessions);
        for (_, session) in hosts.filter(|(host, _)| is_for(host)) {
            let path = path.to_owned();
            session.send(ToHost::File { path, kind }, &content);
        }
        Ok(())
    }
}

impl Drop for Hosts {
    /// Closes all connections before it waits for the first.
    fn drop(&mut self) {
        self.sessions.iter_mut().for_each(Session::close);
    }
}

fn own_name(program: &Path) -> anyhow::Result<String> {
    let name = program.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{}: has no name in UTF-8", program.display()))?;
    Ok(name.to_owned())
}

/// Returns true if each shard must launch a daemon of its own.
fn own_daemons(project: &Project, suites: &[Suite]) -> anyhow::Result<bool> {
    let daemons = suites.iter().flat_map(|suite| &suite.spec.daemons);
    let own: BTreeSet<bool> = daemons
        .map(|daemon| Ok(has_own_daemons(&Manifest::load(&project.root, daemon)?)))
        .collect::<anyhow::Result<_>>()?;
    match own.len() {
        1 => Ok(own.contains(&true)),
        _ => Err(anyhow!(
            "some daemons can be reached over the network and others cannot: run these suites, or the daemons of one, apart (--daemon)"
        )),
    }
}

/// Returns the programs of this project that are daemons, built. Returns `None` after a signal.
async fn daemon_programs(
    project: &Project,
    suites: &[Suite],
    signals: &mut Signals,
) -> anyhow::Result<Option<BTreeSet<PathBuf>>> {
    let mut programs = BTreeSet::new();
    for suite in suites {
        for daemon in &suite.spec.daemons {
            // All others are built on the host, which has the tools.
            if Manifest::load(&project.root, daemon)?.program.is_none() {
                continue;
            }
            let (roots, name) = (project.root.clone(), daemon.clone());
            let protocol = project.spoken(&suite.spec.protocol, daemon);
            let prepared = steps::perform(signals, move |on_step| {
                Daemon::prepare(roots, &name, &protocol, on_step)
            });
            let Some(prepared) = prepared.await? else {
                return Ok(None);
            };
            programs.extend(prepared?.programs().map(Path::to_owned));
        }
    }
    Ok(Some(programs))
}
