//! Streams of a language model, as `mock-llm` answers.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use http_load::Settings;
use load::recorder::{GOODPUT, OK};
use mock_llm::{Listener, Pattern, Server};
use tokio::runtime::Runtime;

use super::{PATIENCE, settings};
use crate::scenarios::{adds_up, errors, failed, put, put_with, users};

/// Starts a model that lives as long as the test; returns its URL.
fn model() -> String {
    let settings = mock_llm::Settings {
        tokens: 4,
        delay: Duration::from_millis(1),
        pattern: Pattern::Plain,
        key: None,
    };
    let (send, listening) = mpsc::channel();
    thread::spawn(move || {
        Runtime::new().unwrap().block_on(async {
            let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
            send.send(listener.base()).unwrap();
            Server::new(settings)
                .run(listener, std::future::pending())
                .await;
        });
    });
    format!("{}/v1/chat/completions", listening.recv().unwrap())
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
    let url = model();
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
                _ => (PATIENCE, 3),
            };
            let settings = Settings {
                http2,
                streams: if http2 { streams as u32 } else { 1 },
                timeout,
                ..request(pattern)
            };
            let tally = put(settings, users(1, streams), &url);
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
    let url = model();
    for (objectives, met) in [
        (&["first_event < 60s", "gap < 60s"][..], 3),
        (&["first_event < 1us"], 0),
        // Contents are 1 ms apart: not all gaps of a stream are so short.
        (&["gap < 1us", "first_event < 60s"], 0),
    ] {
        let tally = put_with(request("plain"), users(1, 3), &url, objectives);
        assert_eq!(tally.counted(GOODPUT), met, "{objectives:?}");
        let values = |series| tally.series().find(|(name, _)| *name == series).unwrap().1;
        assert_eq!((tally.counted(OK), values("first_event").len()), (3, 3));
        assert_eq!(values("gap").len() + 3, tally.counted("events"));
    }
}
