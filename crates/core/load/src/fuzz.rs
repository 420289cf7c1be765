//! Fuzz targets: responses of servers, URLs as typed, and plans.

use std::net::SocketAddr;

use measure::spec::Spec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document;
use crate::net::dial::Peer;
use crate::net::http1::{Answer, Reader, RequestInfo, ResponseError, Sink};
use crate::net::url::ServerUrl;
use crate::plan::Plan;
use crate::{duration, redact};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("http1_response", http1_response),
    ("plan", plan),
    ("url", url),
];

/// Everything that was read from one connection.
#[derive(Debug, Default, PartialEq)]
struct Responses {
    heads: Vec<String>,
    body: Vec<u8>,
    answers: Vec<Answer>,
    fault: Option<ResponseError>,
}

impl Sink for Responses {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.heads.push(format!("{status} {headers:?}"));
    }

    fn body(&mut self, piece: &[u8]) {
        assert!(!piece.is_empty());
        self.body.extend_from_slice(piece);
    }
}

fn read<'a>(asked: RequestInfo, pieces: impl Iterator<Item = &'a [u8]>) -> Responses {
    let mut responses = Responses::default();
    let mut reader = Reader::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            match reader.take(asked, piece, &mut responses) {
                Ok(progress) => {
                    assert!(progress.done.is_some() || progress.used == piece.len());
                    responses.answers.extend(progress.done);
                    piece = &piece[progress.used..];
                }
                Err(fault) => {
                    responses.fault = Some(fault);
                    return responses;
                }
            }
        }
    }
    match reader.end() {
        Ok(answer) => responses.answers.push(answer),
        Err(fault) => responses.fault = Some(fault),
    }
    responses
}

/// Responses have one meaning, however they are divided into reads.
pub fn http1_response(input: &[u8]) {
    let Some((&first, stream)) = input.split_first() else {
        return;
    };
    let asked = RequestInfo {
        head: first & 0x80 != 0,
    };
    let whole = read(asked, [stream].into_iter());
    let size = usize::from(first & 0x7f) + 1;
    assert_eq!(read(asked, stream.chunks(size)), whole);
}

/// A URL that is accepted can stand in a request, and a time is the same after it was formatted.
pub fn url(input: &[u8]) {
    let Ok(typed) = str::from_utf8(input) else {
        return;
    };
    let schemes = [("http", false), ("https", true), ("unix", false)];
    let parsed = ServerUrl::parse_with(typed, &schemes, "remedy", |_, port| {
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    });
    if let Ok(server) = parsed {
        // The path behind a socket is checked where it is used.
        let is_tcp = matches!(server.peer, Peer::Tcp(_));
        for part in [&server.path, &server.authority] {
            let is_shown = part.bytes().all(|byte| byte.is_ascii_graphic());
            assert!(is_shown || !is_tcp, "{part:?}");
        }
        assert!(server.path.starts_with('/'));
    }
    let _ = (redact::uri(typed), redact::field(typed));
    if let Ok(time) = duration::parse(typed) {
        assert_eq!(duration::parse(&duration::format(time)), Ok(time));
    }
}

/// Settings of a driver.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    path: String,
    #[serde(with = "crate::duration")]
    timeout: std::time::Duration,
    other: Option<Value>,
}

/// A plan that is valid can be described and written, and is the same when it is read again.
pub fn plan(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let (text, setting) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(plan) = document::parse::<Plan<Settings>>(text) else {
        return;
    };
    let settings: Vec<String> = setting.lines().map(str::to_owned).collect();
    let Ok(mut plan) = plan.with_settings(&settings) else {
        return;
    };
    plan.measure_the_stages();
    if plan.validate().is_err() {
        return;
    }
    let _ = plan.load_sentence();
    let _ = plan.level();
    let _ = plan.planned();
    let _ = plan.thresholds(&Spec::default());
    let Ok(written) = plan.to_toml() else {
        return;
    };
    let again: Plan<Settings> = document::parse(&written).expect("a written plan can be read");
    assert_eq!(again.to_toml().expect("it was written before"), written);
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
