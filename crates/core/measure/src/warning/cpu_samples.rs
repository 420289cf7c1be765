//! Notes about CPU samples that were taken beside a run.

use std::collections::BTreeMap;

use super::{Kind, Warning};
use crate::units;

impl Warning {
    /// Notes the number of CPU samples by side, if any were to be taken.
    pub fn samples_taken(counts: &BTreeMap<String, u64>) -> Option<Self> {
        let taken = counts.iter();
        let taken = taken.map(|(side, count)| format!("{} of the {side}", units::count(*count)));
        let taken: Vec<String> = taken.collect();
        let drawn = counts.iter().filter(|(_, count)| **count > 0);
        let drawn: Vec<String> = drawn
            .map(|(side, _)| format!("flamegraph-{side}.svg"))
            .collect();
        let files = match drawn.as_slice() {
            [] => "there is nothing to draw".to_owned(),
            drawn => format!("open {} beside result.json", drawn.join(" and ")),
        };
        (!taken.is_empty()).then(|| {
            Kind::CpuSamples.note(
                format!("CPU samples were taken: {}", taken.join(" and ")),
                format!("{files}; sampling takes CPU time itself, so quote the figures of a run without --flamegraph"),
            )
        })
    }

    /// Notes that samples of a side are missing, with the reason.
    pub fn samples_missing(side: &str, why: &str) -> Self {
        Kind::CpuSamples.note(
            format!(
                "CPU samples of the {side} are missing, or cover only a part of the time: {why}"
            ),
            "the figures of the run are complete: repeat it for the flame graph",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_the_number_of_samples_of_each_side_and_names_what_is_drawn() {
        let counts = |counts: &[(&str, u64)]| {
            let counts = counts.iter();
            counts
                .map(|(side, count)| ((*side).to_owned(), *count))
                .collect()
        };
        assert_eq!(Warning::samples_taken(&BTreeMap::new()), None);
        let note = Warning::samples_taken(&counts(&[("daemon", 1_234), ("driver", 0)])).unwrap();
        assert_eq!(
            note.message,
            "CPU samples were taken: 1,234 of the daemon and 0 of the driver"
        );
        assert!(
            note.hint
                .starts_with("open flamegraph-daemon.svg beside result.json;"),
            "{note:?}"
        );
        let idle = Warning::samples_taken(&counts(&[("daemon", 0)])).unwrap();
        assert!(
            idle.hint.starts_with("there is nothing to draw;"),
            "{idle:?}"
        );
    }
}
