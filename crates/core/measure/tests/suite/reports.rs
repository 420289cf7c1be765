//! Every report of a handmade result.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use insta::assert_snapshot;
use measure::report::{Error, FORMATS, Format, Options, terminal};
use measure::result::{FaultResult, RunResult, ThresholdResult};
use measure::tally::{DecodeError, Distribution};
use measure::throughput::Throughput;
use measure::warning::{Kind, Severity, Verdict, Warning, verdict};

use crate::assert_contains;
use crate::example::{redis, result as example};

/// Renders results in a format; the screen has 80 columns.
fn render(format: &str, results: &[RunResult]) -> Result<String, Error> {
    let options = Options {
        width: Some(80),
        ..Options::default()
    };
    format
        .parse::<Format>()?
        .render_suite(&results.into(), &options)
}

/// Returns the example and a result of another daemon.
fn two() -> [RunResult; 2] {
    let mut other = example::full();
    other.daemon.name = "go-streaming".to_owned();
    other.run_id = "20260131-120500-91c2".to_owned();
    [example::full(), other]
}

#[test]
fn the_screen_of_a_run_has_its_verdict_its_figures_and_what_is_wrong() {
    assert_snapshot!(render("terminal", &[example::full()]).unwrap(), @r#"
    SUSPECT: fdpass-gen against rust-streaming
      suspect   still open when the run ended: 2
      failures  3 of 1,000 failed (rejected 2, reset 1), 995 ok, 2 unfinished
      latency   TTFB p50 169 µs, p99 375 µs, max 381 µs
      memory    peak: daemon 4.53 MiB, driver 10.8 MiB
      CPU       of a core: daemon 4.0 % (120 µs per operation), driver 1.0 %
      notes     1: few samples
      more      --full
    "#);
    assert_snapshot!(render("terminal", &[redis::with_redis()]).unwrap(), @r#"
    SUSPECT: fdpass-gen against rust-streaming
      suspect   still open when the run ended: 2
      failures  3 of 1,000 failed (rejected 2, reset 1), 995 ok, 2 unfinished
      latency   TTFB p50 169 µs, p99 375 µs, max 381 µs
      memory    peak: daemon 4.53 MiB, redis 10.0 MiB, driver 10.8 MiB
      CPU       of a core: daemon 4.0 % (120 µs per operation), redis 4.0 %, driver
                1.0 %
      notes     1: few samples
      more      --full
    "#);
}

#[test]
fn the_screen_has_the_series_that_a_driver_wants_beside_its_headline() {
    let mut result = example::full();
    for series in result.spec.series.to_mut() {
        // The other one has no values.
        series.is_brief = matches!(series.name.as_ref(), "stream" | "gap");
    }
    let text = render("terminal", &[result]).unwrap();
    assert_contains(&text, &["max 381 µs; stream p50 87.0 ms, p99\n"]);
    assert!(!text.contains("gap"), "{text}");
}

#[test]
fn the_screen_of_a_run_in_which_everything_goes_wrong_has_15_lines_of_80_columns() {
    let mut result = example::full();
    let mut warnings = vec![
        Warning::daemon_died("signal 9", "starting\n\u{1b}[31mout of memory"),
        Warning::generator_cpu_bound(Severity::Invalid, 97.0, 0, 10),
        Warning::debug_build(),
    ];
    for place in 0..9 {
        let long = format!("reason {place} {}", "of many words ".repeat(20));
        let severity = [Severity::Invalid, Severity::Suspect, Severity::Note][place % 3];
        for kind in [Kind::Stalled, Kind::Audit, Kind::OtherWork] {
            warnings.push(Warning {
                kind,
                severity,
                message: long.clone(),
                hint: long.clone(),
            });
        }
    }
    result.warnings = warnings;
    result.verdict = verdict(&result.warnings);
    for name in ["one", "two", "three", "four", "five", "six"] {
        result.errors.insert(name.repeat(9), 1_000_000);
    }
    result.operations.failed = 6_000_003;
    result.operations.missed = 1;
    result.services = redis::with_redis().services;
    for place in 0..4 {
        result.thresholds.push(ThresholdResult {
            text: format!("first_byte.p{place} <= {}ms", "9".repeat(70)),
            measured: Some("61.2ms".to_owned()),
            met: false,
        });
    }
    result.faults = vec![
        FaultResult {
            what: "SIGKILL and a new start".to_owned(),
            at_s: 1.0,
            back_s: None,
        };
        3
    ];
    result.throughput = Some(Throughput {
        measured_s: 2.5,
        ok: 500,
        ..Throughput::default()
    });
    result.processes = 4;
    result.daemon.name = format!("http://127.0.0.1:8080/{}", "path/".repeat(20));
    let path = format!("/{}report.html", "a long folder/".repeat(16));
    for page in [None, Some("bench-results/report.html"), Some(path.as_str())] {
        let mut options = Options {
            page,
            width: Some(80),
            ..Options::default()
        };
        let suite = [result.clone()][..].into();
        let text = Format::screen().render_suite(&suite, &options).unwrap();
        // A terminal breaks a path that is longer than its lines.
        let rows = |line: &str| line.chars().count().div_ceil(80);
        assert!(text.lines().map(rows).sum::<usize>() <= 15, "{text}");
        let others = text.lines().filter(|line| !line.contains("report.html"));
        let widest = others.map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
        let verdict = ["INVALID: fdpass-gen", "signal 9", "audit", "failures"];
        assert_contains(&text, &verdict);
        let figures = ["missed", "latency", "CPU", "--full"];
        assert_contains(&text, &figures);
        assert_contains(&text, &[page.unwrap_or_default()]);
        // A file has no columns: every reason is there, whole, in one line.
        options.width = None;
        let text = Format::screen().render_suite(&suite, &options).unwrap();
        let reason = format!("reason 0 {}", "of many words ".repeat(20));
        assert_contains(&text, &[reason.trim_end()]);
    }
}

#[test]
fn verdicts_and_labels_of_what_is_wrong_are_coloured_and_nothing_else() {
    let text = render("terminal", &[example::full()]).unwrap();
    let coloured = terminal::coloured(&text);
    let mut lines = coloured.lines();
    let first = "\u{1b}[33mSUSPECT:\u{1b}[0m fdpass-gen against rust-streaming";
    assert_eq!(lines.next(), Some(first));
    assert_contains(
        &coloured,
        &[
            "\n\u{1b}[33m  suspect \u{1b}[0m  still open",
            "\n\u{1b}[31m  failures \u{1b}[0m",
        ],
    );
    assert_eq!(coloured.matches('\u{1b}').count(), 6, "{coloured}");
}

#[test]
fn a_service_has_its_own_column_and_its_cpu_for_each_operation() {
    let text = render("markdown", &[redis::with_redis()]).unwrap();
    let resources = text.split("## Resources\n\n").nth(1).unwrap();
    let resources = resources.split("\n\n").next().unwrap();
    assert_snapshot!(resources, @r#"
    |  | daemon | redis | driver |
    | --- | ---: | ---: | ---: |
    | RSS before the load | 4.00 MiB | 4.00 MiB | 8.79 MiB |
    | RSS peak | 4.53 MiB | 10.0 MiB | 10.8 MiB |
    | RSS growth | 544 KiB | 6.00 MiB | 2.00 MiB |
    | CPU average, % of a core | 4.0 % | 4.0 % | 1.0 % |
    | CPU peak, % of a core | 6.0 % | 6.0 % | 1.5 % |
    | CPU per finished operation | 120 µs | 60.1 µs | 30.1 µs |
    | CPU user + system | 30.0 ms + 90.0 ms | 15.0 ms + 45.0 ms | 7.50 ms + 22.5 ms |
    | processes, peak | 1 | 1 | 1 |
    | threads, peak | 3 | 3 | 3 |
    | open files, peak | 97 | 97 | 97 |
    | switches, vol. + invol. | 5,210 + 31 | 5,210 + 31 | 5,210 + 31 |
    "#);
    assert!(text.contains("with redis (Redis server"), "{text}");
    let page = render("html", &[redis::with_redis()]).unwrap();
    assert_contains(&page, &["60.1 µs", "redis"]);
}

#[test]
fn several_runs_have_a_table_of_their_services() {
    let [one, other] = two();
    let with_redis = RunResult {
        services: redis::with_redis().services,
        ..one
    };
    let text = render("markdown", &[with_redis, other]).unwrap();
    let services = text.split("Resource use of services\n").nth(1).unwrap();
    let services = services.trim_start().split("\n\n").next().unwrap();
    assert_snapshot!(services, @r#"
    | daemon | level | redis CPU µs per finished | redis CPU average % | redis peak MiB |
    | --- | ---: | ---: | ---: | ---: |
    | rust-streaming (SUSPECT) | 1,000 | 60.1 | 4.0 | 10.0 |
    | go-streaming (SUSPECT) | 1,000 | – | – | – |
    "#);
    let text = render("markdown", &two()).unwrap();
    assert!(!text.contains("services"), "{text}");
}

#[test]
fn the_whole_report_has_the_verdict_first_and_everything_in_tables() {
    assert_snapshot!(render("markdown", &[example::full()]).unwrap(), @r#"
    ## SUSPECT: fdpass-gen against rust-streaming

    - **suspect:** still open when the run ended: 2

    - **plan:** 1,000 streams, begun evenly over 2.5 s, each of 18 events 5 ms apart; a stream may take 120 s, the drain phase 10 s
    - **daemon:** rust-streaming, streaming-daemon 0.1.0, Tokio, streams due at one tick share a timer, at /tmp/drover/streaming.sock
    - **machine:** bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed, load 0.08 before the start, 0.1 % stolen, source 2562a1f0c4d5 with changes
    - **driver:** fdpass-gen 0.1.0, 1 process, 2 worker threads, release build
    - **run:** 2026-01-31T12:00:00.250Z, 3.12 s from the first start to the end, 20260131-120000-7f3a
    - **command:**

      ```text
      fdpass-gen --daemon rust-streaming --connections 1000 --set 'level="1000"'
      ```

    ## Connection statistics

    | started | completed | failed | success % | driver peak | unfinished | missed |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | 1,000 | 995 | 3 | 99.50 | 84 | 2 | 0 |

    - **failed:** rejected 2, reset 1
    - **counted:** bytes 1.16 MiB, events 17,910

    ## Latency

    TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.

    | series | count | p50 | p75 | p90 | p95 | p99 | p99.9 | max |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | handoff | 995 | 14.8 µs | 18.6 µs | 21.2 µs | 22.1 µs | 22.8 µs | 23.0 µs | 23.0 µs |
    | first_byte | 995 | 169 µs | 267 µs | 334 µs | 357 µs | 375 µs | 381 µs | 381 µs |
    | stream | 995 | 87.0 ms | 88.3 ms | 89.2 ms | 89.5 ms | 89.8 ms | 89.8 ms | 89.8 ms |
    | lag | 1,000 | 11.1 µs | 17.1 µs | 21.2 µs | 22.6 µs | 23.7 µs | 24.0 µs | 24.0 µs |

    ## Resources

    |  | daemon | driver |
    | --- | ---: | ---: |
    | RSS before the load | 4.00 MiB | 8.79 MiB |
    | RSS peak | 4.53 MiB | 10.8 MiB |
    | RSS growth | 544 KiB | 2.00 MiB |
    | CPU average, % of a core | 4.0 % | 1.0 % |
    | CPU peak, % of a core | 6.0 % | 1.5 % |
    | CPU per finished operation | 120 µs | 30.1 µs |
    | CPU user + system | 30.0 ms + 90.0 ms | 7.50 ms + 22.5 ms |
    | processes, peak | 1 | 1 |
    | threads, peak | 3 | 3 |
    | open files, peak | 97 | 97 |
    | switches, vol. + invol. | 5,210 + 31 | 5,210 + 31 |

    ## Audit

    | compared | expected | found |  |
    | --- | --- | --- | --- |
    | operations ok + failed + unfinished | 1,000 started | 1,000 | adds up |

    ## Warnings

    - **suspect:** still open when the run ended: 2 → the percentiles do not include their times: give the run a longer drain
    - **note:** first_byte has only 995 samples: fewer than ten lie beyond its p99 → quote the median, or run longer
    "#);
}

#[test]
fn csv_has_one_row_per_second_with_the_units_in_its_head() {
    assert_snapshot!(render("csv", &[example::full()]).unwrap(), @r#"
    second,active,active_peak,bytes,events,ok,started,unfinished,error_rejected,error_reset,handoff_count,handoff_p50_ns,handoff_p99_ns,handoff_max_ns,first_byte_count,first_byte_p50_ns,first_byte_p99_ns,first_byte_max_ns,stream_count,stream_p50_ns,stream_p99_ns,stream_max_ns,lag_count,lag_p50_ns,lag_p99_ns,lag_max_ns
    0,4,40,485496,7128,396,400,0,0,0,396,15895,22735,22831,396,197375,372991,375551,396,87425023,89718783,89784319,400,12951,23727,23951
    1,0,84,492852,7236,402,400,0,2,0,402,16007,22895,23039,402,200063,377343,380927,402,87425023,89784319,89849855,400,12951,23727,23951
    2,2,20,241522,3546,197,200,0,0,1,197,12431,15831,15863,197,108223,195583,196479,197,86179839,87359487,87359487,200,7447,12839,12951
    "#);
}

#[test]
fn several_results_are_compared() {
    let text = render("markdown", &two()).unwrap();
    let (overview, rest) = text.split_once("\n## Latency (milliseconds)").unwrap();
    assert_snapshot!(overview, @r#"
    ## SUSPECT: results, 2 runs of 2 daemons at 1 level

    - **verdicts:** 0 VALID, 2 SUSPECT, 0 INVALID

    ## Answer

    - **failures:** rust-streaming: 5 of 1,000 operations failed (rejected 2, unfinished 2, reset 1)
    - **failures:** go-streaming: 5 of 1,000 operations failed (rejected 2, unfinished 2, reset 1)
    - **latency:** rust-streaming and go-streaming: undecided in TTFB p50 (169 µs and 169 µs: 1.00 ×; 1 run is too few)
    - **latency:** rust-streaming and go-streaming: undecided in TTFB p90 (334 µs and 334 µs: 1.00 ×; 1 run is too few)
    - **latency:** rust-streaming and go-streaming: undecided in TTFB p99 (375 µs and 375 µs: 1.00 ×; 1 run is too few)
    - **memory:** rust-streaming and go-streaming: undecided in peak memory (4.53 MiB and 4.53 MiB: 1.00 ×; 1 run is too few)
    - **CPU:** rust-streaming and go-streaming: undecided in CPU time (120 µs and 120 µs: 1.00 ×; 1 run is too few)
    - **failures:** rust-streaming and go-streaming: undecided in failure rate (0.500 % and 0.500 %: 0 points; 1 run is too few)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 1 repetition, 2 of 2 runs SUSPECT, so the figures may be distorted

    ## Runs

    | daemon | at 1,000 |
    | --- | --- |
    | rust-streaming | 1 SUSPECT |
    | go-streaming | 1 SUSPECT |

    - **suspect:** rust-streaming at 1,000: still open when the run ended: 2
    - **suspect:** go-streaming at 1,000: still open when the run ended: 2

    - **dates:** 2026-01-31T12:00:00.250Z
    - **machine:** bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
    - **noise:** load average before the runs 0.08 to 0.08, up to 0.1 % of the CPU time stolen
    - **driver:** fdpass-gen 0.1.0, 1 process, 2 worker threads, release build
    - **command:**

      ```text
      fdpass-gen --daemon rust-streaming --connections 1000 --set 'level="1000"'
      ```

    | daemon | version | description |
    | --- | --- | --- |
    | rust-streaming | streaming-daemon 0.1.0 | Tokio, streams due at one tick share a timer |
    | go-streaming | streaming-daemon 0.1.0 | Tokio, streams due at one tick share a timer |

    ## At a glance

    At 1,000, the highest level that every daemon ran. A figure is marked as best if the answer finds its daemon better than another one. Figures that it cannot tell from the best share the mark.

    | daemon | failed % | TTFB p50, ms | TTFB p90, ms | TTFB p99, ms | peak MiB | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | rust-streaming (SUSPECT) | 0.500 | 0.169 | 0.334 | 0.375 | 4.53 | 120 |
    | go-streaming (SUSPECT) | 0.500 | 0.169 | 0.334 | 0.375 | 4.53 | 120 |

    ## Connection statistics

    One run per cell: no estimate of run-to-run variation. The peak is the most connections open at once, as counted by the driver and by the daemon.

    | daemon | level | started | completed | failed | success % | driver peak | unfinished |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | rust-streaming (SUSPECT) | 1,000 | 1,000 | 995 | 3 | 99.50 | 84 | 2 |
    | go-streaming (SUSPECT) | 1,000 | 1,000 | 995 | 3 | 99.50 | 84 | 2 |
    "#);
    for series in ["handoff", "TTFB", "stream", "lag"] {
        for daemon in ["rust-streaming", "go-streaming"] {
            let row = format!("| {daemon} (SUSPECT) | {series} |");
            assert!(rest.contains(&row), "{row}: {rest}");
        }
    }
}

#[test]
fn an_invalid_result_says_why_at_the_top_and_shows_the_daemons_last_lines_without_control_codes() {
    let mut result = example::full();
    result.verdict = Verdict::Invalid;
    result.warnings.push(Warning::daemon_died(
        "signal 9",
        "starting\n\u{1b}[31mout of memory",
    ));
    let text = render("markdown", &[result]).unwrap();
    let head: Vec<&str> = text.lines().collect();
    assert_eq!(head[0], "## INVALID: fdpass-gen against rust-streaming");
    assert!(
        head[2].starts_with("- **invalid:** the daemon exited during the run (signal 9)"),
        "{text}"
    );
    assert_contains(
        &text,
        &[
            "\n- **suspect:** still open",
            "  ```text\n  starting\n   [31mout of memory\n  ```\n",
        ],
    );
}

#[test]
fn a_result_of_a_run_that_did_nothing_is_shown() {
    let mut result = example::full();
    result.series.clear();
    result.lag = None;
    result.seconds.clear();
    result.operations = measure::result::Operations::default();
    let text = render("markdown", &[result]).unwrap();
    assert!(text.contains("## Latency\n"), "{text}");
    assert!(!text.contains("CPU per finished operation"), "{text}");
}

#[test]
fn success_is_rounded_down() {
    let mut result = example::full();
    result.operations = measure::result::Operations {
        started: 1_000_000,
        ok: 999_999,
        failed: 1,
        ..Default::default()
    };
    assert!(render("markdown", &[result]).unwrap().contains("| 99.99 |"));
}

#[test]
fn operations_that_do_not_add_up_are_named() {
    let mut result = example::full();
    let text = render("markdown", &[result.clone()]).unwrap();
    assert!(!text.contains("counters are inconsistent"), "{text}");
    result.operations.ok -= 1;
    let text = render("markdown", &[result]).unwrap();
    assert_contains(&text, &["counters are inconsistent"]);
}

#[test]
fn clamped_values_are_shown() {
    let mut result = example::full();
    result.series[1].clamped = 3;
    let text = render("markdown", &[result]).unwrap();
    assert_contains(&text, &["3 values of first_byte were outside 1 ns to 1 h"]);
}

#[test]
fn csv_of_several_results_says_whose_each_row_is_and_leaves_missing_percentiles_empty() {
    let [mut one, other] = two();
    one.seconds[2].series.clear();
    one.daemon.name = "a \"quoted\", name".to_owned();
    let text = render("csv", &[one, other]).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 7);
    assert!(rows[0].starts_with("run_id,daemon,second,active,active_peak,"));
    assert!(
        rows[3].starts_with("20260131-120000-7f3a,\"a \"\"quoted\"\", name\",2,2,20,"),
        "{}",
        rows[3]
    );
    assert!(rows[3].ends_with(",0,,,,0,,,,0,,,"), "{}", rows[3]);
    assert!(
        rows[6].starts_with("20260131-120500-91c2,go-streaming,2,2,20,"),
        "{}",
        rows[6]
    );
}

/// Returns the histograms of a log by tag, each with its start and length.
fn read_back(log: &str) -> BTreeMap<String, Vec<(Duration, Duration, Distribution)>> {
    let mut intervals = BTreeMap::<_, Vec<_>>::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        match entry.expect("the log is one") {
            LogEntry::Interval(interval) => {
                let values = Distribution::decode(interval.encoded_histogram(), 0)
                    .expect("each histogram is whole");
                let max_ms = values.quantile(1.0).expect("no interval is empty") as f64 / 1e6;
                assert!(
                    (interval.max() - max_ms).abs() < 0.001,
                    "the maximum is in milliseconds"
                );
                let tag = interval
                    .tag()
                    .expect("each interval has a tag")
                    .as_str()
                    .to_owned();
                intervals.entry(tag).or_default().push((
                    interval.start_timestamp(),
                    interval.duration(),
                    values,
                ));
            }
            LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                assert_eq!(time, Duration::from_millis(1_769_860_800_250))
            }
        }
    }
    intervals
}

#[test]
fn an_interval_log_holds_every_value_of_every_second() {
    let result = example::full();
    let intervals = read_back(&render("hlog", std::slice::from_ref(&result)).unwrap());
    assert_eq!(
        intervals.keys().collect::<Vec<_>>(),
        ["first_byte", "handoff", "lag", "stream"]
    );
    for series in result.series.iter().chain(&result.lag) {
        let seconds = &intervals[&series.name];
        let starts: Vec<_> = seconds
            .iter()
            .map(|(start, length, _)| (start.as_secs(), length.as_secs()))
            .collect();
        assert_eq!(starts, [(0, 1), (1, 1), (2, 1)]);
        let mut whole = Distribution::default();
        seconds
            .iter()
            .for_each(|(_, _, values)| whole.merge(values));
        assert_eq!(whole, series.distribution().unwrap());
    }
}

#[test]
fn interval_logs_of_several_daemons_are_distinguished_and_those_of_repetitions_add_up() {
    let [one, other] = two();
    let tags: Vec<String> = read_back(&render("hlog", &[one.clone(), other]).unwrap())
        .into_keys()
        .collect();
    assert!(
        tags.contains(&"rust-streaming/handoff".to_owned())
            && tags.contains(&"go-streaming/handoff".to_owned()),
        "{tags:?}"
    );
    let repeated = read_back(&render("hlog", &[one.clone(), one]).unwrap());
    assert_eq!(repeated["handoff"].len(), 6);
}

#[test]
fn a_tag_never_ends_early() {
    let mut result = example::full();
    result.seconds[0].series[0].name = "first, byte".to_owned();
    assert!(read_back(&render("hlog", &[result]).unwrap()).contains_key("first__byte"));
}

#[test]
fn a_histogram_that_was_cut_is_named_with_its_run_and_series() {
    let mut result = example::full();
    result.series[1].histogram.truncate(21);
    let error = render("html", &[result]).unwrap_err();
    let expected = Error::Histogram {
        run: "20260131-120000-7f3a".to_owned(),
        series: "first_byte".to_owned(),
        source: DecodeError::Base64,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_start_that_is_no_time_is_named() {
    let mut result = example::full();
    result.started_at = "yesterday".to_owned();
    let error = render("hlog", &[result]).unwrap_err().to_string();
    assert_contains(&error, &["`yesterday`"]);
}

#[test]
fn json_is_the_result_itself() {
    let result = example::full();
    let text = render("json", std::slice::from_ref(&result)).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
    let several = render("json", &two()).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<RunResult>>(&several).unwrap(),
        two()
    );
}

#[test]
fn the_same_results_give_the_same_report() {
    for format in FORMATS {
        assert_eq!(
            format.render(&two()).unwrap(),
            format.render(&two()).unwrap()
        );
    }
}
