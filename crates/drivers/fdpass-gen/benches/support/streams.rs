//! The stream of a daemon.

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\nX-Accel-Buffering: no\r\n\r\n";

fn record(number: u32) -> String {
    format!(
        "data: {{\"content\":\"Record {number} of a stream that is as long as most are.\"}}\n\n"
    )
}

/// Returns a stream of 18 records as it arrives from a daemon that paces it: the head, then a record at a time.
pub(crate) fn pieces() -> Vec<String> {
    [HEAD.to_owned()]
        .into_iter()
        .chain((0..18).map(record))
        .chain(["data: [DONE]\n\n".to_owned()])
        .collect()
}
