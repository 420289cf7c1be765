//! Whether a daemon grows under steady load: memory and descriptors against what it has finished.

use super::cells::{Cell, Cells};
use super::grid::{Grid, Head, Row};
use super::show::{self, NONE, Text};
use crate::report::page;
use crate::result::{Resources, RunResult, Second};
use crate::slope::Line;

/// Looks that a slope of a run needs.
const LOOKS: usize = 10;
/// Operations that must have finished under steady load before a slope per thousand of them means anything.
const FINISHED: f64 = 1_000.0;
/// The ramp is over in the first second with this share of the most operations open at once.
const FULL: f64 = 0.95;

/// A row for each run that stood under steady load for long enough; nothing where none did.
pub(super) fn table(cells: &Cells<'_>, at: &[Cell<'_>]) -> Option<Grid> {
    let head = [
        Head::words("daemon"),
        Head::figure("run"),
        Head::figure("looks"),
        Head::figure("finished meanwhile"),
        Head::figure("RSS KiB ± 95 %"),
        Head::figure("open files ± 95 %"),
    ];
    let mut rows = Vec::new();
    for cell in at {
        for (place, run) in cell.runs.iter().enumerate() {
            let Some(texts) = figures(run) else { continue };
            let named = [
                page::plain(cells.daemons[cell.daemon]),
                (place + 1).to_string(),
            ];
            rows.push(Row {
                daemon: Some(cell.daemon),
                texts: named.into_iter().chain(texts).map(Text::plain).collect(),
                opens: false,
            });
        }
    }
    (!rows.is_empty()).then(|| Grid::of_rows("Growth under steady load", head.into(), rows))
}

fn figures(run: &RunResult) -> Option<[String; 4]> {
    let looks = steady(run);
    let finished = looks.last()?.0 - looks.first()?.0;
    if looks.len() < LOOKS || finished < FINISHED {
        return None;
    }
    let slope = |of: fn(&Resources) -> Option<f64>| {
        let points = looks
            .iter()
            .filter_map(|(finished, look)| Some((finished / 1_000.0, of(look)?)));
        Line::through(&points.collect::<Vec<_>>()).map_or(NONE.to_owned(), |line| {
            format!(
                "{} ± {}",
                show::significant(line.slope),
                show::significant(line.half_interval())
            )
        })
    };
    Some([
        looks.len().to_string(),
        show::whole(finished),
        slope(|look| Some(look.daemon?.rss_kb as f64)),
        slope(|look| Some(look.daemon?.fds as f64)),
    ])
}

/// The looks between the ramp and the last start, each with the operations that had finished by then.
fn steady(run: &RunResult) -> Vec<(f64, &Resources)> {
    let most = run.seconds.iter().map(|second| second.active_peak).max();
    let full = most.unwrap_or(0) as f64 * FULL;
    let begin = run
        .seconds
        .iter()
        .find(|second| second.active_peak as f64 >= full)
        .map(|second| second.second + 1);
    let end = run
        .seconds
        .iter()
        .rfind(|second| {
            second
                .counts
                .get("started")
                .is_some_and(|started| *started > 0)
        })
        .map(|second| second.second + 1);
    let (Some(begin), Some(end)) = (begin, end) else {
        return Vec::new();
    };
    let finished = Finished::of(&run.seconds);
    run.resources
        .iter()
        .filter(|look| look.daemon.is_some())
        .filter(|look| look.at_s >= begin as f64 && look.at_s <= end as f64)
        .map(|look| (finished.by(look.at_s), look))
        .collect()
}

/// How many operations had ended by when, well or not.
struct Finished {
    /// Seconds, each with what had ended before it and what ended in it.
    seconds: Vec<(f64, f64, f64)>,
}

impl Finished {
    fn of(seconds: &[Second]) -> Self {
        let mut before = 0.0;
        let row = |second: &Second| {
            let ok = second.counts.get("ok").copied().unwrap_or(0);
            let ended = (ok + second.errors.values().sum::<u64>()) as f64;
            before += ended;
            (second.second as f64, before - ended, ended)
        };
        Self {
            seconds: seconds.iter().map(row).collect(),
        }
    }

    /// Those that had ended `at_s` seconds after the first start; inside a second they are taken as even.
    fn by(&self, at_s: f64) -> f64 {
        let place = self.seconds.partition_point(|(second, ..)| *second <= at_s);
        let Some((second, before, ended)) = place.checked_sub(1).map(|place| self.seconds[place])
        else {
            return 0.0;
        };
        before + ended * (at_s - second).min(1.0)
    }
}
