//! Runs that are interrupted, and shards that are killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use harness_testing::assert_contains;
use harness_testing::program::words;
use harness_testing::{metrics, processes, result};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::SockType;
use nix::unistd::Pid;

use crate::drive;
use crate::target::{HEAD, Step, Target, close, record, right, write};

/// Starts a long run in two processes, and waits until both have begun.
fn in_two_processes(target: &Target) -> (Child, Vec<i32>) {
    let mut program = drive::on(target);
    program.args(words("--processes 2 --connections 2000 --ramp-up 20s"));
    let silent = program.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = silent.spawn().unwrap();
    target.wait_for(120);
    let shards = processes::children(child.id());
    assert_eq!(shards.len(), 2);
    (child, shards)
}

/// Returns a stream that begins and never ends.
fn endless(_: usize) -> Vec<Step> {
    vec![write(Duration::ZERO, format!("{HEAD}{}", record("0")))]
}

/// Reads lines up to one that contains `part`.
fn wait_for_line(lines: &mut impl Iterator<Item = std::io::Result<String>>, part: &str) -> String {
    let line = lines.map(Result::unwrap).find(|line| line.contains(part));
    line.unwrap_or_else(|| panic!("nothing says {part:?}"))
}

#[test]
fn a_shard_that_is_killed_is_a_failed_worker_and_the_rest_is_kept() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let (child, shards) = in_two_processes(&target);
    kill(Pid::from_raw(shards[1]), Signal::SIGKILL).unwrap();
    target.wait_for(400);
    processes::send(&child, Signal::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let result = result::read(target.folder());
    let failed = result.warning("WorkersFailed").expect("a warning");
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("1 of 2 workers failed"), "{message}");
    assert!(result["operations"]["ok"].as_u64().unwrap() > 100);
}

#[test]
fn streams_of_a_shard_that_is_killed_are_unfinished() {
    let target = Target::start(SockType::SeqPacket, endless);
    let (child, shards) = in_two_processes(&target);
    // Its first second has been reported by then, unless the machine is very busy.
    target.wait_for(200);
    kill(Pid::from_raw(shards[1]), Signal::SIGKILL).unwrap();
    // Two different signals cannot coalesce, so the end is requested twice.
    processes::send(&child, Signal::SIGINT);
    processes::send(&child, Signal::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let result = result::read(target.folder());
    let operations = &result["operations"];
    let number = |name: &str| operations[name].as_u64().unwrap();
    assert_eq!(number("started"), number("unfinished"), "{operations}");
    assert!(number("started") > 0);
    let rows = result["seconds"].as_array().unwrap().iter();
    let of_rows: u64 = rows
        .filter_map(|row| row["counts"]["unfinished"].as_u64())
        .sum();
    assert_eq!(of_rows, number("unfinished"));
    assert_eq!(result.warning("CountsDisagree"), None);
}

#[test]
fn a_run_that_is_interrupted_once_drains_says_so_and_writes_what_there_is() {
    let stream = |_| {
        let (begin, end) = (Duration::ZERO, Duration::from_millis(700));
        let rest = format!("{}data: [DONE]\n\n", record("1"));
        vec![
            write(begin, format!("{HEAD}{}", record("0"))),
            write(end, rest),
            close(end),
        ]
    };
    let target = Target::start(SockType::SeqPacket, stream);
    let address = "127.0.0.1:39217";
    let load = "--connections 1000 --ramp-up 50s --stream-timeout 96s --metrics-addr";
    let mut program = drive::on(&target);
    let program = program.args(words(load)).arg(address);
    let mut child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    target.wait_for(25);
    processes::wait_until("its metrics page", || {
        let labels = "plan= daemon=\" level=\"1000\" run=\" count=\"started\"";
        metrics::page(address).is_some_and(|page| {
            let started = page.lines().any(|line| {
                line.starts_with("drover_count_total{")
                    && labels.split(' ').all(|label| line.contains(label))
            });
            let memory = page.contains("drover_resident_memory_bytes{");
            started && memory && page.contains("first_byte")
        })
    });
    processes::send(&child, Signal::SIGINT);
    let line = wait_for_line(&mut said, "draining");
    assert_contains(&line, &["up to 97.0 s", "Ctrl-C again"]);
    assert_eq!(child.wait().unwrap().code(), Some(3), "it is suspect");
    let result = result::read(target.folder());
    let started = result.operations("started");
    assert!((20..1000).contains(&started), "{started}");
    assert_eq!(result.operations("ok"), started);
    assert_eq!(result.warning("Unfinished"), None);
    assert!(result.warning("Interrupted").is_some());
    assert_eq!(target.stop() as u64, started + 1);
}

#[test]
fn processes_end_with_the_one_that_started_them_and_say_nothing() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let (child, shards) = in_two_processes(&target);
    processes::send(&child, Signal::SIGKILL);
    // Its stderr ends with the last process that has it.
    let said = child.wait_with_output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains("error"), "{said}");
    processes::wait_until("the end of both", || {
        !shards.iter().any(|shard| processes::is_running(*shard))
    });
}

#[test]
fn a_run_that_is_interrupted_twice_ends_in_all_of_its_processes() {
    let target = Target::start(SockType::SeqPacket, endless);
    let mut program = drive::on(&target);
    program.args(words("--connections 100 --ramp-up 0s --processes 8"));
    let mut child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    target.wait_for(101);
    processes::send(&child, Signal::SIGINT);
    wait_for_line(&mut said, "press Ctrl-C again to end now");
    // One shard does not respond: it is not awaited.
    let shards = processes::children(child.id());
    kill(Pid::from_raw(shards[0]), Signal::SIGSTOP).unwrap();
    processes::send(&child, Signal::SIGINT);
    wait_for_line(&mut said, "Ending now");
    processes::wait_until("the end", || child.try_wait().unwrap().is_some());
    assert!(!shards.iter().any(|shard| processes::is_running(*shard)));
    let result = result::read(target.folder());
    let operations = &result["operations"];
    assert_eq!(operations["started"], operations["unfinished"]);
    let killed = result.warning("WorkersFailed").expect("one was killed");
    let message = killed["message"].as_str().unwrap();
    assert!(message.contains("second interruption"), "{message}");
    let open = result.warning("Unfinished").expect("all are open");
    let hint = open["hint"].as_str().unwrap();
    assert!(!hint.contains("longer drain"), "{hint}");
}

#[test]
fn a_run_is_interrupted_before_its_load_too() {
    let mute = |_| Vec::new();
    let target = Target::start(SockType::SeqPacket, mute);
    let mut program = drive::on(&target);
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    target.wait_for(1);
    processes::send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted before the load"), "{said}");
}
