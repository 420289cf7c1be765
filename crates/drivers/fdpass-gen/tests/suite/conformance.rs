//! The conformance cases: our daemon passes them all, and a faulty one fails the corresponding case.

use nix::sys::socket::SockType;
use serde_json::Value;

use crate::faulty::{self, Fault, ended, program, project, serve_here};

/// Runs some cases on a launched faulty daemon; returns the exit code and the TAP output.
fn conformance(fault: Fault, only: &str) -> (Option<i32>, String) {
    let root = project(fault);
    let arguments = format!("conformance --daemon faulty --only '{only}' --quiet");
    let (code, tap, _) = ended(program(root.path(), &arguments));
    assert!(tap.starts_with("TAP version 14\n"), "{tap}");
    (code, tap)
}

/// Asserts that a case passes, and that with a fault it fails on both types of socket, with these words.
fn is_found(fault: Fault, case: &str, words: &[&str]) {
    let (code, tap) = conformance(Fault::None, case);
    assert_eq!(code, Some(0), "without a fault: {tap}");
    let (code, tap) = conformance(fault, case);
    assert_eq!(code, Some(1), "{tap}");
    for kind in ["seqpacket", "stream"] {
        assert!(tap.contains(&format!("- {kind}: {case}\n  ---\n")), "{tap}");
    }
    let of_tap = ["not ok 1 - ", "not ok 2 - ", "  message: |\n", "  ...\n"];
    for word in of_tap.iter().chain(words) {
        assert!(tap.contains(word), "{word:?} is not in:\n{tap}");
    }
}

#[test]
fn our_daemon_passes_every_case_on_both_types_of_socket() {
    let here = std::env::current_dir().unwrap();
    let mut command = program(&here, "conformance --daemon rust-streaming");
    command.args(["--format", "json"]);
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", target);
    }
    let (code, json, said) = ended(command);
    let report: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{said}"));
    let cases = report["cases"].as_array().unwrap();
    let with = |outcome: &str| -> Vec<&Value> {
        let those = cases.iter().filter(|case| case["outcome"] == outcome);
        those.collect()
    };
    assert_eq!(with("failed"), Vec::<&Value>::new());
    assert_eq!(code, Some(0));
    assert!(with("passed").len() > 80, "{json}");
    let version = report["version"].as_str().unwrap();
    assert!(version.contains("streaming-daemon"), "{version}");
    // Only cases for the other type of socket, or those refused by this kernel.
    for skipped in with("skipped") {
        let detail = skipped["detail"].as_str().unwrap();
        assert!(
            detail.contains("other type of socket") || detail.contains("EMSGSIZE"),
            "{skipped}"
        );
    }
}

#[test]
fn a_second_descriptor_that_stays_open_is_found() {
    is_found(
        Fault::Leak,
        "two descriptors",
        &["the second client of two is still open"],
    );
}

#[test]
fn a_daemon_that_dies_fails_the_case_and_is_launched_again_for_the_next() {
    let words = ["exited with status 7", "a NUL, of all things"];
    is_found(Fault::DiesOnNul, "payload of one NUL", &words);
    // The next case needs the daemon again.
    let (_, tap) = conformance(Fault::DiesOnNul, "payload");
    for line in [
        "ok 1 - seqpacket: default payload\n",
        "not ok 2 - seqpacket: payload of one NUL\n",
        "ok 3 - seqpacket: empty payload\n",
    ] {
        assert!(
            tap.contains(&format!("\n{line}")),
            "{line:?} is not in:\n{tap}"
        );
    }
}

#[test]
fn a_limit_that_is_not_kept_and_one_that_is_kept_in_silence_are_told_apart() {
    is_found(
        Fault::NoLimit,
        "at capacity: one more client is refused",
        &["the third of two streams was answered", "200 OK"],
    );
    is_found(
        Fault::SilentLimit,
        "at capacity: the refusal is 503 with Retry-After",
        &["the refusal is \"\", expected 503"],
    );
    let (code, tap) = conformance(
        Fault::SilentLimit,
        "at capacity: one more client is refused",
    );
    assert_eq!(code, Some(0), "{tap}");
}

#[test]
fn a_daemon_that_serves_one_client_after_the_other_is_found() {
    is_found(
        Fault::OneByOne,
        "client that never reads holds up nobody",
        &["while a client does not read", "the daemon no longer works"],
    );
}

#[test]
fn a_daemon_that_says_nothing_is_given_up() {
    is_found(
        Fault::Mute,
        "default payload",
        &["neither an answer nor its end"],
    );
}

#[test]
fn a_daemon_that_drops_its_streams_on_sigterm_is_found() {
    for (case, word) in [
        ("on SIGTERM: open streams finish", "without"),
        ("on SIGTERM: exit code 0", "killed by SIGTERM"),
        ("on SIGTERM: the socket file is removed", "still there"),
        ("on SIGHUP: open streams finish", "without"),
    ] {
        let (code, tap) = conformance(Fault::None, case);
        assert_eq!(code, Some(1), "{tap}");
        assert!(tap.contains(word), "{word:?} is not in:\n{tap}");
    }
}

#[test]
fn a_close_that_resets_a_client_is_found() {
    let (code, tap) = conformance(Fault::None, "client with unread data");
    assert_eq!(code, Some(1), "{tap}");
    assert!(tap.contains("ECONNRESET"), "{tap}");
}

#[test]
fn on_a_daemon_that_runs_already_what_needs_a_launch_is_passed_over_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind) in [("p", SockType::SeqPacket), ("s", SockType::Stream)] {
        let socket = folder.path().join(name);
        serve_here(&socket, kind, Fault::Leak);
        let path = socket.to_str().unwrap();
        for (only, expected, line) in [
            (
                "at capacity: one",
                0,
                "one more client is refused # SKIP it needs a daemon with its own settings",
            ),
            (
                "exit code",
                0,
                "exit code 0 # SKIP it needs a daemon with its own settings",
            ),
            ("bytes and", 0, "counted # SKIP it needs a metrics page"),
            ("default", 0, ": default payload\n"),
            ("two descriptors", 1, ": two descriptors\n  ---\n"),
        ] {
            let arguments = format!("conformance -socket {path} -only '{only}'");
            let (code, tap, _) = ended(program(folder.path(), &arguments));
            assert_eq!(code, Some(expected), "{tap}");
            assert!(tap.contains(line), "{line:?} is not in:\n{tap}");
        }
    }
}

#[test]
fn a_call_that_cannot_be_right_is_refused_with_option_and_remedy() {
    faulty::refused(
        "
            conformance => --daemon
            conformance --daemon nonesuch => nonesuch … known daemons
            conformance --daemon faulty --socket /s => --socket
            conformance --daemon faulty --only xyz => --only xyz … two descriptors
            conformance --daemon faulty --format xml => --format … tap … json
            conformance --socket /nowhere/s => --socket /nowhere/s … start the daemon
            conformance /nowhere/s --metrics http://x/ => --socket /nowhere/s … start the daemon
            conformance /s --socket /s => --socket … one daemon
            conformance --socket /dev/null => --socket /dev/null
            conformance --daemon faulty --metrics http://x/ => --metrics
            --rate 5 conformance => conformance
        ",
    );
}
