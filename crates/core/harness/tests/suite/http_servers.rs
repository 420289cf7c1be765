//! Tests that every server of daemons/ that serves `http` meets the requirements of daemons/README.md.
//!
//! The tests use curl and plain sockets, so that no error of a driver can hide one of a server. A server whose program is
//! missing is reported and skipped; with `DROVER_REQUIRE_ALL=1` it fails.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use harness::launcher::Launcher;
use harness_testing::daemons::on_each;
use harness_testing::skip;
use subject::daemon::{Daemon, DaemonError, Prepared, StopReport, Stopped};

/// Generous limit for a busy machine with two cores.
const LIMIT: Duration = Duration::from_secs(60);

/// The files that all of them serve, with their sizes in bytes.
const FILES: [(&str, usize); 3] = [
    ("/1kb.txt", 1_024),
    ("/10kb.txt", 10_240),
    ("/100kb.txt", 102_400),
];
/// Number of requests above the limit per connection that a server may have by default: 100 (Apache) and 1,000
/// (nginx).
const MANY: usize = 1_100;

#[test]
fn every_http_server_serves_the_three_files_over_connections_that_stay_open() {
    of_each_server(|launcher, prepared| {
        let daemon = launcher.start(prepared, &[])?;
        let address = address(&daemon)?;
        the_files_are_there(&address)?;
        a_connection_stays_open(&address)
    });
}

#[test]
fn every_http_server_ends_when_it_is_asked_to_even_with_clients_and_leaves_nothing() {
    of_each_server(|launcher, prepared| {
        let mut daemon = launcher.start(prepared, &workers("2"))?;
        let address = address(&daemon)?;
        let mut idle = connect(&address, "/1kb.txt", "Accept: */*")?;
        idle.read_exact(&mut [0; 1_024])?;
        let StopReport {
            how, status, left, ..
        } = launcher.wait(daemon.stop());
        ensure!(
            (how, left) == (Stopped::Terminated, 0) && status == "exited with status 0",
            "{how:?}, {status}, {left} left; the end of its log:\n{}",
            daemon.last_lines(10)
        );
        // A process that left the group would still listen.
        ensure!(
            TcpStream::connect(&address).is_err(),
            "somebody still listens on {address}"
        );
        Ok(())
    });
}

#[test]
fn every_http_server_refuses_a_number_of_workers_that_is_none() {
    of_each_server(|launcher, prepared| {
        let error = match launcher.start(prepared, &workers("many")) {
            Err(error @ DaemonError::ExitedEarly { .. }) => error.to_string(),
            Err(error) => return Err(error.into()),
            Ok(_) => anyhow::bail!("it started"),
        };
        let error = error.to_lowercase();
        for part in ["workers", "many", "exited with status 2"] {
            ensure!(error.contains(part), "{part:?} is not in: {error}");
        }
        Ok(())
    });
}

#[test]
fn every_further_url_speaks_the_version_of_http_that_its_name_says() {
    let summary = "HTTP/%{http_version} %{http_code}, %{size_download} bytes";
    of_each_server(|launcher, prepared| {
        let daemon = launcher.start(prepared, &[])?;
        for (name, url) in &daemon.endpoint().urls {
            let expected: &[(&str, &str)] = match name.as_str() {
                "https" => &[("--http2", "2"), ("--http1.1", "1.1")],
                "h2c" => &[("--http2-prior-knowledge", "2")],
                _ => anyhow::bail!("`urls.{name}`: known are https and h2c"),
            };
            let origin = url.strip_suffix(FILES[0].0);
            let origin = origin.context("a URL names the smallest file")?;
            for (flag, version) in expected {
                for (path, size) in FILES {
                    let url = format!("{origin}{path}");
                    let answer = curl(&["-w", summary, flag], &[&url])?;
                    let whole = format!("HTTP/{version} 200, {size} bytes");
                    ensure!(answer == whole, "{name}, {flag}, {path}: {answer}");
                }
            }
        }
        Ok(())
    });
}

/// Fetches URLs one after the other, over one connection if the server keeps it open, without verifying certificates.
/// Returns a line for each with a summary of the response.
fn curl(options: &[&str], urls: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("curl");
    command.args(["-sSk", "--noproxy", "*", "--max-time", "60"]);
    command.args(options);
    for url in urls {
        command.args(["-o", "/dev/null", url]);
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command.output()?;
    let problem = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "{}: {}", urls[0], problem.trim());
    Ok(String::from_utf8(stdout)?)
}

/// Requests a path on a connection that the server is to close, and would like the response compressed. Returns the head
/// in lower case, and the body.
fn get_and_close(address: &str, path: &str) -> anyhow::Result<(String, Vec<u8>)> {
    let mut stream = connect(
        address,
        path,
        "Accept-Encoding: gzip, br\r\nConnection: close",
    )?;
    let mut answer = Vec::new();
    stream
        .read_to_end(&mut answer)
        .context("Connection: close was not honoured")?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = answer.split_off(end.context("no head")? + 4);
    Ok((String::from_utf8(answer)?.to_lowercase(), body))
}

/// Requests a path on a connection of its own.
fn connect(address: &str, path: &str, fields: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

fn the_files_are_there(address: &str) -> anyhow::Result<()> {
    for (path, size) in FILES {
        let (head, body) = get_and_close(address, path)?;
        ensure!(head.starts_with("http/1.1 200 "), "{path}: {head}");
        ensure!(body.len() == size, "{path} has {} bytes", body.len());
        let is_zero = body.iter().all(|byte| *byte == 0);
        ensure!(is_zero, "{path} is not all zeros");
        ensure!(head.contains("\r\ncontent-type: text/plain"), "{head}");
        ensure!(!head.contains("\r\ncontent-encoding:"), "{head}");
    }
    let (head, _) = get_and_close(address, "/missing.txt")?;
    ensure!(head.starts_with("http/1.1 404 "), "/missing.txt: {head}");
    Ok(())
}

fn a_connection_stays_open(address: &str) -> anyhow::Result<()> {
    let summary = ["-w", "%{http_code} %{size_download} %{num_connects}\n"];
    let url = format!("http://{address}/1kb.txt");
    let answers = curl(&summary, &[url.as_str(); MANY])?;
    for (done, answer) in answers.lines().enumerate() {
        let connects = u8::from(done == 0);
        ensure!(
            answer == format!("200 1024 {connects}"),
            "status, bytes and connections after {done} requests: {answer}"
        );
    }
    ensure!(answers.lines().count() == MANY, "{answers}");
    Ok(())
}

/// Returns the variables that set the number of workers: for `http-daemon`, and for all others.
fn workers(number: &str) -> [(&str, &str); 2] {
    [("HTTP_DAEMON_WORKERS", number), ("HTTP_WORKERS", number)]
}

/// Performs a check on every server, and fails with all errors.
fn of_each_server(check: impl Fn(&Launcher, &Prepared) -> anyhow::Result<()>) {
    if let Err(error) = Command::new("curl").arg("--version").output() {
        return skip(format_args!("curl: {error}"));
    }
    let launcher = Launcher::new().unwrap();
    on_each("http", |prepared| check(&launcher, prepared));
}

/// Returns the host and port of the daemon's URL.
fn address(daemon: &Daemon) -> anyhow::Result<String> {
    let url = daemon.endpoint().url.as_deref().context("has no `url`")?;
    let rest = url
        .strip_prefix("http://")
        .context("its `url` is not http")?;
    let (address, _) = rest.split_once('/').unwrap_or((rest, ""));
    Ok(address.to_owned())
}
