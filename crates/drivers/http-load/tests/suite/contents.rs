//! Contents of requests and responses: compared, rotated, and too long.

use std::collections::BTreeSet;

use crate::program::{program, run, run_users, started_of, sums};
use crate::scripted::{Scripted, Step};
use crate::servers::{ENGINES, OK, url, well};

/// Starts a server that sends the normal response, but another one to every tenth request.
fn every_tenth(then: &str) -> Scripted {
    let answer = |text: &str| Step::Send(text.as_bytes().to_vec());
    // The check makes two requests, over its own connections.
    let mut script = vec![[Step::Expect, answer(OK)]; 9].concat();
    script.extend([Step::Expect, answer(then), Step::Again]);
    Scripted::start(script)
}

#[test]
fn another_content_of_the_right_length_is_a_failure_of_its_own() {
    let wrong = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO";
    for engine in ENGINES {
        let driver = format!("engine = \"{engine}\"");
        for words in [&["--processes", "2"][..], &["-t", "1"]] {
            let server = every_tenth(wrong);
            let url = url(&server);
            let ran = run_users(2, 20, &driver, &[words, &[&url]].concat());
            assert_eq!(ran["errors"].to_string(), r#"{"body":4}"#, "{engine}");
            assert_eq!((sums(&ran).1, ran.count("bodies_compared")), (36, 40));
            let warnings = ran["warnings"].to_string();
            assert!(warnings.contains("--any-content"), "{warnings}");
        }
        for (option, failed) in [
            ("any_content = true", 0),
            ("expect_body = \"hello\"", 4),
            ("checks = [\"status==200\"]", 4),
            ("checks = ['body contains \"e\"']", 4),
        ] {
            let server = every_tenth(wrong);
            let ran = run_users(2, 20, &format!("{driver}\n{option}"), &[&url(&server)]);
            assert_eq!(
                ran.number("/operations/failed"),
                failed,
                "{engine} {option}"
            );
        }
    }
}

#[test]
fn contents_that_change_from_answer_to_answer_are_not_compared() {
    let answer = |text: &str| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        Step::Send(format!("{head}{text}").into_bytes())
    };
    for engine in ENGINES {
        let server = Scripted::start_each(move |number| {
            let text = format!("{number:05}");
            vec![Step::Expect, answer(&text), Step::Again]
        });
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(2, 20, &driver, &[&url(&server)]);
        assert_eq!(sums(&ran).1, 40, "{engine}: {}", ran["errors"]);
        assert_eq!(ran.count("bodies_compared"), 0);
    }
}

#[test]
fn a_length_that_varies_is_refused_before_the_load_with_the_remedy() {
    for engine in ENGINES {
        let server = Scripted::start_each(|number| {
            let body = "x".repeat(number as usize + 1);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            vec![
                Step::Expect,
                Step::Send((head + &body).into_bytes()),
                Step::Again,
            ]
        });
        let url = url(&server);
        let words = ["/x of 127.0.0.1", "1 and 2 bytes", "--any-content"];
        program(&[&url, "--engine", engine]).refused(2, &words);
        let driver = format!("engine = \"{engine}\"\nany_content = true");
        assert_eq!(sums(&run_users(2, 10, &driver, &[&url])).1, 20, "{engine}");
        // It varies only after the check.
        let server = every_tenth("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!");
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(2, 20, &driver, &[&crate::servers::url(&server)]);
        assert_eq!(ran["errors"].to_string(), r#"{"length":4}"#, "{engine}");
        let warnings = ran["warnings"].to_string();
        assert!(warnings.contains("--any-content"), "{warnings}");
    }
}

#[test]
fn bytes_after_an_answer_make_a_run_suspect() {
    let twice = OK.repeat(2);
    for engine in ENGINES {
        let server = every_tenth(&twice);
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(1, 20, &driver, &[&url(&server)]);
        assert!(ran.count("excess_bytes") > 0, "{engine}");
        assert_ne!(ran["verdict"], "VALID");
        let warnings = ran["warnings"].to_string();
        let told = "bytes after the end of an answer";
        assert!(warnings.contains(told), "{engine}: {warnings}");
        let server = well();
        let ran = run_users(1, 20, &driver, &[&url(&server)]);
        assert_eq!(ran["counts"]["excess_bytes"], 0);
        assert!(!ran["warnings"].to_string().contains(told));
    }
}

#[test]
fn numbers_and_contents_in_rotation_arrive_as_they_were_asked_for() {
    for engine in ENGINES {
        let server = well();
        let load = ["-R", "20", "-d", "2s", "--warmup", "0s", "-c", "2"];
        let request = ["-m", "POST", "--path", "/items/{id:7}?n={id}"];
        let content = ["-H", "X-Number: n{id}", "-b", r#"{"id":{id}}"#, "-b", "no"];
        let url = url(&server);
        let words = [url.as_str(), "--engine", engine, "--processes", "2"];
        let ran = run(&[&load[..], &request, &content, &words].concat());
        let started = started_of(&ran, 40);
        assert_eq!(ran.count("opened"), 2, "{engine}");
        let mut numbers = BTreeSet::new();
        for request in server.seen() {
            let request = String::from_utf8(request).unwrap();
            let (head, content) = request.split_once("\r\n\r\n").unwrap();
            let number = head.split(['=', ' ']).nth(2).unwrap();
            let number: u64 = number.parse().unwrap();
            let head = head.to_lowercase();
            let mut fields = head.lines();
            let line = format!("post /items/{}?n={number} http/1.1", number % 7);
            assert_eq!(fields.next(), Some(line.as_str()), "{engine}");
            let field = format!("x-number: n{number}");
            assert!(fields.any(|line| line == field), "{engine}: {head}");
            let body = match number % 2 {
                0 => format!(r#"{{"id":{number}}}"#),
                _ => "no".to_owned(),
            };
            assert_eq!(content, body, "{engine}");
            numbers.insert(number);
        }
        // Each number once, except for the check, which uses number 0.
        assert_eq!(numbers.len() as u64, started, "{engine}: {numbers:?}");
        assert!(numbers.last() < Some(&40), "{engine}: {numbers:?}");
        assert_eq!(server.finish().requests, 1 + started);
    }
}
