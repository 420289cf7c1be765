//! Tests the live view of a suite, on a terminal and as text.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use harness_testing::divided::DividedRun;
use harness_testing::processes::{send, wait_until};
use harness_testing::program::{beside, words};
use harness_testing::terminal::TerminalProgram;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::streaming::root;
use crate::support::{Project, assert_contains, interrupt, messages, shown};

const SUITE: &str = "[driver]\ndo = { 'b/10' = 'hang', 'a/5' = 'suspect' }\n[suite]\ndaemons = ['a', 'b']\nlevels = [{ name = '5', set = {} }, { name = '10', set = {} }]\n";

/// Writes what the driver of a run in progress leaves: these seconds, and a sample of the resources.
fn live(folder: &Path, seconds: std::ops::RangeInclusive<u64>) {
    fs::create_dir_all(folder).unwrap();
    let second = |second: u64| {
        format!(
            "{{\"second\":{second},\"phase\":\"measure\",\"end\":{{\"about\":66}},\"latest\":187,\"started\":{0},\"ok\":{0},\"failed\":7,\"open\":10,\"rate\":1234,\"p50_ns\":1230000,\"p99_ns\":12300000}}\n",
            1234 * second
        )
    };
    fs::write(
        folder.join("live.jsonl"),
        seconds.map(second).collect::<String>(),
    )
    .unwrap();
    fs::write(
        folder.join("resources.csv"),
        "timestamp,rss_kb,cpu_pct,driver_rss_kb,driver_cpu_pct\n1,12595,34.2,20480,5.0\n",
    )
    .unwrap();
}

#[test]
fn a_running_suite_is_shown_live_and_the_terminal_is_as_before_at_the_end() {
    let project = Project::new(SUITE);
    let (suite, _) = project.hang("--force");
    let run = project.suite("tiny/b/10/1");
    live(&run, 1..=33);
    let mut watch = TerminalProgram::start(&project.drover("watch"), 24, 80);
    let screen = watch.until("live second", |screen| {
        screen.contains("33/~66 s") && screen.contains("MiB")
    });
    assert_contains(
        &screen,
        &[
            "tiny · run 3 of 4 · b · 10",
            "measure ━",
            "starts 1,234/s",
            "p99 12.3 ms · p50 1.23 ms",
            "daemon 12.3 MiB  CPU  34 %",
            "driver 20.0 MiB  CPU   5 %",
            "7 failed",
            "q quits",
            " left",
        ],
    );
    let row = |name: &str| {
        let line = screen.lines().find(|line| line.starts_with(name));
        line.unwrap().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("a  "), ["a", "SUSPECT", "·"]);
    assert_eq!(row("b  "), ["b", "VALID", "running"]);
    assert!(screen.lines().all(|line| line.chars().count() <= 80));

    // The next second appears, on a terminal of another size too.
    live(&run, 1..=34);
    watch.until("next second", |screen| screen.contains("34/~66 s"));
    watch.resize(40, 120);
    watch.until("wider line", |screen| screen.contains("started 42.0k"));

    interrupt(&suite);
    suite.end();
    watch.until("end of the suite", |screen| screen.contains("not finished"));
    watch.type_keys("q");
    assert!(watch.end().success());
    assert!(watch.shows_shell(), "{}", watch.written());
}

#[test]
fn a_single_run_is_shown_and_a_small_terminal_is_no_problem() {
    let project = Project::new("[driver]\n");
    let run = project.path("bench-results/today/tiny/b/10/1");
    live(&run, 1..=33);
    // A file that is not written any more is one of a run that has ended.
    let seconds = fs::File::options()
        .append(true)
        .open(run.join("live.jsonl"));
    let later = SystemTime::now() + Duration::from_secs(3600);
    seconds.unwrap().set_modified(later).unwrap();
    let call = format!("watch {}", run.display());
    let mut watch = TerminalProgram::start(&project.drover(&call), 24, 80);
    let screen = watch.until("live second", |screen| {
        screen.contains("33/~66 s") && screen.contains("q quits")
    });
    assert_contains(
        &screen,
        &["run in ", "starts 1,234/s", "daemon 12.3 MiB", "q quits"],
    );
    // Every size has a frame, down to one cell.
    for (rows, columns) in [(10, 40), (5, 20), (2, 200), (1, 1), (200, 2)] {
        let before = watch.written().len();
        watch.resize(rows, columns);
        // The first cells of a frame may be blank.
        wait_until("a frame of this size", || {
            watch.screen();
            watch.written().len() > before
        });
    }
    watch.resize(24, 80);
    watch.until("the first size", |screen| screen.contains("q quits"));
    watch.type_keys("q");
    assert!(watch.end().success(), "{}", watch.written());
    assert!(watch.shows_shell(), "{}", watch.written());

    let frame = project.call(&format!("{call} --once"), 0);
    assert_contains(&shown(&frame), &["33/~66 s"]);
}

#[test]
fn the_shards_of_a_divided_run_are_shown_with_their_sum_and_a_killed_one_is_named() {
    let Some([program]) = beside(env!("CARGO_BIN_EXE_drover"), ["http-load"]) else {
        return;
    };
    let mut run = DividedRun::new(&program);
    let daemon = "--role daemon --daemon http-daemon";
    for part in ["--shard 0/2", "--shard 1/2", daemon] {
        let load = "-R 40 -d 10m --threads 1";
        let mut part = run.part(&words(&format!("{part} {load}")));
        part.current_dir(root());
        run.start_command(part);
    }
    let project = Project::new("[driver]\n");
    let folder = run.folder();
    let call = format!("watch {}", folder.display());
    wait_until("the parts meet", || folder.join("ready-0").exists());
    let mut watch = TerminalProgram::start(&project.drover(&call), 24, 100);
    let screen = watch.until("both shards", |screen| {
        screen.contains("2 shards: 2 running") && screen.contains("starts 40/s")
    });
    assert_contains(
        &screen,
        &[
            "measure",
            "/~60",
            "slowest shard: p99",
            "daemon ",
            "MiB",
            "q quits",
        ],
    );
    let row = |screen: &str, index: &str| {
        let rows = screen.lines().map(|line| line.split_whitespace());
        let mut rows = rows.map(Iterator::collect::<Vec<_>>);
        rows.find(|row| row.first() == Some(&index))
            .unwrap()
            .join(" ")
    };
    assert!(row(&screen, "1").ends_with(" running"), "{screen}");
    send(run.process(1), Signal::SIGKILL);
    let screen = watch.until("a silent shard", |screen| screen.contains("1 silent (1)"));
    assert!(row(&screen, "1").contains(" silent for "), "{screen}");
    let frame = project.call(&format!("{call} --once"), 0);
    assert_contains(&shown(&frame), &["1 silent (1)", "1 running"]);
    send(run.process(0), Signal::SIGINT);
    let screen = watch.until("the end", |screen| {
        screen.contains("no shard is active any more")
    });
    assert_contains(&screen, &["2 shards: 1 silent (1), 1 ended (0)"]);
    watch.type_keys("q");
    assert!(watch.end().success());
    // Its totals are read from its result.
    let started = run.shard(0).operations("started").to_string();
    let frame = shown(&project.call(&format!("{call} --once"), 0));
    assert_contains(&row(&frame, "0"), &[&started, "ended "]);
    run.wait();
}

#[test]
fn ctrl_c_and_a_signal_restore_the_terminal() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a']\n");
    project.run("", 0);
    let start = || {
        let mut watch = TerminalProgram::start(&project.drover("watch"), 24, 80);
        watch.until("suite", |screen| screen.contains("finished"));
        watch
    };
    let mut watch = start();
    watch.type_keys("\x03");
    assert!(watch.end().success() && watch.shows_shell());
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut watch = start();
        kill(Pid::from_raw(watch.pid().cast_signed()), signal).unwrap();
        assert!(watch.end().success() && watch.shows_shell(), "{signal}");
    }
}

#[test]
fn a_terminal_that_is_closed_ends_the_view() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a']\n");
    project.run("", 0);
    let program = project.drover("watch");
    // As under `nohup`: the signal of the closed terminal does not arrive.
    let mut without_signal = Command::new("env");
    without_signal
        .arg("--ignore-signal=HUP")
        .arg(program.get_program())
        .args(program.get_args());
    without_signal.current_dir(program.get_current_dir().unwrap());
    for (name, value) in program.get_envs() {
        without_signal.env(name, value.unwrap_or_default());
    }
    for command in [program, without_signal] {
        let mut watch = TerminalProgram::start(&command, 24, 80);
        watch.until("suite", |screen| screen.contains("finished"));
        watch.hang_up();
        let status = watch.end();
        assert!(status.success(), "{status} {command:?}");
    }
}

#[test]
fn arrows_scroll_a_table_that_does_not_fit() {
    let daemons: Vec<String> = (1..=20)
        .map(|number| format!("daemon-{number:02}"))
        .collect();
    let names: Vec<String> = daemons.iter().map(|name| format!("'{name}'")).collect();
    let project = Project::new(&format!(
        "[driver]\n[suite]\ndaemons = [{}]\n",
        names.join(", ")
    ));
    daemons
        .iter()
        .for_each(|daemon| project.daemon(daemon, "drover-no-such-tool"));
    project.run("", 1);
    let mut watch = TerminalProgram::start(&project.drover("watch"), 20, 80);
    let screen = watch.until("table", |screen| screen.contains("daemon-01  missing"));
    assert!(
        screen.contains("more below") && !screen.contains("daemon-20"),
        "{screen}"
    );
    watch.type_keys("\x1b[6~\x1b[6~\x1b[B");
    watch.until("last row", |screen| screen.contains("daemon-20  missing"));
    watch.type_keys("\x1b[H");
    watch.until("first row", |screen| screen.contains("daemon-01"));
    watch.type_keys("q");
    assert!(watch.end().success());
}

#[test]
fn one_frame_is_text_for_scripts() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a', 'b']\nrepeat = 3\n");
    let nothing = project.call("watch --once", 2);
    assert_contains(&messages(&nothing), &["drover run PLAN"]);
    project.run("", 0);
    let frame = project.call("watch --once", 0);
    let text = shown(&frame);
    assert_contains(
        &text,
        &[
            "tiny · 6 of 6 runs have results",
            "a  VVV",
            "V valid",
            "finished",
        ],
    );
    assert!(!text.contains('\x1b'), "{text}");
    let piped = project.call("watch", 2);
    assert_contains(&messages(&piped), &["--once"]);
}
