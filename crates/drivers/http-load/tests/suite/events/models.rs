//! Streams of a language model, as `mock-llm` answers.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness_testing::program::beside;
use http_load::Settings;
use load::recorder::{GOODPUT, OK};

use super::{LONG, settings};
use crate::program::PROGRAM;
use crate::scenarios::{adds_up, errors, failed, put, put_with, users};

/// A model, which ends with the test.
struct Model {
    child: Child,
    url: String,
}

impl Model {
    /// Starts a model; `None` if its program was not built.
    fn start() -> Option<Self> {
        let [program] = beside(PROGRAM, ["mock-llm"])?;
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--tokens", "4", "--delay", "1ms"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (stdout, mut base) = (child.stdout.take().unwrap(), String::new());
        BufReader::new(stdout).read_line(&mut base).unwrap();
        let base = &base[base.find("http").expect("it prints its address")..];
        let url = format!("{}/v1/chat/completions", base.trim());
        Some(Self { child, url })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the settings of requests for a stream with a pattern.
fn request(pattern: &str) -> Settings {
    Settings {
        method: "POST".to_owned(),
        headers: vec![format!("X-Test-Pattern: {pattern}")],
        body: vec![r#"{"stream":true,"messages":[]}"#.to_owned()],
        ..settings()
    }
}

#[test]
fn each_pattern_of_a_model_has_its_outcome() {
    let Some(model) = Model::start() else {
        return;
    };
    for (pattern, outcome) in [
        ("plain", "ended_done"),
        ("unicode", "ended_done"),
        ("byte-chunks", "ended_done"),
        ("4k-chunks", "ended_done"),
        ("quirks", "ended_done"),
        ("echo", "ended_done"),
        ("finish-length", "ended_done"),
        ("finish-only", "ended_body"),
        ("no-finish", "ended_body"),
        ("error-event", "event_error"),
        ("abort-after-2", "reset"),
        ("status-429", "status"),
        ("not-sse", "content_type"),
        ("stall", "timeout"),
        ("stall-head", "timeout"),
        ("linger", "timeout_idle"),
    ] {
        for http2 in [false, true] {
            let (timeout, streams) = match outcome {
                "timeout" | "timeout_idle" => (Duration::from_millis(200), 1),
                _ => (LONG, 3),
            };
            let settings = Settings {
                http2,
                streams: if http2 { streams as u32 } else { 1 },
                timeout,
                ..request(pattern)
            };
            let tally = put(settings, users(1, streams), &model.url);
            let shown = format!(
                "{pattern}, {http2}: {:?} {:?}",
                tally.counts,
                errors(&tally)
            );
            assert!(adds_up(&tally), "{shown}");
            match outcome {
                "ended_done" | "ended_body" => {
                    assert_eq!(
                        (tally.counted(OK), tally.counted(outcome)),
                        (streams, streams),
                        "{shown}"
                    );
                    assert!(tally.counted("events") >= 3, "{shown}");
                }
                kind => assert_eq!(errors(&tally), failed(kind, streams), "{shown}"),
            }
        }
    }
}

#[test]
fn goodput_counts_streams_whose_first_record_and_gaps_meet_the_objectives() {
    let Some(model) = Model::start() else {
        return;
    };
    for (objectives, met) in [
        (&["first_event < 60s", "gap < 60s"][..], 3),
        (&["first_event < 1us"], 0),
        // Contents are 1 ms apart: not all gaps of a stream are so short.
        (&["gap < 1us", "first_event < 60s"], 0),
    ] {
        let tally = put_with(request("plain"), users(1, 3), &model.url, objectives);
        assert_eq!(tally.counted(GOODPUT), met, "{objectives:?}");
        let values = |series| tally.series().find(|(name, _)| *name == series).unwrap().1;
        assert_eq!((tally.counted(OK), values("first_event").len()), (3, 3));
        assert_eq!(values("gap").len() + 3, tally.counted("events"));
    }
}
