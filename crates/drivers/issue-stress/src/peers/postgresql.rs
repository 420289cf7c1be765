//! PostgreSQL over its Unix socket, with the messages of its protocol, version 3.0.
//!
//! The four statements are prepared once. A create sends `Bind` and `Execute` for each and one `Sync`, all in one write;
//! the server runs what is between two `Sync` as one transaction.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::NewIssue;

const PROTOCOL: i32 = 3 << 16;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS issues (
    num BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    status SMALLINT NOT NULL DEFAULT 0,
    priority SMALLINT NOT NULL DEFAULT 2,
    created_at BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS issues_in_order ON issues (priority, created_at DESC);
CREATE INDEX IF NOT EXISTS issues_ready ON issues (priority, created_at) WHERE status = 0;
CREATE TABLE IF NOT EXISTS labels (
    issue TEXT NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (issue, label)
);
CREATE INDEX IF NOT EXISTS labelled ON labels (label);
CREATE TABLE IF NOT EXISTS events (
    num BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    issue TEXT NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS counters (
    counter INTEGER PRIMARY KEY,
    issues BIGINT NOT NULL
);";

/// The statements of a create, in the order in which they run.
const STATEMENTS: [&str; 4] = [
    "INSERT INTO issues (id, title, description, created_at) VALUES ($1, $2, $3, $4::bigint)",
    "INSERT INTO labels (issue, label) VALUES ($1, $2)",
    "INSERT INTO events (issue, actor, kind, at) VALUES ($1, $2, 'created', $3::bigint)",
    // Last, so that the lock of a counter is held for as short as possible.
    "UPDATE counters SET issues = issues + 1 WHERE counter = $1::integer",
];

/// A connection to PostgreSQL.
#[derive(Debug)]
pub struct PostgresqlConnection {
    stream: UnixStream,
    /// Bytes that were read and not used.
    input: Vec<u8>,
    output: Vec<u8>,
    counter: String,
}

/// Makes the tables.
pub(super) async fn prepare(socket: &Path) -> anyhow::Result<()> {
    let mut connection = PostgresqlConnection::log_in(socket, 0).await?;
    connection
        .query(TABLES)
        .await
        .context("making the tables")?;
    Ok(())
}

impl PostgresqlConnection {
    /// Connects, and prepares the statements.
    pub(super) async fn open(socket: &Path, counter: u32) -> anyhow::Result<Self> {
        let mut connection = Self::log_in(socket, counter).await?;
        let own = format!("INSERT INTO counters VALUES ({counter}, 0) ON CONFLICT DO NOTHING");
        connection.query(&own).await.context("adding the counter")?;
        for (number, statement) in STATEMENTS.iter().enumerate() {
            connection.message(b'P', |body| {
                text(body, &number.to_string());
                text(body, statement);
                body.extend(0_i16.to_be_bytes());
            });
        }
        connection.message(b'S', |_| {});
        connection
            .exchange()
            .await
            .context("preparing the statements")?;
        Ok(connection)
    }

    async fn log_in(socket: &Path, counter: u32) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).await;
        let stream = stream.with_context(|| format!("connecting to {}", socket.display()))?;
        let mut connection = Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            counter: counter.to_string(),
        };
        let mut start = PROTOCOL.to_be_bytes().to_vec();
        for word in ["user", "drover", "database", "postgres", ""] {
            text(&mut start, word);
        }
        connection.output.extend(length(start.len()));
        connection.output.extend(start);
        connection.exchange().await.context("logging in")?;
        Ok(connection)
    }

    pub(super) async fn create(&mut self, issue: &NewIssue<'_>) -> anyhow::Result<()> {
        let at = issue.at_us.to_string();
        let counter = self.counter.clone();
        let parameters: [&[&str]; 4] = [
            &[issue.id, issue.title, issue.description, &at],
            &[issue.id, issue.label],
            &[issue.id, issue.actor, &at],
            &[&counter],
        ];
        for (number, parameters) in parameters.into_iter().enumerate() {
            self.message(b'B', |body| {
                text(body, "");
                text(body, &number.to_string());
                body.extend(0_i16.to_be_bytes());
                body.extend(i16::try_from(parameters.len()).unwrap_or(0).to_be_bytes());
                for parameter in parameters {
                    body.extend(i32::try_from(parameter.len()).unwrap_or(0).to_be_bytes());
                    body.extend(parameter.as_bytes());
                }
                body.extend(0_i16.to_be_bytes());
            });
            self.message(b'E', |body| {
                text(body, "");
                body.extend(0_i32.to_be_bytes());
            });
        }
        self.message(b'S', |_| {});
        let changed = self.exchange().await.context("creating an issue")?;
        ensure!(changed == 4, "a create changed {changed} rows instead of 4");
        Ok(())
    }

    pub(super) async fn ping(&mut self) -> anyhow::Result<()> {
        self.message(b'S', |_| {});
        self.exchange().await?;
        Ok(())
    }

    async fn query(&mut self, sql: &str) -> anyhow::Result<u64> {
        self.message(b'Q', |body| text(body, sql));
        self.exchange().await
    }

    /// Appends a message to the output.
    fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.output.push(kind);
        let begin = self.output.len();
        self.output.extend([0; 4]);
        write(&mut self.output);
        let size = length(self.output.len() - begin - 4);
        self.output[begin..begin + 4].copy_from_slice(&size);
    }

    /// Sends the output and reads until the server is ready for the next request. Returns the number of changed rows.
    async fn exchange(&mut self) -> anyhow::Result<u64> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        let (mut rows, mut refusal) = (0, None);
        loop {
            let (kind, body) = self.read_message().await?;
            match kind {
                b'C' => rows += changed_rows(&body),
                b'E' => refusal = Some(error_text(&body)),
                b'R' if body != [0; 4] => {
                    bail!("the server wants a password; it must trust its socket")
                }
                b'Z' => break,
                _ => {}
            }
            // While it starts or has no connection left, the server closes instead of getting ready.
            if let Some(refusal) = refusal.as_ref().filter(|text| text.starts_with("FATAL")) {
                bail!("{refusal}");
            }
        }
        refusal.map_or(Ok(rows), |refusal| bail!("{refusal}"))
    }

    async fn read_message(&mut self) -> anyhow::Result<(u8, Vec<u8>)> {
        loop {
            if let Some((head, rest)) = self.input.split_first_chunk::<5>() {
                let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                ensure!(size >= 4, "a message with a length of {size}");
                if rest.len() >= size - 4 {
                    let message = (head[0], rest[..size - 4].to_vec());
                    self.input.drain(..size + 1);
                    return Ok(message);
                }
            }
            let count = self.stream.read_buf(&mut self.input).await?;
            ensure!(count > 0, "the server closed the connection");
        }
    }
}

fn length(body: usize) -> [u8; 4] {
    i32::try_from(body + 4).unwrap_or(i32::MAX).to_be_bytes()
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend(text.as_bytes());
    body.push(0);
}

/// Reads the number at the end of a command's tag, such as `INSERT 0 1`.
fn changed_rows(tag: &[u8]) -> u64 {
    let tag = String::from_utf8_lossy(tag);
    let last = tag.trim_end_matches('\0').rsplit(' ').next();
    last.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Returns severity, code and message of an error.
fn error_text(body: &[u8]) -> String {
    let field = |kind: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find(|field| field.first() == Some(&kind));
        String::from_utf8_lossy(found.map_or(&[][..], |field| &field[1..])).into_owned()
    };
    format!("{} {}: {}", field(b'V'), field(b'C'), field(b'M'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_errors_are_read() {
        assert_eq!(changed_rows(b"INSERT 0 1\0"), 1);
        assert_eq!(changed_rows(b"UPDATE 3\0"), 3);
        assert_eq!(changed_rows(b"CREATE TABLE\0"), 0);
        let error = b"SERROR\0VERROR\0C23505\0Mduplicate key\0\0";
        assert_eq!(error_text(error), "ERROR 23505: duplicate key");
    }
}
