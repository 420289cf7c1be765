//! The views of the seconds of a run, and their storage.

use load::collector::RunSecond;
use load::driver::Phases;
use measure::tally::Tally;

use super::resource_monitor::ResourceMonitor;
use super::seconds_spool::SecondsSpool;
use crate::exporter::Exporter;
use crate::live::LiveFile;
use crate::progress::Progress;

/// The views of the seconds, and their storage.
#[derive(Debug)]
pub(super) struct LiveOutputs {
    pub(super) progress: Progress,
    pub(super) exporter: Option<Exporter>,
    pub(super) line: fn(&Tally, &Tally) -> Option<String>,
    pub(super) lines_on_stdout: bool,
    pub(super) total: Tally,
    pub(super) seconds: SecondsSpool,
    pub(super) live: LiveFile,
}

impl LiveOutputs {
    /// Shows the last sample of resource use on the metrics page.
    pub(super) fn show_usage(&self, monitor: &ResourceMonitor) {
        if let (Some(exporter), Some((daemon, driver))) = (&self.exporter, monitor.last_costs()) {
            exporter.set_usage("driver", &driver);
            if let Some(daemon) = daemon {
                exporter.set_usage("daemon", &daemon);
            }
        }
    }

    pub(super) fn add(&mut self, run_second: &RunSecond, phases: &Phases) {
        if let Some(exporter) = &self.exporter {
            exporter.add(run_second);
        }
        self.total.merge(&run_second.tally);
        self.live
            .write(self.progress.add(run_second, phases, &self.total));
        if let Some(line) = (self.line)(&run_second.tally, &self.total) {
            self.progress.above_second(&line, self.lines_on_stdout);
        }
        self.seconds.push(run_second.result());
    }
}
