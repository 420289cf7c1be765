//! Reads a `daemon.toml`, which says how a daemon is built, run, probed and stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

pub(crate) mod placeholders;
mod project;
mod roots;
mod service;

pub(crate) use project::directory;
pub use project::{file, list, names, root_of};
pub use roots::{
    Root, Roots, built_programs, cache, find_plan, find_root, install_command, installed_program,
};
pub use service::{BEHIND, Service};

use placeholders::Phase;

use load::document;
use load::plan::check_folder_name;
use load::trust::Untrusted;

/// A description of how a daemon is built, run, probed and stopped, with its placeholders not yet expanded.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// A one-line description for a person who chooses a daemon.
    pub about: String,
    /// The protocols that it speaks, named as the drivers name them.
    pub serves: Vec<String>,
    /// Commands that must succeed before anything else. They show which tool is missing.
    #[serde(default)]
    pub needs: Vec<Vec<String>>,
    /// Its program, if it belongs to this project: `{program}` in its commands. In a source checkout cargo builds it,
    /// in release mode, before `build`; elsewhere it is installed.
    pub program: Option<String>,
    /// Commands that build it.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Commands that run its own tests, after its build.
    #[serde(default)]
    pub test: Vec<Vec<String>>,
    /// The command whose first line of output is the version; empty if there is none.
    #[serde(default)]
    pub version: Vec<String>,
    /// The command that runs it in the foreground.
    pub run: Vec<String>,
    /// The environment of its commands, in addition to the few variables that every daemon gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of variables of the caller that its commands get too.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Directory in which every command runs; the manifest's own directory if absent.
    pub cwd: Option<String>,
    /// The condition that shows that it takes connections.
    pub ready: Ready,
    /// The URL that drivers connect to; if absent, they connect to its Unix socket.
    pub url: Option<String>,
    /// Further URLs, by the name that a plan gives as its `endpoint`.
    #[serde(default)]
    pub urls: BTreeMap<String, String>,
    /// The address of its Prometheus page.
    pub metrics: Option<String>,
    /// The command that prints its counters in the format of such a page, for a daemon without one. It runs before and
    /// after the load. Empty if there is none.
    #[serde(default)]
    pub counters: Vec<String>,
    /// The way in which it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// The daemon behind it, such as the one that a front passes requests to. It is started once, before the first
    /// instance, from its own manifest; its names are `{behind.port}` and so on.
    pub behind: Option<String>,
    /// The servers that it needs, by name. All of its instances share them.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
}

/// The condition to wait for after a start, and its time limit.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenReady")]
#[schemars(with = "WrittenReady")]
pub struct Ready {
    /// The condition that shows that it is ready.
    pub probe: Probe,
    /// Time that it may take.
    pub timeout: Duration,
}

/// A condition that shows that a daemon is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// A socket path takes a connection, as `SOCK_SEQPACKET` or `SOCK_STREAM`.
    Unix(String),
    /// An address, `host:port`, takes a connection.
    Tcp(String),
    /// A URL answers with a 2xx status.
    Http(String),
    /// Its output contains this text.
    Line(String),
}

/// The way in which a daemon is stopped.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// The signal that asks it to end.
    #[serde(deserialize_with = "signal")]
    #[schemars(with = "String")]
    pub signal: Signal,
    /// Time that it may take before it is killed.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "load::duration::Text")]
    pub grace: Duration,
}

/// An error about a manifest that cannot be used: the file, the key, the problem, and what to write instead.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}{problem}\n  {remedy}", file.display(), key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
pub struct ManifestError {
    /// The manifest.
    pub file: PathBuf,
    /// The key in question, if one can be named apart from the problem.
    pub key: Option<String>,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

impl From<Untrusted> for ManifestError {
    fn from(error: Untrusted) -> Self {
        let Untrusted {
            path,
            problem,
            remedy,
        } = error;
        Self {
            file: path,
            key: None,
            problem,
            remedy,
        }
    }
}

impl Manifest {
    /// Reads and checks `daemons/<name>/daemon.toml` in the first root that has it.
    ///
    /// # Errors
    /// The name is a path, the file cannot be read, somebody else may have written it, it has an unknown key or a wrong
    /// value, or it names an unknown placeholder.
    pub fn load(roots: impl Into<Roots>, name: &str) -> Result<Self, ManifestError> {
        let roots = roots.into();
        // A path would lead to a manifest of another project, and the results out of their folder.
        check_folder_name("daemon", name).map_err(|invalid| ManifestError {
            file: file(&roots, name),
            key: None,
            problem: invalid.problem,
            remedy: "name a folder of daemons/; `drover list` shows them".to_owned(),
        })?;
        let text = project::read(root_of(&roots, name), name)?;
        Self::parse(&text, &file(&roots, name))
    }

    /// Parses and checks the text of a manifest. Errors call it `file`.
    ///
    /// # Errors
    /// As [`Manifest::load`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, ManifestError> {
        let manifest: Self = document::parse(text).map_err(|error| ManifestError {
            file: file.to_owned(),
            key: None,
            problem: error.to_string(),
            remedy: "daemons/README.md shows every key with an example".to_owned(),
        })?;
        manifest.check(file)?;
        Ok(manifest)
    }

    /// Returns the number of ports that a run of it needs.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.run_texts()
            .flat_map(|(_, text)| placeholders::names(text))
            .filter_map(placeholders::port_index)
            .map(|index| index + 1)
            .max()
            .unwrap_or(0)
    }

    /// Returns true if a run of it listens on a Unix socket that drivers connect to.
    #[must_use]
    pub fn has_socket(&self) -> bool {
        self.uses("socket")
    }

    /// Returns true if a run of it can listen on another address than 127.0.0.1.
    #[must_use]
    pub fn can_listen_elsewhere(&self) -> bool {
        self.uses("listen")
    }

    fn uses(&self, placeholder: &str) -> bool {
        self.run_texts()
            .flat_map(|(_, text)| placeholders::names(text))
            .any(|name| name == placeholder)
    }

    fn check(&self, file: &Path) -> Result<(), ManifestError> {
        if self.serves.is_empty() {
            let remedy = "name the protocol, such as serves = [\"fdpass\"]";
            return Err(wrong(file, "serves", "is empty".to_owned(), remedy));
        }
        if self.metrics.is_some() && !self.counters.is_empty() {
            let remedy = "leave one of the two out: both report the daemon's counters";
            let problem = "cannot be combined with `metrics`".to_owned();
            return Err(wrong(file, "counters", problem, remedy));
        }
        let is_name = |name: &String| {
            let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            !name.is_empty() && name.chars().all(letters)
        };
        if let Some(program) = self.program.as_ref().filter(|name| !is_name(name)) {
            let problem = format!("`{program}` is not the name of a program");
            let remedy = "name a program of this project, such as \"http-daemon\"; any other program is named in `run`";
            return Err(wrong(file, "program", problem, remedy));
        }
        for (name, service) in &self.services {
            if name == BEHIND {
                let problem = format!("`{BEHIND}` means the daemon of the key `behind`");
                return Err(wrong(file, "services", problem, "use another name"));
            }
            if !placeholders::is_identifier(name) {
                let problem = format!("`{name}` is not a name");
                let remedy = "use letters, digits and `_`, and begin with a letter: its placeholders are called {name.port} and so on";
                return Err(wrong(file, "services", problem, remedy));
            }
            let service = service.to_manifest(name, self);
            service.check_launch(file, &format!("services.{name}."))?;
        }
        self.check_launch(file, "")
    }

    /// Checks what services have too. The keys of a service begin with a `prefix`.
    fn check_launch(&self, file: &Path, prefix: &str) -> Result<(), ManifestError> {
        let error = |key: &str, problem: String, remedy: &str| {
            Err(wrong(file, &format!("{prefix}{key}"), problem, remedy))
        };
        let is_empty = |command: &[String]| command.first().is_none_or(String::is_empty);
        if let Some((key, _)) = self.commands().find(|(_, command)| is_empty(command)) {
            let remedy = "write a program and its arguments, or leave the key out";
            return error(key, "a command is empty".to_owned(), remedy);
        }
        if let Probe::Tcp(address) = &self.ready.probe
            && !address.contains(':')
        {
            let problem = format!("`{address}` is not a host:port");
            return error(
                "ready.tcp",
                problem,
                "write it as tcp = \"127.0.0.1:{port}\"",
            );
        }
        if let Probe::Unix(path) = &self.ready.probe
            && path.starts_with('@')
        {
            let problem = format!("`{path}`: abstract sockets (@…) are not supported");
            return error("ready.unix", problem, "write it as unix = \"{socket}\"");
        }
        let of_services = self.service_placeholders();
        let texts = self
            .build_texts()
            .map(|text| (text, Phase::Build))
            .chain(self.run_texts().map(|text| (text, Phase::Run)));
        for ((key, text), phase) in texts {
            for name in placeholders::names(text) {
                if name == "program" {
                    if self.program.is_none() {
                        let problem = "{program} has no value".to_owned();
                        let remedy = "name the program with the key `program`";
                        return error(key, problem, remedy);
                    }
                    continue;
                }
                if let Err(remedy) = placeholders::check(name, phase, &of_services) {
                    return error(key, format!("unknown placeholder {{{name}}}"), &remedy);
                }
            }
        }
        Ok(())
    }

    /// Returns all of its commands.
    pub(crate) fn every_command(&self) -> impl Iterator<Item = &Vec<String>> {
        self.commands().map(|(_, command)| command)
    }

    fn commands(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        let version = (!self.version.is_empty()).then_some(("version", &self.version));
        let counters = (!self.counters.is_empty()).then_some(("counters", &self.counters));
        let needs = self.needs.iter().map(|command| ("needs", command));
        let build = self.build.iter().map(|command| ("build", command));
        let test = self.test.iter().map(|command| ("test", command));
        needs
            .chain(build)
            .chain(test)
            .chain(version)
            .chain(counters)
            .chain([("run", &self.run)])
    }

    /// Returns the texts that are expanded before a run exists.
    fn build_texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let commands = self
            .commands()
            .filter(|(key, _)| !["run", "counters"].contains(key));
        let words = commands
            .flat_map(|(key, command)| command.iter().map(move |word| (key, word.as_str())));
        words.chain(self.cwd.iter().map(|cwd| ("cwd", cwd.as_str())))
    }

    /// Returns the texts that are expanded for each run.
    fn run_texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let run = self.run.iter().map(|word| ("run", word.as_str()));
        let counters = self.counters.iter().map(|word| ("counters", word.as_str()));
        let env = self.env.values().map(|value| ("env", value.as_str()));
        let metrics = self.metrics.iter().map(|url| ("metrics", url.as_str()));
        let url = self.url.iter().map(|url| ("url", url.as_str()));
        let urls = self.urls.values().map(|url| ("urls", url.as_str()));
        run.chain(env)
            .chain(url)
            .chain(urls)
            .chain(metrics)
            .chain(counters)
            .chain([self.ready.probe.key_and_text()])
    }
}

fn wrong(file: &Path, key: &str, problem: String, remedy: &str) -> ManifestError {
    ManifestError {
        file: file.to_owned(),
        key: Some(key.to_owned()),
        problem,
        remedy: remedy.to_owned(),
    }
}

impl Probe {
    fn key_and_text(&self) -> (&'static str, &str) {
        match self {
            Self::Unix(text) => ("ready.unix", text),
            Self::Tcp(text) => ("ready.tcp", text),
            Self::Http(text) => ("ready.http", text),
            Self::Line(text) => ("ready.line", text),
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            signal: Signal::SIGTERM,
            grace: Duration::from_secs(5),
        }
    }
}

/// The key `ready` as written in a manifest: exactly one probe.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenReady {
    unix: Option<String>,
    tcp: Option<String>,
    http: Option<String>,
    line: Option<String>,
    #[serde(default = "ready_timeout", deserialize_with = "duration")]
    #[schemars(with = "load::duration::Text")]
    timeout: Duration,
}

impl TryFrom<WrittenReady> for Ready {
    type Error = &'static str;

    fn try_from(written: WrittenReady) -> Result<Self, Self::Error> {
        let WrittenReady {
            unix,
            tcp,
            http,
            line,
            timeout,
        } = written;
        let probe = match (unix, tcp, http, line) {
            (Some(path), None, None, None) => Probe::Unix(path),
            (None, Some(address), None, None) => Probe::Tcp(address),
            (None, None, Some(url), None) => Probe::Http(url),
            (None, None, None, Some(text)) => Probe::Line(text),
            _ => return Err("`ready` takes exactly one of `unix`, `tcp`, `http` and `line`"),
        };
        Ok(Self { probe, timeout })
    }
}

fn ready_timeout() -> Duration {
    Duration::from_secs(30)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        de::Error::custom(format!(
            "`{text}` is not a duration such as \"500ms\" or \"1m30s\": {error}"
        ))
    })
}

fn signal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Signal, D::Error> {
    let text = String::deserialize(deserializer)?;
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    format!("SIG{name}").parse().map_err(|_| {
        de::Error::custom(format!(
            "`{text}` is not a signal such as \"TERM\" or \"INT\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::{assert_contains, rows};

    const MINIMAL: &str = "about = 'a'\nserves = ['fdpass']\nrun = ['{build}/d', '{socket}', '{port}', '{port3}']\nready = { unix = '{socket}' }\n";

    fn parse(text: &str) -> Result<Manifest, ManifestError> {
        Manifest::parse(text, Path::new("daemons/x/daemon.toml"))
    }

    fn problem(extra: &str) -> String {
        parse(&format!("{MINIMAL}{extra}")).unwrap_err().to_string()
    }

    #[test]
    fn a_minimal_manifest_has_the_documented_defaults() {
        let manifest = parse(MINIMAL).unwrap();
        assert_eq!(manifest.stop.signal, Signal::SIGTERM);
        assert_eq!(manifest.stop.grace, Duration::from_secs(5));
        assert_eq!(manifest.ready.timeout, Duration::from_secs(30));
        assert_eq!(manifest.ready.probe, Probe::Unix("{socket}".to_owned()));
        assert_eq!((manifest.ports(), manifest.has_socket()), (3, true));
    }

    #[test]
    fn further_urls_have_names_and_placeholders_of_their_own() {
        let manifest = parse(&format!(
            "{MINIMAL}urls = {{ tls = 'https://127.0.0.1:{{port5}}' }}"
        ));
        assert_eq!(manifest.unwrap().ports(), 5);
        let problem = problem("urls = { tls = '{prt}' }");
        assert_contains(&problem, &["`urls`: unknown placeholder {prt}"]);
    }

    #[test]
    fn stop_and_ready_take_signals_and_durations() {
        let text = MINIMAL.replace(
            "{ unix = '{socket}' }",
            "{ line = 'listening', timeout = '1m30s' }",
        );
        let manifest = parse(&format!(
            "{text}stop = {{ signal = 'SIGINT', grace = '250ms' }}"
        ))
        .unwrap();
        assert_eq!(manifest.ready.timeout, Duration::from_secs(90));
        assert_eq!(
            (manifest.stop.signal, manifest.stop.grace),
            (Signal::SIGINT, Duration::from_millis(250))
        );
    }

    #[test]
    fn an_error_names_the_file_the_key_and_the_remedy() {
        for (extra, parts) in rows(
            "
                redy = 1 => unknown field `redy` … `ready` … daemons/README.md
                env = { A = '{sockt}' } => `env`: unknown placeholder {sockt} … {socket}
                build = [['make', '{port}']] => `build`: unknown placeholder {port} … only once it runs
                build = [[]] => `build`: a command is empty
                stop = { signal = 'TREM' } => `TREM` is not a signal
                stop = { grace = '5' } => `5` is not a duration
                stop = { grce = '5s' } => unknown field `grce` … `grace`
            ",
        ) {
            let problem = problem(extra);
            assert_contains(&problem, &["daemons/x/daemon.toml"]);
            assert_contains(&problem, &parts);
        }
    }

    #[test]
    fn ready_takes_exactly_one_probe() {
        for ready in ["{ }", "{ unix = 'a', tcp = 'b:1' }", "{ timeout = '1s' }"] {
            let error = parse(&MINIMAL.replace("{ unix = '{socket}' }", ready))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("exactly one of `unix`, `tcp`, `http` and `line`"),
                "{ready}: {error}"
            );
        }
        let error = parse(&MINIMAL.replace("unix = '{socket}'", "tcp = '{port}'"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("`ready.tcp`"), "{error}");
        let error = parse(&MINIMAL.replace("unix = '{socket}'", "unix = '@{socket}'"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("`ready.unix`"), "{error}");
        assert!(error.contains("abstract sockets"), "{error}");
    }

    const REDIS: &str = "[services.redis]\nrun = ['r', '{port}', '{scratch}']\nready = { tcp = '127.0.0.1:{port}' }\n";

    #[test]
    fn a_daemon_refers_to_its_services_and_each_has_the_defaults_of_a_daemon() {
        let manifest = parse(&format!(
            "{MINIMAL}env = {{ A = '{{redis.port}}' }}\n{REDIS}"
        ));
        let manifest = manifest.unwrap();
        let redis = &manifest.services["redis"];
        assert_eq!(redis.stop.grace, Duration::from_secs(5));
        assert_eq!(redis.ready.timeout, Duration::from_secs(30));
        assert_eq!(manifest.ports(), 3, "the ports of the service are its own");
    }

    #[test]
    fn an_error_in_a_service_names_its_key_and_the_known_placeholders() {
        let table = r"
            env = { A = '{reddis.port}' }\n{redis} => `env`: unknown placeholder {reddis.port} … {redis.port}, {redis.scratch}
            env = { A = '{redis.port2}' }\n{redis} => `env`: unknown placeholder {redis.port2} … {redis.port}
            build = [['make', '{redis.port}']]\n{redis} => `build`: unknown placeholder {redis.port} … only once it runs
            [services.redis]\nrun = ['{redis.port}']\nready = { line = 'a' } => `services.redis.run`: unknown placeholder {redis.port} … {scratch}
            [services.redis]\nrun = ['r', '{port}']\nready = { tcp = '{port}' } => `services.redis.ready.tcp`: `{port}` is not a host:port
            [services.my-redis]\nrun = ['r']\nready = { line = 'a' } => `services`: `my-redis` is not a name … digits and `_`
            [services.behind]\nrun = ['r']\nready = { line = 'a' } => `services`: `behind` means … use another name
            env = { A = '{behind.sock}' }\nbehind = 'other' => `env`: unknown placeholder {behind.sock} … {behind.port9}
            env = { A = '{behind.port}' } => `env`: unknown placeholder {behind.port}
            {redis}url = 'redis://' => unknown field `url`
        ";
        let table = table.replace("{redis}", &REDIS.replace('\n', r"\n"));
        for (extra, parts) in rows(&table) {
            assert_contains(&problem(&extra.replace(r"\n", "\n")), &parts);
        }
    }
}
