//! Suites that were made apart, compared with each other.

use measure::report::{Format, Selection, Source, combine, html, markdown, summary};
use measure::result::RunResult;
use measure::suite::Suite;

use crate::assert_contains;
use crate::example::http;

const TWO: &[&str] = &["nginx", "http-daemon"];
const EARLIER: &str = "2026-01-24T12:40:00Z";

/// Returns a suite of a folder, whose runs were made in turn at a time.
fn source(folder: &str, suite: Suite, started_at: &str) -> Source {
    let mut suite = suite;
    for run in &mut suite.results {
        run.started_at = started_at.to_owned();
    }
    Source {
        folder: folder.to_owned(),
        made_in: Some(folder.to_owned()),
        suite,
    }
}

/// Returns an earlier suite and a later one that is changed.
fn two(change: impl Fn(&mut RunResult)) -> Vec<Source> {
    let earlier = http::build(TWO, &[100], 5);
    let mut later = earlier.clone();
    later.results.iter_mut().for_each(change);
    vec![
        source("old", earlier, EARLIER),
        source("new", later, "2026-01-31T12:40:00Z"),
    ]
}

fn whole(source: usize) -> Selection {
    Selection {
        source,
        daemon: None,
    }
}

fn only(source: usize, daemon: &str) -> Selection {
    Selection {
        source,
        daemon: Some(daemon.to_owned()),
    }
}

fn compared(sources: Vec<Source>) -> Suite {
    combine(sources, &[whole(0), whole(1)], true).unwrap()
}

fn slow(run: &mut RunResult, daemon: &str) {
    if run.daemon.name == daemon {
        for series in &mut run.series {
            series.p50_ns *= 2;
        }
    }
}

fn slow_driver(run: &mut RunResult) {
    let driver = run.usage.driver.as_mut().unwrap();
    driver.user_s *= 1.1;
    driver.system_s *= 1.1;
}

fn row<'t>(text: &'t str, begin: &str) -> &'t str {
    let mut lines = text.lines();
    lines.find(|line| line.starts_with(begin)).unwrap()
}

#[test]
fn each_daemon_is_compared_with_itself_in_the_other_suite() {
    let same = summary::render(&compared(two(|_| {})));
    assert!(
        !same.contains("**better**") && !same.contains("**worse**"),
        "{same}"
    );
    let text = summary::render(&compared(two(|run| slow(run, "nginx"))));
    let changed = row(&text, "| nginx@2026-01-31 ");
    assert!(
        changed.contains("<br>**worse** by at least 3 %: × 2.00 [1."),
        "{text}"
    );
    for same in ["| nginx@2026-01-24 ", "| http-daemon@2026-01-31 "] {
        assert!(!row(&text, same).contains("**"), "{text}");
    }
    assert_contains(
        &text,
        &[
            "response p50 of nginx@2026-01-31 is worse by at least 3 %: × 2.00 \\[",
            "against http-daemon@2026-01-24; response p50 of nginx@2026-01-31 is ",
            "the change against the daemon of that name in the first suite",
        ],
    );
    assert!(text.lines().count() < 60, "{text}");
}

#[test]
fn blocks_between_which_the_machine_changed_are_not_compared() {
    let text = summary::render(&compared(two(|run| {
        slow(run, "nginx");
        slow_driver(run);
    })));
    assert_contains(
        row(&text, "| nginx@2026-01-31 "),
        &[
            "not comparable with nginx@2026-01-24: two blocks of runs, between which the driver's own CPU time per operation changed by 10 %: use drover run --against",
        ],
    );
    assert!(!text.contains("**worse**"), "{text}");
    let text = summary::render(&compared(two(|run| run.usage.driver = None)));
    assert_contains(
        &text,
        &["of which nothing shows that the machine was the same"],
    );
}

/// A daemon that did not change tells more of the machine than the driver, which may work otherwise for another daemon.
#[test]
fn a_program_of_both_suites_shows_whether_the_machine_was_the_same() {
    let nginx = |change: fn(&mut RunResult)| {
        let mut sources = two(change);
        for source in &mut sources {
            for run in &mut source.suite.results {
                let is_nginx = run.daemon.name == "nginx";
                run.daemon.program_sha256 = is_nginx.then(|| "0123456789".to_owned());
            }
        }
        let sides = [only(0, "http-daemon"), only(1, "http-daemon")];
        markdown::render(&combine(sources, &sides, false).unwrap())
    };
    let text = nginx(|run| {
        slow_driver(run);
        slow(run, "http-daemon");
    });
    assert_contains(
        &text,
        &["response p50 of http-daemon@2026-01-31 is worse by at least 3 %"],
    );
    assert!(!text.contains("nginx"), "it was not compared: {text}");
    let text = nginx(|run| slow(run, "nginx"));
    assert_contains(
        &text,
        &[
            "two blocks of runs, between which response p50 of nginx, the same program in both, changed by 100 %",
        ],
    );
}

#[test]
fn what_differs_between_suites_is_named() {
    type Change = fn(&mut RunResult);
    let changes: [(Change, &str); 4] = [
        (
            |run| run.machine.kernel = "6.2.0".to_owned(),
            "(different machines: kernel 6.1.0-28-amd64 and 6.2.0)",
        ),
        (
            |run| run.machine.memory_bytes *= 2,
            "(different machines: memory 8 GiB and 16 GiB)",
        ),
        (
            |run| run.driver = "wrk".to_owned(),
            "(different drivers: http-load and wrk)",
        ),
        (
            |run| {
                run.machine.git_commit = Some("0123456789".to_owned());
                run.daemon.program_sha256 = Some("fedcba9876543210".to_owned());
            },
            "nginx@2026-01-31: 2026-01-31 12:40, commit 01234567 with uncommitted changes, program fedcba98",
        ),
    ];
    for (change, difference) in changes {
        let mut sources = two(change);
        for run in &mut sources[1].suite.results {
            run.machine.git_dirty = Some(true);
        }
        let text = markdown::render(&compared(sources));
        assert_contains(&text.replace('\\', ""), &[difference]);
    }
    let mut sources = two(|run| run.plan = serde_json::json!({ "groups": [{ "clients": 7 }] }));
    for run in &mut sources[0].suite.results {
        run.plan = serde_json::json!({ "groups": [{ "clients": 8 }] });
    }
    let problem = combine(sources, &[whole(0), whole(1)], true).unwrap_err();
    assert_eq!(
        problem,
        "old has runs of nginx at 100 with groups.0.clients = 8, and new of nginx at 100 with 7"
    );
}

#[test]
fn daemons_of_one_suite_are_compared_in_pairs_and_any_with_a_single_control() {
    let one = || vec![source("one", http::build(TWO, &[100], 5), EARLIER)];
    let pairs = combine(one(), &[only(0, "nginx"), whole(0)], false).unwrap();
    // The runs vary by 5 % and their pairs by less, so that a word takes pairs.
    assert_contains(
        &markdown::render(&pairs),
        &["response p50 of http-daemon is better by at least 3 %: −22.2 % \\[−22."],
    );
    assert!(pairs.command.is_some() && pairs.results.len() == 10);
    let apart = || {
        let later = http::build(&TWO[1..], &[100], 5);
        let later = source("two", later, EARLIER);
        one().into_iter().chain([later]).collect()
    };
    let blocks = combine(apart(), &[only(0, "nginx"), whole(1)], false).unwrap();
    assert_eq!(blocks.command, None);
    let text = markdown::render(&blocks);
    assert_contains(
        &text,
        &["response p50 of http-daemon is better by at least 3 %: −22.2 % \\[−30."],
    );
    let problem = combine(apart(), &[only(0, "nginx"), whole(1)], true).unwrap_err();
    assert_eq!(
        problem,
        "one has runs of nginx at 100, and two of http-daemon at 100"
    );
    let problem = combine(one(), &[only(0, "nginx"), only(0, "ngnix")], false).unwrap_err();
    assert_eq!(problem, "one has no runs of `ngnix`: did you mean `nginx`?");
    let problem = combine(one(), &[whole(0), whole(0)], false).unwrap_err();
    assert_contains(&problem, &["the sides are the same"]);
}

#[test]
fn names_of_one_day_have_the_folder_and_of_one_folder_the_time() {
    let names = |folder: &str, started_at: &str| {
        let mut sources = two(|_| {});
        sources[1].folder = folder.to_owned();
        for run in &mut sources[1].suite.results {
            run.started_at = started_at.to_owned();
        }
        let suite = compared(sources);
        let name = |index: usize| suite.results[index].daemon.name.clone();
        [name(0), name(suite.results.len() - 1)]
    };
    assert_eq!(names("new", EARLIER), ["nginx@old", "http-daemon@new"]);
    assert_eq!(
        names("old", "2026-01-24T13:00:00Z"),
        [
            "nginx@2026-01-24T12:40:00",
            "http-daemon@2026-01-24T13:00:00"
        ]
    );
    assert_eq!(names("old", EARLIER), ["nginx@1", "http-daemon@2"]);
}

#[test]
fn the_page_shows_each_ratio_with_its_interval() {
    let suite = compared(two(|run| slow(run, "nginx")));
    let page = html::render(&suite).unwrap();
    let (_, chart) = page.split_once("<figure id=\"ratios\"").unwrap();
    let (chart, _) = chart.split_once("</figure>").unwrap();
    assert_contains(
        chart,
        &[
            "Compared with the control",
            "<title>nginx@2026-01-31: response p50 worse by at least 3 %: × 2.00 [",
            "log 0.2 5",
            ">p50</text>",
            ">memory</text>",
        ],
    );
    assert_eq!(chart.matches("class=\"y\"").count(), 3, "{chart}");
    let single = html::render(&http::build(TWO, &[100], 5)).unwrap();
    assert!(!single.contains("id=\"ratios\""), "it has no control");
}

#[test]
fn every_format_shows_a_comparison_in_which_nothing_can_be_compared() {
    let mut sources = two(slow_driver);
    sources[1].suite.results.truncate(1);
    let suite = compared(sources);
    // The rows of these runs have no histograms.
    for name in measure::report::names().filter(|name| *name != "hlog") {
        let format: Format = name.parse().unwrap();
        format
            .render_suite(&suite, &measure::report::Options::default())
            .unwrap();
    }
}
