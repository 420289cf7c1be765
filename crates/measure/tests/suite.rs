//! The comparison of a handmade suite, as text and as a page.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "example/result.rs"]
mod result;
#[path = "example/suite.rs"]
mod suite;

use insta::assert_snapshot;
use measure::capacity::LoadOutcome;
use measure::report::html::render as html;
use measure::report::markdown::render as markdown;
use measure::report::terminal::render as terminal;
use measure::report::{Error, FORMATS};
use measure::result::PlannedPhases;
use measure::suite::Suite;
use measure::tally::Distribution;
use measure::warning::{EndedBy, Kind, Verdict, Warning, verdict};
use suite::{FOUR, Shape};

/// Builds a suite of two daemons, three levels and two runs, with every problem that a report must show.
fn small() -> Suite {
    let shape = |daemons, levels, runs| Shape {
        daemons,
        levels,
        runs,
        seconds: 10,
    };
    let mut suite = suite::build(&shape(&FOUR[..1], &[10_000, 100, 1_000], 2));
    let rust = suite::build(&shape(&FOUR[3..], &[100, 1_000], 1));
    suite.results.extend(rust.results);
    for result in &mut suite.results {
        let kept = ["handoff", "first_byte", "stream"];
        result
            .series
            .retain(|series| kept.contains(&series.name.as_str()));
    }
    suite::invalidate(&mut suite.results[0]);
    suite::miss(&mut suite.results[0]);
    suite::kill(&mut suite.results[4]);
    suite
}

/// Returns the cells of the first row of a Markdown table, below a heading, that begins with the given cells.
fn row(report: &str, heading: &str, begins: &[&str]) -> Vec<String> {
    let (_, below) = report.split_once(&format!("# {heading}\n")).unwrap();
    let mut rows = below
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| {
            line.trim_matches('|')
                .split(" | ")
                .map(|cell| cell.trim().to_owned())
                .collect::<Vec<_>>()
        });
    rows.find(|row| {
        let mut cells = begins.iter().zip(row);
        row.len() >= begins.len() && cells.all(|(begin, cell)| cell.starts_with(begin))
    })
    .unwrap_or_else(|| panic!("no row {begins:?} below {heading} in\n{below}"))
}

#[test]
fn messages_have_rates_beside_the_first_daemon_and_an_account() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..2],
        levels: &[100],
        runs: 3,
        seconds: 10,
    });
    for (place, result) in suite.results.iter_mut().enumerate() {
        let second = result.daemon.name == FOUR[1];
        let each = 1_000 + 100 * (place as u64 / 2);
        let published = if second { 4 * each } else { each };
        result.spec = result::spec::MESSAGES.clone();
        result.phases = Some(PlannedPhases {
            warmup_s: 2.0,
            measure_s: 6.0,
            drain_s: 5.0,
        });
        result.wall_s = 13.0;
        result.series.retain(|series| series.name == "first_byte");
        result.series[0].name = "end_to_end".to_owned();
        let counts = [
            ("published", published),
            ("consumed", published),
            ("lost", 0),
            ("duplicated", 0),
            ("redelivered", u64::from(second)),
        ];
        // Rows 0 to 9; rows 2 to 7 are in the measured time; the last two belong to the drain phase.
        for row in &mut result.seconds {
            let flow = |name: &str| (name.to_owned(), published / 10);
            row.counts = ["published", "consumed"].map(flow).into();
        }
        result.counts = counts.map(|(name, count)| (name.to_owned(), count)).into();
    }
    let report = markdown(&suite).unwrap();
    let of = |heading: &str, daemon: &str| row(&report, heading, &[daemon])[2..].to_vec();
    assert_eq!(
        of("Throughput", "go-"),
        ["110 (100–120)", "1", "110 (100–120)", "1"]
    );
    assert_eq!(
        of("Throughput", "python-"),
        ["440 (400–480)", "4.00", "440 (400–480)", "4.00"]
    );
    assert_eq!(
        of("Message delivery", "python-"),
        ["0", "0", "1"],
        "what nobody counted has no column"
    );
    for nonsense in ["KiB per connection", "TTFB", "most connections"] {
        assert!(!report.contains(nonsense), "{nonsense} in\n{report}");
    }
    let page = html(&suite).unwrap();
    assert!(page.contains("end_to_end p99, ms") && page.contains("published/s"));
    let shown = terminal(&suite).unwrap();
    assert!(shown.contains("end_to_end") && shown.contains("published/s"));
}

#[test]
fn a_comparison_says_everything_in_markdown() {
    assert_snapshot!(markdown(&small()).unwrap(), @r#"
    ## INVALID: quick, 8 runs of 2 daemons at 3 levels

    | daemon | at 100 | at 1,000 | at 10,000 |
    | --- | --- | --- | --- |
    | go-streaming | 2 VALID | 2 VALID | 1 VALID, 1 INVALID |
    | rust-streaming | 1 VALID | 1 VALID | not run |
    | python-streaming | not run | not run | not run |

    - **invalid:** go-streaming at 10,000, run 1: a worker of the driver used 97 % of a core: it may be the bottleneck

    - **question:** Which daemon holds the most streams for the least memory?
    - **verdicts:** 7 VALID, 0 SUSPECT, 1 INVALID
    - **dates:** 2026-01-31T12:40:00Z to 2026-01-31T12:40:01Z
    - **machine:** bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
    - **noise:** load average before the runs 0.08 to 0.08, up to 0.1 % of the CPU time stolen
    - **driver:** fdpass-gen 0.1.0, 1 process, 2 worker threads, release build

    | daemon | version | description |
    | --- | --- | --- |
    | go-streaming | streaming-daemon 0.1.0 | go-streaming, made by hand |
    | rust-streaming | streaming-daemon 0.1.0 | rust-streaming, made by hand |
    | python-streaming | – | – |

    ## At a glance

    At 1,000, the highest level that every daemon ran. No figure is marked as best, because that requires 3 runs of each daemon.

    | daemon | success % | TTFB p99, ms | KiB per connection | slope, KiB per connection | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 0.408 (0.404–0.412) | 5.94 (5.88–6.00) | 5.94 ±0.108 | 386 (382–390) |
    | rust-streaming | 100 | 0.115 | 0.490 | – | 118 |

    ## Connection statistics

    Median of the runs (lowest–highest). The peak is the most connections open at once, as counted by the driver and by the daemon.

    | daemon | level | started | completed | failed | success % | driver peak | daemon peak | backlog peak |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 100 | 79 (58–100) | 21 (0–42) | 79.00 (58.00–100) | 100 | 100 | 6 |
    | rust-streaming | 100 | 100 | 100 | 0 | 100 | 100 | 100 | 6 |
    | go-streaming | 1,000 | 1,000 | 1,000 | 0 | 100 | 1,000 | 1,000 | 20 |
    | rust-streaming | 1,000 | 1,000 | 1,000 | 0 | 100 | 1,000 | 1,000 | 20 |
    | go-streaming (INVALID) | 10,000 | 10,000 | 10,000 | 0 | 100 | 10,000 | 10,000 | 200 |

    ## Latency (milliseconds)

    TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.

    | daemon | level | handoff p50 | handoff p99 | TTFB p50 | TTFB p99 |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 0.0173 (0.0172–0.0175) | 0.0612 (0.0605–0.0618) | 0.0866 (0.0858–0.0875) | 0.306 (0.303–0.309) |
    | rust-streaming | 100 | 0.00536 | 0.0174 | 0.0268 | 0.0870 |
    | go-streaming | 1,000 | 0.0208 (0.0206–0.0211) | 0.0816 (0.0808–0.0824) | 0.104 (0.103–0.105) | 0.408 (0.404–0.412) |
    | rust-streaming | 1,000 | 0.00645 | 0.0230 | 0.0322 | 0.115 |
    | go-streaming (INVALID) | 10,000 | 0.0317 (0.0314–0.0320) | 0.125 (0.124–0.126) | 0.158 (0.157–0.160) | 0.624 (0.618–0.631) |

    ## Memory (RSS)

    | daemon | level | baseline MiB | peak MiB | delta MiB | KiB per connection |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 4.00 | 4.58 (4.57–4.59) | 0.580 (0.574–0.586) | 5.94 (5.88–6.00) |
    | rust-streaming | 100 | 4.00 | 4.05 | 0.0479 | 0.490 |
    | go-streaming | 1,000 | 4.00 | 9.80 (9.74–9.86) | 5.80 (5.74–5.86) | 5.94 (5.88–6.00) |
    | rust-streaming | 1,000 | 4.00 | 4.48 | 0.479 | 0.490 |
    | go-streaming (INVALID) | 10,000 | 4.00 | 62.0 (61.4–62.6) | 58.0 (57.4–58.6) | 5.94 (5.88–6.00) |

    ### Memory per additional connection

    1 KiB is 1,024 bytes (kB in /proc). Dividing RSS growth by connections overstates the cost (it includes caches and heap); the regression slope is the marginal cost per connection: least squares through peak memory against peak connections (counted by the daemon, otherwise by the driver) over all runs, with the 95 % interval of the slope. INVALID runs are included, since lateness of the driver does not change the memory of a stream.

    | daemon | runs | KiB per connection | 95 % interval | standard error | intercept, MiB | remark |
    | --- | ---: | ---: | ---: | ---: | ---: | --- |
    | go-streaming | 6 | 5.94 | 5.83 to 6.05 | 0.0389 | 4.00 |  |
    | rust-streaming | 2 | – | – | – | – | no slope: 2 levels with memory figures, but 3 are required |
    | python-streaming | 0 | – | – | – | – | no slope: no level with memory figures, but 3 are required |

    ## CPU usage

    Percent of one core. CPU time is user plus system; finished operations are all that ended, successful or not.

    | daemon | level | average % | peak % | threads | CPU µs per finished | driver average % | driver CPU µs per finished | finished per driver CPU-s |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 0.4 | 0.8 | 3 | 386 (382–390) | 1.0 | 300 | 3,333 |
    | rust-streaming | 100 | 0.1 | 0.2 | 3 | 118 | 1.0 | 300 | 3,333 |
    | go-streaming | 1,000 | 3.9 (3.8–3.9) | 7.7 (7.6–7.8) | 3 | 386 (382–390) | 1.0 | 30.0 | 33,333 |
    | rust-streaming | 1,000 | 1.2 | 2.4 | 3 | 118 | 1.0 | 30.0 | 33,333 |
    | go-streaming (INVALID) | 10,000 | 38.6 (38.2–39.0) | 77.2 (76.4–78.0) | 3 | 386 (382–390) | 1.0 | 3.00 | 333,333 |

    ## Capacity

    The highest level that every run sustained, and the lowest that a run did not sustain; the capacity lies between them. A run sustains its level if it meets every threshold and has no unfinished or missed operations. An INVALID run is inconclusive, since the driver or the machine was the limit, unless its daemon exited.

    | daemon | sustained | not sustained | reason | remark |
    | --- | --- | --- | --- | --- |
    | go-streaming | 10,000 | – |  | no higher level was run; at 10,000, 1 of 2 runs inconclusive: a worker of the driver used 97 % of a core: it may be the bottleneck → use more threads or processes, or lower the load |
    | rust-streaming | 1,000 | – |  | no higher level was run |

    ## Level 100

    - **plan:** 100 streams of 10 s, begun within a tenth of it

    ### Latency distributions (milliseconds)

    | daemon | series | count | p50 | p75 | p90 | p95 | p99 | p99.9 | max |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | handoff | 100 | 0.0173 (0.0172–0.0175) | 0.0240 (0.0238–0.0243) | 0.0332 (0.0328–0.0335) | 0.0409 (0.0405–0.0413) | 0.0612 (0.0605–0.0618) | 0.0853 (0.0844–0.0861) | 0.0853 (0.0844–0.0861) |
    | rust-streaming | handoff | 100 | 0.00536 | 0.00728 | 0.00982 | 0.0120 | 0.0174 | 0.0237 | 0.0237 |
    | go-streaming | TTFB | 100 | 0.0866 (0.0858–0.0875) | 0.120 (0.119–0.121) | 0.166 (0.164–0.167) | 0.205 (0.202–0.207) | 0.306 (0.303–0.309) | 0.426 (0.422–0.431) | 0.426 (0.422–0.431) |
    | rust-streaming | TTFB | 100 | 0.0268 | 0.0364 | 0.0491 | 0.0598 | 0.0870 | 0.119 | 0.119 |
    | go-streaming | stream | 100 | 347 (343–350) | 481 (476–486) | 663 (656–670) | 818 (810–826) | 1,224 (1,211–1,236) | 1,706 (1,688–1,723) | 1,706 (1,688–1,723) |
    | rust-streaming | stream | 100 | 107 | 146 | 196 | 239 | 348 | 475 | 475 |
    | go-streaming | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |
    | rust-streaming | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |

    ### Failures by kind, all runs

    | daemon | started | lost | reset |
    | --- | ---: | ---: | ---: |
    | go-streaming | 200 | 40 | 2 |
    | rust-streaming | 100 | 0 | 0 |

    ### Thresholds

    | daemon | threshold | met | measured |
    | --- | --- | --- | --- |
    | go-streaming | first_byte.p99 &lt;= 50ms | met in all 2 runs | 1.20ms, 1.20ms |
    | rust-streaming | first_byte.p99 &lt;= 50ms | met | 1.20ms |

    ### Faults

    | daemon | run | fault | at, s | recovered at, s | downtime, s | lost in the run | retries in the run |
    | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 2 | SIGKILL and a new start | 5.00 | 5.75 | 0.750 | 40 | 17 |

    ## Level 1,000

    - **plan:** 1000 streams of 10 s, begun within a tenth of it

    ### Latency distributions (milliseconds)

    | daemon | series | count | p50 | p75 | p90 | p95 | p99 | p99.9 | max |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | handoff | 1,000 | 0.0208 (0.0206–0.0211) | 0.0290 (0.0287–0.0293) | 0.0403 (0.0398–0.0407) | 0.0503 (0.0498–0.0508) | 0.0816 (0.0808–0.0824) | 0.147 (0.145–0.148) | 0.204 (0.202–0.206) |
    | rust-streaming | handoff | 1,000 | 0.00645 | 0.00877 | 0.0119 | 0.0147 | 0.0230 | 0.0398 | 0.0542 |
    | go-streaming | TTFB | 1,000 | 0.104 (0.103–0.105) | 0.145 (0.143–0.146) | 0.201 (0.199–0.203) | 0.251 (0.249–0.254) | 0.408 (0.404–0.412) | 0.733 (0.726–0.740) | 1.02 (1.01–1.03) |
    | rust-streaming | TTFB | 1,000 | 0.0322 | 0.0438 | 0.0596 | 0.0733 | 0.115 | 0.199 | 0.271 |
    | go-streaming | stream | 1,000 | 417 (413–421) | 580 (574–586) | 805 (797–813) | 1,006 (996–1,016) | 1,631 (1,615–1,647) | 2,932 (2,902–2,961) | 4,078 (4,037–4,119) |
    | rust-streaming | stream | 1,000 | 129 | 175 | 238 | 293 | 461 | 796 | 1,084 |
    | go-streaming | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |
    | rust-streaming | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |

    ### Thresholds

    | daemon | threshold | met | measured |
    | --- | --- | --- | --- |
    | go-streaming | first_byte.p99 &lt;= 50ms | met in all 2 runs | 1.20ms, 1.20ms |
    | rust-streaming | first_byte.p99 &lt;= 50ms | met | 1.20ms |

    ## Level 10,000

    - **plan:** 10000 streams of 10 s, begun within a tenth of it

    ### Latency distributions (milliseconds)

    | daemon | series | count | p50 | p75 | p90 | p95 | p99 | p99.9 | max |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming (INVALID) | handoff | 2,000 | 0.0317 (0.0314–0.0320) | 0.0440 (0.0436–0.0445) | 0.0612 (0.0606–0.0618) | 0.0765 (0.0758–0.0773) | 0.125 (0.124–0.126) | 0.235 (0.233–0.238) | 0.381 (0.378–0.385) |
    | go-streaming (INVALID) | TTFB | 2,000 | 0.158 (0.157–0.160) | 0.220 (0.218–0.222) | 0.306 (0.303–0.309) | 0.383 (0.379–0.387) | 0.624 (0.618–0.631) | 1.18 (1.17–1.19) | 1.91 (1.89–1.93) |
    | go-streaming (INVALID) | stream | 2,000 | 634 (627–640) | 881 (872–890) | 1,224 (1,212–1,236) | 1,531 (1,515–1,547) | 2,498 (2,473–2,523) | 4,708 (4,660–4,756) | 7,629 (7,554–7,705) |
    | go-streaming (INVALID) | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |

    ### Thresholds

    | daemon | threshold | met | measured |
    | --- | --- | --- | --- |
    | go-streaming | first_byte.p99 &lt;= 50ms | MISSED in 1 of 2 runs | 61.2ms, 1.20ms |

    ## Resources

    ### Processes, files and switches of the daemon

    | daemon | level | processes | threads | open files | voluntary switches | involuntary switches |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | rust-streaming | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | go-streaming | 1,000 | 1 | 3 | 97 | 5,210 | 31 |
    | rust-streaming | 1,000 | 1 | 3 | 97 | 5,210 | 31 |
    | go-streaming (INVALID) | 10,000 | 1 | 3 | 97 | 5,210 | 31 |

    ### Processes, files and switches of the driver

    | daemon | level | processes | threads | open files | voluntary switches | involuntary switches |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | rust-streaming | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | go-streaming | 1,000 | 1 | 3 | 97 | 5,210 | 31 |
    | rust-streaming | 1,000 | 1 | 3 | 97 | 5,210 | 31 |
    | go-streaming (INVALID) | 10,000 | 1 | 3 | 97 | 5,210 | 31 |

    ## Audit

    Consistency checks between figures of a run, in the runs that have both figures.

    | compared | runs |  |
    | --- | ---: | --- |
    | operations ok + failed + unfinished | 8 | adds up |

    ## Not reached

    | daemon | level | reason |
    | --- | --- | --- |
    | python-streaming | 100,000 | 20,000 open files allowed, 100,010 are needed: raise the hard limit or add instances |

    ## Warnings

    - **invalid:** go-streaming at 10,000, run 1: a worker of the driver used 97 % of a core: it may be the bottleneck → use more threads or processes, or lower the load
    - **note:** go-streaming at 10,000, run 1: the driver was built without optimisation and is several times slower than a release build → run it with \`cargo run --release\`
    "#);
}

#[test]
fn the_terminal_shows_the_medians() {
    let shown = terminal(&small()).unwrap();
    let first: Vec<&str> = shown.lines().take(40).collect();
    assert_snapshot!(first.join("\n"), @r#"
    INVALID: quick, 8 runs of 2 daemons at 3 levels
      daemon            at 100   at 1,000  at 10,000
      go-streaming      2 VALID  2 VALID   1 VALID, 1 INVALID
      rust-streaming    1 VALID  1 VALID   not run
      python-streaming  not run  not run   not run
      invalid   go-streaming at 10,000, run 1: a worker of the driver used 97 % of a core: it may be
                the bottleneck
      question  Which daemon holds the most streams for the least memory?
      verdicts  7 VALID, 0 SUSPECT, 1 INVALID
      dates     2026-01-31T12:40:00Z to 2026-01-31T12:40:01Z
      machine   bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763,
                8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
      noise     load average before the runs 0.08 to 0.08, up to 0.1 % of the CPU time stolen
      driver    fdpass-gen 0.1.0, 1 process, 2 worker threads, release build
      daemon            version                 description
      go-streaming      streaming-daemon 0.1.0  go-streaming, made by hand
      rust-streaming    streaming-daemon 0.1.0  rust-streaming, made by hand
      python-streaming  –                       –

    At a glance
      At 1,000, the highest level that every daemon ran. No figure is marked as best, because that
      requires 3 runs of each daemon.
      daemon          success %  TTFB p99,     KiB per   slope, KiB    CPU µs
                                        ms  connection          per       per
                                                         connection  finished
      go-streaming          100      0.408        5.94  5.94 ±0.108       386
      rust-streaming        100      0.115       0.490            –       118

    Connection statistics
      Median of the runs (lowest–highest). The peak is the most connections open at once, as counted
      by the driver and by the daemon.
      daemon                   level  started  completed  failed  success %  driver  daemon  backlog
                                                                               peak    peak     peak
      go-streaming               100      100         79      21      79.00     100     100        6
      rust-streaming             100      100        100       0        100     100     100        6
      go-streaming             1,000    1,000      1,000       0        100   1,000   1,000       20
      rust-streaming           1,000    1,000      1,000       0        100   1,000   1,000       20
      go-streaming (INVALID)  10,000   10,000     10,000       0        100  10,000  10,000      200

    Latency (milliseconds)
    "#);
}

#[test]
fn five_runs_have_an_interval_and_a_slope_with_its_own() {
    let suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[100, 1_000, 10_000],
        runs: 5,
        seconds: 10,
    });
    let report = markdown(&suite).unwrap();
    let memory = row(&report, "Memory (RSS)", &["rust-streaming", "10,000"]);
    assert_eq!(memory[5], r"0.510 (0.490–0.530) \[0.490, 0.530\]");
    // 6 KiB each, in five runs more by −2, 0, 2, 4 and 6 percent: 6.12 on average.
    let slope = row(
        &report,
        "Memory per additional connection",
        &["go-streaming"],
    );
    assert_eq!(slope[1..4], ["15", "6.12", "5.99 to 6.25"]);
}

#[test]
fn levels_stand_by_size_and_daemons_as_they_came() {
    let suite = suite::build(&Shape {
        daemons: &["rust-streaming", "go-streaming"],
        levels: &[10_000, 900, 1_000],
        runs: 1,
        seconds: 10,
    });
    let report = markdown(&suite).unwrap();
    let (_, matrix) = report
        .split_once("| daemon | at 900 | at 1,000 | at 10,000 |")
        .unwrap();
    let rows: Vec<&str> = matrix.lines().skip(2).take(2).collect();
    assert!(
        rows[0].starts_with("| rust-streaming") && rows[1].starts_with("| go-streaming"),
        "{rows:?}"
    );
    let places =
        ["900", "1,000", "10,000"].map(|level| report.find(&format!("## Level {level}")).unwrap());
    assert!(places.is_sorted());
}

#[test]
fn the_best_is_marked_only_where_runs_are_apart() {
    let mut suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[1_000],
        runs: 3,
        seconds: 10,
    });
    let best = |suite: &Suite, column: usize| -> Vec<&str> {
        let report = markdown(suite).unwrap();
        let of = |name: &&&str| row(&report, "At a glance", &[name])[column].contains("best");
        FOUR.iter().filter(of).copied().collect()
    };
    // All succeed, so none is marked. Only one has the shortest time to first byte.
    assert_eq!(best(&suite, 1), Vec::<&str>::new());
    assert_eq!(best(&suite, 2), ["rust-streaming"]);
    // The peaks of Python's runs now overlap those of Rust's, so the two share the mark.
    let python = suite
        .results
        .iter_mut()
        .find(|run| run.daemon.name == "python-streaming")
        .unwrap();
    python.usage.daemon.as_mut().unwrap().rss_peak_kb = 4_500;
    assert_eq!(best(&suite, 3), ["python-streaming", "rust-streaming"]);
    // INVALID runs are not compared.
    for run in suite
        .results
        .iter_mut()
        .filter(|run| run.daemon.name == "rust-streaming")
    {
        suite::invalidate(run);
    }
    assert_eq!(best(&suite, 2), ["go-streaming"]);
    assert!(
        markdown(&suite)
            .unwrap()
            .contains("| rust-streaming (INVALID) | 1,000 |")
    );
}

#[test]
fn two_runs_or_a_failure_or_two_percent_make_nobody_the_best() {
    let of = |runs| {
        suite::build(&Shape {
            daemons: FOUR,
            levels: &[1_000],
            runs,
            seconds: 10,
        })
    };
    let glance = |suite: &Suite| {
        let report = markdown(suite).unwrap();
        let (_, glance) = report.split_once("## At a glance").unwrap();
        glance.split("\n## ").next().unwrap().to_owned()
    };
    let few = glance(&of(2));
    assert!(!few.contains(" best |"), "{few}");
    assert!(few.contains("requires 3 runs of each daemon"), "{few}");
    let three = glance(&of(3));
    assert!(three.contains("differ by at least 3 %"), "{three}");
    let rust = |glance: &str| {
        row(
            &format!("# glance\n{glance}"),
            "glance",
            &["rust-streaming"],
        )
    };
    assert!(rust(&three)[2].ends_with("best"), "{three}");

    // One operation of one run fails: the daemon loses its mark for the time to first byte, and its success is lower.
    let mut failing = of(3);
    let fail = |suite: &mut Suite| {
        let mut runs = suite.results.iter_mut();
        let run = runs
            .find(|run| run.daemon.name == "rust-streaming")
            .unwrap();
        run.operations.ok -= 1;
        run.operations.failed += 1;
    };
    fail(&mut failing);
    assert!(!rust(&glance(&failing))[2].contains("best"));

    // Two daemons whose runs do not overlap, with medians 2 % apart, and then 4 %.
    for (kib, marked) in [(1_020, false), (1_040, true)] {
        let mut near = of(3);
        near.results
            .retain(|run| ["go-streaming", "rust-streaming"].contains(&&*run.daemon.name));
        for run in &mut near.results {
            let is_rust = run.daemon.name == "rust-streaming";
            let usage = run.usage.daemon.as_mut().unwrap();
            usage.rss_peak_kb = usage.rss_baseline_kb + if is_rust { 1_000 } else { kib };
        }
        let near = glance(&near);
        assert_eq!(rust(&near)[3].ends_with("best"), marked, "{near}");
    }
}

#[test]
fn the_highest_level_is_a_number_where_there_is_one() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..2],
        levels: &[100, 1_000],
        runs: 1,
        seconds: 10,
    });
    let mut burst = suite.results[..2].to_vec();
    burst
        .iter_mut()
        .for_each(|run| run.level = "burst".to_owned());
    suite.results.extend(burst);
    assert!(
        markdown(&suite)
            .unwrap()
            .contains("At 1,000, the highest level")
    );
    suite.results.retain(|run| run.level == "burst");
    assert!(
        markdown(&suite)
            .unwrap()
            .contains("At burst, which every daemon ran.")
    );
}

#[test]
fn a_capacity_is_a_bracket() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[1_000, 2_000, 4_000, 3_000],
        runs: 2,
        seconds: 10,
    });
    let bracket =
        |suite: &Suite| row(&markdown(suite).unwrap(), "Capacity", &["go-streaming"])[1..].to_vec();
    assert_eq!(
        bracket(&suite),
        ["4,000", "–", "", "no higher level was run"]
    );
    // The reason that stopped the levels above is shown, but not that of other daemons.
    suite.unreached[0].daemon = "go-streaming".to_owned();
    let remark = bracket(&suite).remove(3);
    assert!(
        remark.starts_with("100,000 was not reached: 20,000 open files"),
        "{remark}"
    );
    // A level without a size is not part of a bracket.
    let mut burst = suite.clone();
    for run in burst.results.iter_mut().filter(|run| run.level == "1000") {
        run.level = "burst".to_owned();
        suite::miss(run);
    }
    assert_eq!(bracket(&burst)[..2], ["4,000", "–"]);
    // One failing run of two is enough.
    suite::miss(&mut suite.results[3]);
    let missed = "first_byte.p99 &lt;= 50ms (61.2ms)";
    let remark = "a higher level was sustained although a lower one was not: repeat both";
    assert_eq!(bracket(&suite), ["4,000", "3,000", missed, remark]);
    suite::miss(&mut suite.results[2]);
    assert_eq!(bracket(&suite), ["2,000", "3,000", missed, ""]);
    suite.results.iter_mut().for_each(suite::miss);
    assert_eq!(bracket(&suite)[..2], ["–", "1,000"]);
    suite.results.truncate(1);
    assert!(!markdown(&suite).unwrap().contains("Capacity"));
}

#[test]
fn a_run_that_left_something_undone_or_lost_its_daemon_did_not_hold_its_level() {
    let held = suite::one("go-streaming", 1_000, 0, 10);
    let changed = |change: fn(&mut measure::result::RunResult)| {
        let mut run = held.clone();
        change(&mut run);
        match run.load_outcome() {
            LoadOutcome::Sustained => Vec::new(),
            LoadOutcome::Failed(why) => why,
            LoadOutcome::Inconclusive(warning) => panic!("{warning:?}"),
        }
    };
    assert_eq!(held.load_outcome(), LoadOutcome::Sustained);
    // No threshold limits failures, so they are tolerated.
    assert_eq!(changed(suite::kill), Vec::<String>::new());
    assert_eq!(
        changed(|run| run.operations.unfinished = 3),
        ["3 operations did not end"]
    );
    assert_eq!(
        changed(|run| run.operations.missed = 1_000),
        ["1,000 operations were due and never started"]
    );
    assert_eq!(changed(suite::miss), ["first_byte.p99 <= 50ms (61.2ms)"]);
    // A late driver does not excuse a daemon that died.
    let died = changed(|run| {
        let mut late = Distribution::default();
        (0..1_000).for_each(|_| late.record(2_000_000));
        run.warnings = vec![
            Warning::generator_late(&late, &Distribution::default(), true).unwrap(),
            Warning::daemon_died("SIGSEGV", "out of luck"),
        ];
        run.verdict = verdict(&run.warnings);
        run.operations.unfinished = 3;
    });
    assert!(died[0].contains("(SIGSEGV)"), "{died:?}");
    assert_eq!(died[1..], ["3 operations did not end"]);
}

#[test]
fn a_run_that_the_driver_spoiled_is_not_judged_whatever_its_thresholds_say() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[1_000, 2_000],
        runs: 2,
        seconds: 10,
    });
    let capacity =
        |suite: &Suite| row(&markdown(suite).unwrap(), "Capacity", &["go-streaming"])[1..].to_vec();
    let reason = "a worker of the driver used 97 % of a core: it may be the bottleneck → use more threads or processes, or lower the load";
    let spoil = |run: &mut measure::result::RunResult| {
        suite::miss(run);
        suite::invalidate(run);
        assert!(
            matches!(run.load_outcome(), LoadOutcome::Inconclusive(warning) if warning.kind == Kind::GeneratorCpuBound)
        );
    };
    let at_2000: Vec<usize> = (0..4)
        .filter(|place| suite.results[*place].level == "2000")
        .collect();
    spoil(&mut suite.results[at_2000[0]]);
    let one = format!("no higher level was run; at 2,000, 1 of 2 runs inconclusive: {reason}");
    assert_eq!(capacity(&suite), ["2,000", "–", "", &one]);
    spoil(&mut suite.results[at_2000[1]]);
    let both = format!("2,000 is inconclusive: {reason}");
    assert_eq!(capacity(&suite), ["1,000", "–", "", &both]);
    suite::miss(&mut suite.results[at_2000[1]]);
    suite.results[at_2000[1]].warnings.clear();
    let missed = "first_byte.p99 &lt;= 50ms (61.2ms)";
    let one = format!("at 2,000, 1 of 2 runs inconclusive: {reason}");
    assert_eq!(capacity(&suite), ["1,000", "2,000", missed, &one]);
}

#[test]
fn versions_that_differ_are_named_and_so_is_the_cell_that_mixes_them() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[100, 1_000],
        runs: 2,
        seconds: 10,
    });
    assert!(!markdown(&suite).unwrap().contains("several versions"));
    suite.results[3].daemon.version = Some("streaming-daemon 0.2.0".to_owned());
    let report = markdown(&suite).unwrap();
    let both = "streaming-daemon 0.1.0; streaming-daemon 0.2.0";
    assert!(report.contains(&format!("| go-streaming | {both} |")));
    assert!(report.contains("**versions:** go-streaming at 1,000 has runs of several versions"));
    assert!(!report.contains("go-streaming at 100 has runs of several"));
}

#[test]
fn growth_under_steady_load_is_found_and_the_ramp_is_not_taken_for_it() {
    let mut result = suite::one("go-streaming", 1_000, 1, 100);
    for second in &mut result.seconds {
        second.counts.insert("started".to_owned(), 100);
        second
            .counts
            .insert("ok".to_owned(), if second.second < 10 { 0 } else { 95 });
        second
            .errors
            .insert("reset".to_owned(), if second.second < 10 { 0 } else { 5 });
        second.active_peak = (second.second + 1).min(10) * 100;
    }
    for look in &mut result.resources {
        let daemon = look.daemon.as_mut().unwrap();
        // 12 KiB and one descriptor for each 1,000 finished operations, 100 a second; before that a steep ramp.
        let after_ramp = (look.at_s - 10.0).max(0.0);
        daemon.rss_kb = 100_000 + (after_ramp * 1.2).round() as u64
            - (500.0 * (10.0 - look.at_s).max(0.0)) as u64;
        daemon.fds = 1_000 + (after_ramp * 0.1).round() as u64;
    }
    let suite = Suite {
        results: vec![result.clone()],
        ..Suite::default()
    };
    let heading = "Growth under steady load, per 1,000 finished operations";
    let growth = row(&markdown(&suite).unwrap(), heading, &["73"]);
    let near = |place: usize, expected: f64, within: f64| {
        let figure: f64 = growth[place].parse().unwrap();
        assert!((figure - expected).abs() < within, "{growth:?}");
    };
    (2..5).for_each(|place| near(place, 12.0, 0.1));
    (5..8).for_each(|place| near(place, 1.0, 0.05));
    // A daemon that levels off: its halves distinguish it from one that keeps growing.
    let mut filling = result.clone();
    for look in &mut filling.resources {
        let daemon = look.daemon.as_mut().unwrap();
        daemon.rss_kb = 100_000 + (look.at_s.min(50.0) * 100.0) as u64;
    }
    let filling = Suite {
        results: vec![filling],
        ..Suite::default()
    };
    let halves = row(&markdown(&filling).unwrap(), heading, &["73"]);
    assert!(
        halves[3].replace(',', "").parse::<f64>().unwrap() > 500.0,
        "{halves:?}"
    );
    assert_eq!(halves[4], "0", "{halves:?}");
    // Streams that are held and end together are not a steady load.
    let held = Suite {
        results: vec![suite::one("go-streaming", 1_000, 1, 100)],
        ..Suite::default()
    };
    assert!(!markdown(&held).unwrap().contains("Growth"));
}

#[test]
fn every_warning_is_shown_and_notes_of_one_kind_are_counted() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[100],
        runs: 3,
        seconds: 10,
    });
    for run in &mut suite.results {
        run.warnings = vec![
            Warning::debug_build(),
            Warning::unfinished(7, EndedBy::Plan).unwrap(),
        ];
        run.verdict = verdict(&run.warnings);
    }
    let report = markdown(&suite).unwrap();
    assert!(
        report.starts_with("## SUSPECT: quick, 3 runs of 1 daemon at 1 level\n"),
        "{report}"
    );
    assert_eq!(
        report
            .matches("- **suspect:** go-streaming at 100, run")
            .count(),
        2 * 3
    );
    assert_eq!(report.matches("built without optimisation").count(), 1);
    assert!(
        report.contains("than a release build, and 2 more of this kind"),
        "{report}"
    );
    assert_eq!(suite.results[0].verdict, Verdict::Suspect);
}

#[test]
fn nothing_but_what_was_not_reached_is_a_report_too() {
    let mut suite = small();
    suite.results.clear();
    for report in [markdown(&suite), terminal(&suite), html(&suite)] {
        let report = report.unwrap();
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains("nothing was measured"), "{report}");
        assert!(report.contains("raise the hard limit"), "{report}");
    }
    for report in [markdown(&Suite::default()), html(&Suite::default())] {
        assert!(report.unwrap().contains("nothing was measured"));
    }
}

#[test]
fn a_result_without_anything_optional_is_shown_with_dashes() {
    let mut result = suite::one("go-streaming", 100, 0, 10);
    result.level.clear();
    result.usage = measure::result::Usage::default();
    result.resources.clear();
    result.thresholds.clear();
    result.series.clear();
    result.lag = None;
    result.seconds.clear();
    assert!(
        markdown(&[result.clone()][..].into())
            .unwrap()
            .contains("## Latency")
    );
    let suite = Suite {
        results: vec![result.clone(), result],
        ..Suite::default()
    };
    let report = markdown(&suite).unwrap();
    assert_eq!(
        row(&report, "Memory (RSS)", &["go-streaming", "–"])[2..],
        ["–"; 4]
    );
    assert!(report.contains("no slope: no level with memory figures, but 3 are required"));
    assert!(html(&suite).unwrap().contains("Runs without a level"));
}

#[test]
fn a_page_holds_no_markup_of_others_and_no_address() {
    let mut suite = small();
    for result in &mut suite.results {
        result.daemon.name = "\u{1b}[2J<script>alert(1)</script>".to_owned();
        result.level = "\"><img src=x>".to_owned();
        result.daemon.about = Some("a & b".to_owned());
    }
    suite.name = "</title><b>".to_owned();
    let page = html(&suite).unwrap();
    for forbidden in [
        "<script>alert",
        "<img",
        "</title><b>",
        "\u{1b}",
        "http:",
        "https:",
        "//cdn",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(forbidden), "the page holds {forbidden}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn the_largest_suite_stays_below_a_megabyte() {
    let suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[100, 1_000, 10_000, 50_000, 100_000],
        runs: 5,
        seconds: 130,
    });
    let page = html(&suite).unwrap();
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(
        page.len() > 400_000,
        "{} bytes: is anything missing?",
        page.len()
    );
}

#[test]
fn an_hour_a_second_apart_is_thinned_to_a_thousand_points_a_line() {
    let suite = Suite {
        results: vec![suite::one("go-streaming", 1_000, 0, 3_600)],
        ..Suite::default()
    };
    let page = html(&suite).unwrap();
    let (_, chart) = page.split_once("id=\"level-1000-cpu\"").unwrap();
    let (_, path) = chart.split_once("class=\"l d0\" d=\"").unwrap();
    let path = path
        .split('"')
        .next()
        .unwrap()
        .replace('-', " -")
        .replace(['M', 'l'], " ");
    let points = path.split_whitespace().count() / 2;
    assert!((500..=1_000).contains(&points), "{points}");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn a_histogram_that_is_broken_is_named() {
    let mut suite = small();
    suite.results[3].series[1].histogram = "broken!".to_owned();
    let error = html(&suite).unwrap_err();
    assert!(
        matches!(error, Error::Histogram { ref series, .. } if series == "first_byte"),
        "{error}"
    );
}

#[test]
fn results_alone_make_the_page_of_a_suite() {
    let format = FORMATS.iter().find(|format| format.name == "html").unwrap();
    assert_eq!(format.extension, "html");
    let mut result = result::full();
    result.plan["name"] = serde_json::json!("held");
    let page = format.render(&[result]).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>held</h1>"));
}
