//! Passwords, which no output shows.

use std::process::Command;

use harness_testing::program::words;
use harness_testing::result;
use null_broker::{NullBroker, Script};

use crate::support::PROGRAM;

#[test]
fn a_password_reaches_the_broker_by_variable_or_file_and_nothing_that_is_shown_or_stored() {
    let broker = NullBroker::start(Script::default()).unwrap();
    // The broker accepts no other password, which proves that it was this one.
    let uri = broker.uri().replacen("guest:guest", "guest:g%75est", 1);
    assert!(uri.contains("guest:g%75est@"), "{uri}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("uri");
    std::fs::write(&file, format!("{uri}\n")).unwrap();
    let file = format!("@{}", file.display());
    for given in ["variable", "file"] {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        match given {
            "file" => command.args(["--uri", &file]),
            _ => command.env("AMQP_PERFTEST_URI", &uri),
        };
        let output = command
            .args(words(
                "--pmessages 5 --cmessages 5 --into run --output output.json",
            ))
            .current_dir(&out)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{given}: {said}"
        );
        assert!(!(said + &String::from_utf8_lossy(&output.stdout)).contains("g%75est"));
        let mut files = vec![out.path().join("output.json")];
        files.extend(
            std::fs::read_dir(out.path().join("run"))
                .unwrap()
                .map(|entry| entry.unwrap().path()),
        );
        for file in files {
            let text = std::fs::read(&file).unwrap();
            assert!(
                !String::from_utf8_lossy(&text).contains("g%75est"),
                "{}",
                file.display()
            );
        }
        let result = result::read(out.path());
        let target = result["daemon"]["target"].as_str().unwrap();
        assert!(
            target.starts_with("amqp://guest:[redacted]@127.0.0.1:"),
            "{target}"
        );
    }
}

#[test]
fn neither_an_error_nor_the_help_shows_a_password() {
    for (arguments, code) in [
        ("--uri amqp://u:s3cret@127.0.0.1:1/", 2),
        ("--uri u:s3cret@127.0.0.1:1", 2),
        ("--uri amqp://u:s3cret@h:port/", 2),
        ("check --uri amqp://u:s3cret@127.0.0.1:1/", 1),
        ("check amqp://u:s3cret@127.0.0.1:1/", 1),
        (
            "conformance amqp://u:s3cret@127.0.0.1:1/ --only tx.commit",
            1,
        ),
        ("amqp://u:s3cret@127.0.0.1:1/", 2),
        ("--help", 0),
    ] {
        let mut command = Command::new(PROGRAM);
        if code == 0 {
            command.env("AMQP_PERFTEST_URI", "amqp://u:s3cret@h/");
        }
        let output = command.args(words(arguments)).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(!said.contains("s3cret"), "{arguments:?}: {said}");
    }
}
