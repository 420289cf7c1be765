//! `http-load check`: compares the responses of several servers.

use anyhow::{Context as _, ensure};
use harness::cli::{Failure, lines_of_files, of_the_daemon};
use harness::launcher::{self, Launcher, remark};
use harness::output;
use subject::daemon::{DaemonError, Prepared};

use crate::cli::CheckArgs;
use crate::preflight::{self, Sample};
use crate::requests::Requests;
use crate::settings::Settings;
use crate::spec::SPEC;
use crate::target::Server;

/// The files that every daemon of the project serves, with their lengths.
const FILES: [(&str, u64); 3] = [
    ("/1kb.txt", 1_024),
    ("/10kb.txt", 10_240),
    ("/100kb.txt", 102_400),
];
/// The name that manifests give to the URL of a server with HTTP/2 and prior knowledge.
const H2C: &str = "h2c";
/// A path that no server has.
const MISSING: &str = "/no-such-file.txt";

/// Checks the named servers; returns true if every one answered correctly and all alike.
///
/// # Errors
/// Invalid arguments, or a failure that is not a server's.
pub(crate) fn run(typed: &CheckArgs) -> Result<bool, Failure> {
    if !typed.urls.is_empty() {
        return check_running(&lines_of_files("URL", typed.urls.clone())?);
    }
    let root = launcher::root()?;
    let asked_for = !typed.daemon.is_empty() || launcher::everything_is_required();
    let launcher = Launcher::new().map_err(Failure::Run)?;
    let mut all_right = true;
    let mut first = None;
    for name in launcher::named_or_all(&root, &typed.daemon, &SPEC.protocol)? {
        let prepared = match launcher::prepare(&root, &name, &SPEC.protocol, typed.quiet) {
            Ok(prepared) => prepared,
            Err(error @ DaemonError::ToolMissing { .. }) if !asked_for => {
                remark(typed.quiet, &format!("{name}: skipped: {error}"));
                continue;
            }
            Err(error) => return Err(of_the_daemon(error)),
        };
        let found = check_launched(&launcher, &prepared);
        for (name, found) in found.unwrap_or_else(|error| vec![(name, Err(error))]) {
            all_right &= report(&name, found, &mut first).map_err(Failure::Run)?;
        }
    }
    Ok(all_right)
}

/// Checks servers that are already running, with one request to each URL.
fn check_running(urls: &[String]) -> Result<bool, Failure> {
    let settings = Settings::default();
    let mut all_right = true;
    let mut first = None;
    for url in urls {
        let server = Server::parse(url)?;
        let path = settings.path_at(&server).to_owned();
        let found = fetch_file(&server, false, "GET", &path).and_then(|sample| {
            sample.check(&settings)?;
            Ok(vec![sample])
        });
        all_right &= report(url, found, &mut first).map_err(Failure::Run)?;
    }
    Ok(all_right)
}

/// The result of one endpoint and HTTP version, with a name that says which.
type CheckResult = (String, anyhow::Result<Vec<Sample>>);

/// Checks a daemon over each endpoint and HTTP version: all responses must be alike.
fn check_launched(launcher: &Launcher, prepared: &Prepared) -> anyhow::Result<Vec<CheckResult>> {
    let name = prepared.name();
    let daemon = launcher.start(prepared, &[])?;
    let endpoint = daemon.endpoint();
    let url = endpoint.url.as_deref().context("its manifest has no `url`");
    let mut found = vec![(
        name.to_owned(),
        url.and_then(|url| check(&Server::parse(url)?, false)),
    )];
    for (endpoint, url) in &endpoint.urls {
        let ways: &[bool] = match endpoint.as_str() {
            H2C => &[true],
            _ if url.starts_with("https:") => &[false, true],
            _ => &[false],
        };
        for http2 in ways {
            let version = if *http2 { "HTTP/2" } else { "HTTP/1.1" };
            let samples = Server::parse(url)
                .map_err(anyhow::Error::from)
                .and_then(|server| check(&server, *http2));
            found.push((format!("{name}, {endpoint}, {version}"), samples));
        }
    }
    launcher.stop(daemon);
    Ok(found)
}

/// Requests the files that a daemon must have, and one that it must not have.
fn check(server: &Server, http2: bool) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for (path, length) in FILES {
        let sample = fetch_file(server, http2, "GET", path)?;
        ensure!(
            (sample.status, sample.length) == (200, length),
            "GET {path} returned status {} with {} bytes; expected 200 with {length} bytes",
            sample.status,
            sample.length
        );
        let head = fetch_file(server, http2, "HEAD", path)?;
        ensure!(
            (head.status, head.length) == (200, 0),
            "HEAD {path} returned status {} with a body of {} bytes; expected 200 without a body",
            head.status,
            head.length
        );
        samples.push(sample);
    }
    let missing = fetch_file(server, http2, "GET", MISSING)?;
    ensure!(
        missing.status == 404,
        "GET {MISSING} returned status {}; expected 404",
        missing.status
    );
    Ok(samples)
}

fn fetch_file(server: &Server, http2: bool, method: &str, path: &str) -> anyhow::Result<Sample> {
    let mut settings = Settings {
        method: method.to_owned(),
        path: Some(path.to_owned()),
        http2,
        // Only the responses are checked; the daemons use self-signed certificates.
        tls_insecure: true,
        ..Settings::default()
    };
    settings.choose_engine(server.tls)?;
    let requests = Requests::new(&settings, server)?;
    preflight::fetch(&settings, server, &requests).with_context(|| format!("{method} {path}"))
}

/// Prints one line for a server; returns true if it answered correctly and as the first one did.
fn report(
    name: &str,
    found: anyhow::Result<Vec<Sample>>,
    first: &mut Option<Vec<Sample>>,
) -> anyhow::Result<bool> {
    let alike = found.and_then(|samples| {
        let first = first.get_or_insert_with(|| samples.clone());
        for (one, other) in first.iter().zip(&samples) {
            one.compare(other)?;
        }
        Ok(samples)
    });
    let right = alike.is_ok();
    let line = match alike {
        Ok(samples) => {
            let shown =
                |sample: &Sample| format!("{} bytes {}", sample.length, &sample.sha256[..12]);
            let shown: Vec<String> = samples.iter().map(shown).collect();
            format!("{name}: right, {}", shown.join(", "))
        }
        Err(error) => format!("{name}: WRONG: {error:#}"),
    };
    output::print(&line)?;
    Ok(right)
}
