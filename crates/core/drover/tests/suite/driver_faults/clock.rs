//! Steps of the wall clock.

use std::path::Path;
use std::process::Command;

use super::{end, folders, is_undisturbed, on_each, wait_for_next_second, wait_until_under_way};
use crate::support::Started;

/// A library that lets the wall clock of a program go forward by an hour while a file exists.
const STEP: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && access(getenv("CLOCK_STEP"), F_OK) == 0)
        time->tv_sec += 3600;
    return result;
}
"#;

fn compile(library: &Path) {
    let source = library.with_extension("c");
    std::fs::write(&source, STEP).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(&source);
    assert!(compiler.status().unwrap().success());
}

#[test]
fn steps_of_an_hour_forward_and_back_change_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("step.so");
    compile(&library);
    on_each(|driver| {
        let (folder, run) = folders();
        let step = folder.path().join("step");
        driver.with_server(|address| {
            let mut call = driver.call_on(&run, address);
            call.env("LD_PRELOAD", &library).env("CLOCK_STEP", &step);
            let started = Started::spawn(&mut call);
            wait_until_under_way(&run);
            std::fs::write(&step, "").unwrap();
            wait_for_next_second(&run);
            std::fs::remove_file(&step).unwrap();
            let ran = end(started, folder.path());
            is_undisturbed(driver, &ran);
            let wall_s = ran.result["wall_s"].as_f64().unwrap();
            assert!((1.0..600.0).contains(&wall_s), "{driver:?}: {wall_s} s");
            for series in ran.result["series"].as_array().unwrap() {
                assert!(
                    series["max_ns"].as_u64() < Some(600_000_000_000),
                    "{driver:?}: {series}"
                );
            }
        });
    });
}
