//! A daemon with capacity for two streams that receives a third.

use std::os::fd::OwnedFd;

use anyhow::ensure;

use super::answer::{Answer, shown};
use super::daemon_under_test::Subject;
use crate::settings::DEFAULT_DATA;

/// Opens two streams; returns the clients and the data they have read.
fn fill(subject: &Subject<'_>) -> anyhow::Result<Vec<(OwnedFd, Vec<u8>)>> {
    (0..2)
        .map(|_| {
            let client = subject.hand_over(DEFAULT_DATA.as_bytes())?;
            let first = subject.begins(&client)?;
            ensure!(
                first.starts_with(b"HTTP/1.1 200"),
                "one of the first two streams was answered {}",
                shown(&first)
            );
            Ok((client, first))
        })
        .collect()
}

/// Returns the answer to one more client.
fn one_more(subject: &Subject<'_>) -> anyhow::Result<Vec<u8>> {
    let client = subject.hand_over(DEFAULT_DATA.as_bytes())?;
    subject.read(&client)
}

/// Accepts a refusal with or without an answer: the reference's daemons close without one.
pub(super) fn refused(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _open = fill(subject)?;
    let answer = one_more(subject)?;
    ensure!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 503"),
        "the third of two streams was answered {}",
        shown(&answer)
    );
    Ok(())
}

pub(super) fn with_503(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _open = fill(subject)?;
    let answer = one_more(subject)?;
    let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    let fields = ["retry-after: 1", "connection: close", "content-length: 0"];
    ensure!(
        text.starts_with("http/1.1 503 ")
            && text.ends_with("\r\n\r\n")
            && fields
                .iter()
                .all(|field| text.lines().any(|line| line == *field)),
        "the refusal is {}, expected 503 with {}",
        shown(&answer),
        fields.join(", ")
    );
    Ok(())
}

pub(super) fn counted(subject: &Subject<'_>) -> anyhow::Result<()> {
    let rejected = subject.watch("daemon_connections_rejected_total", None)?;
    let _open = fill(subject)?;
    one_more(subject)?;
    one_more(subject)?;
    rejected.rises_by(2.0)
}

pub(super) fn others_go_on(subject: &Subject<'_>) -> anyhow::Result<()> {
    let open = fill(subject)?;
    one_more(subject)?;
    for (client, mut answer) in open {
        answer.extend(subject.read(&client)?);
        Answer::parse(&answer)?;
    }
    Ok(())
}

pub(super) fn freed(subject: &Subject<'_>) -> anyhow::Result<()> {
    let mut open = fill(subject)?;
    // The other client stays, so that its end does not free the capacity.
    open.truncate(1);
    loop {
        let client = subject.hand_over(DEFAULT_DATA.as_bytes())?;
        let first = crate::client::read_some(&client, subject.until)?;
        if first.starts_with(b"HTTP/1.1 200") {
            break;
        }
        subject.rest(|| "the capacity of a disconnected client is not reused".to_owned())?;
    }
    ensure!(
        crate::client::read_some(&open[0].0, subject.until).is_ok_and(|bytes| !bytes.is_empty()),
        "the capacity was that of another stream, which has ended"
    );
    Ok(())
}
