//! The content of a report: its sections, in order. A new section needs its `mod` and its line here.

use super::comparison::Comparison;
use super::document::{Part, Section};

mod answer;
mod audit;
mod capacity;
mod connections;
mod kernel_memory;
mod latency;
mod level;
mod memory;
mod overview;
mod ramp;
mod resources;
mod shards;
mod thresholds_and_faults;
mod throughput;
mod verdict;
mod warnings;

pub(super) use answer::{COMMAND, facts as answer};
pub(super) use memory::{Slope, slopes};
pub(super) use overview::{common_level, compared};
pub(super) use ramp::knee_of;
pub(super) use shards::sentence as shards;
pub(super) use throughput::goodput;
pub(super) use verdict::{measured, title};
pub(super) use warnings::all as all_warnings;

/// Builds sections; none if there is nothing to show.
type Build = fn(&Comparison<'_>) -> Vec<Section>;

/// The number of runs that a section is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Any number of runs.
    Any,
    /// Several runs: it compares what other sections show of a single run.
    Several,
}

/// All sections in the order of the report. The first has the verdict as its title.
const SECTIONS: &[(For, Build)] = &[
    (For::Any, verdict::sections),
    (For::Several, answer::sections),
    (For::Several, verdict::runs),
    (For::Several, overview::sections),
    (For::Several, throughput::sections),
    (For::Any, connections::sections),
    (For::Any, ramp::sections),
    (For::Several, latency::sections),
    (For::Several, memory::sections),
    (For::Several, resources::cpu),
    (For::Several, capacity::sections),
    (For::Any, level::sections),
    (For::Any, shards::sections),
    (For::Any, resources::sections),
    (For::Any, audit::sections),
    (For::Any, level::unreached),
    (For::Any, warnings::sections),
];

/// Columns that name the run of a row; a report of a single run has no need of them.
const NAMES_OF_RUNS: [&str; 3] = ["daemon", "level", "run"];

/// Builds the complete report. The first section has the verdict.
pub(super) fn all(comparison: &Comparison<'_>) -> Vec<Section> {
    let is_single = comparison.only_run().is_some();
    let has_several = comparison.suite.results.len() > 1;
    let shown = SECTIONS
        .iter()
        .filter(|(purpose, _)| has_several || *purpose == For::Any);
    let mut sections: Vec<Section> = shown.flat_map(|(_, build)| build(comparison)).collect();
    if is_single {
        let parts = sections
            .iter_mut()
            .filter(|section| section.id != level::UNREACHED);
        for part in parts.flat_map(|section| &mut section.parts) {
            if let Part::Table(table) = part {
                table.remove_leading(&NAMES_OF_RUNS);
            }
        }
    }
    sections
}
