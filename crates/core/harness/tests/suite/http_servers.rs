//! Tests that every server of daemons/ that serves `http` meets the requirements of daemons/README.md.
//!
//! The tests use their own client, in plain HTTP/1.1, so that no error of a driver can hide one of a server. A server
//! whose program is missing is reported and skipped; with `DROVER_REQUIRE_ALL=1` it fails.

mod client;

use std::net::TcpStream;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use harness::launcher::Launcher;
use harness_testing::daemons::on_each;
use harness_testing::skip;
use subject::daemon::{Daemon, DaemonError, Prepared, StopReport, Stopped};

use client::{Answer, Connection};

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
        a_connection_stays_open(&address)?;
        a_close_is_honoured(&address)?;
        a_missing_file_is_404(&address)
    });
}

#[test]
fn every_http_server_ends_when_it_is_asked_to_even_with_clients_and_leaves_nothing() {
    of_each_server(|launcher, prepared| {
        let mut daemon = launcher.start(prepared, &workers("2"))?;
        let address = address(&daemon)?;
        let mut idle = Connection::open(&address)?;
        idle.get("/1kb.txt")?;
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
    if let Err(error) = Command::new("curl").arg("--version").output() {
        return skip(format_args!("curl: {error}"));
    }
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
                    let answer = curl(flag, &format!("{origin}{path}"))?;
                    let whole = format!("HTTP/{version} 200, {size} bytes");
                    ensure!(answer == whole, "{name}, {flag}, {path}: {answer}");
                }
            }
        }
        Ok(())
    });
}

/// Fetches a URL without verifying its certificate; returns a short description of the response.
fn curl(flag: &str, url: &str) -> anyhow::Result<String> {
    let summary = "HTTP/%{http_version} %{http_code}, %{size_download} bytes";
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new("curl")
        .args([
            "-sSk",
            "--noproxy",
            "*",
            "--max-time",
            "60",
            "-o",
            "/dev/null",
        ])
        .args(["-w", summary, flag, url])
        .output()?;
    ensure!(
        status.success(),
        "{url}: {}",
        String::from_utf8_lossy(&stderr).trim()
    );
    Ok(String::from_utf8(stdout)?)
}

fn the_files_are_there(address: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(address)?;
    for (path, size) in FILES {
        let Answer {
            status,
            headers,
            body,
        } = connection.get(path)?;
        let header = |name: &str| headers.get(name).map(String::as_str);
        ensure!(status == 200, "{path}: status {status}");
        ensure!(body.len() == size, "{path} has {} bytes", body.len());
        ensure!(
            body.iter().all(|byte| *byte == 0),
            "{path} is not all zeros"
        );
        ensure!(
            header("content-type").is_some_and(|kind| kind.starts_with("text/plain")),
            "{path}: {headers:?}"
        );
        ensure!(header("content-encoding").is_none(), "{path}: {headers:?}");
    }
    Ok(())
}

fn a_connection_stays_open(address: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(address)?;
    for done in 0..MANY {
        let answer = connection
            .get("/1kb.txt")
            .with_context(|| format!("after {done} requests on one connection"))?;
        ensure!(
            (answer.status, answer.body.len()) == (200, 1_024),
            "after {done} requests: {answer:?}"
        );
    }
    Ok(())
}

fn a_close_is_honoured(address: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(address)?;
    let answer = connection.get_and_close("/10kb.txt")?;
    ensure!(
        (answer.status, answer.body.len()) == (200, 10_240),
        "{answer:?}"
    );
    ensure!(
        connection.is_at_its_end()?,
        "Connection: close was not honoured"
    );
    Ok(())
}

fn a_missing_file_is_404(address: &str) -> anyhow::Result<()> {
    let answer = Connection::open(address)?.get("/missing.txt")?;
    ensure!(answer.status == 404, "/missing.txt: {answer:?}");
    Ok(())
}

/// Returns the variables that set the number of workers: for `http-daemon`, and for all others.
fn workers(number: &str) -> [(&str, &str); 2] {
    [("HTTP_DAEMON_WORKERS", number), ("HTTP_WORKERS", number)]
}

/// Performs a check on every server, and fails with all errors.
fn of_each_server(check: impl Fn(&Launcher, &Prepared) -> anyhow::Result<()>) {
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
