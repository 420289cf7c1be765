//! `drover sample`: a CSV file of a running process, with the reference script's columns first.

use std::process::Command;
use std::sync::mpsc;

use harness_testing::peer::serve_page;
use harness_testing::processes::wait_until;
use test_kit::rows;

use crate::support::{Project, Started, assert_contains, interrupt, messages};

/// Returns the lines of a file that is being written.
fn lines(project: &Project, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project.path(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_running_process_is_sampled_until_it_ends_with_its_active_connections() {
    let project = Project::new("");
    let subject = Started::spawn(Command::new("sleep").arg("600"));
    let pid = subject.pid.to_string();
    let (asked, asks) = mpsc::channel();
    let port = serve_page(move |_, request| {
        let _ = asked.send(request.to_owned());
        ("200 OK", "daemon_active_connections 7\n".to_owned())
    });
    let port = port.to_string();
    let mut command = project.drover(&format!("sample {pid} own.csv {port} --interval 20ms"));
    let sampler = Started::spawn(&mut command);
    wait_until("three samples", || lines(&project, "own.csv").len() >= 4);
    drop(subject);
    let output = sampler.end();
    assert!(output.status.success(), "{}", messages(&output));
    assert_contains(
        &messages(&output),
        &[
            &format!("process {pid} has ended"),
            "samples are in own.csv",
        ],
    );
    assert!(asks.recv().unwrap().starts_with("GET /metrics "));
    let lines = lines(&project, "own.csv");
    let header = "timestamp,rss_kb,vsz_kb,threads,utime,stime,cpu_pct,active_conns,";
    assert!(lines[0].starts_with(header), "{}", lines[0]);
    for line in &lines[1..] {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), lines[0].split(',').count(), "{line}");
        assert_eq!((cells[3], cells[7]), ("1", "7"), "{line}");
        assert!(cells[1].parse::<u64>().unwrap() > 0, "{line}");
    }
}

#[test]
fn a_signal_ends_sampling_and_keeps_the_samples() {
    let project = Project::new("");
    let subject = Started::spawn(Command::new("sleep").arg("600"));
    let pid = subject.pid.to_string();
    let mut command = project.drover(&format!("sample {pid} own.csv --interval 20ms"));
    let sampler = Started::spawn(&mut command);
    wait_until("a sample", || lines(&project, "own.csv").len() >= 2);
    interrupt(&sampler);
    let output = sampler.end();
    assert!(output.status.success(), "{}", messages(&output));
    let samples = lines(&project, "own.csv").len() - 1;
    assert_contains(&messages(&output), &[&format!("{samples} samples are in")]);
    // A second call does not overwrite them.
    let again = project.call(&format!("sample {pid} own.csv"), 2);
    assert_contains(&messages(&again), &["own.csv: name a new file"]);
}

#[test]
fn a_call_without_a_process_a_page_or_a_new_file_is_refused_with_the_remedy() {
    let project = Project::new("");
    let own = std::process::id().to_string();
    let port = serve_page(|_, _| ("200 OK", "requests_total 1\nopen 2\n".to_owned())).to_string();
    let table = "
        4194305 x.csv => PID 4194305 … no such process … pgrep
        {own} x.csv {port} => no daemon_active_connections … --gauge … open, requests_total
        {own} x.csv ftp://x => ftp://x … http://127.0.0.1:9090/metrics
        {own} missing/x.csv => missing/x.csv … a folder that exists
        {own} x.csv --interval 0s => --interval … longer than 0
    ";
    for (arguments, words) in rows(&table.replace("{own}", &own).replace("{port}", &port)) {
        let output = project.call(&format!("sample {arguments}"), 2);
        assert_contains(&messages(&output), &words);
    }
    assert!(!project.path("x.csv").exists());
}
