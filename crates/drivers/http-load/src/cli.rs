//! The command line: options named after options of wrk, oha and k6, and the driver's own.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use harness::cli::{DriverCli, Program, lines_of_files};
use harness::failure::Failure;
use harness::verify::EXIT_CODES;
use load::driver::Target;
use load::net::url::path_of;
use load::plan::{Invalid, Plan};
use subject::manifest::{self, Manifest};

use crate::check;
use crate::driver::HttpLoad;
use crate::har::{self, HarOptions};
use crate::mix::EVENTS;
use crate::replay;
use crate::settings::Settings;

mod options;

use options::LoadOptions;

const WARMUP: &str = "Apply the load for this long before measuring; it is not counted. With stages it is their first part, and 0s without this option, as with --events [default: 1s]";
const THRESHOLD: &str = "Require a threshold, such as \"response.p99 <= 50ms\". It is added to the plan's; exit code 4 if missed. In k6's syntax: \"http_req_duration: p(95)<5\" (service time in milliseconds: sending, waiting, receiving), \"http_req_failed: rate<0.01\", \"checks: rate>0.99\", \"errors: rate<0.1\" (requests that failed or failed a check), \"http_reqs: rate>100\"";

/// Options of curl, ab, hey, oha, wrk and k6 that mean something else here, or nothing.
const FOREIGN: &[(&str, &str)] = &[
    (
        "-k",
        "connections are kept open by default; to accept any certificate, use --tls-insecure",
    ),
    ("-L", "use --follow 10"),
    ("--location", "use --follow 10"),
    ("-I", "use --method HEAD"),
    ("--head", "use --method HEAD"),
    (
        "-A",
        "use -H 'User-Agent: …'; for a password, -H @FILE with the field Authorization",
    ),
    ("--user-agent", "use -H 'User-Agent: …'"),
    (
        "-a",
        "use -H @FILE, with a line for the field Authorization (Basic, and NAME:PASSWORD in base64)",
    ),
    (
        "--user",
        "use -H @FILE, with a line for the field Authorization (Basic, and NAME:PASSWORD in base64)",
    ),
    (
        "--basic-auth",
        "use -H @FILE, with a line for the field Authorization (Basic, and NAME:PASSWORD in base64)",
    ),
    (
        "-T",
        "use -H 'Content-Type: …', or for a time limit --timeout",
    ),
    (
        "-C",
        "use -H 'Cookie: …', or --cookies to keep those that the server sends",
    ),
    (
        "--cookie",
        "use -H 'Cookie: …', or --cookies to keep those that the server sends",
    ),
    (
        "-p",
        "use --method POST --body-file FILE, or for parallel connections -c",
    ),
    ("-x", "there are no proxies: request the server itself"),
    ("--proxy", "there are no proxies: request the server itself"),
    ("-o", "use --output FILE, or --format csv"),
    ("-i", "use --method HEAD, or for a number of requests -n"),
    (
        "--iterations",
        "use -n, a number of requests for all connections together",
    ),
    (
        "--script",
        "there are no scripts: use --check, --header, --rows, or a plan with several requests",
    ),
    ("--host", "use -H 'Host: …'"),
    ("--cpus", "use --threads"),
    (
        "--unix-socket",
        "write the URL as unix:/path/of.socket:/path",
    ),
    ("--no-tui", "use --quiet"),
    (
        "--latency-correction",
        "times count from the due time with --rate, always",
    ),
    ("--qps", "use --rate"),
];

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Request these URLs: http://host:port/path, https://…, or unix:/path/of.socket:/path. @FILE reads them from a
    /// file, one per line. Connections are assigned to several servers in turn
    #[arg(value_name = "URL", conflicts_with = "daemon")]
    urls: Vec<String>,
    #[command(flatten)]
    load: LoadOptions,
}

/// A subcommand other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Request the same files from several servers and compare the responses
    ///
    /// Without arguments, check builds and launches every daemon in daemons/ that serves HTTP. It skips a daemon whose
    /// toolchain is missing, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(check::CheckOptions),
    /// Print a plan with the requests that a browser has recorded
    ///
    /// The plan has the requests to the server that got most of them, equal ones as weights. Fields with secrets, such as
    /// Cookie and Authorization, are left out; the plan keeps the cookies that the server sends.
    #[command(after_help = EXIT_CODES)]
    ImportHar(HarOptions),
}

impl DriverCli for HttpLoad {
    type Options = Options;
    type Command = Command;
    const PROGRAM: Program = Program {
        embedded: "http-daemon",
        about: "Load-test an HTTP server: as fast as it responds, at a fixed rate, or with many open connections\n\nWithout a URL, http-load builds a server, launches it on a free port and stops it at the end.",
        examples: &[
            (
                "-c 100 -d 30s http://127.0.0.1:8080/1kb.txt",
                "100 connections, each as fast as the server responds",
            ),
            (
                "-R 2000 -c 100 -d 30s http://127.0.0.1:8080/1kb.txt",
                "2,000 requests per second, however fast the server is",
            ),
            (
                "-s 30s:100,1m:1000,30s:0 http://127.0.0.1:8080/",
                "a changing number of virtual users",
            ),
            (
                "--keep-open -c 60000 -d 1m http://127.0.0.1:8080/",
                "60,000 connections held open",
            ),
            (
                "--plan configs/http/latency.toml",
                "run a plan file against a server that http-load launches",
            ),
            ("check", "compare the responses of all servers"),
        ],
        failed: "a request or the run failed",
        main: &[
            "connections",
            "rate",
            "stage",
            "duration",
            "warmup",
            "keep_open",
            "http2",
            "method",
            "path",
            "headers",
            "body",
            "expect_status",
            "checks",
            "tls_insecure",
        ],
        renamed: &[("hold", "keep-open"), ("pacing", "timer")],
        foreign: FOREIGN,
        protocols: &[(EVENTS, "--events")],
        ..Program::UNKNOWN
    };

    /// Leaves the words as they are: wrk's `-c100` must not become a long option. Options of other tools whose letters
    /// have another meaning here are known by their values.
    fn words(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        for pair in typed.windows(2) {
            let (Some(option), Some(value)) = (pair[0].to_str(), pair[1].to_str()) else {
                continue;
            };
            let is_number = value.parse::<f64>().is_ok();
            let remedy = match option {
                "-u" if value.contains(':') => {
                    "is a number of users here: for a password, use -H @FILE, with a line for the field Authorization"
                }
                "-d" if value.contains(['{', '=', '&']) => {
                    "is a duration here: for a body, use --body"
                }
                "-q" if is_number => "hides the progress here: for a rate, use --rate",
                "-s" if is_number => "is a stage here: for a time limit, use --timeout",
                "-s" if value.ends_with(".lua") => {
                    "is a stage here, and there are no scripts: use --check, --header, --rows, or a plan with several requests"
                }
                _ => continue,
            };
            return Err(Invalid::new(format!("{option} {value}"), remedy).into());
        }
        Ok(typed)
    }

    /// Adds `-t` for `--threads` as in wrk, the default of the warm-up, and k6's syntax of thresholds.
    fn adapt(command: clap::Command) -> clap::Command {
        let command = command.mut_arg("threads", |threads| threads.short('t'));
        let command = command.mut_arg("warmup", |warmup| warmup.help(WARMUP));
        command.mut_arg("threshold", |threshold| threshold.help(THRESHOLD))
    }

    fn plan(options: &Options, settings: Settings) -> Plan<Settings> {
        options.load.plan(settings)
    }

    fn apply(options: &Options, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        options.load.apply(plan)
    }

    fn target(options: &Options) -> Result<Option<Target>, Failure> {
        let urls = lines_of_files("URL", options.urls.clone())?;
        Ok((!urls.is_empty()).then(|| Target::of_urls(urls)))
    }

    /// Chooses the engine, and the path if all URLs have the same, so that the stored plan names them.
    fn complete(target: Option<&Target>, plan: &mut Plan<Settings>) -> Result<(), Failure> {
        let urls: Vec<String> = match target {
            Some(target) => target.urls().map(str::to_owned).collect(),
            None => url_of_daemon(plan).into_iter().collect(),
        };
        let mut paths = urls.iter().map(|url| path_of(url));
        let path = paths
            .next()
            .filter(|first| paths.all(|path| path == *first));
        if plan.driver.replay.is_none() {
            plan.driver.path = plan.driver.path.take().or(path);
        }
        replay::complete(plan)?;
        Ok(())
    }

    fn run_command(command: Command) -> Result<bool, Failure> {
        match command {
            Command::Check(options) => check::run(&options),
            Command::ImportHar(options) => har::import(&options),
        }
    }
}

/// Returns the URL of the plan's daemon, with its placeholders; empty if the daemon has only a socket. Errors in the
/// manifest are reported later.
fn url_of_daemon(plan: &Plan<Settings>) -> Option<String> {
    let root = manifest::find_root().ok()?;
    let manifest = Manifest::load(&root, plan.daemon.as_deref()?).ok()?;
    match &plan.endpoint {
        Some(endpoint) => manifest.urls.get(endpoint).cloned(),
        None => Some(manifest.url.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harness::cli;

    use super::*;

    fn plan(words: &str) -> Plan<Settings> {
        let words = std::iter::once("http-load").chain(words.split_whitespace());
        let typed = cli::command::<HttpLoad>().try_get_matches_from(words);
        let plan = cli::job::<HttpLoad>(typed.unwrap()).unwrap().plan;
        plan.validate().unwrap();
        Settings::validate(&plan).unwrap();
        plan
    }

    #[test]
    fn wrk_s_call_is_taken_as_it_is_typed() {
        let plan = plan("-t16 -c1000 -d60s --latency http://localhost:8080");
        assert_eq!((plan.groups[0].clients, plan.groups[0].rate), (1000, None));
        assert_eq!(plan.timeline.measure, Duration::from_secs(60));
        assert_eq!(plan.daemon, None);
    }

    #[test]
    fn a_rate_is_an_open_loop_over_the_connections() {
        let plan = plan("-c 50 --rate 2000");
        assert_eq!(
            (plan.groups[0].clients, plan.groups[0].rate),
            (0, Some(2000.0))
        );
        assert_eq!(plan.driver.connections, 50);
        assert_eq!(plan.daemon.as_deref(), Some(HttpLoad::PROGRAM.embedded));
    }

    #[test]
    fn k6_s_call_is_taken_as_it_is_typed() {
        let typed =
            plan("-s 30s:100,1m:1000,2m:5000 --stage 1m:1000 -s 30s:0 http://localhost:8080");
        let group = &typed.groups[0];
        assert_eq!((group.most_clients(), group.is_closed()), (5000, true));
        assert_eq!(typed.timeline.measure, Duration::from_secs(300));
        assert_eq!(typed.timeline.warmup, Duration::ZERO);
        assert!(typed.driver.phases);
        assert_eq!(plan("-u 10 -d 30s").groups[0].clients, 10);
        assert_eq!(plan("--vus 10 -d 30s").groups[0].clients, 10);
    }

    #[test]
    fn stages_of_a_rate_go_over_the_connections() {
        let typed = plan("--rate-stage 10s:500,5s:500 -c 20 --warmup 5s");
        assert_eq!(typed.groups[0].stages.len(), 2);
        assert!(!typed.groups[0].is_closed());
        assert_eq!(typed.driver.connections, 20);
        assert_eq!(typed.timeline.measure, Duration::from_secs(10));
    }

    #[test]
    fn stages_that_are_none_are_refused() {
        for words in [
            "-s soon:100",
            "-s 30s",
            "-s 30s:1.5",
            "--rate-stage 1s:fast",
            "-s 1s:1 -d 3s",
            "-s 1s:1 --rate 5",
            "-s 1s:1 --rate-stage 1s:1",
        ] {
            let words = std::iter::once("http-load").chain(words.split_whitespace());
            let typed = cli::command::<HttpLoad>().try_get_matches_from(words);
            let error = typed.unwrap_err();
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn the_same_load_on_another_daemon_is_the_same_sentence() {
        let of = |daemon: &str| Settings::sentence(&plan(&format!("-c 5 --daemon {daemon}")));
        assert_eq!(of("nginx"), of("http-daemon"));
        assert!(of("nginx").starts_with("GET /1kb.txt: 5 "));
    }

    #[test]
    fn held_connections_are_opened_before_the_load_and_asked_once_a_minute() {
        let plan = plan("--keep-open -c 60000 --connect-rate 20000");
        assert_eq!(plan.groups[0].rate, Some(1000.0));
        assert_eq!(plan.timeline.warmup, Duration::from_secs(1));
        assert_eq!(Settings::opening(&plan), Some(Duration::from_secs(42)));
        let limited = self::plan("--keep-open -c 60000 --open-timeout 5s");
        assert_eq!(Settings::opening(&limited), Some(Duration::from_secs(5)));
        assert_eq!(Settings::opening(&self::plan("-R 5 -c 10")), None);
        assert_eq!(plan.driver.source_addresses, ["auto"]);
        // A fractional rate would appear in the name of the level.
        assert_eq!(
            self::plan("--keep-open -c 10000").groups[0].rate,
            Some(167.0)
        );
    }
}
