//! etcd over the JSON gateway of its clients' port: a create is one `Txn` with four puts.
//!
//! The gateway translates each request to gRPC inside the server, which costs it CPU time that a gRPC client would not.

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::NewIssue;

/// A connection to etcd.
#[derive(Debug)]
pub struct EtcdConnection {
    stream: TcpStream,
    address: String,
    input: Vec<u8>,
    agent: u32,
    /// The number of issues that this agent created.
    created: u64,
}

impl EtcdConnection {
    pub(super) async fn open(address: &str, agent: u32) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            input: Vec::new(),
            agent,
            created: 0,
        })
    }

    pub(super) async fn create(&mut self, issue: &NewIssue<'_>) -> anyhow::Result<()> {
        let NewIssue {
            id, label, actor, ..
        } = *issue;
        let key = format!("issue/{id}");
        let row = format!(
            "{}\n{}\nopen\n2\n{}",
            issue.title, issue.description, issue.at_us
        );
        let event = format!("created {actor} {}", issue.at_us);
        let puts = [
            put(&key, &row),
            put(&format!("label/{label}/{id}"), ""),
            put(&format!("event/{id}/1"), &event),
            put(
                &format!("counter/open/{}", self.agent),
                &(self.created + 1).to_string(),
            ),
        ];
        // The issue must not exist, as in the other databases.
        let transaction = format!(
            r#"{{"compare":[{{"key":"{}","target":"CREATE","create_revision":"0"}}],"success":[{}]}}"#,
            STANDARD.encode(&key),
            puts.join(",")
        );
        let answer = self.post("/v3/kv/txn", &transaction).await;
        let answer = answer.context("creating an issue")?;
        ensure!(
            answer.contains("\"succeeded\":true"),
            "the id {id} was used before: {answer}"
        );
        self.created += 1;
        Ok(())
    }

    pub(super) async fn ping(&mut self) -> anyhow::Result<()> {
        let status = self.post("/v3/maintenance/status", "{}").await?;
        // Any web server may answer 200.
        let first_line = status.lines().next().unwrap_or_default();
        ensure!(
            status.contains("\"raftTerm\""),
            "its status is not one of etcd: {first_line}"
        );
        Ok(())
    }

    /// Sends a request and returns the body of its answer.
    async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<String> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        loop {
            if let Some((status, from, to)) = answer(&self.input)? {
                let body = String::from_utf8_lossy(&self.input[from..to]).into_owned();
                self.input.drain(..to);
                let first_line = body.lines().next().unwrap_or_default();
                ensure!(status == 200, "status {status}: {first_line}");
                return Ok(body);
            }
            let count = self.stream.read_buf(&mut self.input).await?;
            ensure!(count > 0, "the server closed the connection");
        }
    }
}

fn put(key: &str, value: &str) -> String {
    let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
    format!(r#"{{"requestPut":{{"key":"{key}","value":"{value}"}}}}"#)
}

/// Returns the status, the begin and the end of the body, once the whole answer is there.
fn answer(input: &[u8]) -> anyhow::Result<Option<(u16, usize, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(begin) = head.parse(input).context("reading an answer")? else {
        return Ok(None);
    };
    let status = head.code.unwrap_or_default();
    let named = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("content-length");
    let Some(length) = head.headers.iter().find(named) else {
        bail!("an answer without Content-Length");
    };
    let length: usize = std::str::from_utf8(length.value)?.trim().parse()?;
    let end = begin + length;
    Ok((input.len() >= end).then_some((status, begin, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1";
        assert_eq!(answer(whole).unwrap(), Some((200, 38, 40)));
        assert_eq!(answer(&whole[..39]).unwrap(), None);
        assert_eq!(answer(&whole[..20]).unwrap(), None);
        assert!(answer(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
