//! CPU use of daemon and driver over all runs.

use crate::report::columns::{self, Column};
use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::table::Table;
use crate::units;

const READING: &str = "Percent of one core. CPU time is user plus system; finished operations are all that ended, successful or not.";

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let columns = [
        Column::metric("daemon.cpu.average", "average %", units::tenths),
        Column::metric("daemon.cpu.peak", "peak %", units::tenths),
        Column::metric("daemon.threads.peak", "threads", units::whole),
        columns::cpu_per_operation(),
        Column::metric("driver.cpu.average", "driver average %", units::tenths),
        Column::metric("driver.cpu.each", "driver CPU µs per finished", units::us),
        Column::count("driver.cpu.rate"),
    ];
    let table = Table::of_runs("CPU use", comparison, &comparison.all(), &columns);
    let parts = vec![Part::Note(READING.to_owned()), Part::Table(table)];
    vec![Section::new("cpu", "CPU usage", parts)]
}
