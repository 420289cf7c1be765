//! The comparison of a handmade suite, as text and as a page.

mod answer;
mod best;
mod capacity;
mod ci;
mod contents;
mod hostile;
mod page;
mod sides;

use insta::assert_snapshot;
use measure::capacity::LoadOutcome;
use measure::report::html::render as html;
use measure::report::markdown::render as markdown;
use measure::report::{Error, FORMATS, Format, Options};
use measure::suite::Suite;
use measure::tally::Distribution;
use measure::warning::{EndedBy, Kind, Severity, Verdict, Warning, verdict};

use crate::assert_contains;
use crate::example::suite::{self, FOUR, Shape};
use crate::example::{phases, result};

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
fn messages_have_rates_relative_to_the_first_daemon_and_a_delivery_table() {
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
        result.phases = phases(2.0, 6.0, 5.0);
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
    let report = markdown(&suite);
    let of = |heading: &str, daemon: &str| row(&report, heading, &[daemon])[2..].to_vec();
    assert_eq!(
        of("Throughput", "go-"),
        ["110 (100–120)", "1", "110 (100–120)", "1"]
    );
    assert_eq!(
        of("Throughput", "python-"),
        ["439 (400–480)", "4.00", "439 (400–480)", "4.00"]
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
}

#[test]
fn the_markdown_report_of_a_suite_is_complete() {
    assert_snapshot!(markdown(&small()), @r#"
    ## INVALID: quick, 8 runs of 2 daemons at 3 levels

    - **question:** Which daemon holds the most streams for the least memory?
    - **verdicts:** 7 VALID, 0 SUSPECT, 1 INVALID

    ## Answer

    - **failures:** go-streaming at 100: 42 of 200 operations failed (lost 40, reset 2)
    - **latency:** rust-streaming and go-streaming: undecided in TTFB p50 (32.2 µs and 103 µs: 3.2 ×; 1 run is too few)
    - **latency:** rust-streaming and go-streaming: undecided in TTFB p90 (59.6 µs and 199 µs: 3.3 ×; 1 run is too few)
    - **latency:** rust-streaming and go-streaming: undecided in TTFB p99 (115 µs and 404 µs: 3.5 ×; 1 run is too few)
    - **memory:** rust-streaming and go-streaming: undecided in peak memory (4.48 MiB and 9.74 MiB: 2.2 ×; 1 run is too few)
    - **CPU:** rust-streaming and go-streaming: undecided in CPU time (118 µs and 382 µs: 3.2 ×; 1 run is too few)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 1,000, the highest that every daemon reached
    - **ran:** 3 levels, 1 to 2 repetitions, 1 of 8 runs INVALID and left out
    - **to settle:** drover run configs/fdpass/quick.toml --repeat 5

    ## Runs

    | daemon | at 100 | at 1,000 | at 10,000 |
    | --- | --- | --- | --- |
    | go-streaming | 2 VALID | 2 VALID | 1 VALID, 1 INVALID |
    | rust-streaming | 1 VALID | 1 VALID | not run |
    | python-streaming | not run | not run | not run |

    - **invalid:** go-streaming at 10,000, run 1: a worker of the driver used 97 % of a core: it may be the bottleneck

    - **left out:** 1 of 8 runs: INVALID runs are in no mean, interval, mark or answer; a row marked INVALID has no others
    - **dates:** 2026-01-31T12:40:00Z to 2026-01-31T12:40:01Z
    - **machine:** bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
    - **noise:** load average before the runs 0.08 to 0.08, up to 0.1 % of the CPU time stolen
    - **driver:** fdpass-gen 0.1.0, 1 process, 2 worker threads, release build
    - **command:**

      ```text
      fdpass-gen --daemon rust-streaming --connections 1000 --set 'level="1000"'
      ```

    | daemon | version | description |
    | --- | --- | --- |
    | go-streaming | streaming-daemon 0.1.0 | go-streaming, made by hand |
    | rust-streaming | streaming-daemon 0.1.0 | rust-streaming, made by hand |
    | python-streaming | – | – |

    ## At a glance

    At 1,000, the highest level that every daemon ran. A figure is marked as best if the answer finds its daemon better than another one. Figures that it cannot tell from the best share the mark. The slope covers all levels and is not compared.

    | daemon | failed % | TTFB p50, ms | TTFB p90, ms | TTFB p99, ms | peak MiB | slope, KiB per connection | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 0 | 0.104 (0.103–0.105) | 0.201 (0.199–0.203) | 0.408 (0.404–0.412) | 9.80 (9.74–9.86) | 6.00 ±0.0222 | 386 (382–390) |
    | rust-streaming | 0 | 0.0322 | 0.0596 | 0.115 | 4.48 | – | 118 |

    ## Connection statistics

    Geometric mean of the runs (lowest–highest). INVALID runs are left out where there are others. The peak is the most connections open at once, as counted by the driver and by the daemon.

    | daemon | level | started | completed | failed | success % | driver peak | daemon peak | backlog peak |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 100 | 76 (58–100) | 21 (0–42) | 76.15 (58.00–100) | 100 | 100 | 6 |
    | rust-streaming | 100 | 100 | 100 | 0 | 100 | 100 | 100 | 6 |
    | go-streaming | 1,000 | 1,000 | 1,000 | 0 | 100 | 1,000 | 1,000 | 20 |
    | rust-streaming | 1,000 | 1,000 | 1,000 | 0 | 100 | 1,000 | 1,000 | 20 |
    | go-streaming (1 of 2 runs) | 10,000 | 10,000 | 10,000 | 0 | 100 | 10,000 | 10,000 | 200 |

    ## Latency (milliseconds)

    TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.

    | daemon | level | handoff p50 | handoff p99 | TTFB p50 | TTFB p99 |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 0.0173 (0.0172–0.0175) | 0.0612 (0.0605–0.0618) | 0.0866 (0.0858–0.0875) | 0.306 (0.303–0.309) |
    | rust-streaming | 100 | 0.00536 | 0.0174 | 0.0268 | 0.0870 |
    | go-streaming | 1,000 | 0.0208 (0.0206–0.0211) | 0.0816 (0.0808–0.0824) | 0.104 (0.103–0.105) | 0.408 (0.404–0.412) |
    | rust-streaming | 1,000 | 0.00645 | 0.0230 | 0.0322 | 0.115 |
    | go-streaming (1 of 2 runs) | 10,000 | 0.0320 | 0.126 | 0.160 | 0.631 |

    ## Memory (RSS)

    | daemon | level | baseline MiB | peak MiB | delta MiB |
    | --- | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 4.00 | 4.58 (4.57–4.59) | 0.580 (0.574–0.586) |
    | rust-streaming | 100 | 4.00 | 4.05 | 0.0479 |
    | go-streaming | 1,000 | 4.00 | 9.80 (9.74–9.86) | 5.80 (5.74–5.86) |
    | rust-streaming | 1,000 | 4.00 | 4.48 | 0.479 |
    | go-streaming (1 of 2 runs) | 10,000 | 4.00 | 62.6 | 58.6 |

    ### Memory per additional connection

    1 KiB is 1,024 bytes (kB in /proc). A growth divided by connections would overstate the cost (it includes caches and heap); the regression slope is the marginal cost per connection: least squares through peak memory against peak connections (counted by the daemon, otherwise by the driver) over all runs but the INVALID ones, with the 95 % interval of the slope. A slope below twice the half of its interval is not shown, nor one over fewer than 100 connections or 256 KiB.

    | daemon | runs | KiB per connection | 95 % interval | standard error | intercept, MiB | remark |
    | --- | ---: | ---: | ---: | ---: | ---: | --- |
    | go-streaming | 5 | 6.00 | 5.98 to 6.02 | 0.00696 | 3.97 |  |
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
    | go-streaming (1 of 2 runs) | 10,000 | 39.0 | 78.0 | 3 | 390 | 1.0 | 3.00 | 333,333 |

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
    | go-streaming | stream | 100 | 347 (343–350) | 481 (476–486) | 663 (656–670) | 818 (810–826) | 1,224 (1,211–1,236) | 1,705 (1,688–1,723) | 1,705 (1,688–1,723) |
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
    | go-streaming (1 of 2 runs) | handoff | 2,000 | 0.0320 | 0.0445 | 0.0618 | 0.0773 | 0.126 | 0.238 | 0.385 |
    | go-streaming (1 of 2 runs) | TTFB | 2,000 | 0.160 | 0.222 | 0.309 | 0.387 | 0.631 | 1.19 | 1.93 |
    | go-streaming (1 of 2 runs) | stream | 2,000 | 640 | 890 | 1,236 | 1,547 | 2,523 | 4,756 | 7,705 |
    | go-streaming (1 of 2 runs) | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |

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
    | go-streaming (1 of 2 runs) | 10,000 | 1 | 3 | 97 | 5,210 | 31 |

    ### Processes, files and switches of the driver

    | daemon | level | processes | threads | open files | voluntary switches | involuntary switches |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | go-streaming | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | rust-streaming | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | go-streaming | 1,000 | 1 | 3 | 97 | 5,210 | 31 |
    | rust-streaming | 1,000 | 1 | 3 | 97 | 5,210 | 31 |
    | go-streaming (1 of 2 runs) | 10,000 | 1 | 3 | 97 | 5,210 | 31 |

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
