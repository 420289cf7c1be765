//! Requests of the protocol on the database itself.

use std::io::{self, BufRead as _, Read as _, Write};
use std::path::Path;

use issue_rpc::{Direct, MAX_LINE, Request};
use issue_store::Options;

use crate::failure::Failure;

/// Performs the requests of standard input, one per line, and prints an answer to each, as the daemon does.
pub(crate) fn perform(
    database: &Path,
    prefix: Option<String>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let options = Options {
        prefix,
        ..Options::default()
    };
    let mut direct = Direct::open(database, options)
        .map_err(|error| Failure::Refused(error.code().into(), error.to_string()))?;
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input
            .by_ref()
            .take(MAX_LINE as u64)
            .read_until(b'\n', &mut line);
        match read
            .map_err(|error| Failure::Usage(format!("standard input cannot be read: {error}")))?
        {
            0 => return Ok(()),
            _ if line.last() != Some(&b'\n') => {
                let problem = format!("the last line has no end, or more than {MAX_LINE} bytes");
                return Err(Failure::Usage(problem));
            }
            _ => {}
        }
        let answer = match Request::parse(&line) {
            Ok(request) => {
                let id = request.header.request_id.clone();
                direct.call(request).line(id.as_ref())
            }
            Err(rejection) => rejection.answer.line(rejection.request_id.as_ref()),
        };
        out.write_all(answer.as_bytes())?;
        out.flush()?;
    }
}
