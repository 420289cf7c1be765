//! The comparison of servers that answer requests over held connections, and the summary of any suite.

use insta::assert_snapshot;
use measure::report::html::render as html;
use measure::report::markdown::render as markdown;
use measure::report::summary::render as summary;
use measure::report::{Format, Options, terminal};
use measure::result::Answer;
use measure::suite::{Suite, Unreached};
use measure::warning::{Warning, verdict};
use proptest::prelude::*;

use crate::assert_contains;
use crate::example::{http, suite};

const THREE: &[&str] = &["nginx", "http-daemon", "node-http"];

#[test]
fn a_comparison_of_http_servers_says_what_wrk_k6_and_ps_would() {
    let text = markdown(&http::build(&THREE[..2], &[100], 5));
    let (compared, _) = text.split_once("\n### Memory per additional").unwrap();
    assert_snapshot!(compared, @r#"
    ## VALID: throughput, 10 runs of 2 daemons at 1 level

    - **question:** How many requests a second does each server answer?
    - **verdicts:** 10 VALID, 0 SUSPECT, 0 INVALID

    ## Answer

    - **failures:** nginx: 5 connections lost
    - **failures:** http-daemon: 5 connections lost
    - **latency:** http-daemon is better by at least 3 %: response p50 700 µs, 22 % less than nginx (22–23 %, 5 runs)
    - **latency:** http-daemon is better by at least 3 %: response p90 1.21 ms, 22 % less than nginx (21–23 %, 5 runs)
    - **latency:** http-daemon is better by at least 3 %: response p99 2.19 ms, 22 % less than nginx (21–23 %, 5 runs)
    - **rate:** http-daemon is better by at least 3 %: 60,020 answers/s, 20 % more than nginx (19–21 %, 5 runs)
    - **memory:** nginx is better by at least 3 %: 4.05 MiB at its peak, 20 % less than http-daemon (20–20 %, 5 runs)
    - **CPU:** http-daemon is better by at least 3 %: 5.97 µs of CPU per request, 25 % less than nginx (24–26 %, 5 runs)
    - **intervals:** response p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 100, the only level
    - **ran:** 1 level, 5 repetitions

    ## Runs

    | daemon | at 100 |
    | --- | --- |
    | nginx | 5 VALID |
    | http-daemon | 5 VALID |

    - **dates:** 2026-01-31T12:40:01Z
    - **machine:** bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
    - **noise:** load average before the runs 0.08 to 0.08, up to 0.1 % of the CPU time stolen
    - **driver:** http-load 0.1.0, 1 process, 2 worker threads, release build
    - **command:**

      ```text
      fdpass-gen --daemon rust-streaming --connections 1000 --set 'level="1000"'
      ```

    | daemon | version | description |
    | --- | --- | --- |
    | nginx | streaming-daemon 0.1.0 | nginx, made by hand |
    | http-daemon | streaming-daemon 0.1.0 | http-daemon, made by hand |

    ## At a glance

    At 100, the highest level that every daemon ran. A figure is marked as best if the answer finds its daemon better than another one. Figures that it cannot tell from the best share the mark.

    | daemon | failed % | answers/s | response p50, ms | response p90, ms | response p99, ms | peak MiB | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 0 | 50,053 (45,300–55,300) \[45,348, 55,247\] | 0.899 (0.814–0.993) \[0.814, 0.992\] | 1.56 (1.41–1.72) \[1.41, 1.72\] | 2.82 (2.55–3.12) \[2.55, 3.11\] | 4.05 best | 7.95 (7.15–8.75) \[7.19, 8.79\] |
    | http-daemon | 0 | 60,020 (54,120–66,120) \[54,440, 66,172\] best | 0.700 (0.635–0.776) \[0.635, 0.772\] best | 1.21 (1.10–1.34) \[1.10, 1.34\] best | 2.19 (1.99–2.43) \[1.99, 2.42\] best | 5.07 | 5.97 (5.39–6.59) \[5.41, 6.58\] best |

    ## Throughput

    Geometric mean of the runs (lowest–highest); from five runs on also \[95 % t interval of the mean\]. A rate covers only the measured time, without the warm-up and the drain phase. "× first" is the ratio to nginx, between runs with the same number.

    | daemon | level | answers/s | × first | MiB/s read | MiB/s sent |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 50,053 (45,300–55,300) \[45,348, 55,247\] | 1 | 60.3 (54.6–66.7) \[54.7, 66.6\] | 2.86 (2.59–3.16) \[2.59, 3.16\] |
    | http-daemon | 100 | 60,020 (54,120–66,120) \[54,440, 66,172\] | 1.20 (1.19–1.21) \[1.19, 1.21\] | 72.4 (65.2–79.7) \[65.6, 79.8\] | 3.43 (3.10–3.78) \[3.12, 3.79\] |

    ## Requests and connections

    Geometric mean of the runs (lowest–highest); from five runs on also \[95 % t interval of the mean\]. The peak is the most requests open at once. Held: the most connections open at the end of a second, as the driver counted them. Lost: connections that ended while they were held.

    | daemon | level | started | completed | failed | success % | driver peak | opened | held | lost |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 575,613 (520,950–635,950) \[521,498, 635,345\] | 575,613 (520,950–635,950) \[521,498, 635,345\] | 0 | 100 | 100 | 101 | 100 | 1 |
    | http-daemon | 100 | 690,230 (622,380–760,380) \[626,058, 760,979\] | 690,230 (622,380–760,380) \[626,058, 760,979\] | 0 | 100 | 100 | 101 | 100 | 1 |

    ### TCP drops and retransmissions, machine-wide

    | daemon | level | accept queue overflows | listen drops | SYN cookies | retransmission timeouts | segments retransmitted | connections reset |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 0 | 0 | 0 | 1 | 3 | 0 |
    | http-daemon | 100 | 0 | 0 | 0 | 1 | 3 | 0 |

    ## Latency (milliseconds)

    The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.

    | daemon | level | response p50 | response p99 | service p50 | service p99 |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 0.899 (0.814–0.993) \[0.814, 0.992\] | 2.82 (2.55–3.12) \[2.55, 3.11\] | 0.809 (0.733–0.894) \[0.733, 0.893\] | 2.54 (2.30–2.80) \[2.30, 2.80\] |
    | http-daemon | 100 | 0.700 (0.635–0.776) \[0.635, 0.772\] | 2.19 (1.99–2.43) \[1.99, 2.42\] | 0.630 (0.572–0.698) \[0.571, 0.694\] | 1.98 (1.79–2.19) \[1.79, 2.18\] |

    ## Memory (RSS)

    | daemon | level | baseline MiB | peak MiB | delta MiB |
    | --- | ---: | ---: | ---: | ---: |
    | nginx | 100 | 4.00 | 4.05 | 0.0488 |
    | http-daemon | 100 | 4.00 | 5.07 | 1.07 |

    ### Memory of the driver and of the kernel

    driver: peak RSS, and growth per connection. kernel: the largest drop of MemAvailable below its value before the load, minus RSS growth of daemon and driver; it includes other activity on the machine. objects: growth of the slab (sockets, files, inodes; some of it counts as available) and of TCP queues, without page tables. each: divided by the most connections held. The kernel's share per connection is the growth of the unreclaimable slab and of TCP queues; it is shown from 16 MiB on, since a machine moves by 4 MiB without a load. Both ends of every connection are on this machine.

    | daemon | level | driver MiB | driver KiB each | kernel MiB | objects MiB | kernel KiB each |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 8.81 | – | 0.781 | 0.684 | – |
    | http-daemon | 100 | 8.81 | – | 0.781 | 0.684 | – |
    "#);
}

#[test]
fn connections_held_are_those_opened_less_those_that_ended() {
    let run = http::one("nginx", 100, 0);
    let held: Vec<u64> = run.held().into_iter().map(|(_, open)| open).collect();
    assert_eq!(
        held,
        [100, 100, 100, 100, 100, 100, 99, 100, 100, 100, 100, 0]
    );
    assert_eq!(run.most_held(), Some(100));
    // 50 KiB of daemon and 25 of driver are subtracted.
    assert_eq!(run.kernel_kb(), Some(800));
    // Reported `held` counters take precedence; a second without a report is not 0.
    let mut told = run.clone();
    told.counts.insert("held".to_owned(), 180);
    told.seconds[3].counts.insert("held".to_owned(), 90);
    told.seconds[4].counts.insert("held".to_owned(), 90);
    assert_eq!(told.held(), [(3, 90), (4, 90)]);
    told.counts.insert("warmup".to_owned(), 7);
    assert_eq!(told.finished(), told.operations.ok + 7);
    let page = Format::full().render(&[told]).unwrap();
    assert_contains(&page, &["| opened | held | lost |", "| 101 | 90 | 1 |"]);
    assert!(!page.contains("held 180"), "{page}");
    let streaming = suite::one("go-streaming", 100, 0, 10);
    assert!(streaming.held().is_empty() && streaming.kernel_kb().is_none());
}

#[test]
fn pages_of_http_have_pictures_of_rates_responses_and_connections() {
    let suite = http::build(THREE, &[100], 5);
    let page = html(&suite).unwrap();
    for id in [
        "rate-answers",
        "active",
        "requests",
        "percentiles-response",
        "percentiles-service",
        "time-response",
        "rss",
        "cpu",
    ] {
        assert!(page.contains(&format!("id=\"level-100-{id}\"")), "{id}");
    }
    assert!(
        !page.contains("percentiles-sending"),
        "the phases are in the tables"
    );
    let shown = markdown(&suite);
    assert_contains(&shown, &["answers/s", "MiB/s read"]);
}

#[test]
fn a_summary_tells_what_is_better_and_by_how_much() {
    assert_snapshot!(summary(&http::build(THREE, &[100], 5)), @"
    ## VALID: throughput, 15 runs of 3 daemons at 1 level

    - **failures:** nginx: 5 connections lost
    - **failures:** http-daemon: 5 connections lost
    - **failures:** node-http: 5 connections lost
    - **latency:** http-daemon is best: response p50 700 µs, 22 % less than nginx (next; 22–23 %), 3.4 × less than node-http (last; 3.4–3.5 ×); 5 runs
    - **latency:** http-daemon is best: response p90 1.21 ms, 22 % less than nginx (next; 21–23 %), 3.4 × less than node-http (last; 3.4–3.5 ×); 5 runs
    - **latency:** http-daemon is best: response p99 2.19 ms, 22 % less than nginx (next; 21–23 %), 3.4 × less than node-http (last; 3.4–3.5 ×); 5 runs
    - **rate:** http-daemon is best: 60,020 answers/s, 20 % more than nginx (next; 19–21 %), 3.0 × more than node-http (last; 3.0–3.0 ×); 5 runs
    - **memory:** nginx is best: 4.05 MiB at its peak, 20 % less than http-daemon (next; 20–20 %), 49 % less than node-http (last; 49–49 %); 5 runs
    - **CPU:** http-daemon is best: 5.97 µs of CPU per request, 25 % less than nginx (next; 24–26 %), 4.2 × less than node-http (last; 4.1–4.2 ×); 5 runs
    - **intervals:** response p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 100, the only level
    - **ran:** 1 level, 5 repetitions

    How many requests a second does each server answer?

    | daemon | level | failed % | answers/s | response p50, ms | response p90, ms | response p99, ms | peak MiB | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 0 | 50,053 [45,348, 55,247]<br>**worse** by at least 3 %: −16.6 % [−17.5, −15.7] | 0.899 [0.814, 0.992]<br>**worse** by at least 3 %: +28.5 % [+27.5, +29.4] | 1.56 [1.41, 1.72]<br>**worse** by at least 3 %: +28.5 % [+27.1, +29.9] | 2.82 [2.55, 3.11]<br>**worse** by at least 3 %: +28.5 % [+27.1, +29.8] | 4.05 | 7.95 [7.19, 8.79]<br>**worse** by at least 3 %: +33.2 % [+31.6, +34.9] |
    | http-daemon | 100 | 0 | 60,020 [54,440, 66,172] | 0.700 [0.635, 0.772] | 1.21 [1.10, 1.34] | 2.19 [1.99, 2.42] | 5.07<br>**worse** by at least 3 %: +25.3 % [+25.1, +25.6] | 5.97 [5.41, 6.58] |
    | node-http | 100 | 0 | 20,021 [18,139, 22,099]<br>**worse** by at least 3 %: × 0.334 [0.330, 0.337] | 2.40 [2.17, 2.65]<br>**worse** by at least 3 %: × 3.43 [3.40, 3.45] | 4.15 [3.76, 4.58]<br>**worse** by at least 3 %: × 3.43 [3.39, 3.46] | 7.52 [6.81, 8.30]<br>**worse** by at least 3 %: × 3.43 [3.39, 3.46] | 7.91<br>**worse** by at least 3 %: +95.3 % [+94.9, +95.6] | 24.8 [22.5, 27.5]<br>**worse** by at least 3 %: × 4.16 [4.11, 4.21] |

    Geometric means of the runs, with [95 % interval] from five runs on, otherwise (lowest–highest). Below each, at the level of the answer: the change against the best daemon by that metric, and the interval that the word is about. The answer says how many of these intervals hold.

    - machine: bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
    - command: `drover run configs/http/throughput.toml --daemon nginx,http-daemon --repeat 5`
    ");
}

#[test]
fn a_summary_names_what_went_wrong_in_a_line_each() {
    let mut suite = http::build(&THREE[..2], &[100, 1_000], 2);
    suite.unreached = vec![Unreached {
        daemon: "caddy".to_owned(),
        level: "100".to_owned(),
        reason: "it is not there: scripts/setup installs it\nmore".to_owned(),
    }];
    suite::invalidate(&mut suite.results[1]);
    suite::miss(&mut suite.results[2]);
    suite.results[0].warnings = suite.results[0].usage.system.unwrap().warnings(0);
    suite.results[2].machine.cpu_model = Some("Another".to_owned());
    let text = summary(&suite);
    for line in [
        "## INVALID: throughput, 8 runs of 2 daemons at 2 levels",
        "- **missed:** nginx at 1,000: first\\_byte",
        "- **invalid:** http-daemon at 100, run 1: a worker of the driver used 97 % of a core: it may be the bottleneck",
        "- **note:** nginx at 100, run 1: TCP retransmitted 3 segments, 1 of them after a timeout of 200 ms or more",
        "- **not reached:** caddy at 100: it is not there: scripts/setup installs it",
        "- command: `drover run ",
    ] {
        let line = line.replace("\\_byte", "_byte");
        assert!(
            text.lines().any(|found| found.starts_with(&line)),
            "{line} in\n{text}"
        );
    }
    let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap();
    assert!(!row("| http-daemon (1 of 2 runs) | 100 |").contains("not comparable"));
    assert!(
        row("| http-daemon | 1,000 |").contains(
            "not comparable with nginx (different machines: CPU Another and AMD EPYC 7763)"
        )
    );
    assert!(
        !row("| nginx | 100 |").contains("not comparable"),
        "the first is the base"
    );
    for run in &mut suite.results {
        if run.daemon.name == THREE[1] {
            suite::invalidate(run);
        }
    }
    let text = summary(&suite);
    let invalid = "| http-daemon (INVALID) | 1,000 |";
    let row = text.lines().find(|line| line.starts_with(invalid)).unwrap();
    assert!(
        row.contains("not comparable: not measured validly"),
        "{row}"
    );
}

/// A suite of maximum size, in which everything goes wrong and every text is as long as possible.
#[test]
fn a_summary_fits_a_comment_whatever_went_wrong() {
    let daemons: Vec<String> = (0..12)
        .map(|place| format!("daemon-{place}-{}", "|<b>`*".repeat(40)))
        .collect();
    let names: Vec<&str> = daemons.iter().map(String::as_str).collect();
    let mut suite = http::build(&names, &[10, 100, 1_000], 1);
    suite.question = Some("why\n".repeat(500));
    for (place, run) in suite.results.iter_mut().enumerate() {
        run.machine.hostname = format!("host-{place}");
        run.warnings = vec![Warning::daemon_died(&"status ".repeat(200), &"log\n".repeat(900)); 9];
        run.verdict = verdict(&run.warnings);
        suite::miss(run);
    }
    suite.unreached = vec![
        Unreached {
            daemon: "x".repeat(999),
            level: "9".to_owned(),
            reason: "y\n".repeat(999)
        };
        99
    ];
    let text = summary(&suite);
    assert!(
        text.lines().count() < 60,
        "{} lines:\n{text}",
        text.lines().count()
    );
    assert!(text.len() < 60_000, "{} bytes", text.len());
    assert!(!text.contains("<b>") && text.contains("24 lower rows are in report.md"));
    assert!(text.contains("and 31 more missed thresholds"), "{text}");
    let widths: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.matches(" | ").count())
        .collect();
    assert!(widths.windows(2).all(|two| two[0] == two[1]), "{widths:?}");
}

#[test]
fn nothing_measured_is_a_summary_too() {
    let text = summary(&Suite {
        name: "empty".to_owned(),
        ..Suite::default()
    });
    assert_eq!(text, "## empty: nothing was measured\n\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn held_connections_are_never_more_than_opened_ones(opened in proptest::collection::vec(0..1_000_u64, 1..20), ended in proptest::collection::vec(0..1_000_u64, 1..20)) {
        let mut run = http::one("nginx", 100, 0);
        run.seconds.truncate(opened.len());
        for (place, row) in run.seconds.iter_mut().enumerate() {
            row.counts.insert("opened".to_owned(), opened[place]);
            row.counts.insert("lost".to_owned(), ended.get(place).copied().unwrap_or(0));
            row.counts.insert("closed".to_owned(), 0);
        }
        let all: u64 = opened.iter().sum();
        prop_assert!(run.held().iter().all(|(_, open)| *open <= all));
    }
}

fn answer(status: u64, sha256: &str) -> Option<Answer> {
    Some(Answer {
        status,
        length: 1024,
        sha256: sha256.to_owned(),
    })
}

#[test]
fn servers_that_answer_differently_are_not_compared_and_the_remedy_is_named() {
    let mut suite = http::build(THREE, &[100], 5);
    for run in &mut suite.results {
        run.answer = answer(200, "5f70bf18a086");
    }
    let alike = summary(&suite);
    assert!(
        !alike.contains("answers differ") && alike.contains("**rate:** http-daemon is best"),
        "{alike}"
    );
    // A single run whose server had other content makes its median worthless.
    let odd = suite.results.iter_mut();
    let odd = odd.filter(|run| run.daemon.name == "http-daemon");
    odd.take(1)
        .for_each(|run| run.answer = answer(200, "00000000ff"));
    let text = markdown(&suite);
    let (_, facts) = text.split_once("## Answer\n\n").unwrap();
    assert_snapshot!(facts.split("\n\n").next().unwrap(), @"
    - **failures:** nginx: 5 connections lost
    - **failures:** http-daemon: 5 connections lost
    - **failures:** node-http: 5 connections lost
    - **excluded:** http-daemon: not comparable with nginx (different answers): it answered 200 with 1,024 bytes (SHA-256 00000000…), but nginx answered 200 with 1,024 bytes (SHA-256 5f70bf18…); make both serve the same content, then run again
    - **latency:** nginx is better: response p50 899 µs, 2.7 × less than node-http (2.7–2.7 ×, 5 runs)
    - **latency:** nginx is better: response p90 1.56 ms, 2.7 × less than node-http (2.7–2.7 ×, 5 runs)
    - **latency:** nginx is better: response p99 2.82 ms, 2.7 × less than node-http (2.7–2.7 ×, 5 runs)
    - **rate:** nginx is better: 50,053 answers/s, 2.5 × more than node-http (2.5–2.5 ×, 5 runs)
    - **memory:** nginx is better by at least 3 %: 4.05 MiB at its peak, 49 % less than node-http (49–49 %, 5 runs)
    - **CPU:** nginx is better: 7.95 µs of CPU per request, 3.1 × less than node-http (3.1–3.1 ×, 5 runs)
    - **intervals:** response p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 100, the only level
    - **ran:** 1 level, 5 repetitions
    ");
    assert!(text.contains("the answers differ: nginx at 100 answered 200 with 1,024 bytes (SHA-256 5f70bf18…), but http-daemon at 100 answered 200 with 1,024 bytes (SHA-256 00000000…)"), "{text}");
    // No table, summary or screen praises the server that is not compared.
    let (_, glance) = text.split_once("At a glance").unwrap();
    let row = glance
        .lines()
        .find(|line| line.starts_with("| http-daemon"))
        .unwrap();
    assert!(!row.contains("best"), "{row}");
    let short = summary(&suite);
    assert_contains(&short, &["not comparable with nginx (different answers)"]);
    let options = Options {
        width: Some(80),
        ..Options::default()
    };
    let screen = terminal::render(&suite, &options);
    assert_contains(
        &screen,
        &["excluded  http-daemon: not comparable with nginx (different answers"],
    );
}

#[test]
fn content_that_varies_by_itself_is_compared_by_status_only() {
    let mut suite = http::build(&THREE[..2], &[100], 5);
    for (index, run) in suite.results.iter_mut().enumerate() {
        run.answer = answer(200, &format!("{index:010}"));
    }
    let text = markdown(&suite);
    assert!(
        !text.contains("answers differ") && !text.contains("excluded"),
        "{text}"
    );
    suite.results[1].answer = answer(404, "0000000001");
    let text = markdown(&suite);
    assert!(text.contains("different answers"), "{text}");
}
