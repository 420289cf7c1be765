//! The HTML page of a suite.

use super::*;

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
fn a_page_of_sixty_runs_stays_below_400_kilobytes() {
    let suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[100, 1_000, 10_000],
        runs: 5,
        seconds: 60,
    });
    let page = html(&suite).unwrap();
    assert!(page.len() < 400_000, "{} bytes", page.len());
    assert!(
        page.len() > 200_000,
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
fn a_warm_up_that_is_not_counted_has_no_rate_and_a_silent_daemon_has_one_of_0() {
    let points = |counted: std::ops::Range<usize>| {
        let mut run = suite::one("go-streaming", 1_000, 0, 10);
        run.wall_s = 10.0;
        run.phases = phases(4.0, 6.0, 0.0);
        for (place, second) in run.seconds.iter_mut().enumerate() {
            let ok = u64::from(counted.contains(&place)) * 100;
            second.counts.insert("ok".to_owned(), ok);
        }
        let page = html(&[run][..].into()).unwrap();
        let (_, chart) = page.split_once("id=\"level-1000-rate-ok\"").unwrap();
        let (_, path) = chart.split_once("class=\"l d0\" d=\"").unwrap();
        let path = path.split('"').next().unwrap().replace('-', " -");
        path.replace(['M', 'l'], " ").split_whitespace().count() / 2
    };
    assert_eq!(points(4..10), 6);
    assert_eq!(points(2..10), 8, "a driver that counts the warm-up");
    assert_eq!(
        points(6..10),
        6,
        "the daemon was silent in the measured time"
    );
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
    let page = format.render(&[result.clone(), result]).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>held</h1>"));
    assert!(page.contains("<span>2 runs of 1 daemon at 1 level</span>"));
}

#[test]
fn names_between_backticks_are_code_and_nothing_else_is() {
    let mut suite = small();
    suite.question = Some("What does `lost` count, `<b>`?".to_owned());
    let page = html(&suite).unwrap();
    assert!(page.contains("What does <code>lost</code> count, <code>&lt;b&gt;</code>?"));
    suite.question = Some("An odd ` stays".to_owned());
    assert!(html(&suite).unwrap().contains(">An odd ` stays<"));
}

#[test]
fn the_page_of_a_single_run_says_its_verdict_and_its_plan_once() {
    let mut result = result::full();
    result.plan["name"] = serde_json::json!("held");
    let page = html(&[result][..].into()).unwrap();
    let (head, _) = page.split_once("</header>").unwrap();
    let (_, head) = head.split_once("<header").unwrap();
    assert_contains(head, &["<h1>fdpass-gen against rust-streaming</h1>"]);
    for once in [">SUSPECT<", "fdpass-gen", "plan held"] {
        assert_eq!(head.matches(once).count(), 1, "{once} in {head}");
    }
    assert!(page.contains("<title>SUSPECT: fdpass-gen against rust-streaming</title>"));
}
