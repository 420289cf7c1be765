//! Tests outputs of other load generators, imported by the program.

use std::fs;
use std::path::{Path, PathBuf};

use test_kit::rows;

use crate::support::{Project, assert_contains, json, messages, shown};

fn sample(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import");
    fs::canonicalize(folder.join(file)).unwrap()
}

fn project() -> Project {
    Project::new("[driver]\n[suite]\ndaemons = ['a', 'b']\n")
}

/// Imports outputs and returns the paths of the results.
fn import(project: &Project, arguments: &str) -> Vec<PathBuf> {
    let arguments = format!("import {arguments}");
    let output = project.call(&arguments, 0);
    let paths = shown(&output);
    paths.lines().map(|path| project.path(path)).collect()
}

#[test]
fn outputs_of_all_tools_become_results_with_the_outputs_beside_them() {
    let project = project();
    let files = ["wrk-good.txt", "k6-good.json", "oha-good.json"].map(sample);
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    let results = import(
        &project,
        &format!("{} --as nginx --level 20", files.join(" ")),
    );
    for ((result, file), tool) in results.iter().zip(files).zip(["wrk", "k6", "oha"]) {
        assert!(
            of_level(result, &format!("imported/nginx-{tool}"), "20", 1),
            "{result:?}"
        );
        let read = json(result);
        assert_eq!(
            (&read["driver"], &read["level"]),
            (&tool.into(), &"20".into())
        );
        assert_eq!(read["daemon"]["name"], format!("nginx ({tool})"));
        assert_eq!(read["verdict"], "SUSPECT");
        assert!(read["imported"]["series"][0].get("p50_ns").is_some());
        let extension = Path::new(file).extension().unwrap();
        let original = result.with_file_name("original").with_extension(extension);
        assert_eq!(fs::read(original).unwrap(), fs::read(file).unwrap());
    }
    // wrk reported no 95th percentile and no histogram, so the result has none.
    let wrk = json(&results[0]);
    assert!(wrk["imported"]["series"][0].get("p95_ns").is_none());
    assert_eq!(wrk["series"], serde_json::json!([]));
}

/// Returns true if a result has this number below a level, whose folder has the ID of the load at its end.
fn of_level(result: &Path, daemon: &str, level: &str, number: u32) -> bool {
    let run = result.parent().unwrap();
    let folder = run.parent().unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    run.ends_with(number.to_string())
        && name.rsplit_once('-').is_some_and(|(name, _)| name == level)
        && folder.parent().unwrap().ends_with(daemon)
}

#[test]
fn outputs_of_one_name_are_repetitions_and_the_name_is_that_of_the_file_unless_it_is_given() {
    let project = project();
    let file = sample("wrk-good.txt");
    let file = file.to_str().unwrap();
    let results = import(&project, &format!("{file} {file} --as nginx"));
    assert!(of_level(&results[0], "nginx-wrk", "20", 1), "{results:?}");
    assert!(of_level(&results[1], "nginx-wrk", "20", 2), "{results:?}");
    // The same tool asked for something else.
    let text = fs::read_to_string(file).unwrap();
    let other = project.file("other.txt", &text.replace("http://", "http://other."));
    let other = import(&project, &format!("{} --as nginx", other.display()));
    assert!(of_level(&other[0], "nginx-wrk", "20", 1), "{other:?}");
    let [result] = &import(&project, &format!("{file} --into here"))[..] else {
        panic!("one file is one result");
    };
    assert_eq!(json(result)["daemon"]["name"], "wrk-good (wrk)");
    assert_eq!(*result, project.path("here/result.json"));
    let again = project.call(&format!("import {file} --into here"), 2);
    assert_contains(&messages(&again), &["already"]);
}

#[test]
fn an_imported_result_stands_beside_one_of_our_own_in_a_report() {
    let project = project();
    project.run("", 0);
    let own = project.suite("tiny/a/5/1/result.json");
    fs::create_dir_all(project.path("both/own")).unwrap();
    fs::copy(own, project.path("both/own/result.json")).unwrap();
    let file = sample("oha-404.json");
    let arguments = format!("{} --as nginx --level 5 --into both/nginx", file.display());
    import(&project, &arguments);
    let output = project.call("analyze both", 0);
    assert_contains(
        &shown(&output),
        &[
            "SUSPECT: both, 2 runs of 2 daemons at 1 level",
            "nginx (oha)",
            "without histograms",
            "different machines: their figures cannot be compared",
            "oha calls the run 100.00 % successful",
        ],
    );
    project.call("report both", 0);
    for page in ["report.md", "report.html"] {
        let page = fs::read_to_string(project.path("both").join(page)).unwrap();
        assert_contains(&page, &["nginx (oha)"]);
    }
    for format in ["csv", "hlog", "json"] {
        let arguments = format!("report both --format {format}");
        project.call(&arguments, 0);
    }
}

#[test]
fn a_figure_that_cannot_be_true_is_named_on_the_screen_and_in_the_report() {
    let project = project();
    let text = fs::read_to_string(sample("wrk-good.txt")).unwrap();
    project.file("odd.txt", &text.replace("262.00us", "0.00us"));
    let output = project.call("import odd.txt --into odd", 0);
    let expected = "left out of the figures of wrk: p50 of `service`: no answer takes 0 s";
    assert_contains(&messages(&output), &["odd/result.json: ", expected]);
    let page = fs::read_to_string(project.path("odd/report.html")).unwrap();
    assert_contains(&page, &["left out of the figures of wrk"]);
}

#[test]
fn an_unreadable_import_is_named_with_the_expected_format() {
    let project = project();
    let good = sample("wrk-good.txt");
    let good = good.to_str().unwrap();
    let text = fs::read_to_string(good).unwrap();
    project.file("foreign.txt", "Requests per second: 3 [#/sec] (mean)\n");
    project.file("cut.txt", &text[..text.len() / 2]);
    project.file(
        "cut.json",
        &fs::read_to_string(sample("oha-good.json")).unwrap()[..500],
    );
    fs::write(project.path("binary"), [0xff, 0xfe, 0]).unwrap();
    // All are read before any is written.
    let calls = "
        nonesuch.txt => nonesuch.txt
        . => reading .
        foreign.txt => foreign.txt … wrk, k6 or oha … --summary-export
        {good} cut.txt => cut.txt … wrk … cut off
        cut.json => cut.json … oha … cut off
        binary => binary … not text
        /dev/zero => /dev/zero … 16 MiB
        {good} --format k6 => wrk-good.txt … k6 … expected JSON
        {good} --format ab => --format … wrk, k6, oha or auto
        {good} {good} --into x => --into x … --out
        {good} --as ../x => --as … without slashes
        {good} --level '' => --level … without slashes
        {good} --out x --into y => --out … --into
        {good} --out /proc/nowhere => --out /proc/nowhere
        => FILE
    ";
    for (call, parts) in rows(&calls.replace("{good}", good)) {
        let output = project.call(&format!("import {call}"), 2);
        let messages = messages(&output);
        assert_contains(&messages, &parts);
        assert!(!messages.contains("panicked"), "{messages}");
        let is_written = project.path("bench-results").exists();
        assert!(!is_written, "nothing is written");
    }
}
