//! Tests the live line of a run on a terminal.

use harness_testing::assert_contains;
use harness_testing::program::words;
use harness_testing::result;
use harness_testing::terminal::TerminalProgram;
use nix::sys::socket::SockType;

use crate::drive;
use crate::target::{Target, right};

/// Returns a run of 30 clients that begin within 3 s and are served at once, with `arguments`.
fn on_terminal(target: &Target, arguments: &str) -> TerminalProgram {
    let mut program = drive::on(target);
    program.args(words("--connections 30 --ramp-up 3s"));
    TerminalProgram::start(program.args(words(arguments)), 24, 80)
}

#[test]
fn the_live_line_says_when_a_fixed_group_will_be_over_and_fits_80_columns() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let mut run = on_terminal(&target, "");
    // The plan allows 3 minutes. A machine that is late needs a second more.
    let screen = run.until("expected end", |screen| {
        ["/~3 s", "/~4 s", "/~5 s"]
            .iter()
            .any(|end| screen.contains(end))
    });
    let line = |screen: &str| {
        let lines = screen.lines().filter(|line| line.starts_with("measure "));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        assert_eq!(lines.len(), 1, "one line that is drawn again:\n{screen}");
        lines[0].clone()
    };
    let line = line(&screen);
    assert_contains(&line, &["━", "/s", "open ", "failed     0", "p99 "]);
    assert!(line.trim_end().chars().count() < 80, "{line}");
    let live = result::find(target.folder(), "live.jsonl");
    assert!(live.is_some(), "programs can follow the run");
    let status = run.end();
    assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    let screen = run.screen();
    assert!(
        !screen.contains("measure ━"),
        "the line is removed:\n{screen}"
    );
    assert_eq!(result::find(target.folder(), "live.jsonl"), None);
}

#[test]
fn a_quiet_run_draws_no_line() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let mut run = on_terminal(&target, "--quiet");
    run.end();
    let written = run.written();
    assert!(
        !written.contains("measure ") && !written.contains("p99 –"),
        "{written}"
    );
}

#[test]
fn a_terminal_that_has_no_cursor_gets_plain_lines_as_wide_as_columns_says() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let mut program = drive::on(&target);
    program.args(words("--connections 30 --ramp-up 300ms"));
    program.env("TERM", "dumb").env("COLUMNS", "50");
    let mut run = TerminalProgram::start(&program, 24, 80);
    run.end();
    let written = run.written();
    assert!(!written.contains('\u{1b}'), "{written:?}");
    let screen = written
        .lines()
        .skip_while(|line| !line.contains("fdpass-gen against"));
    let mut lines = screen
        .filter(|line| !line.contains(".html"))
        .map(str::trim_end);
    assert!(written.contains("  latency "), "{written}");
    assert!(lines.all(|line| line.chars().count() <= 50), "{written}");
}
