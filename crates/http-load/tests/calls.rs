//! Calls and plans that can't be run, servers that do everything wrong: what is said, what the program exits with, and that
//! every request is accounted for.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/scripted.rs"]
mod scripted;
#[path = "support/secure.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod secure;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::scripted::{Scripted, Step};
use crate::secure::{Secure, Spoken};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello";
/// Longer than any run here lasts on a busy machine: past it, the program hangs.
const HANGS: &str = "120";

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn answers(text: &str) -> Vec<Step> {
    vec![Step::Expect, send(text), Step::Again]
}

/// One that answers well.
fn well() -> Scripted {
    Scripted::start(answers(OK))
}

/// One that answers well on the connection of the check, and on all others does this.
fn well_at_first(then: Vec<Step>) -> Scripted {
    Scripted::start_each(move |number| match number {
        0 => answers(OK),
        _ => then.clone(),
    })
}

fn url(server: &Scripted) -> String {
    format!("http://{}/x", server.address())
}

/// A port where nobody listens.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/x", listener.local_addr().unwrap())
}

/// The program, which is killed (exit code 137) should it hang.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-s", "KILL", HANGS]);
    command.arg(assert_cmd::cargo::cargo_bin!("http-load"));
    command.arg("--quiet").args(arguments);
    command
}

/// Asks that it ends so, and says all of it.
#[track_caller]
fn says(mut command: Command, code: i32, parts: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    command.arg("--into").arg(out.path().join("run"));
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}: {said}");
    for part in parts {
        assert!(
            said.contains(part),
            "{part:?} is not in {said}: {command:?}"
        );
    }
    assert!(!said.contains("panicked"), "{said}");
    let made = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(
        made, 0,
        "a run that did not begin leaves nothing: {command:?}"
    );
}

#[test]
fn a_call_that_is_wrong_says_what_where_and_what_to_do_before_anything_is_asked() {
    let server = well();
    let url = url(&server);
    let rows: &[(&[&str], &[&str])] = &[
        (
            &["--threshold", "response.p98x < 5ms"],
            &["thresholds[0] (--threshold)", "response"],
        ),
        (
            &["--threshold", "http_req_size: p(95)<5"],
            &["there is no metric `http_req_size`", "http_req_duration"],
        ),
        (
            &["--threshold", "errors.nothing < 5"],
            &["--threshold", "nothing", "refused"],
        ),
        (
            &["--body-file", "/no/such.json"],
            &["--body-file /no/such.json", "No such file", "can be read"],
        ),
        (
            &["--tls-ca", "/no/such.pem"],
            &["--tls-ca /no/such.pem", "in PEM"],
        ),
        (
            &["--http2", "--engine", "wire"],
            &["driver.engine (--engine)", "leave out --http2"],
        ),
        (
            &["--check", "status=200"],
            &["driver.checks[0]", "status==200"],
        ),
        (
            &["--check", "body containing x"],
            &["driver.checks[0]", "body contains"],
        ),
        (&["--rate", "0"], &["groups[0].rate (--rate)", "above 0"]),
        (
            &["--rate", "nan"],
            &["groups[0].rate (--rate)", "10,000,000"],
        ),
        (
            &["--rate", "1e12"],
            &["groups[0].rate (--rate)", "10,000,000"],
        ),
        (
            &["--rate", "10", "--pipeline", "2"],
            &[
                "driver.pipeline (--pipeline)",
                "no effect with a rate",
                "--connections",
            ],
        ),
        (
            &["--hold", "--pipeline", "2"],
            &["driver.pipeline (--pipeline)", "leave out the rate"],
        ),
        (
            &["--rate-stage", "1s:9", "--pipeline", "2"],
            &["driver.pipeline (--pipeline)"],
        ),
        (
            &["--follow", "2", "--pipeline", "2"],
            &[
                "driver.follow (--follow)",
                "leave out --pipeline or --follow",
            ],
        ),
        (
            &["--follow", "2", "-H", "Host: a b"],
            &["Host: a b", "is no host", "leave out --follow"],
        ),
        (&["--follow", "-1"], &["-1"]),
        (
            &["--pipeline", "0"],
            &["driver.pipeline (--pipeline)", "between 1 and"],
        ),
        (
            &[
                "--hold",
                "-c",
                "100",
                "--connect-rate",
                "10",
                "--warmup",
                "2s",
            ],
            &[
                "driver.connect_rate (--connect-rate)",
                "20 of 100 connections",
                "10s at least",
            ],
        ),
        (
            &["--hold", "--no-keep-alive"],
            &["--no-keep-alive", "cannot be used with"],
        ),
        (
            &["--hold", "--connect-rate", "1e-300"],
            &["driver.connect_rate (--connect-rate)", "below 1"],
        ),
        (
            &[
                "--hold",
                "-c",
                "18446744073709551615",
                "--connect-rate",
                "1",
            ],
            &["timeline.warmup", "split the run"],
        ),
        (
            &["--connect-rate", "10"],
            &[
                "driver.connect_rate (--connect-rate)",
                "closed loop",
                "--hold",
            ],
        ),
        (&["-c", "0"], &["groups[0].workers", "at least 1"]),
        (&["-c", "-5"], &["-5"]),
        (&["-d", "0s"], &["timeline.measure", "10s"]),
        (&["-d", "10"], &["--duration", "1m30s"]),
        (&["--timeout", "0s"], &["driver.timeout (--timeout)", "30s"]),
        (&["--timeout", "500000000000y"], &["longer than a day"]),
        (&["--header", "nocolon"], &["--header", "Name: value"]),
        (&["--path", "x"], &["driver.path (--path)", "begins with /"]),
        (&["--path", "/{id:0}"], &["driver.path", "remainder by 0"]),
        (
            &["--expect-status", "20"],
            &["--expect-status", "between 100 and 599"],
        ),
        (
            &["--source-addresses", "192.0.2.1"],
            &["--source-addresses", "of this machine"],
        ),
        (
            &["--source-addresses", "127.0.0.1", "-c", "70000"],
            &[
                "--source-addresses",
                "70000 connections",
                "127.0.0.1 has ",
                "name 2 addresses",
            ],
        ),
        (
            &["-c", "70000"],
            &["--source-addresses", "the kernel has", "take auto"],
        ),
        (
            &["--daemon", "http-daemon"],
            &["cannot be used with", "--daemon"],
        ),
        (&["--plan", "/no/such.toml"], &["/no/such.toml"]),
    ];
    for (arguments, parts) in rows {
        let mut command = program(arguments);
        command.arg(&url);
        says(command, 2, parts);
    }
    assert_eq!(server.finish().connections, 0);
}

/// A plan of one closed group, with lines for its `[driver]` and for its top.
fn plan(top: &str, driver: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "name = \"test\"\n{top}\n[timeline]\nmeasure = \"1s\"\ndrain = \"200ms\"\n\
         [[groups]]\nname = \"users\"\nworkers = 2\n[driver]\n{driver}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_plan_that_is_wrong_names_the_field() {
    let server = well();
    let url = url(&server);
    let rows: &[(&str, &str, &[&str])] = &[
        (
            "",
            "conections = 5",
            &["conections", "unknown field", "connections"],
        ),
        ("endpiont = \"https\"", "", &["endpiont", "unknown field"]),
        (
            "thresholds = [\"nothing.p99 < 5ms\"]",
            "",
            &["thresholds[0]", "nothing"],
        ),
        (
            "",
            "engine = \"wire\"\nhttp2 = true",
            &["driver.engine", "leave out --http2"],
        ),
        (
            "",
            "body_files = [\"/no/such\"]",
            &["driver.body_files", "/no/such"],
        ),
        ("", "pipeline = \"two\"", &["pipeline", "invalid type"]),
    ];
    for (top, driver, parts) in rows {
        let file = plan(top, driver);
        let path = file.path().to_str().unwrap();
        says(program(&["--plan", path, &url]), 2, parts);
    }
    let fault = "[[faults]]\nat = \"500ms\"\nsignal = \"KILL\"\nback_after = \"100ms\"";
    let file = plan("", fault);
    let path = file.path().to_str().unwrap();
    says(program(&["--plan", path, &url]), 2, &["faults", "the URL"]);
    assert_eq!(server.finish().connections, 0);
}

#[test]
fn a_server_that_answers_wrongly_before_the_run_is_not_measured() {
    let rows: [(Vec<Step>, &[&str]); 7] = [
        (answers(MISSING), &["404", "--expect-status 404"]),
        (
            vec![Step::Expect, send("SSH-2.0-x\r\n\r\n")],
            &["can't be read", "SSH-2.0"],
        ),
        (vec![Step::Close], &["/x of 127.0.0.1"]),
        (
            vec![Step::Expect, Step::Reset],
            &["/x of 127.0.0.1", "reset"],
        ),
        (
            vec![
                Step::Expect,
                send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nh"),
            ],
            &["/x of 127.0.0.1"],
        ),
        (
            vec![Step::Expect, Step::Stall],
            &["no whole answer within 10 s"],
        ),
        // A byte now and then: no single read waits for long.
        (
            vec![
                Step::Expect,
                Step::SendSlowly(
                    OK.repeat(50).into_bytes()[..40].to_vec(),
                    1,
                    Duration::from_millis(900),
                ),
            ],
            &["no whole answer within 10 s"],
        ),
    ];
    thread::scope(|scope| {
        for (script, parts) in rows {
            scope.spawn(move || {
                let server = Scripted::start(script);
                says(program(&[&url(&server)]), 1, parts);
            });
        }
        scope.spawn(|| {
            let parts = [
                "connecting to 127.0.0.1",
                "does a server listen there?",
                "refused",
            ];
            says(program(&[&refusing()]), 1, &parts);
        });
        scope.spawn(|| {
            let parts = ["no.such.host.invalid can't be resolved", "correct the name"];
            says(program(&["http://no.such.host.invalid/"]), 2, &parts);
        });
        scope.spawn(|| {
            let server = Secure::start(Spoken::Https);
            let file = server.certificate();
            let arguments = [
                &server.url("127.0.0.1"),
                "--tls-ca",
                file.path().to_str().unwrap(),
            ];
            let parts = [
                "not valid for name",
                "a name that its certificate has",
                "--tls-insecure",
            ];
            says(program(&arguments), 1, &parts);
        });
    });
}

/// The program in a shell whose processes may open so many files.
fn with_files(files: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -n {files} && exec \"$@\""),
        "sh",
        "timeout",
    ]);
    command.args(["-s", "KILL", HANGS]);
    command.arg(assert_cmd::cargo::cargo_bin!("http-load"));
    command.arg("--quiet").args(arguments);
    command
}

#[test]
fn more_connections_than_a_process_may_open_are_refused_with_5_or_go_over_several() {
    let server = well();
    let url = url(&server);
    let many = ["-c", "500", "-d", "200ms", "--warmup", "0s"];
    let one = [&["--processes", "1", url.as_str()][..], &many[..]].concat();
    let parts = ["needs 600 open files", "may open 300", "--processes auto"];
    says(with_files(300, &one), 5, &parts);
    let most = ["-c", "60000", "--source-addresses", "auto", &url];
    says(
        with_files(300, &most),
        5,
        &["--processes", "256 is the most", "ulimit -n"],
    );
    assert_eq!(server.counts().connections, 0);
    let ran = Ran::after(with_files(
        300,
        &[&["-t", "1", url.as_str()][..], &many[..]].concat(),
    ));
    assert_eq!(ran.result["processes"], 3);
    ran.adds_up(None);
    assert!(
        ran.number("ok") > 0 && ran.number("failed") == 0,
        "{}",
        ran.result["errors"]
    );
}

/// A run that was carried out.
struct Ran {
    code: i32,
    result: Value,
    said: String,
}

impl Ran {
    fn after(mut command: Command) -> Self {
        let out = tempfile::tempdir().unwrap();
        command.arg("--into").arg(out.path().join("run"));
        Self::read(&command.output().unwrap(), &out)
    }

    fn read(output: &Output, out: &tempfile::TempDir) -> Self {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = std::fs::read_to_string(out.path().join("run/result.json"));
        let text = text.unwrap_or_else(|error| panic!("{error}: {:?}: {said}", output.status));
        Self {
            code: output.status.code().unwrap(),
            result: serde_json::from_str(&text).unwrap(),
            said,
        }
    }

    fn number(&self, name: &str) -> u64 {
        self.result["operations"][name].as_u64().unwrap()
    }

    /// Kinds of errors.
    fn kinds(&self) -> Vec<&str> {
        let errors = self.result["errors"].as_object().unwrap();
        errors.keys().map(String::as_str).collect()
    }

    fn warned(&self, kind: &str) -> bool {
        let mut warnings = self.result["warnings"].as_array().unwrap().iter();
        warnings.any(|warning| warning["kind"] == kind)
    }

    /// Every request is accounted for; of an open loop, every one that was due.
    #[track_caller]
    fn adds_up(&self, due: Option<u64>) {
        let errors = self.result["errors"].as_object().unwrap();
        let errors: u64 = errors.values().filter_map(Value::as_u64).sum();
        let of = |name: &str| self.number(name);
        let all = format!("{} {}", self.result["operations"], self.result["errors"]);
        assert_eq!(of("started"), of("ok") + errors + of("unfinished"), "{all}");
        assert_eq!(of("failed"), errors, "{all}");
        match due {
            Some(due) => assert_eq!(due, of("started") + of("missed"), "{all}"),
            None => assert_eq!(of("missed"), 0, "{all}"),
        }
        assert!(
            !self.warned("CountsDisagree") && !self.warned("WorkersFailed"),
            "{}",
            self.result["warnings"]
        );
        assert!(!self.said.contains("panicked"), "{}", self.said);
    }
}

/// A second of load, closed or at 100 a second, by one engine.
fn load(engine: &str, is_open: bool, url: &str) -> Ran {
    let mut command = program(&[
        "--engine", engine, "-t", "1", "-c", "3", "-d", "1s", "--warmup", "0s", url,
    ]);
    command.args(["--timeout", "300ms", "--connect-timeout", "300ms"]);
    if is_open {
        command.args(["--rate", "100"]);
    }
    Ran::after(command)
}

/// Answers one request, and then is as one that may open no more descriptors: the kernel takes connections, nobody accepts
/// them. Or it goes away.
fn answers_once(goes_away: bool) -> (String, thread::JoinHandle<Option<TcpListener>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Before the answer, so that what comes after it finds nobody.
        let listener = (!goes_away).then_some(listener);
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(OK.as_bytes()).unwrap();
        listener
    });
    (url, answering)
}

#[test]
fn a_run_in_which_every_request_fails_exits_1_and_accounts_for_each() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let rows: [(Vec<Step>, &[&str]); 9] = [
        (answers(MISSING), &["status"]),
        (
            answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"),
            &["length"],
        ),
        (vec![Step::Expect, Step::Reset], &["reset"]),
        // Closed before or after the request is sent: an end, or a reset.
        (vec![Step::Close], &["early_close", "reset", "timeout"]),
        (vec![Step::Expect, Step::Close], &["early_close"]),
        (
            vec![Step::Expect, send(half), Step::Close],
            &["early_close"],
        ),
        (vec![Step::Expect, Step::Stall], &["timeout"]),
        (vec![Step::Expect, send("garbage\r\n\r\n")], &["protocol"]),
        (
            vec![
                Step::Expect,
                send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
            ],
            &["protocol"],
        ),
    ];
    for engine in ["wire", "hyper"] {
        for is_open in [false, true] {
            let due = is_open.then_some(100);
            let failed = |ran: &Ran, kinds: &[&str], what: &str| {
                ran.adds_up(due);
                let all = format!(
                    "{what}, {engine}, open {is_open}: {} {}",
                    ran.result["operations"], ran.result["errors"]
                );
                assert_eq!((ran.code, ran.number("ok")), (1, 0), "{all}");
                assert!(ran.number("failed") > 0, "{all}");
                let asked_for = |kind: &&str| kinds.iter().any(|begin| kind.starts_with(begin));
                // On a busy machine an answer or a connection may be late besides.
                let late = |kind: &&str| ["timeout", "connect_timeout"].contains(kind);
                let kinds = ran.kinds();
                assert!(kinds.iter().any(asked_for), "{all}");
                assert!(
                    kinds.iter().all(|kind| asked_for(kind) || late(kind)),
                    "{all}"
                );
                // The measurement, the drain phase, and what a busy machine adds.
                assert!(
                    ran.result["wall_s"].as_f64().unwrap() < 1.0 + 1.3 + 5.0,
                    "{all}"
                );
            };
            for (script, kinds) in &rows {
                let server = well_at_first(script.clone());
                failed(
                    &load(engine, is_open, &url(&server)),
                    kinds,
                    &format!("{script:?}"),
                );
            }
            for (goes_away, kinds) in [
                (true, ["refused", "timeout"]),
                (false, ["timeout", "connect_timeout"]),
            ] {
                let (url, answering) = answers_once(goes_away);
                failed(&load(engine, is_open, &url), &kinds, "answers once");
                drop(answering.join().unwrap());
            }
        }
    }
}

#[test]
fn a_threshold_that_failures_meet_does_not_make_a_run_without_an_answer_a_success() {
    let server = well_at_first(answers(MISSING));
    let url = url(&server);
    let words = [
        "-c",
        "2",
        "-d",
        "300ms",
        "--warmup",
        "0s",
        &url,
        "--threshold",
        "http_req_failed: rate<=1",
    ];
    let ran = Ran::after(program(&words));
    assert_eq!(ran.result["thresholds"][0]["met"], true);
    assert_eq!((ran.code, ran.number("ok")), (1, 0));
}

#[test]
fn what_is_open_at_the_end_of_the_drain_phase_is_unfinished() {
    let file = plan("", "timeout = \"60s\"");
    for engine in ["wire", "hyper"] {
        let server = well_at_first(vec![Step::Expect, Step::Stall]);
        let path = file.path().to_str().unwrap();
        let set = format!("driver.engine=\"{engine}\"");
        let ran = Ran::after(program(&[
            "--plan",
            path,
            "--set",
            &set,
            "-t",
            "1",
            &url(&server),
        ]));
        ran.adds_up(None);
        assert_eq!((ran.number("started"), ran.number("unfinished")), (2, 2));
        assert!(ran.warned("Unfinished"));
        assert_eq!(ran.code, 3);
        assert!(ran.result["wall_s"].as_f64().unwrap() < 1.2 + 5.0);
    }
}

/// Set for the server that is a process of its own.
const IS_SERVER: &str = "DROVER_TEST_IS_SERVER";

/// Requests after which a load is well under way.
const UNDER_WAY: u64 = 50;

fn wait_until_under_way(server: &Scripted) {
    while server.counts().requests < UNDER_WAY {
        thread::sleep(Duration::from_millis(1));
    }
}

/// No test: the server of the one below, in a process of its own, which this program is then.
#[test]
fn serves_until_it_is_killed() {
    if std::env::var_os(IS_SERVER).is_some() {
        let server = well();
        let mut stderr = std::io::stderr();
        writeln!(stderr, "listening on {}", server.address()).unwrap();
        wait_until_under_way(&server);
        writeln!(stderr, "under way").unwrap();
        // Ends with who started it, too.
        let _ = std::io::stdin().read(&mut [0]);
    }
}

fn server_process() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves_until_it_is_killed", "--nocapture"])
        .env(IS_SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts a load of three seconds and does something meanwhile.
fn while_it_runs(url: &str, arguments: &[&str], act: impl FnOnce(&Child)) -> Ran {
    let out = tempfile::tempdir().unwrap();
    let running = Command::new(assert_cmd::cargo::cargo_bin!("http-load"))
        .args([
            "--quiet", "-t", "1", "-c", "3", "-d", "3s", "--warmup", "0s",
        ])
        .args(["--timeout", "300ms", url])
        .args(arguments)
        .arg("--into")
        .arg(out.path().join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    act(&running);
    Ran::read(&running.wait_with_output().unwrap(), &out)
}

#[test]
fn a_server_that_is_killed_in_the_run_fails_what_was_asked_of_it_and_what_follows() {
    for engine in ["wire", "hyper"] {
        for rate in [None, Some("100")] {
            let mut server = server_process();
            let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
            let mut line = |begin: &str| {
                let mut lines = lines.by_ref().map_while(Result::ok);
                let rest = lines.find_map(|line| line.strip_prefix(begin).map(str::to_owned));
                rest.expect("it says so")
            };
            let url = format!("http://{}/x", line("listening on "));
            let mut arguments = vec!["--engine", engine];
            arguments.extend(rate.iter().flat_map(|rate| ["--rate", *rate]));
            let ran = while_it_runs(&url, &arguments, |_| {
                line("under way");
                server.kill().unwrap();
            });
            server.wait().unwrap();
            ran.adds_up(rate.map(|_| 300));
            let all = format!(
                "{engine} {rate:?}: {} {}",
                ran.result["operations"], ran.result["errors"]
            );
            assert!(ran.number("ok") > 0 && ran.number("failed") > 0, "{all}");
            let of_its_end = ["refused", "reset", "early_close", "timeout"];
            assert!(
                ran.kinds().iter().all(|kind| of_its_end.contains(kind)),
                "{all}"
            );
            assert_eq!(ran.code, 1, "{all}");
        }
    }
}

#[test]
fn a_run_that_is_told_to_end_drains_and_writes_what_there_is() {
    for (signal, engine) in [(Signal::SIGINT, "wire"), (Signal::SIGTERM, "hyper")] {
        let server = well();
        let arguments = ["--engine", engine, "--rate", "100"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            kill(Pid::from_raw(running.id() as i32), signal).unwrap();
        });
        assert!(ran.warned("Interrupted"), "{}", ran.result["warnings"]);
        ran.adds_up(Some(ran.number("started") + ran.number("missed")));
        assert!(
            (1..300).contains(&ran.number("ok")),
            "{}",
            ran.result["operations"]
        );
        assert_eq!((ran.number("failed"), ran.number("unfinished")), (0, 0));
        assert_eq!(ran.code, 3, "{}", ran.said);
    }
}

/// Starts a daemon for a plan of an open loop over four connections, at 200 a second for three seconds.
fn with_the_daemon(top: &str, faults: &str) -> (tempfile::NamedTempFile, tempfile::TempDir) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "name = \"test\"\n{top}\n[timeline]\nmeasure = \"3s\"\ndrain = \"5s\"\n\
         [[groups]]\nname = \"requests\"\nrate = 200\n[driver]\nconnections = 4\n{faults}\n"
    );
    std::fs::write(&file, text).unwrap();
    (file, tempfile::tempdir().unwrap())
}

fn launched(file: &tempfile::NamedTempFile, set: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("http-load"));
    command.args(["--quiet", "-t", "1", "--daemon", "http-daemon", "--plan"]);
    command.arg(file.path()).args(set);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command
}

/// Of 600 requests those 200 that are due while the server stands still wait for its end, the first for all of it: the
/// 540th in order is the 140th of them, and the 594th the 194th. Each is asked for within 2 % or 5 ms in one run of eight,
/// on a machine that does other work.
#[test]
fn a_server_that_is_stopped_for_a_second_costs_what_arithmetic_says() {
    let faults = "[[faults]]\nat = \"1s\"\nsignal = \"STOP\"\nback_after = \"1s\"";
    let mut found = Vec::new();
    for _ in 0..8 {
        let (file, out) = with_the_daemon("", faults);
        let into = out.path().join("run");
        let output = launched(&file, &["--into", into.to_str().unwrap()]).output();
        let ran = Ran::read(&output.unwrap(), &out);
        ran.adds_up(Some(600));
        assert_eq!(
            ran.number("ok"),
            600,
            "{} {}",
            ran.result["errors"],
            ran.said
        );
        let fault = &ran.result["faults"][0];
        let stood_still = fault["back_s"].as_f64().unwrap() - fault["at_s"].as_f64().unwrap();
        let of = |series: &str, figure: &str| {
            let mut all = ran.result["series"].as_array().unwrap().iter();
            let series = all.find(|found| found["name"] == series).unwrap();
            series[figure].as_f64().unwrap() / 1e9
        };
        // Those beyond a percentile were due within so long after the beginning.
        let agrees = |figure: &str, beyond: f64| {
            let expected = stood_still - beyond / 200.0;
            (of("response", figure) - expected).abs() < 0.02 * expected + 0.005
        };
        let right = agrees("p90_ns", 60.0) && agrees("p99_ns", 6.0) && agrees("max_ns", 0.0);
        // Only the four that were on their way show it where time counts from the sending.
        if right && of("response", "p50_ns") < 0.05 && of("service", "p99_ns") < 0.1 {
            return;
        }
        let figures = ["p50_ns", "p90_ns", "p99_ns", "max_ns"].map(|figure| of("response", figure));
        found.push((stood_still, figures, of("service", "p99_ns")));
    }
    panic!("{found:?}");
}

#[test]
fn a_plan_for_a_daemon_that_names_what_is_not_there_is_a_wrong_call() {
    let (file, out) = with_the_daemon("endpoint = \"htps\"", "");
    let into = out.path().join("run");
    let into = ["--into", into.to_str().unwrap()];
    let rows: &[(&[&str], &[&str])] = &[
        (&[], &["endpoint", "`htps`", "h2c", "https", "leave it out"]),
        (
            &["--set", "driver.body_files=[\"/no/such\"]"],
            &["driver.body_files", "/no/such"],
        ),
        (
            &[
                "--set",
                "driver.connections=70000",
                "--set",
                "driver.source_addresses=[\"127.0.0.1\"]",
            ],
            &["--source-addresses", "127.0.0.1 has "],
        ),
        (
            &["--set", "driver.source_addresses=[\"127.0.0.300\"]"],
            &["driver.source_addresses", "is no address"],
        ),
    ];
    for (set, parts) in rows {
        let Output { status, stderr, .. } = launched(&file, &[*set, &into[..]].concat())
            .output()
            .unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(
            parts.iter().all(|part| said.contains(part)),
            "{set:?}: {said}"
        );
        assert_eq!(status.code(), Some(2), "{set:?}: {said}");
        assert!(!out.path().join("run").exists());
    }
}
