//! Fetches the Prometheus page of a daemon over HTTP and parses it to one number per metric.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::net::TcpStream;

/// Time limit of a request. A daemon that needs longer is asked again only for the next sample.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest page that is read. A page has a few KiB; anything longer is something else.
const MOST_BYTES: usize = 4 << 20;

/// Fetches a Prometheus page and returns one value per metric name, as [`parse`] does.
/// Dropping the future closes the connection.
///
/// # Errors
/// There is no answer within 1 s, or one that is not a 2xx.
pub async fn scrape(url: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    Ok(parse(&page(url).await?))
}

/// Fetches a Prometheus page without parsing it, for callers that need individual labels. Dropping the future closes
/// the connection.
///
/// # Errors
/// There is no answer within 1 s, or one that is not a 2xx.
pub async fn page(url: &str) -> anyhow::Result<String> {
    let (status, body) = get(url).await?;
    ensure!(
        status.is_success(),
        "GET {} answered {status}",
        without_user(url)
    );
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Checks that a URL names a page that can be fetched.
///
/// # Errors
/// The problem, and the form to use instead.
pub fn check_url(url: &str) -> Result<(), String> {
    address(url)
        .map(drop)
        .map_err(|error| format!("{error}: write it as http://127.0.0.1:9090/metrics"))
}

/// Returns a URL without its user name and password.
#[must_use]
pub fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => url.replacen(&format!("{scheme}://{user}@"), &format!("{scheme}://"), 1),
        None => url.to_owned(),
    }
}

/// Parses a URL. Returns it with the credentials of its user for `Authorization: Basic` (RFC 7617), if it has one.
fn address(url: &str) -> anyhow::Result<(Uri, Option<String>)> {
    let uri: Uri = url.parse().context("it is not a valid URL")?;
    ensure!(
        uri.scheme_str() == Some("http"),
        "only http:// addresses are fetched"
    );
    let authority = uri.authority().context("it has no host")?;
    let user = authority.as_str().rsplit_once('@');
    let credentials = user.map(|(user, _)| {
        let decoded: Vec<u8> = percent_decode_str(user).collect();
        format!("Basic {}", BASE64_STANDARD.encode(decoded))
    });
    Ok((uri, credentials))
}

/// Sends one GET on its own connection, with 1 s for everything.
pub(crate) async fn get(url: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    tokio::time::timeout(TIMEOUT, exchange(url))
        .await
        .unwrap_or_else(|_| bail!("no answer within {} s", TIMEOUT.as_secs()))
        .with_context(|| format!("GET {}", without_user(url)))
}

async fn exchange(url: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let (uri, credentials) = address(url)?;
    let authority = uri.authority().context("it has no host")?;
    let (_, host) = authority
        .as_str()
        .rsplit_once('@')
        .unwrap_or(("", authority.as_str()));
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::get(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(header::HOST, host)
        .header(header::CONNECTION, "close");
    if let Some(credentials) = credentials {
        request = request.header(header::AUTHORIZATION, credentials);
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES)
            .collect()
            .await
            .map_err(anyhow::Error::from_boxed)?;
        anyhow::Ok((status, body.to_bytes()))
    };
    // The answer decides: if the daemon then closes the connection abruptly, that is not a failure.
    let (answer, _closed) = tokio::join!(answer, connection);
    answer
}

/// Parses the Prometheus text format. Series of one name with different labels are summed. Buckets and quantiles,
/// which do not add up, are left out, as are NaN and malformed lines.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for (name, value) in text.lines().filter_map(parse_line) {
        *values.entry(name.to_owned()).or_insert(0.0) += value;
    }
    values
}

fn parse_line(line: &str) -> Option<(&str, f64)> {
    let line = line.trim_start();
    let name_length = line
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(name_length);
    if name.is_empty() {
        return None;
    }
    let rest = match rest.strip_prefix('{') {
        Some(labels) => after_labels(labels)?,
        None => rest,
    };
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (!value.is_nan()).then_some((name, value))
}

/// Returns the text after the closing brace; `None` for a bucket, a quantile or a missing brace. Values are quoted and
/// may contain braces.
fn after_labels(labels: &str) -> Option<&str> {
    let mut quoted = false;
    let mut escaped = false;
    let mut label_start = 0;
    for (at, byte) in labels.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'}' => return Some(&labels[at + 1..]),
            b',' => label_start = at + 1,
            b'=' if matches!(labels[label_start..at].trim(), "le" | "quantile") => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::assert_contains;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const PAGE: &str = r#"# HELP daemon_active_streams Streams that are open.
# TYPE daemon_active_streams gauge
daemon_active_streams 42
daemon_handoff_errors_total{reason="timeout"} 1
daemon_handoff_errors_total{reason="odd } \" , le=", other="x"} 2.5 1700000000000
daemon_stream_duration_seconds_bucket{route="a",le="0.5"} 7
daemon_stream_duration_seconds{quantile="0.5"} 7
daemon_stream_duration_seconds_sum 1.5e3
daemon_stream_duration_seconds_count 3
daemon_nan NaN
  indented 1
broken{
{nameless} 3
no_value
word x
big +Inf
"#;

    #[test]
    fn series_are_summed_and_what_does_not_add_up_is_left_out() {
        let expected = [
            ("big", f64::INFINITY),
            ("daemon_active_streams", 42.0),
            ("daemon_handoff_errors_total", 3.5),
            ("daemon_stream_duration_seconds_count", 3.0),
            ("daemon_stream_duration_seconds_sum", 1500.0),
            ("indented", 1.0),
        ];
        assert_eq!(
            parse(PAGE),
            expected
                .map(|(name, value)| (name.to_owned(), value))
                .into()
        );
    }

    /// Answers one connection with these bytes and returns the URL.
    async fn serve(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            stream.write_all(answer).await.unwrap();
            // Without an answer, the connection stays open until the client gives up.
            if answer.is_empty() {
                stream.read_to_end(&mut request).await.unwrap();
            }
        });
        url
    }

    #[tokio::test]
    async fn a_page_is_scraped_with_and_without_a_length() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\na 1\n",
        ] {
            let values = scrape(&serve(answer).await).await.unwrap();
            assert_eq!(values, [("a".to_owned(), 1.0)].into());
        }
    }

    #[tokio::test]
    async fn a_refused_page_and_a_silent_daemon_are_errors_that_name_the_address() {
        let error =
            scrape(&serve(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n").await)
                .await
                .unwrap_err();
        assert!(format!("{error:#}").contains("503"), "{error:#}");
        let url = serve(b"").await;
        let error = format!("{:#}", scrape(&url).await.unwrap_err());
        assert_contains(&error, &[&url, "no answer within 1 s"]);
        for url in ["https://127.0.0.1:1/", "nonsense", "http://127.0.0.1:1/"] {
            assert!(format!("{:#}", scrape(url).await.unwrap_err()).contains(url));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(?s).{0,200}", line in r#"[a-z]{1,3}\{?[a-z="\\,{} é]{0,12}\}? ?[0-9.eE+-]{0,5}"#) {
            let _ = (parse(&text), parse(&line));
        }

        #[test]
        fn every_finite_value_that_is_written_is_read_back(value in -1e300..1e300f64, label in "[^\\\\\"]{0,10}") {
            prop_assume!(!label.contains('\n') && !label.contains('\r'));
            let read = parse(&format!("name{{label=\"{label}\"}} {value}\n"));
            prop_assert_eq!(read.get("name"), Some(&value));
        }
    }
}
