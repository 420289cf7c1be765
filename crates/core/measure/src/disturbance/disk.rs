//! What others do to the disk of a daemon that syncs what it is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;
use crate::warning::{Kind, Warning};

/// Share of the idle time in which others waited for a disk above which a result is SUSPECT, in percent. A commit of
/// the file system's journal is 1 to 2 % of the time that is watched; one program that writes and syncs 4 KiB again and
/// again made 6 to 24 %.
const WAITS_SUSPECT_PCT: f64 = 4.0;
/// Ratio of the times of a sync before and after the load above which a result is SUSPECT. On an idle disk of a virtual
/// machine the 90th percentile of a hundred syncs varies by a factor of three from one second to the next.
const SYNC_SUSPECT_RATIO: f64 = 5.0;

/// The disk before and after the load, while daemon and driver did nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disk {
    /// Before the load.
    pub before: DiskSample,
    /// After the load.
    pub after: DiskSample,
    /// Share of the time of the load in which a task of the machine, such as the daemon itself, waited for a disk,
    /// percent; absent if the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_pct: Option<f64>,
}

/// The disk while daemon and driver do nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskSample {
    /// Share of the time in which a task of the machine waited for a disk, percent; absent if the kernel does not count
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_pct: Option<f64>,
    /// 90th percentile of the time to write 4 KiB and sync them, nanoseconds; absent if the folder for temporary files
    /// is not on a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_p90_ns: Option<u64>,
}

impl Disk {
    /// Checks whether others used the disk.
    pub(super) fn warning(&self) -> Option<Warning> {
        let hint = "stop the programs that write to this disk, and repeat: a sync of the daemon waits for their writes";
        let [before, after] = [self.before, self.after].map(|sample| sample.waits_pct);
        let most = before.into_iter().chain(after).reduce(f64::max);
        if most.is_some_and(|most| most > WAITS_SUSPECT_PCT) {
            let shown = |waits: Option<f64>| units::percent(waits.unwrap_or(0.0));
            let message = format!(
                "other processes waited for a disk in {} of the time before the load and {} after it, while daemon and driver did nothing",
                shown(before),
                shown(after)
            );
            return Some(Kind::DiskBusy.suspect(message, hint));
        }
        let (before, after) = (self.before.sync_p90_ns?, self.after.sync_p90_ns?);
        let ratio = before.max(after) as f64 / before.min(after).max(1) as f64;
        (ratio > SYNC_SUSPECT_RATIO).then(|| {
            let [before, after] = [before, after].map(units::duration);
            let message = format!(
                "the disk was not the same before and after the load: the p90 of a sync was {before}, and then {after}"
            );
            Kind::DiskBusy.suspect(message, hint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disturbance::{Context, Disturbance};
    use crate::warning::Severity;

    #[test]
    fn a_disk_that_others_use_is_suspect_and_the_waits_of_the_load_itself_are_not() {
        let of = |before: (Option<f64>, u64), after: (Option<f64>, u64), waits_pct| {
            let sample = |(waits_pct, us): (Option<f64>, u64)| DiskSample {
                waits_pct,
                sync_p90_ns: (us > 0).then_some(us * 1_000),
            };
            let disturbance = Disturbance {
                disk: Some(Disk {
                    before: sample(before),
                    after: sample(after),
                    waits_pct,
                }),
                ..Disturbance::default()
            };
            let found = disturbance.warnings(&Context::default());
            found
                .first()
                .map(|warning| (warning.kind, warning.severity))
        };
        let suspect = Some((Kind::DiskBusy, Severity::Suspect));
        // Alone: only the load waited, and the syncs vary.
        let alone = (Some(0.0), 2_800);
        assert_eq!(of(alone, (Some(2.0), 8_160), Some(90.0)), None);
        // A program that syncs, during the whole run or a part of it.
        assert_eq!(of((Some(10.1), 5_530), (Some(6.1), 2_470), None), suspect);
        assert_eq!(of(alone, (Some(23.7), 9_880), None), suspect);
        assert_eq!(of((Some(8.9), 3_740), alone, None), suspect);
        // A kernel without pressure, and one without a disk for temporary files.
        assert_eq!(of((None, 2_800), (None, 2_900), None), None);
        assert_eq!(of((None, 2_800), (None, 15_000), None), suspect);
        assert_eq!(of((None, 15_000), (None, 2_800), None), suspect);
        assert_eq!(of((None, 0), (None, 2_800), None), None);
    }
}
