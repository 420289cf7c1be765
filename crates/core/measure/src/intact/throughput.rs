//! The figures of the measured time, compared with the operations and seconds of the whole run.

use std::collections::BTreeMap;

use super::{Damaged, at_least, at_most, differs};
use crate::result::{RunResult, Second};
use crate::tally::{GOODPUT, OK, WARMUP, WARMUP_FAILED};
use crate::throughput::Throughput;
use crate::warning::Kind;

/// Seconds by which the clocks of the rows and of the measured time may differ: a row ends with a turn of a loop.
const ROW_S: f64 = 1.0;
/// Factor by which operations of the warm-up may count more than others, per operation.
const WARMUP_FACTOR: f64 = 3.0;
/// Operations from which on the mean per operation is known well enough for [`WARMUP_FACTOR`].
const MIN_OPERATIONS: u64 = 100;

const OF_RUN: &str = "the whole run";
const OF_SECONDS: &str = "`seconds`";

pub(super) fn check(result: &RunResult) -> Result<(), Damaged> {
    let Some(measured) = &result.throughput else {
        return Ok(());
    };
    let operations = &result.operations;
    if let Some(offered) = measured.offered {
        let due = operations.started + operations.missed;
        differs("throughput.offered", &offered, &due, "`operations`")?;
    }
    if let Some(phases) = result.phases {
        at_most(
            "throughput.measured_s",
            measured.measured_s,
            phases.measure_s + 1e-6,
            "`phases`",
        )?;
    }
    overload(measured)?;
    // Programs that share a run correct their sums by what the others have counted.
    if result.processes > 1 || result.part.is_some() || !result.shards.is_empty() {
        return Ok(());
    }
    totals(result, measured)?;
    if result.seconds.is_empty() || result.has_warning(Kind::RowsLost) {
        return Ok(());
    }
    rows(result, measured)
}

/// Compares the rates of an overload with the numbers that they are made of.
fn overload(measured: &Throughput) -> Result<(), Damaged> {
    let (Some(overload), Some(offered)) = (&measured.overload, measured.offered) else {
        return Ok(());
    };
    let numbers = [
        ("asked_per_s", overload.asked_per_s, offered),
        ("served_per_s", overload.served_per_s, measured.ok),
        ("failed_per_s", overload.failed_per_s, measured.failed),
    ];
    numbers.into_iter().try_for_each(|(name, rate, number)| {
        let field = format!("throughput.overload.{name}");
        let expected = measured.per_second(number).unwrap_or(rate);
        let tolerance = 1e-9 * expected.abs();
        at_least(&field, rate, expected - tolerance, "`throughput`")?;
        at_most(&field, rate, expected + tolerance, "`throughput`")
    })
}

/// Compares numbers of the measured time with the totals of the run. Operations of the warm-up may have been added to them.
fn totals(result: &RunResult, measured: &Throughput) -> Result<(), Damaged> {
    let operations = &result.operations;
    let (warmup, warmup_failed) = (result.count(WARMUP), result.count(WARMUP_FAILED));
    let most_ok = operations.ok + warmup;
    at_most("throughput.ok", measured.ok as f64, most_ok as f64, OF_RUN)?;
    let most_failed = (operations.failed + warmup_failed) as f64;
    at_most(
        "throughput.failed",
        measured.failed as f64,
        most_failed,
        OF_RUN,
    )?;
    let ended = operations.ok + operations.failed;
    let of_warmup = warmup.min(measured.ok + measured.failed) as f64;
    if warmup > 0 && ended < MIN_OPERATIONS {
        return Ok(());
    }
    measured.counts.iter().try_for_each(|(name, number)| {
        let total = result.count(name) as f64;
        if total == 0.0 && warmup > 0 {
            return Ok(());
        }
        let more = match name.as_str() {
            // All of these may have met the objectives, and none of the others.
            GOODPUT => of_warmup,
            _ => WARMUP_FACTOR * total * of_warmup / (ended.max(1) as f64),
        };
        let field = format!("throughput.counts.{name}");
        // Bytes and repeated requests of operations of the warm-up are in no total.
        at_most(&field, *number as f64, 2.0 * total + more, OF_RUN)
    })
}

/// Compares numbers of the measured time with the rows that certainly lie in it, and with those that may.
fn rows(result: &RunResult, measured: &Throughput) -> Result<(), Damaged> {
    let Some(phases) = result.phases else {
        return Ok(());
    };
    let stalls = result.seconds.iter().filter_map(|row| row.stalls);
    let longest_ns = stalls.map(|stalls| stalls.longest_ns).max().unwrap_or(0);
    let margin_s = ROW_S + longest_ns as f64 / 1e9;
    let from_s = result.opening_s() + phases.warmup_s;
    let to_s = from_s + measured.measured_s;
    let is_within = |row: &&Second| {
        let begin = row.second as f64;
        begin >= from_s + margin_s && begin + 1.0 <= to_s - margin_s
    };
    let within = || result.seconds.iter().filter(is_within);
    let sum = |parts: fn(&Second) -> &BTreeMap<String, u64>, name: &str| -> f64 {
        let counted = within().filter_map(|row| parts(row).get(name));
        counted.sum::<u64>() as f64
    };
    let ok = sum(|row| &row.counts, OK);
    at_least("throughput.ok", measured.ok as f64, ok, OF_SECONDS)?;
    let failed = within().flat_map(|row| row.errors.values()).sum::<u64>();
    at_least(
        "throughput.failed",
        measured.failed as f64,
        failed as f64,
        OF_SECONDS,
    )?;
    for (name, number) in &measured.counts {
        let field = format!("throughput.counts.{name}");
        let least = sum(|row| &row.counts, name);
        at_least(&field, *number as f64, least, OF_SECONDS)?;
    }
    let until = result.seconds.iter();
    let until = until.filter(|row| row.second as f64 <= to_s + margin_s);
    let most: u64 = until.filter_map(|row| row.counts.get(OK)).sum();
    let most = most + result.count(WARMUP);
    at_most(
        "throughput.ok",
        measured.ok as f64,
        most as f64,
        "`throughput.measured_s` and `seconds`",
    )
}
