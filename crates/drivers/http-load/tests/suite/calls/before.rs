//! Tests of the checks before the load: a server that responds incorrectly, more connections than the limits allow.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::program::{PROGRAM, adds_up, program, with_files};
use crate::scripted::{Scripted, Step, nobody};
use crate::secure::{Secure, Spoken};
use crate::servers::{MISSING, OK, answers, send, url, well};

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
            &["no complete response within 10 s"],
        ),
        // Single bytes sent slowly: no read waits for long.
        (
            vec![
                Step::Expect,
                Step::SendSlowly(
                    OK.repeat(50).into_bytes()[..40].to_vec(),
                    1,
                    Duration::from_millis(900),
                ),
            ],
            &["no complete response within 10 s"],
        ),
    ];
    thread::scope(|scope| {
        for (script, parts) in rows {
            scope.spawn(move || {
                let server = Scripted::start(script);
                program(&[&url(&server)]).refused(2, parts);
            });
        }
        scope.spawn(|| {
            let parts = ["cannot connect to 127.0.0.1", "start the server", "refused"];
            let (address, _held) = nobody(0);
            program(&[&format!("http://{address}/x")]).refused(2, &parts);
        });
        scope.spawn(|| {
            let parts = ["no.such.host.invalid can't be resolved", "correct the name"];
            program(&["http://no.such.host.invalid/"]).refused(2, &parts);
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
            program(&arguments).refused(2, &parts);
        });
    });
}

#[test]
fn servers_that_answer_differently_are_not_compared() {
    let one = well();
    let (shorter, other) = (OK.replace('5', "2"), OK.replace("hello", "olleh"));
    let shorter = Scripted::start(answers(shorter.strip_suffix("llo").unwrap()));
    let other = Scripted::start(answers(&other));
    let urls = [&one, &shorter, &other].map(url);
    let parts = ["respond differently", "5 bytes", "serve the same content"];
    program(&[&urls[0], &urls[1]]).refused(2, &parts);
    program(&[&urls[0], &urls[2]]).refused(2, &parts);
    let parts = ["5 bytes of content", "6 are expected", "--expect-length"];
    program(&["--expect-length", "6", &urls[0]]).refused(2, &parts);
    let check = |urls: &[&String]| {
        let mut command = Command::new(PROGRAM);
        let output = command.args(["check", "--quiet"]).args(urls).output();
        let output = output.unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let count = |word: &str| shown.matches(word).count();
        (output.status.code(), count(": right"), count(": WRONG"))
    };
    assert_eq!(check(&[&urls[0], &urls[0]]), (Some(0), 2, 0));
    assert_eq!(check(&[&urls[0], &urls[1], &urls[0]]), (Some(1), 2, 1));
    assert_eq!(check(&[&urls[0], &urls[2]]), (Some(1), 1, 1));
}

#[test]
fn more_connections_than_a_process_may_open_are_refused_with_5_or_go_over_several() {
    let server = well();
    let url = url(&server);
    let many = ["-c", "500", "-d", "3s", "--warmup", "0s"];
    let one = [&["--processes", "1", url.as_str()][..], &many[..]].concat();
    let parts = ["needs 600 open files", "may open 300", "--processes auto"];
    with_files(300, &one).refused(5, &parts);
    let most = ["-c", "60000", "--source-addresses", "auto", &url];
    with_files(300, &most).refused(5, &["--processes", "at most 256 are allowed", "ulimit -n"]);
    assert_eq!(server.counts().connections, 0);
    let ran = with_files(300, &[&["-t", "1", url.as_str()][..], &many[..]].concat()).run();
    assert_eq!(ran.result["processes"], 3);
    adds_up(&ran, None);
    assert!(
        ran.result.operations("ok") > 0 && ran.result.operations("failed") == 0,
        "{}",
        ran.result["errors"]
    );
}
