//! Tests of options that are invalid, alone or together.

use crate::support::{Daemon, command};

#[test]
fn a_sink_says_that_nothing_listens_on_the_port_of_https() {
    let mut daemon = Daemon::start("--sink --https-port 0 --workers 1");
    assert_eq!(daemon.https, None);
    assert!(daemon.stop().success());
    let stderr = daemon.stderr();
    assert!(stderr.contains("does not support TLS"), "{stderr}");
}

/// Starts the daemon with invalid options; checks its exit code and its message.
fn refused(arguments: &str, code: i32, words: &[&str]) {
    let mut command = command();
    let output = command
        .args(["--http-port", "0"])
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(words.iter().all(|word| stderr.contains(word)), "{stderr}");
}

#[test]
fn unusable_options_are_named_before_the_first_connection() {
    refused(
        "--sink --sink-body 4294967295",
        2,
        &["--sink-body", "at most"],
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    refused(
        &format!("--root {path}"),
        1,
        &["--root", path, "is not a folder"],
    );
}
