//! The interval log, read by the Java library's processor: the figures must be identical.
//!
//! Needs `java` and the library, which `scripts/setup` downloads. The library is at `HDRHISTOGRAM_JAR` or in the local
//! Maven repository. Without them the test prints a notice and passes; with `DROVER_REQUIRE_ALL=1` it fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use measure::report::hlog;
use measure::result::SeriesResult;

use crate::example::result as example;
use test_kit::skip;

const IN_HOME: &str = ".m2/repository/org/hdrhistogram/HdrHistogram/2.2.2/HdrHistogram-2.2.2.jar";

/// Returns the library, or what is missing.
fn library() -> Result<PathBuf, String> {
    Command::new("java")
        .arg("-version")
        .output()
        .map_err(|error| format!("java, which does not run: {error}"))?;
    let named = std::env::var_os("HDRHISTOGRAM_JAR").map(PathBuf::from);
    let jar = named
        .or_else(|| std::env::home_dir().map(|home| home.join(IN_HOME)))
        .ok_or("a home directory")?;
    if jar.is_file() {
        Ok(jar)
    } else {
        Err(format!(
            "{} (`scripts/setup` fetches it), or HDRHISTOGRAM_JAR",
            jar.display()
        ))
    }
}

/// Returns the lines that the processor prints for one tag, values in nanoseconds.
fn processed(jar: &Path, log: &Path, tag: &str) -> String {
    let output = Command::new("java")
        .args(["-Xshare:auto", "-cp"])
        .arg(jar)
        .args([
            "org.HdrHistogram.HistogramLogProcessor",
            "-outputValueUnitRatio",
            "1",
            "-tag",
            tag,
            "-i",
        ])
        .arg(log)
        .output()
        .expect("java ran a moment ago");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("the processor prints text")
}

/// Compares the processor's cumulative table, row by row, with the written histogram.
fn compare(printed: &str, series: &SeriesResult) {
    let values = series.distribution().expect("the example is whole");
    let mut rows = 0;
    for line in printed.lines() {
        let cells: Vec<f64> = line
            .split_whitespace()
            .map_while(|cell| cell.parse().ok())
            .collect();
        let [value, _percentile, below, ..] = cells[..] else {
            continue;
        };
        assert_eq!(
            values.histogram().count_between(0, value as u64),
            below as u64,
            "{}: {line}",
            series.name
        );
        rows += 1;
    }
    assert!(rows > 10, "{}: no table in\n{printed}", series.name);
    let total = printed
        .lines()
        .find(|line| line.starts_with("#[Max"))
        .expect("the processor ends with the maximum and the count");
    let figures: Vec<f64> = total
        .split(['=', ',', ']'])
        .filter_map(|part| part.trim().parse().ok())
        .collect();
    let shown_max = values.histogram().lowest_equivalent(series.max_ns) as f64;
    assert!(
        figures[0] >= shown_max && figures[0] <= series.max_ns as f64,
        "{}: {total}",
        series.name
    );
    assert_eq!(figures[1], series.count as f64, "{}: {total}", series.name);
}

#[test]
fn the_java_processor_reads_the_same_figures_from_the_log() {
    let jar = match library() {
        Ok(jar) => jar,
        Err(needs) => return skip(&needs),
    };
    let result = example::full();
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("example.hlog");
    std::fs::write(&log, hlog::render(std::slice::from_ref(&result)).unwrap()).unwrap();
    for series in result.series.iter().chain(&result.lag) {
        compare(&processed(&jar, &log, &series.name), series);
    }
}
