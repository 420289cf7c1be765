//! `http-load check`: compares the responses of several servers.

pub(crate) mod preflight;
pub(crate) mod sample;

use anyhow::{Context as _, ensure};
use clap::Args;
use harness::cli::lines_of_files;
use harness::failure::Failure;
use harness::verify::check::{self, Finding};
use load::net::url::ServerUrl;
use subject::daemon::Endpoint;
use traffic::{Names, Values};

use crate::requests::Requests;
use crate::roles::cookies::Cookies;
use crate::settings::Settings;
use crate::shared::parse_url;
use crate::spec::SPEC;

use sample::Sample;

/// The files that every daemon of the project serves, with their lengths. The URLs of their manifests name the first.
const FILES: [(&str, u64); 3] = [
    ("/1kb.txt", 1_024),
    ("/10kb.txt", 10_240),
    ("/100kb.txt", 102_400),
];
/// The name that manifests give to the URL of a server with HTTP/2 and prior knowledge.
const H2C: &str = "h2c";
/// A path that no server has.
const MISSING: &str = "/no-such-file.txt";

/// Options of the `check` subcommand.
#[derive(Debug, Args)]
pub struct CheckOptions {
    #[command(flatten)]
    options: check::DaemonsToCheck,
    /// Check servers that are already running: every URL must return the same response
    #[arg(value_name = "URL", conflicts_with = "daemon")]
    urls: Vec<String>,
}

/// Checks the named servers; returns true if every one answered correctly and all alike.
pub(crate) fn run(typed: &CheckOptions) -> Result<bool, Failure> {
    let mut first = None;
    if typed.urls.is_empty() {
        return check::check_daemons(&SPEC.protocol, &typed.options, |name, endpoint| {
            let mut own = None;
            let url = endpoint.url.as_deref().unwrap_or_default();
            // Other files need not be alike.
            let first = if url.ends_with(FILES[0].0) {
                &mut first
            } else {
                &mut own
            };
            let responses = responses_of(name, endpoint).into_iter();
            responses
                .map(|(name, samples)| finding(name, samples, first))
                .collect()
        });
    }
    let mut all_right = true;
    for url in lines_of_files("URL", typed.urls.clone())? {
        let responses = only_file(&parse_url(&url)?, false);
        all_right &= check::print(&[finding(url, responses, &mut first)])?;
    }
    Ok(all_right)
}

/// Requests the file that a URL names.
fn only_file(server: &ServerUrl, http2: bool) -> anyhow::Result<Vec<Sample>> {
    let sample = fetch_file(server, http2, "GET", &server.path)?;
    sample.check(&Settings::default())?;
    Ok(vec![sample])
}

/// Returns the responses of a daemon over each address and HTTP version, with a name that says which.
fn responses_of(name: &str, endpoint: &Endpoint) -> Vec<(String, anyhow::Result<Vec<Sample>>)> {
    let url = endpoint.url.as_deref().context("its manifest has no `url`");
    let mut found = vec![(
        name.to_owned(),
        url.and_then(|url| check(&parse_url(url)?, false)),
    )];
    for (endpoint, url) in &endpoint.urls {
        let ways: &[bool] = match endpoint.as_str() {
            H2C => &[true],
            _ if url.starts_with("https:") => &[false, true],
            _ => &[false],
        };
        for http2 in ways {
            let version = if *http2 { "HTTP/2" } else { "HTTP/1.1" };
            let samples = parse_url(url)
                .map_err(anyhow::Error::from)
                .and_then(|server| check(&server, *http2));
            found.push((format!("{name}, {endpoint}, {version}"), samples));
        }
    }
    found
}

/// Requests the files that a daemon of the project must have, and one that it must not have. The URL of such a daemon
/// names the first of them; of any other, only the file that its URL names is requested.
fn check(server: &ServerUrl, http2: bool) -> anyhow::Result<Vec<Sample>> {
    if server.path != FILES[0].0 {
        return only_file(server, http2);
    }
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

fn fetch_file(server: &ServerUrl, http2: bool, method: &str, path: &str) -> anyhow::Result<Sample> {
    let settings = Settings {
        method: method.to_owned(),
        path: Some(path.to_owned()),
        http2,
        // Only the responses are checked; the daemons use self-signed certificates.
        tls_insecure: true,
        ..Settings::default()
    };
    let names = Names::default();
    let requests = Requests::new(&settings, server, &names)?;
    let values = (Values::from_number(0), Cookies::NONE);
    let fetched = preflight::fetch(&settings, server, &requests, &names, values);
    fetched
        .map(|fetched| fetched.sample)
        .with_context(|| format!("{method} {path}"))
}

/// Compares the responses of a server with the responses of the first one.
fn finding(
    name: String,
    samples: anyhow::Result<Vec<Sample>>,
    first: &mut Option<Vec<Sample>>,
) -> Finding {
    let found = samples.and_then(|samples| {
        let first = first.get_or_insert_with(|| samples.clone());
        for (one, other) in first.iter().zip(&samples) {
            one.compare(other)?;
        }
        let shown = |sample: &Sample| format!("{} bytes {}", sample.length, &sample.sha256[..12]);
        let shown: Vec<String> = samples.iter().map(shown).collect();
        Ok(shown.join(", "))
    });
    Finding { name, found }
}
