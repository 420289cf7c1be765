//! Several suites as one, in which daemons are compared with their counterparts in the first.

use super::compare::{change, programs};
use super::comparison::{Comparison, Repetitions};
use super::deciding;
use super::distinct;
use crate::change::ChangeScale;
use crate::load_id::{self, daemon_at_level};
use crate::similar::suggest;
use crate::suite::{Reference, Side, Suite};

/// A suite of a comparison.
#[derive(Debug)]
pub struct Source {
    /// Name of its folder.
    pub folder: String,
    /// The folder of the suite that its runs were made in, in turn; `None` for results that were made one by one.
    pub made_in: Option<String>,
    /// Its runs.
    pub suite: Suite,
}

/// A side of a comparison: all daemons of a source, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Index of the source.
    pub source: usize,
    /// The daemon; `None` for all of them.
    pub daemon: Option<String>,
}

/// A daemon of a source.
#[derive(Debug, Clone)]
struct Entry {
    source: usize,
    name: String,
    /// The daemon of the first side that it is compared with, by its name there.
    control: Option<String>,
}

/// Combines suites. Each daemon of the other sides is compared with the daemon of its name in the first. If the first side
/// has only one daemon, it is the control of sides without a daemon of its name, unless daemons are compared by name alone.
/// A name that several suites have gets the date of its suite, or the folder: `nginx@2026-11-28`.
///
/// # Errors
/// A daemon that a source does not have, sides without a daemon or level in common, or different loads, with what differs
/// and both values.
pub fn combine(
    sources: Vec<Source>,
    selections: &[Selection],
    is_by_name: bool,
) -> Result<Suite, String> {
    let entries = entries(&sources, selections, is_by_name)?;
    let controls: Vec<Option<usize>> = entries
        .iter()
        .map(|entry| {
            let mut all = entries.iter();
            let control = entry.control.as_ref()?;
            all.position(|other| other.control.is_none() && other.name == *control)
        })
        .collect();
    require_same_loads(&sources, &entries, &controls)?;
    let names = names(&sources, &entries);
    let sides = entries.iter().zip(&controls).enumerate();
    let sides = sides.map(|(index, (entry, control))| Side {
        daemon: names[index].clone(),
        control: control.map(|control| names[control].clone()),
        block: block(&sources, &entries, index),
        reference: control.and_then(|control| reference(&sources, &entries[control], entry)),
    });
    let mut whole = Suite {
        sides: sides.collect(),
        ..Suite::default()
    };
    let is_one = sources.len() == 1;
    for (index, source) in sources.into_iter().enumerate() {
        let name = |daemon: &str| {
            let mut all = entries.iter().zip(&names);
            let found = all.find(|(entry, _)| entry.source == index && entry.name == daemon);
            found.map(|(_, name)| name.clone())
        };
        add(&mut whole, source.suite, name);
    }
    // No command makes the runs of several suites.
    whole.command = whole.command.filter(|_| is_one);
    Ok(whole)
}

/// Returns the daemons of the first side that are controls, and the daemons of the other sides.
fn entries(
    sources: &[Source],
    selections: &[Selection],
    is_by_name: bool,
) -> Result<Vec<Entry>, String> {
    let Some((first, others)) = selections.split_first() else {
        return Err("there is nothing to compare".to_owned());
    };
    let controls = selected(sources, first)?;
    let mut compared: Vec<Entry> = Vec::new();
    for side in others {
        let mut names = selected(sources, side)?;
        names.retain(|name| {
            let is_control = side.source == first.source && controls.contains(name);
            let is_known = |entry: &Entry| entry.source == side.source && entry.name == *name;
            !is_control && !compared.iter().any(is_known)
        });
        let is_named = names.iter().any(|name| controls.contains(name));
        let only = match &controls[..] {
            [only] if !is_named && !is_by_name => Some(only),
            _ => None,
        };
        compared.extend(names.into_iter().map(|name| {
            Entry {
                source: side.source,
                control: controls
                    .iter()
                    .find(|control| **control == name)
                    .or(only)
                    .cloned(),
                name,
            }
        }));
    }
    if compared.is_empty() {
        return Err("the sides are the same, so that there is nothing to compare".to_owned());
    }
    let mut entries: Vec<Entry> = controls
        .into_iter()
        .filter(|name| {
            compared
                .iter()
                .any(|entry| entry.control.as_ref() == Some(name))
        })
        .map(|name| Entry {
            source: first.source,
            name,
            control: None,
        })
        .collect();
    entries.extend(compared);
    Ok(entries)
}

/// Returns the daemons of a side that have runs.
fn selected(sources: &[Source], side: &Selection) -> Result<Vec<String>, String> {
    let source = &sources[side.source];
    let runs = source.suite.results.iter();
    let names = distinct(runs.map(|run| run.daemon.name.as_str()));
    match &side.daemon {
        None => Ok(names.into_iter().map(str::to_owned).collect()),
        Some(name) if names.contains(&name.as_str()) => Ok(vec![name.clone()]),
        Some(name) => Err(format!(
            "{} has no runs of `{name}`: {}",
            source.folder,
            suggest(name, names)
        )),
    }
}

/// Checks that each daemon has the load of its control at each level that both have: figures of two loads are not
/// comparable.
fn require_same_loads(
    sources: &[Source],
    entries: &[Entry],
    controls: &[Option<usize>],
) -> Result<(), String> {
    let runs_of = |entry: &Entry| {
        let name = entry.name.clone();
        let runs = sources[entry.source].suite.results.iter();
        runs.filter(move |run| run.daemon.name == name)
    };
    let folder = |entry: &Entry| &sources[entry.source].folder;
    let mut is_common = false;
    for (entry, control) in entries.iter().zip(controls) {
        let Some(control) = control.map(|control| &entries[control]) else {
            continue;
        };
        // All runs of a daemon at a level have one load, or were separated.
        for level in distinct(runs_of(entry).map(|run| &run.level)) {
            let at_level = |entry| runs_of(entry).find(|run| run.level == *level);
            let (Some(run), Some(base)) = (at_level(entry), at_level(control)) else {
                continue;
            };
            is_common = true;
            if let Some((field, before, now)) = load_id::difference(base, run) {
                return Err(format!(
                    "{} has runs of {} with {field} = {before}, and {} of {} with {now}",
                    folder(control),
                    daemon_at_level(base),
                    folder(entry),
                    daemon_at_level(run)
                ));
            }
        }
    }
    if is_common {
        return Ok(());
    }
    let [first, last] = [sources.first(), sources.last()].map(|source| {
        let source = source.expect("a selection is of a source");
        let run = source.suite.results.first();
        let runs = run.map_or("nothing".to_owned(), daemon_at_level);
        (&source.folder, runs)
    });
    Err(format!(
        "{} has runs of {}, and {} of {}",
        first.0, first.1, last.0, last.1
    ))
}

/// Returns the names of the entries in the whole. One that several sources have gets the date of its source; if dates are
/// the same, its folder, or else the time.
fn names(sources: &[Source], entries: &[Entry]) -> Vec<String> {
    let started = |source: &Source, letters: usize| {
        let first = source.suite.results.first();
        let started = first.and_then(|run| run.started_at.get(..letters));
        started.unwrap_or_default().to_owned()
    };
    let of_all =
        |label: &dyn Fn(&Source) -> String| -> Vec<String> { sources.iter().map(label).collect() };
    let labels = [
        of_all(&|source| started(source, "2026-11-28".len())),
        of_all(&|source| source.folder.clone()),
        of_all(&|source| started(source, "2026-11-28T12:00:00".len())),
        (1..=sources.len())
            .map(|number| number.to_string())
            .collect(),
    ];
    let is_clear = |labels: &&Vec<String>| distinct(labels.iter()).len() == labels.len();
    let labels = labels.iter().find(is_clear).expect("numbers differ");
    let named = entries.iter().map(|entry| {
        let same = entries.iter().filter(|other| other.name == entry.name);
        match same.count() {
            1 => entry.name.clone(),
            _ => format!("{}@{}", entry.name, labels[entry.source]),
        }
    });
    named.collect()
}

/// Returns the number of the block of an entry. Daemons of one suite have the same.
fn block(sources: &[Source], entries: &[Entry], index: usize) -> usize {
    let made_in = |entry: &Entry| sources[entry.source].made_in.as_ref();
    let of_suite = made_in(&entries[index]).and_then(|suite| {
        let mut all = entries.iter();
        all.position(|entry| made_in(entry) == Some(suite))
    });
    of_suite.unwrap_or(index)
}

/// Returns the change of a daemon that was in both suites, is neither of the two, and is the same program in both.
fn reference(sources: &[Source], control: &Entry, entry: &Entry) -> Option<Reference> {
    let [before, now] = [control, entry].map(|entry| &sources[entry.source]);
    if before.made_in.is_none() || now.made_in.is_none() || before.made_in == now.made_in {
        return None;
    }
    let [before, now] = [before, now].map(|source| Comparison::new(&source.suite));
    let names = now.daemons.iter().enumerate();
    let mut others =
        names.filter(|(_, name)| ![&control.name, &entry.name].contains(&&(**name).to_owned()));
    others.find_map(|(index, name)| {
        let earlier = before.daemons.iter().position(|other| other == name)?;
        let earlier = before.of_daemon(earlier);
        let mut metric_name = String::new();
        let mut logs = Vec::new();
        for group in now.of_daemon(index) {
            let base = earlier.iter().find(|base| base.level == group.level);
            let Some(base) = base.filter(|base| is_same_program(base, &group)) else {
                continue;
            };
            let metrics = deciding::metrics(&now, std::slice::from_ref(&group));
            // Failures say nothing about the machine.
            let mut metrics = metrics.iter().filter(|metric| !metric.is_failures());
            let primary = metrics.next()?;
            let change = change(
                ChangeScale::Ratio,
                |run| primary.figure(run),
                base,
                &group,
                false,
            )?;
            logs.push(change.value().ln());
            metric_name.clone_from(&primary.column.head);
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        (!logs.is_empty()).then(|| Reference {
            daemon: (*name).to_owned(),
            metric: metric_name,
            ratio: mean.exp(),
        })
    })
}

/// Returns true if all runs of two groups are known to be of one program, under the same load, and nothing failed.
fn is_same_program(one: &Repetitions<'_>, other: &Repetitions<'_>) -> bool {
    let is_one = matches!(
        distinct([programs(one), programs(other)].concat())[..],
        [Some(_)]
    );
    let loads = one.runs.first().zip(other.runs.first());
    let is_same_load = loads.is_some_and(|(one, other)| load_id::difference(one, other).is_none());
    is_one && is_same_load && !one.has_failures() && !other.has_failures()
}

/// Adds the runs of the daemons that have a name in the whole.
fn add(whole: &mut Suite, part: Suite, name: impl Fn(&str) -> Option<String>) {
    if whole.name.is_empty() {
        (whole.name, whole.question) = (part.name, part.question);
        (whole.command, whole.planned) = (part.command, part.planned);
    }
    whole.made_again += part.made_again;
    whole.looks = whole.looks.max(part.looks);
    for mut run in part.results {
        if let Some(name) = name(&run.daemon.name) {
            run.daemon.name = name;
            whole.results.push(run);
        }
    }
    for mut missing in part.unreached {
        if let Some(name) = name(&missing.daemon) {
            missing.daemon = name;
            whole.unreached.push(missing);
        }
    }
    // A sentence about a capacity begins with its daemon.
    whole
        .capacities
        .extend(part.capacities.iter().filter_map(|sentence| {
            let (daemon, rest) = sentence.split_once(": ")?;
            Some(format!("{}: {rest}", name(daemon)?))
        }));
}
