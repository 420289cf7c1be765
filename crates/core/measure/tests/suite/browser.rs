//! The page of a comparison, rendered by a browser.

mod devtools;

use std::sync::LazyLock;

use devtools::Browser;
use measure::report::html::{File, Files, page, render as html};
use measure::suite::Suite;
use measure::tally::Distribution;
use measure::warning::Verdict;
use serde_json::{Value, json};

use crate::assert_contains;
use crate::example::suite::{self, FOUR, Shape};
use crate::example::{phases, result as example};

const PROBE: &str = include_str!("browser/probe.js");
const RUNS: u64 = 3;
const SECONDS: u64 = 40;
/// Widths of a wide screen, a tablet and a phone.
const WIDTHS: [u64; 3] = [1_400, 800, 390];

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
    for run in &mut suite.results {
        run.wall_s = SECONDS as f64;
        run.phases = phases(10.0, 25.0, 5.0);
    }
    suite
});
static PAGE: LazyLock<String> = LazyLock::new(|| html(&SUITE).unwrap());

fn show(browser: &mut Browser, page: &str) {
    browser.open(page);
    browser.value(PROBE);
}

fn unfold(browser: &mut Browser) {
    browser.value("document.querySelectorAll('details').forEach(one => { one.open = true })");
}

/// Moves the pointer into a chart: to the middle of its plot, or to a share of its width.
fn point_at(browser: &mut Browser, id: &str, share: f64) {
    let place = browser.value(&format!(
        "(() => {{ const svg = document.querySelector('#{id} > svg'); svg.scrollIntoView({{ block: 'center' }});
           const frame = svg.getBoundingClientRect(), box = svg.dataset.box.split(' ').map(Number);
           return [frame.x + frame.width * (box[0] + (box[1] - box[0]) * {share}) / svg.viewBox.baseVal.width, frame.y + frame.height / 2]; }})()",
    ));
    let moved = json!({ "type": "mouseMoved", "x": place[0], "y": place[1] });
    browser.call("Input.dispatchMouseEvent", &moved);
}

fn read_out(browser: &mut Browser, id: &str) -> String {
    let read = browser.value(&format!(
        "[...document.querySelectorAll('#{id} .read')].map(read => read.hidden ? '' : read.innerText).join('')"
    ));
    read.as_str().unwrap().to_owned()
}

fn press(browser: &mut Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        let mut event = json!({ "type": kind, "key": key, "code": key });
        if key == "Enter" {
            event["text"] = json!("\r");
        }
        browser.call("Input.dispatchKeyEvent", &event);
    }
}

#[test]
fn nothing_is_loaded_and_a_cursor_reads_all_charts_of_a_time_axis() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    point_at(&mut browser, "level-1000-rss", 0.5);
    // The charts of one level share a cursor; charts of another level do not.
    for chart in [
        "level-1000-rss",
        "level-1000-cpu",
        "level-1000-time-first_byte",
    ] {
        let read = read_out(&mut browser, chart);
        for expected in ["20–21 s", "go-streaming ", "rust-streaming "] {
            assert!(read.contains(expected), "{chart}: {read}");
        }
    }
    assert_eq!(read_out(&mut browser, "level-100-rss"), "");
    // Arrow keys move the same cursor.
    browser.value("document.querySelector('#level-1000-rss > svg').focus()");
    press(&mut browser, "ArrowRight");
    assert!(read_out(&mut browser, "level-1000-cpu").contains("21–22 s"));
    press(&mut browser, "End");
    assert!(read_out(&mut browser, "level-1000-cpu").contains("40–41 s"));
    press(&mut browser, "Escape");
    assert_eq!(read_out(&mut browser, "level-1000-rss"), "");
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
fn heat_maps_are_read_under_the_pointer_and_by_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    unfold(&mut browser);
    let id = "level-1000-heat-first_byte-0";
    point_at(&mut browser, id, 0.5);
    let read = read_out(&mut browser, id);
    let lines: Vec<&str> = read.lines().collect();
    assert_eq!(lines[..2], ["20–21 s", "go-streaming"], "{read}");
    assert!(
        lines[2].contains(" µs: ") && lines[2].ends_with(" values"),
        "{read}"
    );
    // The other charts of the level show the same second; a heat map under no pointer sums its column.
    assert!(read_out(&mut browser, "level-1000-cpu").contains("20–21 s"));
    let other = read_out(&mut browser, "level-1000-heat-first_byte-1");
    let sum = other.lines().last().unwrap();
    let (count, range) = sum.split_once(" values, ").unwrap();
    assert!(range.contains(" to "), "{other}");
    let held = SUITE
        .results
        .iter()
        .filter(|run| run.daemon.name == FOUR[1] && run.level == "1000");
    let held = held
        .flat_map(|run| &run.seconds)
        .filter(|second| second.second == 20);
    let held = held
        .flat_map(|second| &second.series)
        .filter(|series| series.name == "first_byte");
    let held: u64 = held
        .map(|series| Distribution::decode(&series.histogram, 0).unwrap().len())
        .sum();
    assert_eq!(count.replace(',', ""), held.to_string(), "{other}");
    // Arrow keys move by column and by row; the rows together hold the column.
    browser.value(&format!("document.querySelector('#{id} > svg').focus()"));
    press(&mut browser, "ArrowRight");
    assert!(read_out(&mut browser, id).starts_with("21–22 s"));
    let mut sum = 0;
    let mut total = String::new();
    let mut edges: Vec<String> = Vec::new();
    for _ in 0..24 {
        press(&mut browser, "ArrowUp");
        let read = read_out(&mut browser, id);
        let (range, cell) = read.lines().last().unwrap().split_once(": ").unwrap();
        let (from, to) = range.split_once(" to ").unwrap();
        // Each row begins where the one below it ends.
        assert!(
            edges.last().is_none_or(|edge| edge == from),
            "{edges:?}, then {range}"
        );
        edges.push(to.to_owned());
        let (count, all) = cell.split_once(" of ").unwrap();
        sum += count.replace(',', "").parse::<u64>().unwrap();
        total = all.replace(" values", "").replace(',', "");
    }
    assert_eq!(sum.to_string(), total);
    assert!(sum > 0);
    press(&mut browser, "Escape");
    assert_eq!(read_out(&mut browser, id), "");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn a_level_offers_the_figures_of_every_run() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    let folds = browser.value(
        "[...document.querySelectorAll('[id^=level-] > details')].filter(one => one.firstChild.textContent === 'Every run')
            .map(one => [one.open, one.querySelectorAll('tbody tr').length])",
    );
    let each = json!([false, FOUR.len() as u64 * RUNS]);
    assert_eq!(folds, json!([each, each, each]));
    // A link to a folded section opens it, in a task of its own.
    let is_open = "document.querySelector('#latency > details').open";
    assert_eq!(browser.value(is_open), false);
    browser.value("document.querySelector('nav a[href=\"#latency\"]').click()");
    assert!((0..10_000).any(|_| browser.value(is_open) == true));
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
    unfold(&mut browser);
    point_at(&mut browser, "memory-connections", 0.003);
    let read = read_out(&mut browser, "memory-connections");
    let read: Vec<&str> = read.lines().collect();
    assert_eq!(read[0], "0", "{read:?}");
    let names: Vec<&str> = read[1..].iter().map(|line| &line[..2]).collect();
    assert_eq!(
        names,
        ["a ", "b ", "c ", "d ", "e ", "f ", "g ", "h ", "i "]
    );
}

#[test]
fn defects_of_a_page_are_found() {
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
    assert_contains(&errors, &["said", "thrown"]);
    assert!(
        browser
            .requests()
            .iter()
            .any(|url| url.starts_with("http://127.0.0.1"))
    );
    let clipped = browser.value("probe.clipped()").to_string();
    assert_contains(&clipped, &["the page: 20", "cell clipped"]);
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
    unfold(&mut browser);
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
            let mut lines = vec![merged; daemons];
            // One run of this daemon is INVALID, so its curve ends sooner.
            if level == "10000" {
                lines[1] = 58;
            }
            assert_eq!(chart["lines"], json!(lines), "{level} {series}");
            // Each run has a curve behind the headline's, unless it is INVALID.
            let counted = daemons * runs - usize::from(level == "10000");
            let thin = if series == "first_byte" { counted } else { 0 };
            assert_eq!(chart["thin"], each(single, thin), "{level} {series}");
            let chart = &charts[&format!("level-{level}-time-{series}")];
            assert_eq!(chart["lines"], each(SECONDS, daemons), "{level} {series}");
            assert_eq!(chart["dashed"], each(SECONDS, daemons), "{level} {series}");
            let bands = if series == "first_byte" { daemons } else { 0 };
            assert_eq!(chart["bands"], each(2 * SECONDS, bands), "{level} {series}");
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
    for whole in [
        "memory-connections",
        "headline-levels",
        "memory-levels",
        "cpu-levels",
    ] {
        assert_eq!(charts[whole]["dots"], SUITE.results.len(), "{whole}");
        assert_eq!(charts[whole]["hollow"], 1, "{whole}: the INVALID run");
    }
    assert_eq!(charts["memory-connections"]["lines"], each(2, daemons));
    let heat = |id: &&String| id.contains("-heat-first_byte-");
    assert_eq!(charts.keys().filter(heat).count(), 3 * daemons);
    // A level has 8 charts of latency, and of the rate, memory, CPU, connections and the accept queue.
    assert_eq!(charts.len(), 3 * (daemons + 8 + 5) + 4);
    let marked = browser.value("probe.marked('level-1000-time-first_byte')");
    assert_eq!(
        marked,
        json!({ "phases": 2, "faults": 1, "limits": 1, "names": ["Warm-up", "Measure", "Drain"], "fault": "SIGKILL" })
    );
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
            .filter(|run| run.daemon.name == *name && run.level == "10000")
            .filter(|run| run.verdict != Verdict::Invalid);
        // Runs differ by a factor, so the median of every second is the middle run's, or between two runs.
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
        let middle = (highest[(highest.len() - 1) / 2] + highest[highest.len() / 2]) as f64 / 2.0;
        let (drawn, held) = (drawn.as_f64().unwrap(), middle / 1_024.0);
        assert!(
            (drawn - held).abs() < 0.5,
            "{name}: {drawn} MiB drawn, {held} held"
        );
    }
}

#[test]
fn every_width_and_scheme_shows_all_in_silence() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        for width in WIDTHS {
            browser.look(width, scheme);
            show(&mut browser, &PAGE);
            let height = browser.value("document.documentElement.scrollHeight");
            let height = height.as_u64().unwrap();
            assert!(width < 1_400 || height < 6_000, "{height} px high");
            unfold(&mut browser);
            assert_eq!(browser.value("innerWidth"), width);
            assert_eq!(browser.value("probe.clipped()"), json!([]), "at {width}");
            // A table that is wider than the screen is shaded where it goes on.
            let shades = browser.value("probe.shades()");
            assert_eq!(shades["wrong"], json!([]), "at {width}");
            assert!(width > 390 || shades["wide"].as_u64() > Some(3), "{shades}");
            assert_eq!(browser.errors(), Vec::<String>::new(), "at {width}");
        }
        let faint = browser.value("probe.faint()");
        assert_eq!(faint["wrong"], json!([]), "{scheme}");
        assert!(faint["checked"].as_u64().unwrap() > 1_000, "{faint}");
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
}

#[test]
fn the_first_screen_says_which_daemon_is_better_and_whether_that_can_be_said() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    let sentences = browser.value(
        "[...document.querySelectorAll('#answer dd')].filter(one => one.getBoundingClientRect().bottom <= innerHeight).map(one => one.textContent)",
    );
    let sentences: Vec<String> = serde_json::from_value(sentences).unwrap();
    let decides = |text: &String| text.contains("rust-streaming") && text.contains(" runs");
    assert!(
        sentences.iter().filter(|text| decides(text)).count() >= 3,
        "{sentences:?}"
    );
    assert!(
        sentences
            .iter()
            .any(|text| text.contains("too few valid runs")),
        "{sentences:?}"
    );
}

#[test]
fn daemons_are_switched_off_and_tables_sorted_and_copied_by_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    show(&mut browser, &PAGE);
    // One legend for the page. The lines of a daemon that is switched off are neither shown nor read out.
    assert_eq!(
        browser.value("document.querySelectorAll('.legend').length"),
        1
    );
    browser.value("document.querySelector('.legend button').focus()");
    let lines = "[...document.querySelectorAll('path.l[data-d=\"0\"]')].filter(line => line.checkVisibility()).length";
    assert!(browser.value(lines).as_u64() > Some(10));
    press(&mut browser, "Enter");
    assert_eq!(browser.value(lines), 0);
    let pressed = "document.activeElement.getAttribute('aria-pressed')";
    assert_eq!(browser.value(pressed), "false");
    point_at(&mut browser, "level-1000-cpu", 0.5);
    let read = read_out(&mut browser, "level-1000-cpu");
    assert!(
        !read.contains("go-streaming") && read.contains("rust-streaming"),
        "{read}"
    );
    press(&mut browser, "Enter");
    assert_eq!(browser.value(pressed), "true");
    assert!(browser.value(lines).as_u64() > Some(10));

    browser.value("document.querySelectorAll('#glance thead button')[2].focus()");
    let column = "JSON.stringify([...document.querySelectorAll('#glance tbody tr')].map(row => row.cells[2].firstChild.data))";
    let sort = "document.querySelectorAll('#glance thead th')[2].getAttribute('aria-sort')";
    let as_made = browser.value(column);
    for (order, is_sorted) in [("ascending", true), ("descending", true), ("null", false)] {
        press(&mut browser, "Enter");
        assert_eq!(browser.value(&format!("String({sort})")), order);
        let values = browser.value(column);
        let mut numbers: Vec<f64> = serde_json::from_str::<Vec<String>>(values.as_str().unwrap())
            .unwrap()
            .iter()
            .map(|value| value.parse().unwrap())
            .collect();
        if order == "descending" {
            numbers.reverse();
        }
        if is_sorted {
            assert!(numbers.is_sorted(), "{order}: {values}")
        } else {
            assert_eq!(values, as_made)
        }
    }

    browser.value("navigator.clipboard.writeText = async text => { window.copied = text }");
    browser.value("document.querySelector('#glance .copy').focus()");
    press(&mut browser, "Enter");
    let copied = browser.value("window.copied");
    let lines: Vec<&str> = copied.as_str().unwrap().lines().collect();
    assert!(
        lines[0].starts_with("daemon,\"TTFB p50, ms\",\"TTFB p50, ms (range)\","),
        "{copied}"
    );
    assert!(
        lines[1].starts_with("go-streaming,0.160,0.157–0.163,0.309,"),
        "{copied}"
    );
    assert_eq!(lines.len(), 1 + FOUR.len());
    let focus = browser.value("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(focus, "solid", "the focus is seen");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn without_scripts_tables_and_charts_are_there() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(1_400, "light");
    let count = "[document.querySelectorAll('tbody tr').length, document.querySelectorAll('figure svg path.l').length,
        document.querySelectorAll('.copy').length, document.querySelector('#memory table').textContent]";
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
    assert!(without[3].as_str().unwrap().contains("peak MiB"));
    assert!(without[0].as_u64().unwrap() > 100);
}

#[test]
fn old_results_without_the_newer_fields_make_a_page_too() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let old: Value = serde_json::from_str(include_str!("../data/result-2.json")).unwrap();
    let old = serde_json::from_value(old).unwrap();
    let page = html(&[old][..].into()).unwrap();
    for width in WIDTHS {
        browser.look(width, "dark");
        show(&mut browser, &page);
        assert_eq!(browser.value("probe.clipped()"), json!([]));
        assert_eq!(browser.value("probe.faint()")["wrong"], json!([]));
        assert_eq!(browser.errors(), Vec::<String>::new());
    }
}

#[test]
fn on_a_phone_a_run_opens_with_its_figures_and_its_tables_show_p99() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(390, "light");
    show(&mut browser, &html(&[example::full()][..].into()).unwrap());
    let tiles = browser.value(
        "[...document.querySelectorAll('.tiles dd')].filter(one => one.getBoundingClientRect().bottom <= 700).map(one => one.textContent)",
    );
    for part in ["failed", "p99", "daemon"] {
        assert!(tiles.to_string().contains(part), "{part} is not in {tiles}");
    }
    let cut = browser.value(
        "[...document.querySelectorAll('thead th')].filter(one => one.textContent.startsWith('p99') && !one.textContent.startsWith('p99.') &&
           one.getBoundingClientRect().right > one.closest('.scroll').getBoundingClientRect().right + 1).map(one => one.textContent)",
    );
    assert_eq!(cut, json!([]));
}

#[test]
fn on_a_phone_the_names_of_phases_do_not_touch() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.look(390, "light");
    let mut neighbours = 0;
    for warmup_s in (20..80).step_by(2).map(|tenths| f64::from(tenths) / 10.0) {
        let mut run = SUITE.results[0].clone();
        run.phases = phases(warmup_s, 35.0 - warmup_s, 5.0);
        show(&mut browser, &html(&[run][..].into()).unwrap());
        let gaps = browser.value(
            "[...document.querySelectorAll('figure svg')].flatMap(svg => {
               const names = [...svg.querySelectorAll('text.a')].filter(text => text.getAttribute('y') === '50').map(text => text.getBoundingClientRect());
               return names.slice(1).map((name, index) => name.left - names[index].right); })",
        );
        for gap in gaps.as_array().unwrap() {
            neighbours += 1;
            assert!(gap.as_f64() > Some(3.0), "{warmup_s} s: {gap} px");
        }
    }
    assert!(neighbours > 0, "no chart names two phases");
}

#[test]
fn a_page_that_was_sent_alone_has_no_dead_links() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut files = Files {
        own: vec![File {
            name: "result.json".to_owned(),
            path: "result.json".to_owned(),
        }],
        ..Files::default()
    };
    let suite = [example::full()][..].into();
    for (place, links) in [("/report.html", 1), ("/go/100/1/report.html", 0)] {
        place.clone_into(&mut files.page_path);
        show(&mut browser, &page(&suite, &files).unwrap());
        assert_eq!(
            browser.value("document.querySelectorAll('.links a[href]').length"),
            links
        );
        let names = browser.value("document.querySelector('.links').innerText");
        assert_eq!(names.as_str().unwrap().trim(), "result.json");
    }
}
