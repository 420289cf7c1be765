//! Output of real load generators, imported as results.
//!
//! `tests/data/import` holds the output of wrk 4.1.0, k6 1.8.1 and oha 1.16.0 against an nginx that answered, one that
//! answered 404, a port that refused, a server that occasionally resets, closes, stalls or answers 302, 404 or 503, and
//! one whose answers are late. Scripts of wrk and k6 print lines of their own and judge only some requests.

use std::collections::BTreeMap;
use std::path::Path;

use drover::tool_output::{Error, Subject, Tool, import};
use measure::report::{FORMATS, html, markdown};
use measure::result::RunResult;
use measure::suite::Suite;
use measure::warning::{Kind, Severity, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};
use test_kit::rows;

use crate::support::assert_contains;

#[path = "../../../measure/tests/suite/example/result.rs"]
mod example;

const FILES: &str = "
    wrk-good.txt wrk-404.txt wrk-plain.txt wrk-errors.txt wrk-late.txt wrk-script.txt wrk-interrupted.txt
    k6-callback.json k6-tags.json k6-good.json k6-refused.json k6-errors.json k6-handled.json k6-readable.json
    oha-good.json oha-404.json oha-refused.json oha-errors.json
";

fn text(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

fn subject() -> Subject {
    Subject {
        name: "nginx".to_owned(),
        level: None,
    }
}

fn imported(text: &str) -> RunResult {
    import(text, None, &subject()).unwrap()
}

fn read(file: &str) -> RunResult {
    imported(&text(file))
}

fn problem(text: &str, tool: Option<Tool>) -> String {
    import(text, tool, &subject()).unwrap_err().to_string()
}

fn errors(result: &RunResult) -> Vec<(&str, u64)> {
    let errors = result.errors.iter();
    errors
        .map(|(kind, count)| (kind.as_str(), *count))
        .collect()
}

fn outcome(result: &RunResult) -> String {
    let imported = |warning: &&measure::warning::Warning| warning.kind == Kind::Imported;
    let warnings = result.warnings.iter().filter(imported);
    warnings.map(|warning| warning.message.as_str()).collect()
}

/// Returns started, ok, failed, unfinished.
fn operations(result: &RunResult) -> [u64; 4] {
    let operations = &result.operations;
    [
        operations.started,
        operations.ok,
        operations.failed,
        operations.unfinished,
    ]
}

/// Checks figures of a series, by their names in JSON; a figure of `null` is absent.
fn assert_series(result: &RunResult, name: &str, figures: &Value) {
    let found = serde_json::to_value(result.summary(name).unwrap()).unwrap();
    for (figure, expected) in figures.as_object().unwrap() {
        assert_eq!(&found[figure], expected, "{figure} of {name}");
    }
}

#[test]
fn every_output_adds_up_is_never_valid_and_stands_in_every_report() {
    for file in FILES.split_whitespace() {
        let result = read(file);
        assert!(result.operations.add_up(), "{file}");
        assert_eq!(
            result.errors.values().sum::<u64>(),
            result.operations.failed,
            "{file}"
        );
        assert_eq!(result.verdict, Verdict::Suspect, "{file}");
        assert!(result.wall_s > 0.0, "{file}");
        assert!(
            result.series.is_empty() && result.seconds.is_empty(),
            "{file}"
        );
        let stored = serde_json::to_string(&result).unwrap();
        assert_eq!(
            serde_json::from_str::<RunResult>(&stored).unwrap(),
            result,
            "{file}"
        );
        for format in FORMATS {
            let both = [example::full(), result.clone()];
            format.render(&both).unwrap();
        }
    }
}

#[test]
fn the_output_of_wrk_is_read() {
    let result = read("wrk-good.txt");
    assert_eq!(
        (&*result.driver, &*result.level, result.threads),
        ("wrk", "20", 2)
    );
    assert_eq!(result.daemon.name, "nginx (wrk)");
    assert_eq!(result.daemon.target, "http://127.0.0.1:18391/1kb.txt");
    assert_eq!(operations(&result), [149_731, 149_731, 0, 0]);
    assert_eq!(
        result.count("bytes"),
        (180.49 * 1_048_576.0_f64).round() as u64
    );
    assert_eq!(
        result.per_second("ok").unwrap().round(),
        (149_731.0_f64 / 2.10).round()
    );
    assert_series(
        &result,
        "service",
        &json!({
            "p50_ns": 262_000, "p90_ns": 375_000, "p99_ns": 3_660_000, "max_ns": 12_210_000, "mean_ns": 377_540.0,
            "count": null, "min_ns": null, "p95_ns": null, "p999_ns": null,
        }),
    );
    assert_contains(&outcome(&result), &["never sent"]);
    let figures = json!({ "p50_ns": null, "p99_ns": null, "max_ns": 4_300_000 });
    assert_series(&read("wrk-plain.txt"), "service", &figures);
}

#[test]
fn errors_of_wrk_are_failures_of_their_kind() {
    let result = read("wrk-404.txt");
    assert_eq!(operations(&result), [196_827, 0, 196_827, 0]);
    assert_eq!(errors(&result), [("status", 196_827)]);

    let result = read("wrk-errors.txt");
    assert_eq!(
        errors(&result),
        [("read", 46), ("status", 46), ("timeout", 16)]
    );
    // 853 requests were answered: 46 with another status and 16 late.
    assert_eq!(operations(&result), [853 + 46, 853 - 46 - 16, 108, 0]);
    assert_contains(
        &outcome(&result),
        &[
            "exclude 16 answers that arrived after the timeout",
            "still open at the deadline",
            "redirects count as ok",
        ],
    );
}

#[test]
fn late_answers_of_another_status_count_once() {
    // All six answers had the status 503 and came after the timeout, so wrk counted them twice and recorded no time.
    let result = read("wrk-late.txt");
    assert_eq!(operations(&result), [6, 0, 6, 0]);
    assert_eq!(errors(&result), [("status", 6)]);
    assert_eq!(result.summaries().count(), 0);
    assert_eq!(left_out(&result), None);
}

#[test]
fn the_output_of_a_script_of_wrk_is_not_part_of_the_report() {
    let result = read("wrk-script.txt");
    assert_eq!(operations(&result), [36_344, 36_344, 0, 0]);
    assert_series(&result, "service", &json!({ "p50_ns": 48_000 }));
    assert_eq!(left_out(&result), None);
}

#[test]
fn an_interrupted_run_of_wrk_is_named() {
    // 100 s were asked for, which wrk prints as minutes.
    let interrupted = "interrupted after 2.02 s of 120 s";
    assert_contains(&outcome(&read("wrk-interrupted.txt")), &[interrupted]);
    for file in FILES.split_whitespace() {
        let is_interrupted = outcome(&read(file)).contains("interrupted");
        assert_eq!(is_interrupted, file == "wrk-interrupted.txt", "{file}");
    }
}

#[test]
fn requests_that_a_script_of_k6_did_not_judge_are_named() {
    let result = read("k6-callback.json");
    assert_eq!(operations(&result), [30, 20, 10, 0]);
    assert_contains(&outcome(&result), &["covers 20 of 30 requests"]);
}

/// Returns the figures that were left out.
fn left_out(result: &RunResult) -> Option<String> {
    let mut warnings = result.warnings.iter();
    let warning = warnings.find(|warning| warning.kind == Kind::Audit)?;
    assert_eq!(warning.severity, Severity::Suspect);
    Some(warning.message.clone())
}

/// A change to a real output, and the figures that can't be true then.
const IMPOSSIBLE: &str = r#"
    wrk-good.txt: 90%  375.00us -> 90%  100.00us => p90 of `service`: 100 µs contradicts p50, p75
    wrk-good.txt: 12.21ms -> 1.21us => max of `service`: 1.21 µs contradicts mean, p50, p75, p90, p99
    wrk-good.txt: 377.54us -> 377.54ms => mean of `service` … max of `service`
    wrk-good.txt: 50%  262.00us -> 50%    0.00us => p50 of `service`: no answer takes 0 s
    wrk-good.txt: 50%  262.00us -> 50% -262.00us => p50 of `service`: -0.000262 s is not a time
    wrk-good.txt: 50%  262.00us -> 50%      -nan => p50 of `service`: NaN s is not a time
    wrk-good.txt: 99%    3.66ms -> 99%    3.66m => p99 of `service`: 220 s is longer than the run of 2.10 s
    wrk-good.txt: 71296.27 -> 712.96 => `Requests/sec`: 712.96 contradicts 149731 in 2.10 s (71300.48)
    wrk-good.txt: 71296.27 -> nan => `Requests/sec`: NaN contradicts
    wrk-good.txt: 85.94MB -> 85.94KB => `Transfer/sec`
    k6-good.json: "med": 0.322338 -> "med": 32.2338 => p50 of `service`: 32.2 ms contradicts p90, p95, p99
    k6-good.json: 9390316.565302065 -> 9390.3 => `data_received`: 9390.30 contradicts 18828544
    k6-good.json: "count": 18828544 -> "count": -1 => `bytes`: -1 is not a count
    oha-good.json: "p99": 0.000332145 -> "p99": 3.32145 => p99 of `service`: 3.32 s is longer than the run of 2.00 s
    oha-good.json: "fastest": 0.000021553 -> "fastest": 0.002 => min of `service`: 2.00 ms contradicts mean, p50, p75, p90, p95, p99
    oha-good.json: 58371.42827660127, -> 1.5, => `requestsPerSec`: 1.50 contradicts 116947 in 2.00 s
    oha-good.json: "totalData": 119743488 -> "totalData": 1.5 => `body_bytes`: 1.5 is not a count
"#;

#[test]
fn a_figure_that_contradicts_others_is_left_out_and_named_and_the_rest_is_imported() {
    for file in FILES.split_whitespace() {
        let expected = (file == "k6-tags.json").then_some("p50 of `service`: no answer takes 0 s");
        let found = left_out(&read(file));
        assert_eq!(found.is_some(), expected.is_some(), "{file}: {found:?}");
        assert_contains(&found.unwrap_or_default(), expected.as_slice());
    }
    for (change, parts) in rows(IMPOSSIBLE) {
        let (file, change) = change.split_once(": ").unwrap();
        let (from, to) = change.split_once(" -> ").unwrap();
        let original = text(file);
        assert!(original.contains(from), "{file}: {from}");
        let result = imported(&original.replace(from, to));
        let found = left_out(&result).unwrap();
        assert_contains(&found, &parts);
        assert_eq!(found.split("; ").count(), parts.len(), "{found}");
        let original = read(file);
        assert_eq!(operations(&result), operations(&original), "{file}: {to}");
        let missing = time_count(&original) - time_count(&result);
        assert_eq!(missing, found.matches(" of `").count(), "{file}: {to}");
    }
}

/// Returns the number of times in all series.
fn time_count(result: &RunResult) -> usize {
    let imported = serde_json::to_value(&result.imported).unwrap();
    let series = imported["series"].as_array().unwrap().iter();
    let times = series.flat_map(|series| series.as_object().unwrap().keys());
    times.filter(|figure| figure.ends_with("_ns")).count()
}

/// The format from its README: wrk2 was not run for this test.
const WRK2: &str = "Running 30s test @ http://127.0.0.1:80/index.html
  2 threads and 100 connections
  Thread calibration: mean lat.: 10087 usec, rate sampling interval: 22 msec
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.60ms    1.92ms  12.50ms   68.46%
    Req/Sec     1.04k     1.08k    2.50k    72.79%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    6.67ms
 99.000%   11.18ms
 99.900%   12.30ms

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       9.903     0.943750        37280        17.78
      10.015     0.950000        37543        20.00
#[Mean    =        6.602, StdDeviation   =        1.919]
#[Max     =       12.496, Total count    =        39500]
#[Buckets =           27, SubBuckets     =         2048]
----------------------------------------------------------
  60018 requests in 30.00s, 19.81MB read
Requests/sec:   2000.28
Transfer/sec:    676.18KB
";

#[test]
fn the_latency_of_wrk2_is_response_time_and_has_a_count() {
    let result = imported(WRK2);
    assert_eq!(result.driver, "wrk2");
    assert_series(
        &result,
        "response",
        &json!({
            "count": 39_500, "p50_ns": 6_670_000, "p95_ns": 10_015_000, "p999_ns": 12_300_000, "max_ns": 12_496_000,
        }),
    );
    assert!(result.summary("service").is_none());
    assert!(
        outcome(&result).contains("intended start") && !outcome(&result).contains("never sent")
    );
}

#[test]
fn exports_of_k6_are_read() {
    let result = read("k6-good.json");
    assert_eq!((&*result.driver, &*result.level), ("k6", "5"));
    assert_eq!(operations(&result), [14_896, 14_896, 0, 0]);
    assert_eq!(result.count("bytes"), 18_828_544);
    assert!((result.wall_s - 14_896.0 / 7_429.047_915_587_076).abs() < 1e-9);
    let figures =
        json!({ "p50_ns": 322_338, "p95_ns": 1_651_082, "p99_ns": 6_452_132, "count": 14_896 });
    assert_series(&result, "service", &figures);
    // There was no TLS: 0 throughout is not a figure.
    assert!(result.summary("tls").is_none() && result.summary("waiting").is_some());
}

#[test]
fn a_threshold_of_an_export_is_true_where_it_was_crossed() {
    for file in ["k6-good.json", "k6-handled.json"] {
        let result = read(file);
        let thresholds = result.thresholds.iter();
        let met: BTreeMap<&str, bool> = thresholds.map(|own| (&*own.text, own.met)).collect();
        for (text, expected) in [
            ("http_req_duration: p(95)<5000", true),
            ("http_req_duration: p(95)<0.0001", false),
            ("errors: rate<0.1", file == "k6-good.json"),
        ] {
            assert_eq!(met.get(text), Some(&expected), "{file}: {text}");
        }
    }
}

#[test]
fn the_failures_of_k6_have_no_kind_and_its_times_of_0_are_no_service_times() {
    let refused = read("k6-refused.json");
    assert_eq!(operations(&refused), [20, 0, 20, 0]);
    assert_eq!(errors(&refused), [("unspecified", 20)]);
    assert!(refused.summary("service").is_none());
    assert_contains(&outcome(&refused), &["a time of 0"]);

    for (file, counted) in [("k6-errors.json", 376), ("k6-handled.json", 380)] {
        let result = read(file);
        assert_series(&result, "service", &json!({ "p99_ns": null }));
        assert_eq!(
            operations(&result),
            [counted, counted - 20, 20, 0],
            "{file}"
        );
        assert_contains(
            &outcome(&result),
            &["expected_response:true", "rate `errors`"],
        );
    }
}

#[test]
fn the_newest_summary_of_k6_is_read_too() {
    let result = read("k6-readable.json");
    assert_eq!(operations(&result), [16_195, 16_195, 0, 0]);
    assert_eq!(result.machine.version, "1.8.1");
    assert!((result.wall_s - 2.000_737_241).abs() < 1e-9);
    assert_series(&result, "service", &json!({ "p90_ns": 878_198 }));
}

#[test]
fn the_output_of_oha_is_read() {
    let result = read("oha-good.json");
    assert_eq!(operations(&result), [116_947, 116_937, 0, 10]);
    assert_eq!(result.count("body_bytes"), 119_743_488);
    let figures = json!({ "count": 116_937, "max_ns": 8_376_273 });
    assert_series(&result, "service", &figures);
    let service = result.summary("service").unwrap();
    assert!(service.p50_ns.is_some() && service.p999_ns.is_some());
    let mut warnings = result.warnings.iter();
    assert!(warnings.any(|warning| warning.kind == Kind::Unfinished));
    assert_contains(&outcome(&result), &["a server that hangs looks fine"]);
}

#[test]
fn a_404_is_no_success_whatever_oha_calls_it() {
    let result = read("oha-404.json");
    assert_eq!(operations(&result), [95_381, 0, 95_377, 4]);
    assert_eq!(errors(&result), [("status", 95_377)]);
    assert_eq!(result.success_pct(), Some(0.0));
    assert_contains(
        &outcome(&result),
        &["oha calls the run 100.00 % successful"],
    );

    let refused = read("oha-refused.json");
    assert_eq!(errors(&refused), [("refused", 50)]);
    assert_eq!(refused.summaries().count(), 0);

    let result = read("oha-errors.json");
    assert_eq!(
        errors(&result),
        [("early_close", 48), ("status", 72), ("timeout", 16)]
    );
    assert_eq!(operations(&result), [960, 816, 136, 8]);
}

#[test]
fn an_older_output_of_oha_lacks_what_was_added_since() {
    let mut json: Value = serde_json::from_str(&text("oha-good.json")).unwrap();
    for later in [
        "metrics",
        "firstByteHistogram",
        "firstBytePercentiles",
        "details",
    ] {
        json.as_object_mut().unwrap().remove(later);
    }
    let result = imported(&json.to_string());
    assert_eq!(result.series_names().collect::<Vec<_>>(), ["service"]);
}

#[test]
fn a_file_that_was_cut_off_is_told_from_a_whole_one_wherever_the_cut_is() {
    for file in FILES.split_whitespace() {
        let text = text(file);
        // A script's own report may follow.
        let text = text.split("\nthread 1 made").next().unwrap().trim_end();
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let cut = import(&text[..end], None, &subject());
            assert!(cut.is_err(), "{file}, the first {end} bytes");
        }
    }
}

#[test]
fn an_error_says_what_was_expected() {
    for foreign in [
        "",
        "hello",
        "{}",
        "[1, 2]",
        "{\"type\":\"Metric\",\"data\":{}}",
        "unable to connect to 127.0.0.1:9",
    ] {
        assert_eq!(
            import(foreign, None, &subject()),
            Err(Error::Foreign),
            "{foreign}"
        );
    }
    let good = text("wrk-good.txt");
    let twice = problem(&format!("{good}{good}"), None);
    assert_contains(&twice, &["a second run", "line 14"]);
    let cut = problem(good.split("Transfer").next().unwrap(), None);
    assert_contains(&cut, &["`Transfer/sec: SIZE`", "cut off"]);
    let cut = problem(&text("oha-good.json")[..2_000], None);
    assert_contains(&cut, &["oha", "cut off"]);
    let other = problem(&good, Some(Tool::K6));
    assert_contains(&other, &["k6", "expected JSON"]);
    let other = problem(&text("oha-good.json"), Some(Tool::Wrk));
    assert_contains(&other, &["Running TIME test @ URL"]);
    let k6 = problem("{\"metrics\": {\"vus\": {\"value\": 1}}}", None);
    assert_contains(&k6, &["`http_reqs`"]);
    let wrong = text("oha-good.json").replace("\"200\": 116937", "\"200\": -1");
    assert!(problem(&wrong, None).contains("which is not a count"));
    let wrong = text("wrk-404.txt").replace("196827 requests", "12 requests");
    assert!(problem(&wrong, None).contains("exceed the 12 requests"));
}

#[test]
fn an_imported_run_stands_beside_one_of_our_own_and_is_told_apart() {
    let mut own = example::full();
    own.level = "20".to_owned();
    own.series.truncate(1);
    own.series[0].name = "service".to_owned();
    let both = Suite {
        name: "both".to_owned(),
        results: vec![own, read("wrk-good.txt")],
        ..Suite::default()
    };
    let markdown = markdown::render(&both);
    assert_contains(
        &markdown,
        &[
            "2 runs of 2 daemons at 1 level",
            "figures reported by wrk",
            "fdpass-gen, wrk define request start and completion differently",
            "2 different machines: their figures cannot be compared",
            "| nginx (wrk) (SUSPECT) | service | – | 0.262 | 0.302 | 0.375 | – | 3.66 | – | 12.2 |",
            "imported from wrk",
            "service time of all answers",
        ],
    );
    // The series that both results have is the headline.
    assert_contains(
        &markdown,
        &["| nginx (wrk) (SUSPECT) | 0 | 71,300 | 0.262 | 0.375 | 3.66 |"],
    );
    // A dot is a reported figure; a curve would be invented.
    let html = html::render(&both).unwrap();
    let charts = html.split("percentiles-service").nth(1).unwrap();
    let curve = charts.split("</figure>").next().unwrap();
    assert!(
        curve.contains("rust-streaming") && !curve.contains("nginx"),
        "{curve}"
    );
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in any::<String>(), tool in 0..3_usize) {
        let _ = import(&text, Some(Tool::ALL[tool]), &subject());
        let _ = import(&text, None, &subject());
    }

    #[test]
    fn an_output_with_other_numbers_or_words_adds_up_or_is_refused(
        file in prop::sample::select(FILES.split_whitespace().collect::<Vec<_>>()),
        place in any::<prop::sample::Index>(),
        with in prop_oneof![
            Just("-1".to_owned()), Just("1e300".to_owned()), Just("18446744073709551615".to_owned()),
            Just("null".to_owned()), Just("nan".to_owned()), Just("{}".to_owned()), Just("é".to_owned()),
            "[0-9]{1,25}", "[ -~]{0,6}",
        ],
    ) {
        let text = text(file);
        // Words and numbers, separated at these characters.
        let parts: Vec<&str> = text.split_inclusive([' ', ',', '\n', ':']).collect();
        let place = place.index(parts.len());
        let changed: String = parts.iter().enumerate().map(|(at, part)| {
            if at == place { format!("{with}{}", &part[part.len() - 1..]) } else { (*part).to_owned() }
        }).collect();
        if let Ok(result) = import(&changed, None, &subject()) {
            prop_assert!(result.operations.add_up());
            prop_assert_eq!(result.errors.values().sum::<u64>(), result.operations.failed);
            for format in FORMATS {
                prop_assert!(format.render(std::slice::from_ref(&result)).is_ok());
            }
        }
    }

    #[test]
    fn no_json_makes_a_reader_panic(value in any_json(), key in prop::sample::select(vec!["metrics", "summary", "results"])) {
        let text = json!({ key: value, "successRate": 1, "metrics": value }).to_string();
        for tool in Tool::ALL {
            let _ = import(&text, Some(tool), &subject());
        }
    }
}

/// JSON with key names of k6 and oha, and values that they never have.
fn any_json() -> impl Strategy<Value = Value> {
    const NAMES: &str = "
        http_reqs http_req_failed http_req_duration vus_max values count rate passes thresholds
        total statusCodeDistribution errorDistribution name metrics
    ";
    let names: Vec<&str> = NAMES.split_whitespace().collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        prop::sample::select(names.clone()).prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let named = (prop::sample::select(names.clone()), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Into::into),
            prop::collection::vec(named, 0..6).prop_map(|fields| {
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect())
            }),
        ]
    })
}
