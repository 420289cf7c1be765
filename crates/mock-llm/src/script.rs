//! The body of an answer: the steps of a pattern, at their pace.

use std::convert::Infallible;
use std::fmt;
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::asked::Asked;
use crate::counts::Open;
use crate::pattern::Pattern;

/// Before a connection is reset, what was sent has this long to be read: a reset discards it.
const BEFORE_RESET: Duration = Duration::from_millis(50);

/// What a body does next.
enum Step {
    /// Nothing for a while; the connection writes out what it has.
    Wait(Duration),
    Send(Bytes),
    /// Nothing for ever.
    Stall,
    /// Break off.
    Abort,
}

/// A body that was broken off on purpose.
#[derive(Debug)]
pub(crate) struct Aborted;

impl fmt::Display for Aborted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("broken off, as the pattern wants it")
    }
}

impl std::error::Error for Aborted {}

impl From<Infallible> for Aborted {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The steps of one answer.
pub(crate) struct Script {
    steps: Box<dyn Iterator<Item = Step> + Send>,
    waiting: Option<Pin<Box<Sleep>>>,
    open: Open,
    /// Called when the body is to be broken off.
    abort: Box<dyn Fn() + Send>,
}

impl Script {
    pub(crate) fn new(
        pattern: Pattern,
        asked: Asked,
        pace: (u32, Duration),
        open: Open,
        abort: impl Fn() + Send + 'static,
    ) -> Self {
        Self {
            steps: steps(pattern, asked, pace),
            waiting: None,
            open,
            abort: Box::new(abort),
        }
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                std::task::ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            match self.steps.next() {
                // A timer would take a millisecond at least.
                Some(Step::Wait(Duration::ZERO)) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::Wait(time)) => {
                    self.waiting = Some(Box::pin(sleep_until(Instant::now() + time)));
                }
                Some(Step::Send(bytes)) => {
                    self.open.counts.took(bytes.len());
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Step::Stall) => {
                    self.steps = Box::new(iter::repeat_with(|| Step::Stall));
                    return Poll::Pending;
                }
                Some(Step::Abort) => {
                    self.open.finish();
                    (self.abort)();
                    return Poll::Ready(Some(Err(Aborted)));
                }
                None => {
                    self.open.finish();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

fn steps(
    pattern: Pattern,
    asked: Asked,
    (tokens, delay): (u32, Duration),
) -> Box<dyn Iterator<Item = Step> + Send> {
    if pattern == Pattern::Stall {
        return Box::new(iter::once(Step::Stall));
    }
    let is_quirky = pattern == Pattern::Quirks;
    let frame = move |data: Value| match is_quirky {
        true => quirky_event(&data),
        false => event(&data.to_string()),
    };
    let model = asked.model;
    let chunk = move |delta: Value, finish: Option<&str>| {
        frame(json!({
            "id": "chatcmpl-mock",
            "object": "chat.completion.chunk",
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    };
    let opening = chunk(json!({"role": "assistant", "content": ""}), None);
    let ending = ending(pattern, &chunk);
    let text = asked.body;
    let contents = (0..pattern.contents(tokens)).flat_map(move |index| {
        let content = match pattern {
            Pattern::Echo => text.clone(),
            _ => pattern.content(index),
        };
        let event = chunk(json!({ "content": content }), None);
        [Step::Wait(delay), Step::Send(event)]
    });
    let whole = iter::once(Step::Send(opening))
        .chain(contents)
        .chain(ending);
    match pattern {
        Pattern::ByteChunks => Box::new(whole.flat_map(one_by_one)),
        _ => Box::new(whole),
    }
}

/// What follows the last content.
fn ending(pattern: Pattern, chunk: &impl Fn(Value, Option<&str>) -> Bytes) -> Vec<Step> {
    let finish = |reason| Step::Send(chunk(json!({}), Some(reason)));
    let done = || Step::Send(event("[DONE]"));
    match pattern {
        Pattern::AbortAfter(_) => vec![Step::Wait(BEFORE_RESET), Step::Abort],
        Pattern::FinishLength => vec![finish("length"), done()],
        Pattern::FinishOnly => vec![finish("stop")],
        Pattern::Linger => vec![finish("stop"), done(), Step::Stall],
        Pattern::NoFinish => Vec::new(),
        Pattern::ErrorEvent => {
            let error = json!({"error": {"message": "out of memory", "code": 500}});
            vec![Step::Send(event(&error.to_string()))]
        }
        Pattern::Quirks => {
            let usage = json!({"choices": [], "usage": {"total_tokens": 1}});
            let usage = quirky_event(&usage);
            vec![finish("stop"), Step::Send(usage), done()]
        }
        _ => vec![finish("stop"), done()],
    }
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// One event over several lines, between other fields, with each of the line ends.
fn quirky_event(data: &Value) -> Bytes {
    let pretty = serde_json::to_string_pretty(data).expect("JSON can be written");
    let lines: String = pretty
        .lines()
        .map(|line| format!("data:{line}\r\n"))
        .collect();
    Bytes::from(format!(
        ": comment\r\nid: 7\revent: message\nretry:5\nunknown\n{lines}\r\n"
    ))
}

/// A wait between the bytes has each of them written by itself.
fn one_by_one(step: Step) -> Vec<Step> {
    let Step::Send(bytes) = step else {
        return vec![step];
    };
    let each = (0..bytes.len()).map(|index| bytes.slice(index..=index));
    each.flat_map(|byte| [Step::Send(byte), Step::Wait(Duration::ZERO)])
        .collect()
}
