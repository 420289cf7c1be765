//! Formats the lines of `resources.csv`.

use measure::usage::Sample;

/// Returns the first line of `resources.csv`, without a line end: the reference script's columns first, then ours.
#[must_use]
pub fn csv_header() -> &'static str {
    "timestamp,rss_kb,vsz_kb,threads,utime,stime,cpu_pct,active_conns,\
     pss_kb,fds,voluntary_switches,involuntary_switches,processes,\
     driver_rss_kb,driver_cpu_pct,driver_threads,driver_fds,backlog"
}

/// Returns one line of `resources.csv`, without a line end. Unknown values stay empty.
#[must_use]
pub fn csv_row(
    daemon: &Sample,
    active_conns: Option<f64>,
    driver: Option<&Sample>,
    backlog: Option<u64>,
) -> String {
    let text = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let columns = [
        format!(
            "{}.{:09}",
            daemon.unix_ns / 1_000_000_000,
            daemon.unix_ns % 1_000_000_000
        ),
        daemon.rss_kb.to_string(),
        daemon.vsz_kb.to_string(),
        daemon.threads.to_string(),
        daemon.utime_ticks.to_string(),
        daemon.stime_ticks.to_string(),
        format!("{:.1}", daemon.cpu_pct),
        active_conns
            .map(|value| value.to_string())
            .unwrap_or_default(),
        text(daemon.pss_kb),
        daemon.fds.to_string(),
        daemon.voluntary_switches.to_string(),
        daemon.involuntary_switches.to_string(),
        daemon.processes.to_string(),
        text(driver.map(|driver| driver.rss_kb)),
        driver
            .map(|driver| format!("{:.1}", driver.cpu_pct))
            .unwrap_or_default(),
        text(driver.map(|driver| driver.threads)),
        text(driver.map(|driver| driver.fds)),
        text(backlog),
    ];
    columns.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_columns_of_the_header_and_leaves_out_what_is_not_known() {
        let daemon = Sample {
            unix_ns: 1_700_000_000_000_000_042,
            rss_kb: 1,
            cpu_pct: 12.345,
            fds: 9,
            ..Sample::default()
        };
        let bare = csv_row(&daemon, None, None, None);
        assert_eq!(bare, "1700000000.000000042,1,0,0,0,0,12.3,,,9,0,0,0,,,,,");
        let full = csv_row(
            &Sample {
                pss_kb: Some(5),
                ..daemon.clone()
            },
            Some(3.0),
            Some(&daemon),
            Some(7),
        );
        assert_eq!(
            full,
            "1700000000.000000042,1,0,0,0,0,12.3,3,5,9,0,0,0,1,12.3,0,9,7"
        );
        let columns = |line: &str| line.split(',').count();
        assert_eq!(columns(csv_header()), columns(&bare));
        assert!(csv_header().starts_with(
            "timestamp,rss_kb,vsz_kb,threads,utime,stime,cpu_pct,active_conns,pss_kb,"
        ));
        assert!(csv_header().ends_with(",driver_fds,backlog"));
    }
}
