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

use crate::example::{http, suite};

const THREE: &[&str] = &["nginx", "http-daemon", "node-http"];

#[test]
fn a_comparison_of_http_servers_says_what_wrk_k6_and_ps_would() {
    assert_snapshot!(markdown(&http::build(&THREE[..2], &[100], 5)), @r#"
    ## VALID: throughput, 10 runs of 2 daemons at 1 level

    - **question:** How many requests a second does each server answer?
    - **verdicts:** 10 VALID, 0 SUSPECT, 0 INVALID

    ## Answer

    - **failures:** nginx: 5 connections lost
    - **failures:** http-daemon: 5 connections lost
    - **rate:** http-daemon is better: 60,360 answers/s, 20 % more than nginx (19–21 %, 5 runs)
    - **latency:** http-daemon is better: response p99 2.18 ms, 22 % less than nginx (22–23 %, 5 runs)
    - **memory:** nginx is better: 4.05 MiB at its peak, 20 % less than http-daemon (20–20 %, 5 runs)
    - **CPU:** http-daemon is better: 5.96 µs of CPU per request, 25 % less than nginx (25–25 %, 5 runs)
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

    | daemon | version | description |
    | --- | --- | --- |
    | nginx | streaming-daemon 0.1.0 | nginx, made by hand |
    | http-daemon | streaming-daemon 0.1.0 | http-daemon, made by hand |

    ## At a glance

    At 100, the highest level that every daemon ran. A figure is marked as best if the answer finds its daemon better than another one. Figures that it cannot tell from the best share the mark.

    | daemon | success % | answers/s | response p99, ms | peak MiB | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 50,100 (45,300–55,300) \[45,230, 55,130\] | 2.82 (2.55–3.12) \[2.55, 3.11\] | 4.05 best | 7.98 (7.15–8.75) \[7.18, 8.76\] |
    | http-daemon | 100 | 60,360 (54,120–66,120) \[54,323, 66,013\] best | 2.18 (1.99–2.43) \[1.98, 2.42\] best | 5.07 | 5.96 (5.39–6.59) \[5.40, 6.57\] best |

    ## Throughput

    Median of the runs (lowest–highest); from five runs on also \[95 % t interval of their mean, not of the median\]. A rate covers only the measured time, without the warm-up and the drain phase. "× first" is the ratio to nginx, between runs with the same number.

    | daemon | level | answers/s | × first | MiB/s read | MiB/s sent |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 50,100 (45,300–55,300) \[45,230, 55,130\] | 1 | 60.4 (54.6–66.7) \[54.5, 66.5\] | 2.87 (2.59–3.16) \[2.59, 3.15\] |
    | http-daemon | 100 | 60,360 (54,120–66,120) \[54,323, 66,013\] | 1.20 (1.19–1.21) \[1.19, 1.21\] | 72.8 (65.2–79.7) \[65.5, 79.6\] | 3.45 (3.10–3.78) \[3.11, 3.78\] |

    ## Requests and connections

    Median of the runs (lowest–highest); from five runs on also \[95 % t interval of their mean, not of the median\]. The peak is the most requests open at once. Held: the most connections open at the end of a second, as the driver counted them. Lost: connections that ended while they were held.

    | daemon | level | started | completed | failed | success % | driver peak | opened | held | lost |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 576,150 (520,950–635,950) \[520,147, 633,993\] | 576,150 (520,950–635,950) \[520,147, 633,993\] | 0 | 100 | 100 | 101 | 100 | 1 |
    | http-daemon | 100 | 694,140 (622,380–760,380) \[624,716, 759,148\] | 694,140 (622,380–760,380) \[624,716, 759,148\] | 0 | 100 | 100 | 101 | 100 | 1 |

    ### TCP drops and retransmissions, machine-wide

    | daemon | level | accept queue overflows | listen drops | SYN cookies | retransmission timeouts | segments retransmitted | connections reset |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 0 | 0 | 0 | 1 | 3 | 0 |
    | http-daemon | 100 | 0 | 0 | 0 | 1 | 3 | 0 |

    ## Latency (milliseconds)

    The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.

    | daemon | level | response p50 | response p99 | service p50 | service p99 |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 0.898 (0.814–0.993) \[0.812, 0.990\] | 2.82 (2.55–3.12) \[2.55, 3.11\] | 0.808 (0.733–0.894) \[0.731, 0.891\] | 2.54 (2.30–2.80) \[2.29, 2.80\] |
    | http-daemon | 100 | 0.696 (0.635–0.776) \[0.633, 0.770\] | 2.18 (1.99–2.43) \[1.98, 2.42\] | 0.626 (0.572–0.698) \[0.570, 0.693\] | 1.96 (1.79–2.19) \[1.79, 2.17\] |

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

    ### Memory per additional connection

    1 KiB is 1,024 bytes (kB in /proc). A growth divided by connections would overstate the cost (it includes caches and heap); the regression slope is the marginal cost per connection: least squares through peak memory against peak connections (counted by the daemon, otherwise by the driver) over all runs but the INVALID ones, with the 95 % interval of the slope. A slope below twice the half of its interval is not shown.

    | daemon | runs | KiB per connection | 95 % interval | standard error | intercept, MiB | remark |
    | --- | ---: | ---: | ---: | ---: | ---: | --- |
    | nginx | 5 | – | – | – | – | no slope: 1 level with memory figures, but 3 are required |
    | http-daemon | 5 | – | – | – | – | no slope: 1 level with memory figures, but 3 are required |

    ## CPU usage

    Percent of one core. CPU time is user plus system; finished operations are all that ended, successful or not.

    | daemon | level | average % | peak % | threads | CPU µs per finished | driver average % | driver CPU µs per finished | finished per driver CPU-s |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 0.1 | 0.2 | 3 | 7.98 (7.15–8.75) \[7.18, 8.76\] | 1.0 | 4.00 | 250,000 |
    | http-daemon | 100 | 0.1 | 0.2 | 3 | 5.96 (5.39–6.59) \[5.40, 6.57\] | 1.0 | 4.00 | 250,000 |

    ## Level 100

    - **plan:** GET /1kb.txt over 100 connections, as fast as they answer

    ### Latency distributions (milliseconds)

    | daemon | series | count | p50 | p75 | p90 | p95 | p99 | p99.9 | max |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | response | 2,000 | 0.898 (0.814–0.993) \[0.812, 0.990\] | 1.18 (1.07–1.31) \[1.07, 1.30\] | 1.56 (1.41–1.72) \[1.41, 1.71\] | 1.87 (1.70–2.07) \[1.69, 2.07\] | 2.82 (2.55–3.12) \[2.55, 3.11\] | 4.78 (4.33–5.28) \[4.32, 5.27\] | 7.14 (6.47–7.90) \[6.46, 7.88\] |
    | http-daemon | response | 2,000 | 0.696 (0.635–0.776) \[0.633, 0.770\] | 0.915 (0.836–1.02) \[0.833, 1.01\] | 1.21 (1.10–1.34) \[1.10, 1.33\] | 1.45 (1.33–1.62) \[1.32, 1.61\] | 2.18 (1.99–2.43) \[1.98, 2.42\] | 3.70 (3.38–4.13) \[3.37, 4.10\] | 5.53 (5.05–6.17) \[5.04, 6.13\] |
    | nginx | service | 2,000 | 0.808 (0.733–0.894) \[0.731, 0.891\] | 1.06 (0.964–1.18) \[0.962, 1.17\] | 1.40 (1.27–1.55) \[1.27, 1.54\] | 1.69 (1.53–1.86) \[1.53, 1.86\] | 2.54 (2.30–2.80) \[2.29, 2.80\] | 4.30 (3.90–4.76) \[3.89, 4.74\] | 6.43 (5.82–7.11) \[5.82, 7.09\] |
    | http-daemon | service | 2,000 | 0.626 (0.572–0.698) \[0.570, 0.693\] | 0.824 (0.753–0.919) \[0.750, 0.912\] | 1.08 (0.990–1.21) \[0.986, 1.20\] | 1.31 (1.19–1.46) \[1.19, 1.45\] | 1.96 (1.79–2.19) \[1.79, 2.17\] | 3.33 (3.04–3.72) \[3.03, 3.69\] | 4.98 (4.55–5.56) \[4.53, 5.52\] |
    | nginx | connecting | 2,000 | 0.0899 (0.0814–0.0993) \[0.0813, 0.0990\] | 0.118 (0.107–0.131) \[0.107, 0.130\] | 0.156 (0.141–0.172) \[0.141, 0.171\] | 0.187 (0.170–0.207) \[0.169, 0.207\] | 0.282 (0.255–0.312) \[0.255, 0.311\] | 0.478 (0.433–0.528) \[0.432, 0.527\] | 0.715 (0.647–0.790) \[0.646, 0.788\] |
    | http-daemon | connecting | 2,000 | 0.0696 (0.0635–0.0776) \[0.0633, 0.0770\] | 0.0916 (0.0836–0.102) \[0.0833, 0.101\] | 0.120 (0.110–0.134) \[0.110, 0.133\] | 0.145 (0.132–0.162) \[0.132, 0.161\] | 0.218 (0.199–0.243) \[0.198, 0.241\] | 0.370 (0.338–0.413) \[0.337, 0.410\] | 0.553 (0.505–0.617) \[0.503, 0.613\] |
    | nginx | sending | 2,000 | 0.00898 (0.00813–0.00993) \[0.00812, 0.00990\] | 0.0118 (0.0107–0.0131) \[0.0107, 0.0130\] | 0.0156 (0.0141–0.0172) \[0.0141, 0.0171\] | 0.0187 (0.0170–0.0207) \[0.0169, 0.0207\] | 0.0282 (0.0255–0.0312) \[0.0255, 0.0311\] | 0.0478 (0.0433–0.0528) \[0.0432, 0.0527\] | 0.0715 (0.0647–0.0790) \[0.0646, 0.0788\] |
    | http-daemon | sending | 2,000 | 0.00696 (0.00635–0.00776) \[0.00633, 0.00770\] | 0.00916 (0.00836–0.0102) \[0.00833, 0.0101\] | 0.0120 (0.0110–0.0134) \[0.0110, 0.0133\] | 0.0145 (0.0132–0.0162) \[0.0132, 0.0161\] | 0.0218 (0.0199–0.0243) \[0.0198, 0.0242\] | 0.0370 (0.0338–0.0413) \[0.0337, 0.0410\] | 0.0554 (0.0505–0.0617) \[0.0503, 0.0613\] |
    | nginx | waiting | 2,000 | 0.719 (0.651–0.795) \[0.650, 0.792\] | 0.946 (0.857–1.05) \[0.855, 1.04\] | 1.24 (1.13–1.38) \[1.13, 1.37\] | 1.50 (1.36–1.66) \[1.36, 1.65\] | 2.25 (2.04–2.49) \[2.04, 2.48\] | 3.82 (3.46–4.23) \[3.46, 4.21\] | 5.72 (5.18–6.32) \[5.17, 6.30\] |
    | http-daemon | waiting | 2,000 | 0.557 (0.508–0.621) \[0.506, 0.616\] | 0.733 (0.669–0.817) \[0.666, 0.811\] | 0.964 (0.880–1.08) \[0.876, 1.07\] | 1.16 (1.06–1.30) \[1.06, 1.29\] | 1.75 (1.59–1.95) \[1.59, 1.93\] | 2.96 (2.70–3.30) \[2.69, 3.28\] | 4.43 (4.04–4.94) \[4.03, 4.90\] |
    | nginx | receiving | 2,000 | 0.0449 (0.0407–0.0497) \[0.0406, 0.0495\] | 0.0591 (0.0535–0.0654) \[0.0534, 0.0652\] | 0.0778 (0.0705–0.0860) \[0.0703, 0.0857\] | 0.0937 (0.0849–0.104) \[0.0847, 0.103\] | 0.141 (0.128–0.156) \[0.127, 0.155\] | 0.239 (0.216–0.264) \[0.216, 0.263\] | 0.357 (0.324–0.395) \[0.323, 0.394\] |
    | http-daemon | receiving | 2,000 | 0.0348 (0.0318–0.0388) \[0.0316, 0.0385\] | 0.0458 (0.0418–0.0511) \[0.0416, 0.0507\] | 0.0602 (0.0550–0.0672) \[0.0548, 0.0667\] | 0.0726 (0.0662–0.0810) \[0.0660, 0.0803\] | 0.109 (0.0996–0.122) \[0.0992, 0.121\] | 0.185 (0.169–0.206) \[0.168, 0.205\] | 0.277 (0.253–0.309) \[0.252, 0.306\] |
    | nginx | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |
    | http-daemon | lag | 1,000 | 0.0111 | 0.0171 | 0.0212 | 0.0226 | 0.0237 | 0.0240 | 0.0240 |

    ## Resources

    ### Processes, files and switches of the daemon

    | daemon | level | processes | threads | open files | voluntary switches | involuntary switches |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | http-daemon | 100 | 1 | 3 | 97 | 5,210 | 31 |

    ### Processes, files and switches of the driver

    | daemon | level | processes | threads | open files | voluntary switches | involuntary switches |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 1 | 3 | 97 | 5,210 | 31 |
    | http-daemon | 100 | 1 | 3 | 97 | 5,210 | 31 |

    ## Audit

    Consistency checks between figures of a run, in the runs that have both figures.

    | compared | runs |  |
    | --- | ---: | --- |
    | bytes per answer, body | 10 | adds up |
    | operations ok + failed + unfinished | 10 | adds up |
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
    assert!(page.contains("| opened | held | lost |"), "{page}");
    assert!(page.contains("| 101 | 90 | 1 |"), "{page}");
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
    assert!(
        shown.contains("answers/s") && shown.contains("MiB/s read"),
        "{shown}"
    );
}

#[test]
fn a_summary_tells_what_is_better_and_by_how_much() {
    assert_snapshot!(summary(&http::build(THREE, &[100], 5), None), @r#"
    ## VALID: throughput, 15 runs of 3 daemons at 1 level

    - **failures:** nginx: 5 connections lost
    - **failures:** http-daemon: 5 connections lost
    - **failures:** node-http: 5 connections lost
    - **rate:** http-daemon is best: 60,360 answers/s, 20 % more than nginx (next; 19–21 %), 3.0 × more than node-http (last; 3.0–3.0 ×); 5 runs
    - **latency:** http-daemon is best: response p99 2.18 ms, 22 % less than nginx (next; 22–23 %), 3.4 × less than node-http (last; 3.4–3.4 ×); 5 runs
    - **memory:** nginx is best: 4.05 MiB at its peak, 20 % less than http-daemon (next; 20–20 %), 49 % less than node-http (last; 49–49 %); 5 runs
    - **CPU:** http-daemon is best: 5.96 µs of CPU per request, 25 % less than nginx (next; 25–25 %), 4.2 × less than node-http (last; 4.1–4.2 ×); 5 runs
    - **level:** the comparison is at 100, the only level
    - **ran:** 1 level, 5 repetitions

    How many requests a second does each server answer?

    | daemon | level | success % | answers/s | response p99, ms | peak MiB | CPU µs per finished |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | nginx | 100 | 100 | 50,100 [45,230, 55,130] | 2.82 [2.55, 3.11] | 4.05 | 7.98 [7.18, 8.76] |
    | http-daemon | 100 | 100 | 60,360 [54,323, 66,013]<br>**better** +19.9 % [+19.3, +20.6] | 2.18 [1.98, 2.42]<br>**better** −22.2 % [−22.6, −21.8] | 5.07<br>**worse** +25.3 % [+25.3, +25.3] | 5.96 [5.40, 6.57]<br>**better** −24.9 % [−25.3, −24.5] |
    | node-http | 100 | 100 | 20,040 [18,092, 22,052]<br>**worse** × 0.400 [0.400, 0.400] | 7.51 [6.79, 8.28]<br>**worse** × 2.67 [2.67, 2.67] | 7.91<br>**worse** +95.3 % [+95.3, +95.3] | 24.9 [22.4, 27.4]<br>**worse** × 3.12 [3.12, 3.13] |

    Medians of the runs, with [95 % interval of their mean] from five runs on, otherwise (lowest–highest). Below each: the change against nginx, with its 95 % interval for 3 or more runs. Better and worse mean a change of at least 3 %; the probability that any of these words in the table is wrong is at most 5 %.

    - machine: bench-1, Debian GNU/Linux 12 (bookworm), kernel 6.1.0-28-amd64, 2 × AMD EPYC 7763, 8.00 GiB memory, virtualised (kvm), 20,000 open files allowed
    - command: `drover run configs/http/throughput.toml --daemon nginx,http-daemon --repeat 5`
    "#);
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
    let text = summary(&suite, None);
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
    assert!(row("| http-daemon | 1,000 |").contains("not comparable: different machines"));
    assert!(
        !row("| nginx | 100 |").contains("not comparable"),
        "the first is the base"
    );
    for run in &mut suite.results {
        if run.daemon.name == THREE[1] {
            suite::invalidate(run);
        }
    }
    let text = summary(&suite, None);
    let invalid = "| http-daemon (INVALID) | 100 |";
    let row = text.lines().find(|line| line.starts_with(invalid)).unwrap();
    assert!(row.contains("not comparable: INVALID runs"), "{row}");
}

#[test]
fn a_summary_against_an_earlier_suite_holds_each_daemon_against_itself() {
    let earlier = http::build(&THREE[..2], &[100], 5);
    let mut later = earlier.clone();
    let same = summary(&later, Some(&earlier));
    assert!(
        !same.contains("better") || same.contains("no evidence"),
        "{same}"
    );
    assert!(
        !same.contains("**better**") && !same.contains("**worse**"),
        "{same}"
    );
    for run in later
        .results
        .iter_mut()
        .filter(|run| run.daemon.name == "nginx")
    {
        let response = run
            .series
            .iter_mut()
            .find(|series| series.name == "response")
            .unwrap();
        response.p99_ns *= 2;
    }
    let text = summary(&later, Some(&earlier));
    let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap();
    assert!(row("| nginx ").contains("**worse** × 2.00 ["), "{text}");
    assert!(!row("| http-daemon ").contains("**"), "{text}");
    assert!(text.contains("the same daemon in the earlier suite throughput"));
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
    let text = summary(&suite, None);
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
    let text = summary(
        &Suite {
            name: "empty".to_owned(),
            ..Suite::default()
        },
        None,
    );
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
    let alike = summary(&suite, None);
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
    assert_snapshot!(facts.split("\n\n").next().unwrap(), @r#"
    - **failures:** nginx: 5 connections lost
    - **failures:** http-daemon: 5 connections lost
    - **failures:** node-http: 5 connections lost
    - **excluded:** http-daemon: not comparable with nginx (different answers): it answered 200 with 1,024 bytes (SHA-256 00000000…), but nginx answered 200 with 1,024 bytes (SHA-256 5f70bf18…); make both serve the same content, then run again
    - **rate:** nginx is better: 50,100 answers/s, 2.5 × more than node-http (2.5–2.5 ×, 5 runs)
    - **latency:** nginx is better: response p99 2.82 ms, 2.7 × less than node-http (2.7–2.7 ×, 5 runs)
    - **memory:** nginx is better: 4.05 MiB at its peak, 49 % less than node-http (49–49 %, 5 runs)
    - **CPU:** nginx is better: 7.98 µs of CPU per request, 3.1 × less than node-http (3.1–3.1 ×, 5 runs)
    - **level:** the comparison is at 100, the only level
    - **ran:** 1 level, 5 repetitions
    "#);
    assert!(text.contains("the answers differ: nginx at 100 answered 200 with 1,024 bytes (SHA-256 5f70bf18…), but http-daemon at 100 answered 200 with 1,024 bytes (SHA-256 00000000…)"), "{text}");
    // No table, summary or screen praises the server that is not compared.
    let (_, glance) = text.split_once("At a glance").unwrap();
    let row = glance
        .lines()
        .find(|line| line.starts_with("| http-daemon"))
        .unwrap();
    assert!(!row.contains("best"), "{row}");
    let short = summary(&suite, None);
    assert!(
        short.contains("not comparable: different answers"),
        "{short}"
    );
    let screen = terminal::render(&suite, &Options::default());
    assert!(
        screen.contains("excluded  http-daemon: not comparable with nginx (different answers"),
        "{screen}"
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
