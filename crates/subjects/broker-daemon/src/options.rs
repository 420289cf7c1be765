//! The settings of a broker: flags, their `BROKER_*` variables, and errors in them.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches as _, Parser};
use daemon_kit::cli::{self, CommonOptions, DaemonOptions, value_or_file};

/// The smallest frame size that a broker may offer (AMQP 0-9-1, 4.2.3), and a generous maximum.
const FRAME_MAX: std::ops::RangeInclusive<i64> = 4096..=16 * 1024 * 1024;

/// The settings of a broker.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// Listen for clients on this address
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5672")]
    #[arg(value_parser = parse_address)]
    pub listen: SocketAddr,

    /// The address of `/metrics` and `/healthz`; `None` if they are not served.
    #[arg(skip)]
    pub metrics_addr: Option<SocketAddr>,

    /// Allow this user to log in; may be repeated (in the variable: separated by commas). @FILE reads it from a file
    #[arg(
        long = "user",
        value_name = "NAME:PASSWORD",
        default_value = "guest:guest"
    )]
    #[arg(value_delimiter = ',', value_parser = parse_user)]
    pub users: Vec<(String, String)>,

    /// Let this user log in only from the broker's own machine; may be repeated (in the variable: separated by commas);
    /// `none` lets all users log in from everywhere
    #[arg(
        long = "loopback-user",
        value_name = "NAME",
        default_value = "guest",
        value_delimiter = ','
    )]
    pub loopback_users: Vec<String>,

    /// Add this virtual host; may be repeated (in the variable: separated by commas)
    #[arg(
        long = "vhost",
        value_name = "NAME",
        default_value = "/",
        value_delimiter = ','
    )]
    pub vhosts: Vec<String>,

    /// Offer this maximum frame size, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 131_072)]
    #[arg(value_parser = clap::value_parser!(u32).range(FRAME_MAX))]
    pub frame_max: u32,

    /// Offer this highest channel number
    #[arg(long, value_name = "NUMBER", default_value_t = 2047)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub channel_max: u16,

    /// Offer this heartbeat interval, in seconds; 0 means none
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub heartbeat: u16,

    /// Block publishers when messages take more memory than this, such as 512MiB or 4GB [default: 60 % of the
    /// machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    #[arg(default_value_t = default_memory_limit(), hide_default_value = true)]
    pub memory_limit: usize,

    /// Limit open connections to this number; further ones are closed
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,

    /// Store durable exchanges, queues, bindings and persistent messages in this folder [default: nothing is stored]
    #[arg(long, value_name = "PATH")]
    pub data_dir: Option<PathBuf>,

    /// Run declared quorum queues as durable classic queues, with a warning for each [default: they are refused]
    #[arg(long)]
    pub quorum_as_classic: bool,

    /// Start despite a damaged log in the data folder: keep the readable part, and move the damaged segments aside
    #[arg(long)]
    pub salvage: bool,

    /// Time that clients have to answer connection.close at shutdown.
    #[arg(skip = Duration::from_secs(10))]
    pub shutdown_grace: Duration,
}

impl Default for Config {
    /// Returns the settings without options, whatever the environment.
    fn default() -> Self {
        let matches = Self::augment_args(Command::default()).get_matches_from([""]);
        Self::from_arg_matches(&matches).expect("every option has a default")
    }
}

/// Run an AMQP 0-9-1 broker with exchanges, queues, confirms and transactions, in one thread
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100)]
#[command(mut_arg("metrics_addr", |address| {
    address.help("Serve /metrics and /healthz on this address [default: not served]")
}))]
pub struct Options {
    #[command(flatten)]
    config: Config,
    #[command(flatten)]
    common: CommonOptions,
}

impl DaemonOptions for Options {
    const VARIABLE_PREFIX: &'static str = "BROKER";
}

impl Options {
    /// Converts the options to the configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            metrics_addr: self.common.metrics_addr,
            shutdown_grace: self.common.shutdown_grace,
            ..self.config.clone()
        }
    }
}

fn default_memory_limit() -> usize {
    memory().map_or(usize::MAX, |memory| memory / 10 * 6)
}

/// Returns the bytes of memory that this process may use: the machine's, or its control group's if that is less.
fn memory() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = machine
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine: usize = machine.trim().strip_suffix(" kB")?.parse().ok()?;
    let machine = machine * 1024;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    Some(group.map_or(machine, |group: usize| group.min(machine)))
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    cli::parse_address(text, "127.0.0.1:5672")
}

fn parse_user(text: &str) -> Result<(String, String), String> {
    match value_or_file(text)?.split_once(':') {
        Some((name, password)) if !name.is_empty() => Ok((name.to_owned(), password.to_owned())),
        _ => Err("write name and password separated by a colon, such as guest:guest".to_owned()),
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => Some(1),
        "kB" | "KB" => Some(1000),
        "KiB" => Some(1 << 10),
        "MB" => Some(1_000_000),
        "MiB" => Some(1 << 20),
        "GB" => Some(1_000_000_000),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let number = number.parse::<usize>().ok();
    number
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .filter(|size| *size > 0)
        .ok_or_else(|| "write a size with its unit, such as 512MiB or 4GB".to_owned())
}

#[cfg(test)]
mod tests {
    use daemon_kit::cli::name_variable;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let all = ["broker-daemon"].iter().chain(arguments);
        let options =
            Options::parse_with_variables(all).map_err(|error| name_variable::<Options>(&error))?;
        Ok(options.config())
    }

    #[test]
    fn users_and_vhosts_may_be_given_several_times() {
        let config = parse(&[
            "--user", "a:1", "--user", "b:2:3", "--vhost", "/", "--vhost", "x",
        ])
        .unwrap();
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        assert_eq!(config.users, [pair("a", "1"), pair("b", "2:3")]);
        assert_eq!(config.vhosts, ["/", "x"]);
        assert!(config.memory_limit < usize::MAX);
    }

    #[test]
    fn wrong_variables_are_named_with_a_remedy() {
        for (arguments, variable, remedy) in [
            (["--listen", "here"], "BROKER_LISTEN", "127.0.0.1:5672"),
            (["--user", "guest"], "BROKER_USER", "guest:guest"),
            (["--frame-max", "100"], "BROKER_FRAME_MAX", "4096"),
            (
                ["--memory-limit", "4 apples"],
                "BROKER_MEMORY_LIMIT",
                "512MiB",
            ),
            (["--memory-limit", "0"], "BROKER_MEMORY_LIMIT", "512MiB"),
            (["--shutdown-grace", "soon"], "BROKER_SHUTDOWN_GRACE", "10s"),
        ] {
            let complaint = parse(&arguments).unwrap_err();
            assert!(complaint.contains(variable), "{complaint}");
            assert!(complaint.contains(remedy), "{complaint}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("4GB"), Ok(4_000_000_000));
        assert_eq!(parse_size("123"), Ok(123));
    }
}
