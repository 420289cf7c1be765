//! The command line of the program: refused calls, and the results of runs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/drive.rs"]
mod drive;
#[path = "support/target.rs"]
mod target;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::SockType;
use nix::unistd::Pid;
use serde_json::Value;
use target::{HEAD, Step, Target, close, record, right, write};

/// Generous: a machine may be busy.
const LIMIT_NS: u64 = 60_000_000_000;

fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let deadline = load::clock::now() + LIMIT_NS;
    while !happens() {
        assert!(load::clock::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the only file of a name below a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            find(&path, name)
        } else {
            (path.file_name()? == name).then_some(path)
        }
    })
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Runs the program with arguments that must be refused; returns its error.
fn refused(arguments: &[&str]) -> String {
    refused_with(2, arguments)
}

fn refused_with(code: i32, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = drive::program(folder.path())
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert_eq!(find(folder.path(), "result.json"), None);
    said
}

fn refused_naming(arguments: &[&str], names: &[&str]) {
    let said = refused(arguments);
    for name in names {
        assert!(
            said.contains(name),
            "{arguments:?} should name `{name}`: {said}"
        );
    }
}

#[test]
fn a_call_that_cannot_be_right_is_refused_with_field_and_remedy() {
    refused_naming(
        &["--socket", "/nowhere/s"],
        &["--socket /nowhere/s", "start the daemon"],
    );
    refused_naming(&["--socket", "/dev/null"], &["--socket /dev/null"]);
    refused_naming(&["--connections", "0"], &["workers", "at least 1"]);
    refused_naming(&["--connections", "99999999999"], &["workers", "lower"]);
    refused_naming(&["--connections", "many"], &["--connections"]);
    refused_naming(&["--rate", "0"], &["rate"]);
    refused_naming(&["--rate", "-5"], &["rate"]);
    refused_naming(&["--rate", "inf"], &["rate", "10,000,000"]);
    refused_naming(&["--ramp-up", "10"], &["--ramp-up", "1m30s"]);
    refused_naming(&["--ramp-up", "2h"], &["ramp", "shorten"]);
    refused_naming(
        &["--hold", "0s", "--ramp-up", "0s", "--rate", "5"],
        &["timeline.measure"],
    );
    refused_naming(&["--stream-timeout", "0s"], &["stream_timeout"]);
    refused_naming(
        &["--data-file", "/nowhere/data"],
        &["--data-file /nowhere/data"],
    );
    refused_naming(&["--retry", "99"], &["retries"]);
    refused_naming(&["--message-delay", "500000000000h"], &["message_delay"]);
    let quick = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../configs/fdpass/quick.toml"
    );
    refused_naming(
        &["--plan", quick, "--set", "level=../../x"],
        &["level: `../../x`", "folder"],
    );
    refused_naming(
        &["--plan", quick, "--set", "timeline.measure=1s"],
        &["groups[0].ramp", "lengthen timeline.measure"],
    );
    refused_naming(&["--abort-after", "0"], &["abort_after"]);
    refused_naming(&["--never-read", "--abort-after", "3"], &["never_read"]);
    refused_naming(&["--daemon", "nonesuch"], &["nonesuch", "rust-streaming"]);
    refused_naming(
        &["--output", "/nowhere/x.json"],
        &["--output /nowhere/x.json"],
    );
    refused_naming(&["--processes", "0"], &["--processes"]);
    refused_naming(&["--format", "pdf"], &["markdown"]);
    refused_naming(&["--nonsense"], &["--nonsense"]);
}

#[test]
fn an_argument_that_is_no_text_and_a_reader_that_is_gone_are_no_panic() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let output = drive::program(folder.path())
        .arg(std::ffi::OsStr::from_bytes(b"\xff"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = drive::program(folder.path())
        .arg("--print-plan")
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_payload_above_the_record_limit_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "x".repeat(16 << 20)).unwrap();
    refused_naming(
        &["--data-file", file.to_str().unwrap()],
        &["--data", "record limit", "16777216"],
    );
}

#[test]
fn a_socket_of_the_other_type_is_refused_where_one_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::Stream, |_| right(1));
    refused_naming(
        &[
            "--socket",
            target.path().to_str().unwrap(),
            "--socket-type",
            "seqpacket",
        ],
        &["--socket-type auto"],
    );
    target.stop();
}

#[test]
fn more_streams_than_files_can_be_open_names_limit_need_and_two_commands() {
    let said = refused_with(5, &["--connections", "5000000"]);
    let (_, hard) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    for part in [
        "5000100",
        &hard.to_string(),
        "ulimit",
        "prlimit",
        "--instances",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let mut program = Command::new(assert_cmd::cargo::cargo_bin!("fdpass-gen"));
    let output = program
        .arg("--socket")
        .arg(target.path())
        .args(["--out", "/proc/nowhere"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), said.contains("--out /proc/nowhere")),
        (Some(2), true),
        "{said}"
    );
    assert_eq!(target.stop(), 0);
}

#[test]
fn a_plan_says_which_key_is_unknown_and_a_printed_plan_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "name = \"x\"\nconections = 5\n").unwrap();
    refused_naming(&["--plan", path], &["conections", "plan.toml"]);
    refused_naming(&["--plan", "/nowhere/plan.toml"], &["/nowhere/plan.toml"]);

    let printed = drive::program(folder.path())
        .args([
            "--rate",
            "12.5",
            "--arrival",
            "poisson",
            "--data",
            "{}",
            "--print-plan",
        ])
        .output()
        .unwrap();
    std::fs::write(&file, &printed.stdout).unwrap();
    let again = drive::program(folder.path())
        .args(["--plan", path, "--print-plan"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&again.stdout),
        String::from_utf8_lossy(&printed.stdout)
    );
    let changed = drive::program(folder.path())
        .args(["--plan", path, "--set", "groups.0.rate=99", "--print-plan"])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&changed.stdout).contains("rate = 99"),
        "{}",
        String::from_utf8_lossy(&changed.stderr)
    );
    refused_naming(
        &["--plan", path, "--set", "groups.0.nonsense=1"],
        &["nonsense"],
    );
    refused_naming(
        &["--plan", path, "--set", "groups.7.rate=1"],
        &["groups.7.rate"],
    );
}

/// Returns the root of the project, from which its daemons are launched.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

#[test]
fn every_plan_of_the_project_can_be_run_and_printed_again() {
    let folder = tempfile::tempdir().unwrap();
    let plans = std::fs::read_dir(root().join("configs/fdpass")).unwrap();
    for plan in plans.flatten().map(|entry| entry.path()) {
        let printed = |plan: &Path| {
            let mut program = drive::program(folder.path());
            let output = program.arg("--plan").arg(plan).arg("--print-plan").output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", plan.display());
            output.stdout
        };
        let first = printed(&plan);
        let again = folder.path().join("again.toml");
        std::fs::write(&again, &first).unwrap();
        assert_eq!(printed(&again), first, "{}", plan.display());
    }
}

#[test]
fn the_embedded_daemon_is_launched_and_the_result_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output.json");
    let mut program = drive::program(folder.path());
    program
        .current_dir(root())
        .args(["--connections", "30", "--ramp-up", "1s", "--output"])
        .arg(&output);
    let ran = program.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        matches!(ran.status.code(), Some(0 | 3)),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    for part in [
        "rust-streaming",
        "handoff",
        "first_byte",
        "gap",
        "stream",
        "RSS peak",
        "CPU",
    ] {
        assert!(said.contains(part), "the table shows {part}: {said}");
    }

    let keys = json(&output);
    assert_eq!(
        (
            keys["connections_started"].as_u64(),
            keys["connections_completed"].as_u64()
        ),
        (Some(30), Some(30))
    );
    assert_eq!(keys["bytes_received"], 30 * 1226);
    assert_eq!(keys["bytes_per_connection"], 1226.0);
    assert_eq!(keys["incomplete_responses"], 0);
    for key in [
        "handoff_latency_ms",
        "ttfb_latency_ms",
        "stream_duration_ms",
    ] {
        assert!(keys[key]["p99"].as_f64().unwrap() > 0.0, "{key}");
        assert!(keys[key]["p999"].as_f64().unwrap() > 0.0, "{key}");
    }
    let path = find(folder.path(), "result.json").expect("a result is kept");
    let result = json(&path);
    assert_eq!(result, keys["result"]);
    let schema = json(&root().join("bench-results/result.schema.json"));
    jsonschema::validate(&schema, &result).unwrap();
    assert!(result["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
    let looks = result["resources"].as_array().unwrap();
    assert!(looks.len() >= 2, "one a second, one at the end: {looks:?}");
    assert!(looks[0]["at_s"].as_f64().unwrap() < 0.5 && looks[0]["backlog"] == 0);
    assert!(looks.iter().all(|look| {
        look["daemon"]["rss_kb"].as_u64().unwrap() > 0 && look["active"].is_number()
    }));
    assert_eq!(
        result["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| warning["kind"] == "DebugBuild"),
        cfg!(debug_assertions)
    );

    let kinds: Vec<&str> = result["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["kind"].as_str().unwrap())
        .collect();
    assert!(
        !kinds.contains(&"CountsDisagree"),
        "the daemon counts the same handoffs: {kinds:?}"
    );

    assert_eq!(result["lag"]["count"], 30, "how late each start was");

    let resources = std::fs::read_to_string(path.with_file_name("resources.csv")).unwrap();
    assert!(
        resources.starts_with("timestamp,rss_kb,vsz_kb,threads,utime,stime,cpu_pct,active_conns,"),
        "{resources}"
    );
    assert_eq!(resources.lines().count(), looks.len() + 1);
    let header: Vec<&str> = resources.lines().next().unwrap().split(',').collect();
    let last: Vec<&str> = resources.lines().last().unwrap().split(',').collect();
    assert_eq!(header.len(), last.len());
    let handoffs = header
        .iter()
        .position(|name| *name == "daemon_handoffs_total")
        .unwrap();
    assert_eq!(last[handoffs], "31", "30 and that of the check");
}

#[test]
fn several_processes_make_one_result_in_which_nothing_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(3));
    let (_, json) = drive::drive(
        folder.path(),
        target.path(),
        &[
            "--processes",
            "3",
            "--connections",
            "100",
            "--ramp-up",
            "1500ms",
        ],
    );
    assert_eq!(target.stop(), 101);
    let result = &json["result"];
    assert_eq!(
        (
            json["connections_completed"].as_u64(),
            result["processes"].as_u64()
        ),
        (Some(100), Some(3))
    );
    assert_eq!(result["counts"]["events"], 300);
    assert_eq!(
        result["series"]
            .as_array()
            .unwrap()
            .iter()
            .find(|series| series["name"] == "first_byte")
            .unwrap()["count"],
        100
    );
    let started: u64 = result["seconds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|second| second["counts"]["started"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(started, 100, "the seconds add up to the whole");
}

/// Returns the child processes of a process.
fn children(pid: u32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    listed
        .unwrap_or_default()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Starts a long run in two processes, and waits until both have begun.
fn in_two_processes(folder: &Path, target: &Target) -> (Child, Vec<i32>) {
    let mut program = drive::program(folder);
    program.arg("--socket").arg(target.path());
    program.args([
        "--processes",
        "2",
        "--connections",
        "2000",
        "--ramp-up",
        "20s",
    ]);
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    target.wait_for(120);
    let shards = children(child.id());
    assert_eq!(shards.len(), 2);
    (child, shards)
}

#[test]
fn a_shard_that_is_killed_is_a_failed_worker_and_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let (child, shards) = in_two_processes(folder.path(), &target);
    kill(Pid::from_raw(shards[1]), Signal::SIGKILL).unwrap();
    target.wait_for(400);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let result = json(&find(folder.path(), "result.json").unwrap());
    let warnings = result["warnings"].as_array().unwrap();
    let failed = warnings
        .iter()
        .find(|warning| warning["kind"] == "WorkersFailed");
    let message = failed.expect("a warning")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.starts_with("1 of 2 workers failed"), "{message}");
    assert!(result["operations"]["ok"].as_u64().unwrap() > 100);
    target.stop();
}

/// Returns a stream that begins and never ends.
fn endless(_: usize) -> Vec<Step> {
    vec![write(Duration::ZERO, format!("{HEAD}{}", record("0")))]
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Reads lines up to one that contains `part`.
fn heard(lines: &mut impl Iterator<Item = std::io::Result<String>>, part: &str) -> String {
    let line = lines.map(Result::unwrap).find(|line| line.contains(part));
    line.unwrap_or_else(|| panic!("nothing says {part:?}"))
}

/// Returns the message and the hint of the warning of a kind.
fn warning(result: &Value, kind: &str) -> Option<(String, String)> {
    let mut warnings = result["warnings"].as_array().unwrap().iter();
    let found = warnings.find(|warning| warning["kind"] == kind)?;
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    Some((text("message"), text("hint")))
}

#[test]
fn streams_of_a_shard_that_is_killed_are_unfinished() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, endless);
    let (child, shards) = in_two_processes(folder.path(), &target);
    // Its first second has been reported by then, unless the machine is very busy.
    target.wait_for(200);
    kill(Pid::from_raw(shards[1]), Signal::SIGKILL).unwrap();
    // Two different signals cannot coalesce, so the end is requested twice.
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let result = json(&find(folder.path(), "result.json").unwrap());
    let operations = &result["operations"];
    let number = |name: &str| operations[name].as_u64().unwrap();
    assert_eq!(number("started"), number("unfinished"), "{operations}");
    assert!(number("started") > 0);
    let rows = result["seconds"].as_array().unwrap().iter();
    let of_rows: u64 = rows
        .filter_map(|row| row["counts"]["unfinished"].as_u64())
        .sum();
    assert_eq!(of_rows, number("unfinished"));
    assert_eq!(warning(&result, "CountsDisagree"), None);
    target.stop();
}

#[test]
fn a_run_that_is_interrupted_once_drains_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let stream = |_| {
        let (begin, end) = (Duration::ZERO, Duration::from_millis(700));
        let rest = format!("{}data: [DONE]\n\n", record("1"));
        vec![
            write(begin, format!("{HEAD}{}", record("0"))),
            write(end, rest),
            close(end),
        ]
    };
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, stream);
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    program.args(["--connections", "1000", "--ramp-up", "50s"]);
    program.args(["--stream-timeout", "96s"]);
    let mut child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    target.wait_for(25);
    send(&child, Signal::SIGINT);
    let line = heard(&mut said, "draining");
    assert!(
        line.contains("up to 97.0 s") && line.contains("Ctrl-C again"),
        "{line}"
    );
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let result = json(&find(folder.path(), "result.json").unwrap());
    let operations = &result["operations"];
    assert_eq!(operations["started"], operations["ok"], "{operations}");
    assert_eq!(warning(&result, "Unfinished"), None);
    target.stop();
}

#[test]
fn a_run_that_is_interrupted_twice_ends_in_all_of_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, endless);
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    program.args([
        "--connections",
        "100",
        "--ramp-up",
        "0s",
        "--processes",
        "8",
    ]);
    let mut child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    target.wait_for(101);
    send(&child, Signal::SIGINT);
    heard(&mut said, "press Ctrl-C again to end now");
    // One shard does not respond: it is not awaited.
    let shards = children(child.id());
    kill(Pid::from_raw(shards[0]), Signal::SIGSTOP).unwrap();
    send(&child, Signal::SIGINT);
    heard(&mut said, "Ending now");
    until("the end", || child.try_wait().unwrap().is_some());
    assert!(!shards.iter().any(|shard| is_running(*shard)));
    let result = json(&find(folder.path(), "result.json").unwrap());
    let operations = &result["operations"];
    assert_eq!(operations["started"], operations["unfinished"]);
    let (message, _) = warning(&result, "WorkersFailed").expect("one was killed");
    assert!(message.contains("second interruption"), "{message}");
    let (_, hint) = warning(&result, "Unfinished").expect("all are open");
    assert!(!hint.contains("longer drain"), "{hint}");
    target.stop();
}

#[test]
fn a_run_is_interrupted_before_its_load_too() {
    let folder = tempfile::tempdir().unwrap();
    let mute = |_| Vec::new();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, mute);
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    target.wait_for(1);
    send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted before the load"), "{said}");
    target.stop();
}

/// Serves a page with the counter of a daemon, which is 7 at first, until the program ends; returns its port.
fn serve_page(handoffs: Arc<AtomicUsize>, too_many: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            let handoffs = handoffs.load(Ordering::Acquire);
            let wrong = if handoffs > 1 { too_many } else { 0 };
            let body = format!("daemon_handoffs_total {}\n", 7 + handoffs + wrong);
            // "me:se:cret" in base64: the URL's credentials are sent to the server, and its address is stored without
            // them.
            let may = request.contains("authorization: basic bwu6c2u6y3jlda==")
                && request.contains(&format!("host: 127.0.0.1:{port}\r"));
            let status = if may { "200 OK" } else { "401 Unauthorized" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

#[test]
fn a_daemon_that_runs_already_has_a_name_and_its_counts_are_audited() {
    for too_many in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
        let port = serve_page(target.counter(), too_many);
        let url = format!("http://me:se%3Acret@127.0.0.1:{port}/metrics");
        let load = ["--connections", "20", "--ramp-up", "0s", "--name", "mine"];
        let load = [&load[..], &["--daemon-metrics", &url]].concat();
        let (output, json) = drive::drive(folder.path(), target.path(), &load);
        let result = &json["result"];
        assert_eq!(result["daemon"]["name"], "mine");
        let stored = format!("http://127.0.0.1:{port}/metrics");
        assert_eq!(result["daemon"]["metrics"][0], stored);
        let compared = &result["facts"]["compared"][0];
        assert_eq!(
            (&compared["driver"], &compared["daemon"]),
            (&20.into(), &(20 + too_many).into())
        );
        assert_eq!(warning(result, "CountsDisagree").is_some(), too_many > 0);
        let path = find(folder.path(), "result.json").unwrap();
        assert!(path.components().any(|part| part.as_os_str() == "mine"));
        let whole = std::fs::read_to_string(path).unwrap();
        assert!(!whole.contains("cret"), "the password is not stored");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("cret"), "{said}");
        target.stop();
    }
}

#[test]
fn a_name_and_a_metrics_page_are_for_a_daemon_that_runs_already() {
    for option in ["--name=mine", "--daemon-metrics=http://127.0.0.1:1/"] {
        let said = refused(&[option]);
        let name = option.split('=').next().unwrap();
        assert!(said.contains(name) && said.contains("--socket"), "{said}");
    }
    for (option, part) in [
        ("--name=../x", "used as a folder name"),
        ("--daemon-metrics=https://me:secret@127.0.0.1/", "http://"),
        (
            "--daemon-metrics=http://me:secret@127.0.0.1:1/",
            "GET http://127.0.0.1:1/",
        ),
    ] {
        let said = refused(&["--socket", "/nowhere", option]);
        assert!(said.contains(part) && !said.contains("secret"), "{said}");
    }
}

#[test]
fn shards_end_with_the_process_that_started_them() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let (mut child, shards) = in_two_processes(folder.path(), &target);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of the shards", || {
        !shards.iter().any(|shard| is_running(*shard))
    });
    target.stop();
}

/// Returns the result of a run on a target that answers at once, and the number of handoffs.
fn open_loop(arguments: &[&str]) -> (Value, usize) {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let load = [arguments, &["--ramp-up", "0s"]].concat();
    let (_, mut json) = drive::drive(folder.path(), target.path(), &load);
    let result = json["result"].take();
    assert_eq!(json["connections_completed"], result["operations"]["ok"]);
    (result, target.stop())
}

#[test]
fn a_rate_is_held_whatever_the_streams_do() {
    let (result, _) = open_loop(&["--rate", "200", "--hold", "2s"]);
    assert_eq!(result["operations"]["ok"], 400);
    let started = result["seconds"][0]["counts"]["started"].as_u64().unwrap();
    // A start at the very end of a second may fall into the next row, and so may those for which the driver was late.
    let late = 200.0 * result["lag"]["max_ns"].as_f64().unwrap() / 1e9;
    assert!(
        started.abs_diff(200) as f64 <= 1.0 + late,
        "{started} started, of which {late} may be late"
    );
}

/// Stops a driver for a while after `after` handoffs. Returns its result, and how many handoffs the target took.
fn stopped_for(load: &[&str], after: usize, while_ms: u64) -> (Value, usize) {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    program.args(load);
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    target.wait_for(after);
    kill(pid, Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(while_ms));
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(
        child.wait_with_output().unwrap().status.code(),
        Some(3),
        "the result is doubtful"
    );
    let result = json(&find(folder.path(), "result.json").unwrap());
    (result, target.stop())
}

#[test]
fn a_driver_that_was_stopped_is_late_in_its_own_response_times() {
    let (result, handoffs) = stopped_for(
        &["--rate", "200", "--ramp-up", "0s", "--hold", "3s"],
        100,
        300,
    );
    assert_eq!(
        result["operations"]["ok"], 600,
        "what was due is made up for"
    );
    let max_ms = |series: &Value| series["max_ns"].as_f64().unwrap() / 1e6;
    let series = result["series"].as_array().unwrap();
    let response = series
        .iter()
        .find(|series| series["name"] == "first_event")
        .unwrap();
    assert!(
        max_ms(response) > 200.0,
        "charged from when it was due: {} ms",
        max_ms(response)
    );
    assert!(
        max_ms(&result["lag"]) > 200.0,
        "{} ms",
        max_ms(&result["lag"])
    );
    assert_eq!(handoffs, 601);
    let kinds = warned(&result);
    assert!(kinds.contains(&"Stalled".to_owned()), "{kinds:?}");
    let stalls = &result["usage"]["disturbance"]["stalls"];
    assert!(
        stalls["longest_ns"].as_u64() > Some(250_000_000),
        "{stalls}"
    );
}

/// Returns the kinds of warnings above a note.
fn warned(result: &Value) -> Vec<String> {
    let warnings = result["warnings"].as_array().unwrap().iter();
    let grave = warnings.filter(|warning| warning["severity"] != "note");
    grave
        .map(|warning| warning["kind"].as_str().unwrap().to_owned())
        .collect()
}

/// Open streams use up the descriptors; once they have ended, there is room for the result.
#[test]
fn descriptors_that_the_driver_has_no_more_of_are_its_own_failure() {
    let folder = tempfile::tempdir().unwrap();
    let slow = |_| {
        let mut steps = right(1);
        steps[0].after = Duration::from_secs(1);
        steps
    };
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, slow);
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    program.args(["--rate", "100", "--ramp-up", "0s", "--hold", "1s"]);
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    target.wait_for(5);
    let pid = child.id().to_string();
    let limited = std::process::Command::new("prlimit")
        .args(["--pid", &pid, "--nofile=60"])
        .status();
    assert!(limited.unwrap().success());
    let code = child.wait_with_output().unwrap().status.code();
    let result = json(&find(folder.path(), "result.json").unwrap());
    let errors = result["errors"].as_object().unwrap();
    assert!(errors["connect_EMFILE"].as_u64() > Some(0), "{errors:?}");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (code, &result["verdict"]),
        (Some(3), &Value::from("INVALID"))
    );
    assert!(warned(&result).contains(&"DriverExhausted".to_owned()));
    target.stop();
}

/// The driver continues more than a second after the end, too late for a rate to catch up.
#[test]
fn a_fixed_number_of_clients_starts_in_full_though_the_driver_stood_still_over_the_end() {
    let load = ["--connections", "20", "--ramp-up", "500ms", "--hold", "0s"];
    let (result, handoffs) = stopped_for(&load, 10, 1_600);
    let operations = &result["operations"];
    assert_eq!(operations["ok"], 20, "{operations}");
    assert_eq!(operations["missed"], 0, "{operations}");
    assert_eq!(handoffs, 21);
    let late_ns = result["lag"]["max_ns"].as_u64().unwrap();
    assert!(late_ns > 1_000_000_000, "late, and said: {late_ns}");
}

/// All start before any is read, so that all are open at once.
#[test]
fn clients_at_once_all_begin_before_records_are_read_and_need_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let load = ["--connections", "100", "--ramp-up", "0s", "--hold", "0s"];
    let one = [&load[..], &["--threads", "1"]].concat();
    let (_, json) = drive::drive(folder.path(), target.path(), &one);
    assert_eq!(json["connections_completed"], 100);
    let operations = &json["result"]["operations"];
    assert_eq!(operations["peak_active"], 100, "{operations}");
    let two = [&load[..], &["--processes", "2"]].concat();
    let (_, json) = drive::drive(folder.path(), target.path(), &two);
    assert_eq!(json["connections_completed"], 100);
    assert_eq!(json["connections_started"], 100);
    target.stop();
}

#[test]
fn what_starts_in_the_warm_up_counts_nowhere() {
    let load = ["--rate", "100", "--warmup", "1s", "--hold", "1s"];
    let (result, handoffs) = open_loop(&load);
    let operations = &result["operations"];
    assert_eq!(
        (operations["started"].as_u64(), operations["ok"].as_u64()),
        (Some(100), Some(100))
    );
    assert_eq!(result["counts"]["warmup"], 100);
    assert_eq!(handoffs, 201);
}

#[test]
fn an_interrupted_run_drains_and_writes_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let metrics = "127.0.0.1:39217";
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path()).args([
        "--connections",
        "1000",
        "--ramp-up",
        "50s",
        "--metrics-addr",
        metrics,
    ]);
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    target.wait_for(25);
    until("its metrics page", || {
        page(metrics).is_some_and(|page| {
            page.contains("drover_count_total{count=\"started\"}") && page.contains("first_byte")
        })
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(3),
        "an interrupted run is suspect"
    );
    let result = json(&find(folder.path(), "result.json").unwrap());
    let started = result["operations"]["started"].as_u64().unwrap();
    assert!((20..1000).contains(&started), "{started}");
    assert_eq!(result["operations"]["ok"].as_u64(), Some(started));
    assert!(
        result["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| warning["kind"] == "Interrupted")
    );
    assert_eq!(target.stop() as u64, started + 1);
}

#[test]
fn a_result_that_cannot_be_kept_is_shown_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    program.args(["--connections", "1000", "--ramp-up", "50s"]);
    let child = program
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    target.wait_for(25);
    std::fs::remove_dir_all(folder.path().join("results")).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (shown, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("first_byte"), "{shown}");
    assert!(said.contains("result.json"), "{said}");
    let (_, rest) = said
        .split_once("the result was saved to ")
        .expect("where it is");
    let rescued = PathBuf::from(rest.split_once(" instead").unwrap().0);
    assert!(json(&rescued)["operations"]["started"].as_u64().unwrap() > 20);
    std::fs::remove_file(rescued).unwrap();
    target.stop();
}

#[test]
fn where_neither_result_nor_output_can_be_written_both_are_named_and_the_result_is_kept_elsewhere()
{
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(&folder.path().join("s"), SockType::SeqPacket, |_| right(1));
    let mut program = drive::program(folder.path());
    program.arg("--socket").arg(target.path());
    let output = folder.path().join("output.json");
    program.args(["--connections", "1000", "--ramp-up", "50s", "--output"]);
    let child = program
        .arg(&output)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    target.wait_for(25);
    std::fs::remove_dir_all(folder.path().join("results")).unwrap();
    std::fs::create_dir(&output).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["result.json", "output.json", "drover-result-"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, rest) = said.split_once("the result was saved to ").unwrap();
    std::fs::remove_file(rest.split_once(" instead").unwrap().0).unwrap();
    target.stop();
}

fn page(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}

/// Takes five handoffs, answers the first correctly, and then exits with four open clients.
const DYING: &str = r#"
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(64)
held = []
while True:
    connection, _ = listener.accept()
    data, descriptors, _, _ = socket.recv_fds(connection, 65536, 1)
    connection.close()
    if not descriptors:
        continue
    held.append(descriptors[0])
    if len(held) == 1:
        os.write(descriptors[0], b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"content":"a"}\n\ndata: [DONE]\n\n')
        os.close(descriptors[0])
    if len(held) == 5:
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(7)
"#;

const DYING_MANIFEST: &str = r#"
about   = "Dies with clients in its hands"
serves  = ["fdpass"]
needs   = [["python3", "--version"]]
run     = ["python3", "{dir}/dying.py", "{socket}"]
ready   = { unix = "{socket}" }
"#;

/// Runs the dying daemon; returns the result.
fn with_a_dying_daemon(folder: &Path, arguments: &[&str]) -> Value {
    let daemon = folder.join("daemons/dying");
    std::fs::create_dir_all(&daemon).unwrap();
    std::fs::write(daemon.join("dying.py"), DYING).unwrap();
    std::fs::write(daemon.join("daemon.toml"), DYING_MANIFEST).unwrap();
    let mut program = drive::program(folder);
    program
        .current_dir(folder)
        .args(["--daemon", "dying", "--messages", "1"]);
    program.args(["--connections", "100", "--ramp-up", "20s"]);
    let output = program.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let result = json(&find(folder, "result.json").unwrap());
    assert!(
        result["wall_s"].as_f64().unwrap() < 15.0,
        "the run ends with its daemon"
    );
    result
}

fn last_words(result: &Value) -> &str {
    let warnings = result["warnings"].as_array().unwrap();
    let died = warnings
        .iter()
        .find(|warning| warning["kind"] == "DaemonDied");
    died.expect("a warning")["message"].as_str().unwrap()
}

#[test]
fn a_daemon_that_dies_half_way_leaves_a_result_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let result = with_a_dying_daemon(folder.path(), &[]);
    assert!(last_words(&result).contains("out of luck"), "{result}");
    assert_eq!(result["errors"]["lost"], 4, "{}", result["errors"]);
    assert!(find(folder.path(), "daemon.log").is_some());
}

#[test]
fn the_run_ends_with_the_first_of_several_daemons_that_dies() {
    let folder = tempfile::tempdir().unwrap();
    let result = with_a_dying_daemon(folder.path(), &["--instances", "2"]);
    let words = last_words(&result);
    assert!(
        words.contains("of 2") && words.contains("out of luck"),
        "{words}"
    );
    assert!(result["errors"]["lost"].as_u64().unwrap() >= 4);
    for socket in result["daemon"]["target"].as_str().unwrap().split(", ") {
        assert!(!Path::new(socket).exists(), "{socket}");
    }
}
