//! Tests the calibration of a real driver, and runs after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness_testing::program::{beside, words};
use serde_json::{Value, json};

use crate::streaming::{results, root};
use crate::support::{Project, assert_contains, ends_with, json as read, messages, shown};

/// Returns a command in the checkout whose user has an empty folder for caches.
fn command(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(root())
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Returns the file of a driver's calibration on the machine of a result.
fn file(folder: &Path, result: &Value) -> PathBuf {
    let [host, driver] =
        [&result["machine"]["hostname"], &result["driver"]].map(|name| name.as_str().unwrap());
    let folder = folder.join("cache/drover/calibration").join(host);
    folder.join(format!("{driver}.json"))
}

#[test]
fn a_driver_is_calibrated_and_its_floor_is_stored_unless_the_machine_is_too_busy() {
    let folder = tempfile::tempdir().unwrap();
    let mut calibrate = command(env!("CARGO_BIN_EXE_drover"), folder.path());
    let out = folder.path().join("out");
    calibrate.args(["calibrate", "http-load", "--force"]);
    calibrate
        .args(["--set", "timeline.measure=1s", "--out"])
        .arg(&out);
    let ended = output(&mut calibrate);
    assert!(
        matches!(ended.status.code(), Some(0 | 3)),
        "{}",
        messages(&ended)
    );
    let text = shown(&ended);
    assert_contains(
        &text,
        &[
            "http-load\n  floor      response p50 ",
            "  ceiling    ",
            "full",
            "constant   p99 held ",
        ],
    );
    let all = results(&out);
    assert_eq!(all.len(), 6, "{all:?}");
    let floor = all.iter().find(|path| path.iter().any(|it| it == "floor"));
    let floor = read(floor.unwrap());
    let stored = file(folder.path(), &floor);
    if floor["verdict"] == "INVALID" {
        assert_contains(&text, &["not stored: the run `floor` is INVALID"]);
        return;
    }
    assert_contains(&text, &[&format!("stored in {}", stored.display())]);
    let stored = read(&stored);
    let known = &stored["calibration"];
    assert_eq!(known["floor"][0]["name"], "response");
    assert_eq!(known["floor"][0]["p50_ns"], floor["series"][0]["p50_ns"]);
    assert!(known["ceiling"]["per_s"].as_f64() > Some(500.0), "{known}");
    assert!(known["cpu_each_ns"].as_f64() > Some(0.0), "{known}");
    let mut doctor = command(env!("CARGO_BIN_EXE_drover"), folder.path());
    let found = output(doctor.arg("doctor").arg("configs/http/calibrate.toml"));
    assert_contains(
        &shown(&found),
        &[
            "Calibrated: http-load on 20",
            "Not calibrated",
            "fdpass-gen",
        ],
    );
}

/// Runs the driver for half a second, and returns its result and what it printed.
fn run(driver: &Path, folder: &Path, more: &str) -> (Value, String) {
    let into = folder.join("runs").join(more);
    let mut run = command(driver, folder);
    run.args(words("--daemon null-http -R 200 -c 2 -d 500ms --into"));
    let ended = output(run.arg(&into).args(words(more)));
    assert!(
        matches!(ended.status.code(), Some(0 | 3)),
        "{}",
        messages(&ended)
    );
    (read(&into.join("result.json")), shown(&ended))
}

#[test]
fn a_run_of_the_calibrated_build_and_mode_shows_its_floor_and_no_other_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [driver] = beside(env!("CARGO_BIN_EXE_drover"), ["http-load"]).unwrap();
    let (before, text) = run(&driver, folder, "");
    assert!(
        before.get("calibration").is_none() && !text.contains("driver and machine"),
        "{text}"
    );
    let digest = output(Command::new("sha256sum").arg(&driver));
    let digest = shown(&digest);
    let machine = &before["machine"];
    let mut stored = json!({
        "build": {
            "hostname": machine["hostname"],
            "kernel": machine["kernel"],
            "cpu_model": machine["cpu_model"],
            "cpus": machine["cpus"],
            "program_sha256": digest.split(' ').next(),
        },
        "mode": { "threads": 1, "scheme": "http", "engine": "wire" },
        "calibration": {
            "measured_at": "2026-01-30T09:00:00.000Z",
            "verdict": "VALID",
            "floor": [{ "name": "response", "p50_ns": 2_000, "p99_ns": 3_600_000_000_000_u64 }],
        },
    });
    let path = file(folder, &before);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let write = |stored: &Value| fs::write(&path, stored.to_string()).unwrap();
    write(&stored);
    let (known, text) = run(&driver, folder, "--threads 1");
    assert_eq!(known["calibration"], stored["calibration"]);
    assert_contains(&text, &["of which 2.00 µs is driver and machine"]);
    let near = known["warnings"].as_array().unwrap().iter();
    assert_eq!(
        near.filter(|warning| warning["kind"] == "NearFloor")
            .count(),
        1
    );
    for other in ["--threads 2", "--engine hyper", "--driver-cpus 0"] {
        let (other, _) = run(&driver, folder, other);
        assert!(other.get("calibration").is_none(), "{other}");
    }
    stored["build"]["kernel"] = "1.0".into();
    write(&stored);
    let (other, _) = run(&driver, folder, "--threads 1 --quiet");
    assert!(other.get("calibration").is_none(), "{other}");
}

#[test]
fn an_unknown_driver_is_refused_and_one_without_a_plan_is_named() {
    let project = Project::new("[driver]\n");
    let refused = project.call("calibrate fake", 2);
    assert_contains(
        &messages(&refused),
        &["there is no driver `fake`", "fake-gen"],
    );
    let skipped = project.call("calibrate", 2);
    let expected = [
        "Skipped: fake-gen: there is no configs/fake/calibrate.toml",
        "no driver can be calibrated",
    ];
    assert_contains(&messages(&skipped), &expected);
    fs::remove_file(project.path("bin/fake-gen")).unwrap();
    project.file("configs/fake/calibrate.toml", "");
    let skipped = project.call("calibrate fake-gen", 2);
    assert_contains(
        &messages(&skipped),
        &["Skipped: fake-gen: no program `fake-gen`"],
    );
}

#[test]
fn runs_without_a_record_of_the_peer_are_suspect_and_a_failed_one_fails() {
    let project = Project::new("[driver]\n");
    let plan = |driver: &str| {
        let plan = format!(
            "name = 'calibrate-fake'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'fixed'\nclients = 5\nops = 1\n\
             [driver]\n{driver}\n[suite]\ndaemons = ['a']\nlevels = [{{ name = 'floor', set = {{}} }}, {{ name = 'constant', set = {{}} }}]\n"
        );
        project.file("configs/fake/calibrate.toml", &plan);
    };
    let cache = project.path("cache");
    let call = |code| {
        let mut drover = project.drover("calibrate --force");
        let ended = output(drover.env("XDG_CACHE_HOME", &cache));
        ends_with(&ended, code);
        shown(&ended)
    };
    plan("");
    let text = call(3);
    assert_contains(
        &text,
        &[
            "floor      first_byte p50",
            "warning    constant: the peer kept no record",
            "stored in ",
        ],
    );
    plan("do = { 'a/floor' = 'late' }");
    assert_contains(&call(3), &["not stored: the run `floor` is INVALID"]);
    plan("do = { 'a/constant' = 'fail' }");
    call(1);
}
