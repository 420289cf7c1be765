//! A daemon that runs already: its name, its processes, and what becomes of them during the run. It gets no signal.

use std::collections::{BTreeMap, BTreeSet};

use load::driver::{Address, Target};
use load::plan::{self, Invalid};
use measure::warning::Warning;
use subject::listeners::{self, Listeners, NotFound};
use subject::prometheus;
use subject::usage::Sampler;

/// Name of a daemon whose address has no host and no file name.
const UNNAMED: &str = "external";

/// A daemon that runs already, or several.
#[derive(Debug)]
pub struct External {
    pub(super) target: Target,
    pub(super) name: String,
    /// Metrics pages, with their passwords if needed.
    pub(super) metrics: Vec<String>,
    /// The processes that the user named.
    pids: Vec<u32>,
}

impl External {
    /// Creates a daemon at `target` with an optional name, its metrics pages, and its processes if they can't be found
    /// by the target.
    ///
    /// # Errors
    /// The name can't name a folder, an address can't be a page's, or there is no such process.
    pub fn new(
        target: Target,
        name: Option<String>,
        metrics: Vec<String>,
        pids: Vec<u32>,
    ) -> Result<Self, Invalid> {
        if let Some(name) = &name {
            plan::check_folder_name("--name", name)?;
        }
        for url in &metrics {
            prometheus::check_url(url).map_err(|problem| {
                let field = format!("--daemon-metrics {}", prometheus::without_user(url));
                Invalid::new(field, problem)
            })?;
        }
        for pid in &pids {
            listeners::require_process(*pid)?;
        }
        Ok(Self {
            name: name.unwrap_or_else(|| name_of(&target)),
            target,
            metrics,
            pids,
        })
    }

    /// Returns its name as the name of a folder: `localhost:8080` becomes `localhost-8080`.
    pub(super) fn folder_name(&self) -> String {
        let plain = |letter: char| match letter {
            letter if letter.is_ascii_alphanumeric() || "-_.@".contains(letter) => letter,
            _ => '-',
        };
        let name: String = self.name.chars().map(plain).collect();
        match name.trim_start_matches(['.', '-']) {
            "" => UNNAMED.to_owned(),
            name => name.to_owned(),
        }
    }
}

/// Returns the host and port of the first address, or the file name of its socket, and the number of further addresses.
fn name_of(target: &Target) -> String {
    let first = target.addresses.first().map(short_name);
    let first = first.filter(|name| !name.is_empty());
    let first = first.unwrap_or_else(|| UNNAMED.to_owned());
    match target.addresses.len() {
        0 | 1 => first,
        several => format!("{first}+{}", several - 1),
    }
}

fn short_name(address: &Address) -> String {
    let url = match address {
        Address::Socket(path) => {
            let name = path.file_name().unwrap_or_default();
            return name.to_string_lossy().into_owned();
        }
        Address::Url(url) => url,
    };
    let end = |text: &str, ends: &[char]| {
        let end = text.find(ends).unwrap_or(text.len());
        text[..end].to_owned()
    };
    match url.split_once("://") {
        Some((_, rest)) => {
            let authority = end(rest, &['/', '?', '#']);
            let (_, host) = authority.rsplit_once('@').unwrap_or(("", &authority));
            host.to_owned()
        }
        None => {
            let (_, path) = url.split_once(':').unwrap_or(("", url));
            let path = end(path, &[':', '?']);
            path.rsplit('/').next().unwrap_or_default().to_owned()
        }
    }
}

/// The processes of a daemon that runs already, during a run.
#[derive(Debug)]
pub(super) struct ExternalProcesses {
    target: Target,
    /// True if the user named the processes.
    are_named: bool,
    /// The process trees that are followed, with the names of their first processes.
    roots: BTreeMap<u32, String>,
    /// The processes that listened before the load.
    holders: BTreeSet<u32>,
    /// Processes that have ended, and when, in nanoseconds of CLOCK_MONOTONIC.
    ended: Vec<(u32, u64)>,
    /// Processes that took over.
    successors: BTreeSet<u32>,
    /// True while no process has replaced one that ended.
    has_ended: bool,
}

impl ExternalProcesses {
    /// Takes the processes that the user named, or else the ones `found` at the addresses. If the processes of one
    /// address are not known, none are: the figures of a part would pass for the whole. Returns the reason then.
    pub(super) fn open(
        external: &External,
        found: &[Result<Listeners, NotFound>],
    ) -> (Option<Self>, Option<Warning>) {
        let all: Result<Vec<&Listeners>, &NotFound> = found.iter().map(Result::as_ref).collect();
        let (listening, missing) = match all {
            Ok(listening) => (listening, None),
            Err(missing) => (Vec::new(), Some(missing)),
        };
        let holders: BTreeSet<u32> = union(listening.iter().map(|found| &found.holders));
        let own = std::process::id();
        let mut roots: BTreeSet<u32> = if external.pids.is_empty() {
            union(listening.iter().map(|found| &found.roots))
        } else {
            external.pids.iter().copied().collect()
        };
        roots.remove(&own);
        if roots.is_empty() {
            let why =
                missing.map(|why| Warning::daemon_not_measured(&why.to_string(), why.remedy()));
            return (None, why);
        }
        let are_named = !external.pids.is_empty();
        let other = are_named
            .then(|| listeners::outside(&holders, &roots).first().copied())
            .flatten()
            .map(|pid| Warning::other_process_listens(&list(&roots), &shown(pid)));
        let roots = roots.into_iter().map(|pid| (pid, shown(pid)));
        let processes = Self {
            target: external.target.clone(),
            are_named,
            roots: roots.collect(),
            holders,
            ended: Vec::new(),
            successors: BTreeSet::new(),
            has_ended: false,
        };
        (Some(processes), other)
    }

    /// Returns the first process of each tree.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.roots.keys().copied().collect()
    }

    /// Names the processes with the command of the first: `nginx (process 4711), nginx: master process nginx`.
    pub(super) fn describe(&self) -> String {
        let names: Vec<&str> = self.roots.values().map(String::as_str).collect();
        let command = self.roots.keys().next().copied();
        match command.and_then(listeners::command_line) {
            Some(command) => format!("{}: {command}", names.join(", ")),
            None => names.join(", "),
        }
    }

    /// Notices which processes have ended by the sample taken at `at`, in nanoseconds of CLOCK_MONOTONIC. Follows those
    /// that listen in their place.
    pub(super) fn watch(&mut self, sampler: &mut Sampler, at: u64) {
        let ended = self.roots.keys().copied();
        let ended: Vec<u32> = ended
            .filter(|pid| !sampler.is_following(*pid))
            .filter(|pid| self.ended.iter().all(|(known, _)| known != pid))
            .collect();
        if !ended.is_empty() {
            self.ended.extend(ended.into_iter().map(|pid| (pid, at)));
            self.has_ended = true;
        }
        if !self.has_ended || self.are_named {
            return;
        }
        let Some(listening) = self.listening() else {
            return;
        };
        self.has_ended = false;
        for pid in listening.roots {
            // Workers that outlive their master are followed already.
            if !sampler.is_following(pid) {
                sampler.add_root(pid);
            }
            self.roots.entry(pid).or_insert_with(|| shown(pid));
            self.successors.insert(pid);
        }
    }

    /// Returns what became of the processes, after the load; `origin` is the instant of its first start. The sampler
    /// tells which processes were followed.
    pub(super) fn changes(&self, sampler: &Sampler, origin: u64) -> Option<Warning> {
        let after_s = |at: u64| at.saturating_sub(origin) as f64 / 1e9;
        if let Some((pid, at)) = self.ended.first() {
            let (ended, after_s) = (&self.roots[pid], after_s(*at));
            return Some(match self.successors.is_empty() {
                _ if self.are_named => Warning::named_process_ended(ended, after_s),
                true => Warning::running_daemon_ended(ended, after_s),
                false => Warning::running_daemon_replaced(ended, &list(&self.successors), after_s),
            });
        }
        if self.are_named || listeners::are_held_by(&self.target, &self.holders) {
            return None;
        }
        let now = self.listening()?.holders;
        let apart: BTreeSet<u32> = now
            .iter()
            .copied()
            .filter(|pid| !self.holders.contains(pid) && !sampler.is_following(*pid))
            .collect();
        let left = self.holders.difference(&now).count() as u64;
        let new = now.difference(&self.holders).count() as u64;
        if !apart.is_empty() {
            Some(Warning::daemon_took_over(&list(&apart)))
        } else {
            (left > 0).then(|| Warning::workers_replaced(left, new))
        }
    }

    /// Returns what listens now; `None` if the listener of one address is not known.
    fn listening(&self) -> Option<Listeners> {
        let found = listeners::find(&self.target);
        let found: Vec<Listeners> = found.into_iter().collect::<Result<_, _>>().ok()?;
        Some(Listeners {
            holders: union(found.iter().map(|found| &found.holders)),
            roots: union(found.iter().map(|found| &found.roots)),
        })
    }
}

fn union<'a>(sets: impl Iterator<Item = &'a BTreeSet<u32>>) -> BTreeSet<u32> {
    sets.flatten().copied().collect()
}

fn shown(pid: u32) -> String {
    format!("{} (process {pid})", listeners::process_name(pid))
}

/// Names processes with their programs.
pub(super) fn list(pids: &BTreeSet<u32>) -> String {
    let shown: Vec<String> = pids.iter().copied().map(shown).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(target: Target) -> (String, String) {
        let external = External::new(target, None, Vec::new(), Vec::new()).unwrap();
        (external.name.clone(), external.folder_name())
    }

    #[test]
    fn a_daemon_is_named_after_its_address_and_its_folder_is_safe() {
        for (url, name, folder) in [
            (
                "http://localhost:8080/a?b",
                "localhost:8080",
                "localhost-8080",
            ),
            ("https://example.com", "example.com", "example.com"),
            ("amqp://user:pass@[::1]:5672/v", "[::1]:5672", "-1--5672"),
            ("unix:/run/x.sock:/y", "x.sock", "x.sock"),
            ("redis:/run/.r?counter=one", ".r", "r"),
            ("unix:", "external", "external"),
        ] {
            let (found, found_folder) = named(Target::of_urls(vec![url.to_owned()]));
            assert_eq!(
                (found.as_str(), found_folder.as_str()),
                (name, folder.trim_start_matches('-'))
            );
        }
        let two = ["http://a:1/", "http://a:2/"].map(str::to_owned).to_vec();
        assert_eq!(
            named(Target::of_urls(two)),
            ("a:1+1".to_owned(), "a-1-1".to_owned())
        );
        let socket = named(Target::at("/run/app/app.sock".into()));
        assert_eq!(socket, ("app.sock".to_owned(), "app.sock".to_owned()));
    }
}
