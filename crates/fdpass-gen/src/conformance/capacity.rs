//! A daemon that has places for two streams, and is asked for a third.

use std::os::fd::OwnedFd;

use anyhow::ensure;

use super::answer::{Answer, shown};
use super::subject::Subject;
use crate::settings::DEFAULT_DATA;

/// Takes both places; returns the clients, and what they have read.
fn fill(subject: &Subject<'_>) -> anyhow::Result<Vec<(OwnedFd, Vec<u8>)>> {
    (0..2)
        .map(|_| {
            let client = subject.hand_over(DEFAULT_DATA.as_bytes())?;
            let first = subject.begins(&client)?;
            ensure!(
                first.starts_with(b"HTTP/1.1 200"),
                "one of the first two was answered {}",
                shown(&first)
            );
            Ok((client, first))
        })
        .collect()
}

/// What one more client is answered.
fn one_more(subject: &Subject<'_>) -> anyhow::Result<Vec<u8>> {
    let client = subject.hand_over(DEFAULT_DATA.as_bytes())?;
    subject.read(&client)
}

/// Said or not: the reference's daemons close without a word.
pub(super) fn refused(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _open = fill(subject)?;
    let answer = one_more(subject)?;
    ensure!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 503"),
        "the third of two was answered {}",
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
        "the refusal is {} in place of a 503 with {}",
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
    // The other one stays, so that its end is not what makes room.
    open.truncate(1);
    loop {
        let client = subject.hand_over(DEFAULT_DATA.as_bytes())?;
        let first = crate::client::read_some(&client, subject.until)?;
        if first.starts_with(b"HTTP/1.1 200") {
            break;
        }
        subject.rest(|| "nobody gets the place of a client that has left".to_owned())?;
    }
    ensure!(
        crate::client::read_some(&open[0].0, subject.until).is_ok_and(|bytes| !bytes.is_empty()),
        "the place was that of another stream, which has ended"
    );
    Ok(())
}
