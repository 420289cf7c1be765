//! The page of a comparison, rendered by a browser.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "browser/devtools.rs"]
mod devtools;
#[path = "example/result.rs"]
mod result;
#[path = "support/skip.rs"]
mod skip;
#[path = "example/suite.rs"]
mod suite;

use std::sync::LazyLock;

use devtools::Browser;
use measure::report::html::render as html;
use measure::suite::Suite;
use serde_json::{Value, json};
use suite::{FOUR, Shape};

const PROBE: &str = include_str!("browser/probe.js");
const RUNS: u64 = 3;
const SECONDS: u64 = 110;

/// Builds a suite of four daemons, three levels and three runs each, with every kind of problem.
static SUITE: LazyLock<Suite> = LazyLock::new(|| {
    let mut suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[100, 1_000, 10_000],
        runs: RUNS,
        seconds: SECONDS,
    });
    suite::invalidate(&mut suite.results[9]);
    suite::miss(&mut suite.results[9]);
    suite::kill(&mut suite.results[6]);
    suite
});
static PAGE: LazyLock<String> = LazyLock::new(|| html(&SUITE).unwrap());

fn show(browser: &mut Browser, page: &str) {
    browser.open(page);
    browser.value(PROBE);
}

#[test]
fn nothing_is_loaded_nothing_fails_and_a_chart_can_be_read_out() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    let place = browser.value(
        "(() => { const svg = document.querySelector('#level-1000-rss > svg'); svg.scrollIntoView();
           const frame = svg.getBoundingClientRect(), box = svg.dataset.box.split(' ').map(Number);
           return [frame.x + frame.width * (box[0] + box[1]) / 2 / 960, frame.y + frame.height / 2]; })()",
    );
    let moved = json!({ "type": "mouseMoved", "x": place[0], "y": place[1] });
    browser.call("Input.dispatchMouseEvent", &moved);
    let read = browser.value("document.querySelector('#level-1000-rss .read').innerText");
    let read = read.as_str().unwrap();
    for expected in ["60 s", "go-streaming ", "rust-streaming "] {
        assert!(read.contains(expected), "{read}");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
    let elsewhere: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with("file://") && !url.starts_with("data:"))
        .collect();
    assert_eq!(elsewhere, Vec::<String>::new());
    assert_eq!(
        browser
            .requests()
            .iter()
            .filter(|url| url.starts_with("file://"))
            .count(),
        1
    );
}

#[test]
fn a_read_out_counts_connections_and_tells_more_daemons_apart_than_there_are_colours() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let suite = suite::build(&Shape {
        daemons: &["a", "b", "c", "d", "e", "f", "g", "h", "i"],
        levels: &[100, 1_000, 10_000],
        runs: 1,
        seconds: 10,
    });
    browser.look(1_400, "light");
    show(&mut browser, &html(&suite).unwrap());
    let place = browser.value(
        "(() => { const svg = document.querySelector('#memory-connections > svg'); svg.scrollIntoView();
           const frame = svg.getBoundingClientRect(), box = svg.dataset.box.split(' ').map(Number);
           return [frame.x + frame.width * (box[0] + 2) / 960, frame.y + frame.height / 2]; })()",
    );
    let moved = json!({ "type": "mouseMoved", "x": place[0], "y": place[1] });
    browser.call("Input.dispatchMouseEvent", &moved);
    let read = browser.value("document.querySelector('#memory-connections .read').innerText");
    let read: Vec<&str> = read.as_str().unwrap().lines().collect();
    assert_eq!(read[0], "0", "{read:?}");
    let names: Vec<&str> = read[1..].iter().map(|line| &line[..2]).collect();
    assert_eq!(
        names,
        ["a ", "b ", "c ", "d ", "e ", "f ", "g ", "h ", "i "]
    );
}

#[test]
fn what_would_be_wrong_is_seen() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(400, "light");
    let broken = "<p style='color:#999'>faint</p><table style='width:2000px;table-layout:fixed'><tr><td style='width:5px;overflow:hidden'>clipped<td>b</table>
        <script>console.error('said'); document.body.append(new Image().src = 'http://127.0.0.1:9/x'); throw new Error('thrown')</script>";
    show(
        &mut browser,
        &PAGE.replace("<main>", &format!("<main>{broken}")),
    );
    let errors = browser.errors().join("\n");
    assert!(
        errors.contains("said") && errors.contains("thrown"),
        "{errors}"
    );
    assert!(
        browser
            .requests()
            .iter()
            .any(|url| url.starts_with("http://127.0.0.1"))
    );
    let clipped = browser.value("probe.clipped()").to_string();
    assert!(
        clipped.contains("the page: 20") && clipped.contains("cell clipped"),
        "{clipped}"
    );
    let faint = browser.value("probe.faint()").to_string();
    assert!(faint.contains(">faint<"), "{faint}");
}

#[test]
fn every_chart_holds_the_data_of_the_suite() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    let charts = browser.value("probe.charts()");
    let charts = charts.as_object().unwrap();
    let (daemons, runs) = (FOUR.len(), RUNS as usize);
    let each = |points: u64, count: usize| json!(vec![points; count]);
    for (id, chart) in charts {
        assert_eq!(chart["shown"], true, "{id}");
        assert!(
            chart["alternative"].as_u64().unwrap() > 100,
            "{id}: {chart}"
        );
        assert_eq!(chart["legend"], daemons, "{id}");
    }
    for level in ["100", "1000", "10000"] {
        for series in ["handoff", "take", "first_byte", "first_event"] {
            let chart = &charts[&format!("level-{level}-percentiles-{series}")];
            // 16 points per nine, 8 in thin lines; the curve ends if a single value decides.
            let nines = [
                ("100", [5 * 8, 17]),
                ("1000", [56, 25]),
                ("10000", [61, 27]),
            ];
            let [merged, single] = nines.iter().find(|(name, _)| *name == level).unwrap().1;
            assert_eq!(chart["lines"], each(merged, daemons), "{level} {series}");
            assert_eq!(
                chart["thin"],
                each(single, daemons * runs),
                "{level} {series}"
            );
            let chart = &charts[&format!("level-{level}-time-{series}")];
            assert_eq!(chart["lines"], each(SECONDS, daemons), "{level} {series}");
            assert_eq!(chart["dashed"], each(SECONDS, daemons), "{level} {series}");
            assert_eq!(
                chart["bands"],
                each(2 * SECONDS, daemons),
                "{level} {series}"
            );
        }
        for resource in ["rss", "cpu", "active", "backlog"] {
            let chart = &charts[&format!("level-{level}-{resource}")];
            assert_eq!(
                chart["lines"],
                each(SECONDS + 1, daemons),
                "{level} {resource}"
            );
        }
    }
    for whole in ["memory-connections", "headline-levels"] {
        assert_eq!(charts[whole]["dots"], SUITE.results.len(), "{whole}");
    }
    assert_eq!(charts["memory-connections"]["lines"], each(2, daemons));
    assert_eq!(charts.len(), 3 * (4 + 4 + 4) + 2);
}

#[test]
fn lines_are_drawn_where_their_values_lie() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    let drawn = browser.value("probe.highest('level-10000-rss')");
    for (name, drawn) in FOUR.iter().zip(drawn.as_array().unwrap()) {
        let runs = SUITE
            .results
            .iter()
            .filter(|run| run.daemon.name == *name && run.level == "10000");
        // For three runs that differ by a factor, the median of every second is that of the middle run.
        let mut highest: Vec<u64> = runs
            .map(|run| {
                run.resources
                    .iter()
                    .map(|look| look.daemon.unwrap().rss_kb)
                    .max()
                    .unwrap()
            })
            .collect();
        highest.sort_unstable();
        let (drawn, held) = (drawn.as_f64().unwrap(), highest[1] as f64 / 1_024.0);
        assert!(
            (drawn - held).abs() < 0.5,
            "{name}: {drawn} MiB drawn, {held} held"
        );
    }
}

#[test]
fn nothing_is_clipped_on_narrow_and_wide_screens() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for width in [400, 1_400] {
        browser.look(width, "light");
        show(&mut browser, &PAGE);
        browser.value("document.querySelectorAll('details').forEach(one => one.open = true)");
        assert_eq!(browser.value("innerWidth"), width);
        assert_eq!(browser.value("probe.clipped()"), json!([]), "at {width}");
    }
}

#[test]
fn all_text_is_readable_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.look(1_400, scheme);
        show(&mut browser, &PAGE);
        let faint = browser.value("probe.faint()");
        assert_eq!(faint["wrong"], json!([]), "{scheme}");
        assert!(faint["checked"].as_u64().unwrap() > 1_000, "{faint}");
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
}

#[test]
fn without_scripts_tables_and_charts_are_there() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    let count = "[document.querySelectorAll('tbody tr').length, document.querySelectorAll('figure svg path.l').length,
        document.querySelectorAll('.read').length, document.querySelector('#memory table').innerText]";
    show(&mut browser, &PAGE);
    let with = browser.value(count);
    browser.scripts(false);
    browser.open(&PAGE);
    let without = browser.value(count);
    assert_eq!(
        (&with[0], &with[1], &with[3]),
        (&without[0], &without[1], &without[3])
    );
    assert!(with[2].as_u64().unwrap() > 0, "the script ran");
    assert_eq!(without[2], 0, "the script did not run");
    assert!(without[3].as_str().unwrap().contains("KiB per connection"));
    assert!(without[0].as_u64().unwrap() > 100);
}

#[test]
fn old_results_without_the_newer_fields_make_a_page_too() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let old: Value = serde_json::from_str(include_str!("data/result-1.json")).unwrap();
    let old = serde_json::from_value(old).unwrap();
    let page = html(&[old][..].into()).unwrap();
    for width in [400, 1_400] {
        browser.look(width, "dark");
        show(&mut browser, &page);
        assert_eq!(browser.value("probe.clipped()"), json!([]));
        assert_eq!(browser.value("probe.faint()")["wrong"], json!([]));
        assert_eq!(browser.errors(), Vec::<String>::new());
    }
}
