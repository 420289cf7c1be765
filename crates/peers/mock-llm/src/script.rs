//! Response bodies: the steps of a pattern, at their pace.

use std::convert::Infallible;
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::asked::ChatRequest;
use crate::counts::Open;
use crate::pattern::Pattern;

/// Delay before a connection is reset, so that sent data can be read: a reset discards it.
const BEFORE_RESET: Duration = Duration::from_millis(50);

/// The length of each prompt in tokens, as the answer reports it.
const PROMPT_TOKENS: u32 = 4;

/// A step of a body.
enum Step {
    /// Waits; the connection flushes meanwhile.
    Wait(Duration),
    Send(Bytes),
    /// Stalls forever.
    Stall,
    /// Aborts the body.
    Abort,
}

/// The error of a body that was aborted on purpose.
#[derive(Debug, thiserror::Error)]
#[error("aborted, as the pattern defines")]
pub(crate) struct Aborted;

impl From<Infallible> for Aborted {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The body of a response, as a sequence of steps.
pub(crate) struct Script {
    steps: Box<dyn Iterator<Item = Step> + Send>,
    waiting: Option<Pin<Box<Sleep>>>,
    open: Open,
    /// Called when the body is aborted.
    abort: Box<dyn Fn() + Send>,
}

impl Script {
    pub(crate) fn new(
        pattern: Pattern,
        request: ChatRequest,
        pace: (u32, Duration),
        open: Open,
        abort: impl Fn() + Send + 'static,
    ) -> Self {
        Self {
            steps: steps(pattern, request, pace),
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
                // A timer would take at least a millisecond.
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
    request: ChatRequest,
    (tokens, delay): (u32, Duration),
) -> Box<dyn Iterator<Item = Step> + Send> {
    if pattern == Pattern::Stall {
        return Box::new(iter::once(Step::Stall));
    }
    let is_quirky = pattern == Pattern::Quirks;
    let frame = move |data: Value| {
        if is_quirky {
            quirky_event(&data)
        } else {
            event(&data.to_string())
        }
    };
    let model = request.model;
    let chunk = move |delta: Value, finish: Option<&str>| {
        frame(json!({
            "id": "chatcmpl-mock",
            "object": "chat.completion.chunk",
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    };
    let opening = chunk(json!({"role": "assistant", "content": ""}), None);
    let usage = request.with_usage.then(|| {
        let completion = pattern.contents(tokens);
        let total = completion + PROMPT_TOKENS;
        json!({"choices": [], "usage": {
            "prompt_tokens": PROMPT_TOKENS, "completion_tokens": completion, "total_tokens": total,
        }})
    });
    let ending = ending(pattern, &chunk, usage);
    let text = request.body;
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

/// Returns the steps after the last content.
fn ending(
    pattern: Pattern,
    chunk: &impl Fn(Value, Option<&str>) -> Bytes,
    usage: Option<Value>,
) -> Vec<Step> {
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
        _ => {
            let usage = usage.map(|usage| Step::Send(event(&usage.to_string())));
            let whole = [finish("stop")].into_iter().chain(usage);
            whole.chain([done()]).collect()
        }
    }
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Formats an event over several lines, between other fields, with each kind of line end.
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

/// Splits a step into single bytes; the waits between them cause separate writes.
fn one_by_one(step: Step) -> Vec<Step> {
    let Step::Send(bytes) = step else {
        return vec![step];
    };
    let each = (0..bytes.len()).map(|index| bytes.slice(index..=index));
    each.flat_map(|byte| [Step::Send(byte), Step::Wait(Duration::ZERO)])
        .collect()
}
