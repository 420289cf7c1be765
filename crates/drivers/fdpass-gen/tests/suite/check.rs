//! The comparison with the shared transcript: our daemon answers the same bytes, and a byte that differs is found.

use harness_testing::assert_contains;
use nix::sys::socket::SockType;

use crate::faulty::{self, Fault, ended, program, project, project_with, serve_here};

/// Returns the number of cases of the transcript, and of those with the default number of events.
fn cases() -> (usize, usize) {
    let text = include_str!("../../../../../daemons/fdpass.golden.json");
    let transcript: serde_json::Value = serde_json::from_str(text).unwrap();
    let cases = transcript["cases"].as_array().unwrap();
    let usual = cases.iter().filter(|case| case["messages"] == 18).count();
    assert!(usual > 40 && cases.len() > usual);
    (cases.len(), usual)
}

/// Returns `104 of 104`: every case on both socket types.
fn all_of_them() -> String {
    format!("{0} of {0} ", 2 * cases().0)
}

#[test]
fn our_daemon_answers_the_bytes_of_the_transcript_and_counts_them() {
    let here = std::env::current_dir().unwrap();
    let mut command = program(&here, "check --daemon rust-streaming");
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", target);
    }
    let (code, out, said) = ended(command);
    assert_eq!(code, Some(0), "{out}{said}");
    let lines: Vec<&str> = out.lines().collect();
    let [line] = lines.as_slice() else {
        panic!("one line was expected: {out}")
    };
    assert!(
        line.starts_with(&format!("rust-streaming: right, {}", all_of_them())),
        "{line}"
    );
    let counts = format!("{} counts", 4 * cases().0);
    assert!(line.contains(&counts), "{line}");
}

#[test]
fn every_daemon_is_checked_where_none_is_named() {
    let root = project(Fault::None);
    let (code, out, said) = ended(program(root.path(), "check --quiet"));
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    let equal = format!("faulty: right, {}", all_of_them());
    assert!(out.starts_with(&equal), "{out}");
}

#[test]
fn one_byte_that_differs_is_named_with_its_case_and_surroundings() {
    let root = project(Fault::OneByte);
    let (code, out, _) = ended(program(root.path(), "check -daemon faulty"));
    assert_eq!(code, Some(1));
    assert!(out.starts_with("faulty: WRONG: "), "{out}");
    for part in [
        "  seqpacket, default payload: byte ",
        "  stream, default payload: byte ",
        r"User ID: ▸1\x22}\n\ndata: {",
        r"User ID: ▸2\x22}\n\ndata: {",
    ] {
        let part = part.replace(r"\x22", "\\\"");
        assert!(out.contains(&part), "{part} is not in:\n{out}");
    }
    assert!(!out.contains("one NUL: byte"), "{out}");
}

#[test]
fn counts_that_do_not_rise_are_a_difference() {
    let root = project(Fault::Miscount);
    let (code, out, _) = ended(program(root.path(), "check"));
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains(&format!("{}answers", all_of_them())), "{out}");
    let wanted = "seqpacket, default payload: daemon_handoffs_total rose by 0 after one handoff";
    assert!(out.contains(wanted), "{out}");
}

#[test]
fn a_daemon_that_dies_is_a_difference_with_the_end_of_its_log() {
    let root = project(Fault::DiesOnNul);
    let (code, out, _) = ended(program(root.path(), "check"));
    assert_eq!(code, Some(1), "{out}");
    assert_contains(
        &out,
        &["one NUL: ", "exited with status 7", "a NUL, of all things"],
    );
}

#[test]
fn on_a_daemon_that_runs_already_other_numbers_of_events_are_passed_over_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind, fault, expected) in [
        ("a", SockType::SeqPacket, Fault::None, 0),
        ("b", SockType::Stream, Fault::None, 0),
        ("c", SockType::Stream, Fault::OneByte, 1),
    ] {
        let socket = folder.path().join(name);
        serve_here(&socket, kind, fault);
        let path = socket.to_str().unwrap();
        let (code, out, _) = ended(program(folder.path(), &format!("check --socket {path}")));
        assert_eq!(code, Some(expected), "{out}");
        assert!(out.contains(&format!("of {} answers", cases().1)), "{out}");
        assert_contains(&out, &["skipped", "forty events"]);
        assert_eq!(
            out.contains("default payload: byte"),
            expected == 1,
            "{out}"
        );
    }
}

#[test]
fn a_daemon_whose_tool_is_missing_is_skipped_unless_everything_is_required() {
    let root = project_with(
        "about = 'a'\nserves = ['fdpass']\nneeds = [['no-such-tool-anywhere']]\nrun = ['x', '{socket}']\nready = { unix = '{socket}' }\n",
    );
    let (code, out, _) = ended(program(root.path(), "check"));
    assert_eq!(code, Some(0));
    assert_eq!(out, "faulty: skipped: it needs `no-such-tool-anywhere`\n");
    let mut command = program(root.path(), "check");
    command.env("DROVER_REQUIRE_ALL", "1");
    let (code, out, _) = ended(command);
    assert_eq!(code, Some(1));
    assert_contains(&out, &["faulty: WRONG", "no-such-tool-anywhere"]);
}

#[test]
fn counters_that_a_daemon_prints_are_compared() {
    let own = std::env::current_exe().unwrap();
    // It prints the same before and after the load.
    let root = project_with(&format!(
        "about = 'a'\nserves = ['fdpass']\n\
         run = ['{}', '--exact', 'is_the_daemon_where_it_was_launched_as_one', '--nocapture']\n\
         counters = ['echo', 'daemon_handoffs_total {{port}}']\n\
         ready = {{ unix = '{{socket}}' }}\n\
         env = {{ FAULT = 'None', DAEMON_SOCKET_PATH = '{{socket}}' }}\n",
        own.display()
    ));
    let load = "--daemon faulty --message-delay 0s --ramp-up 0s --connections 5";
    let (_, out, said) = ended(program(root.path(), load));
    let reported = "handoffs: the driver counted 5, the daemon 0";
    assert!(out.contains(reported), "{out}{said}");
}

#[test]
fn a_daemon_that_may_not_open_as_many_files_is_not_put_under_load() {
    let own = std::env::current_exe().unwrap();
    let root = project_with(&format!(
        "about = 'a'\nserves = ['fdpass']\n\
         run = ['prlimit', '--nofile=60', '{}', '--exact', 'is_the_daemon_where_it_was_launched_as_one', '--nocapture']\n\
         ready = {{ unix = '{{socket}}' }}\n\
         env = {{ FAULT = 'None', DAEMON_SOCKET_PATH = '{{socket}}' }}\n",
        own.display()
    ));
    let run = |connections: &str| {
        let load = "--daemon faulty --message-delay 0s --ramp-up 0s";
        ended(program(
            root.path(),
            &format!("{load} --connections {connections}"),
        ))
    };
    let (code, _, said) = run("1000");
    assert_eq!(code, Some(5), "{said}");
    assert_contains(
        &said,
        &["may open 60 files", "needs 1000 more", "sudo prlimit --pid"],
    );
    let (code, _, said) = run("5");
    assert_ne!(code, Some(5), "{said}");
}

#[test]
fn a_call_that_cannot_be_right_is_refused_with_option_and_remedy() {
    faulty::refused(
        "
            check --daemon nonesuch => nonesuch … known daemons: faulty
            check --daemon faulty --socket /s => --socket
            check --socket /nowhere/s => --socket /nowhere/s … start the daemon
            check --daemon faulty --messages 3 => --messages
            check --messages 3 => --socket
            check --messages many => --messages
            check --connections 3 => --connections
        ",
    );
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    serve_here(&socket, SockType::Stream, Fault::None);
    let path = socket.to_str().unwrap();
    let call = format!("check --socket {path} --messages 7");
    let (code, _, said) = ended(program(folder.path(), &call));
    assert_eq!(code, Some(2));
    assert_contains(&said, &["--messages 7", "0, 1, 2, 3, 18, 40"]);
}
