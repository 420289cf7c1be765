//! Options of the command line, and their `DAEMON_*` variables.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser};
use daemon_kit::cli::{CommonOptions, DaemonOptions};
use daemon_kit::parse_duration;

use crate::config::{Backend, Config};
use crate::openai::{BackendAddress, Http, Key, OpenAiConfig};

/// Maximum duration of a stream, which keeps every due time within 64 bits of nanoseconds.
const MAX_STREAM_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

/// Receive client sockets over a Unix socket (SCM_RIGHTS) and respond to each with server-sent events.
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100)]
#[command(mut_arg("metrics_addr", |address| address.default_value("127.0.0.1:9090")))]
#[command(mut_arg("shutdown_grace", |grace| grace.default_value("30s")))]
pub struct Options {
    #[command(flatten)]
    config: Config,

    /// Choose the source of the events
    #[arg(long, value_name = "NAME", default_value = "mock")]
    pub backend_provider: Backend,

    /// Connect to the backend `openai` at this address: http://host:port, or unix: and a path. /v1/chat/completions is
    /// added. The key is read from DAEMON_OPENAI_KEY or OPENAI_API_KEY
    #[arg(long, value_name = "URL")]
    pub openai_base: Option<BackendAddress>,

    /// Choose the HTTP version of the backend `openai`; 2 means with prior knowledge
    #[arg(long, value_name = "VERSION", default_value = "auto")]
    pub openai_http: Http,

    /// Use this model for handoffs that name none [default: such requests name no model either]
    #[arg(long, value_name = "NAME")]
    pub openai_model: Option<String>,

    /// Fail a stream if the backend `openai` takes longer than this to its first byte, or between two bytes
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = parse_duration)]
    pub backend_timeout: Duration,

    #[command(flatten)]
    common: CommonOptions,

    /// Serve /metrics and /healthz
    #[arg(long, value_name = "BOOL", default_value = "true")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub metrics_enabled: bool,

    /// Serve no metrics, and print a summary at the end
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub benchmark: bool,
}

impl DaemonOptions for Options {
    const VARIABLE_PREFIX: &'static str = "DAEMON";
}

impl Options {
    /// Converts the options into a configuration.
    ///
    /// # Errors
    /// An invalid value, with the option, its variable and the remedy.
    pub fn config(&self) -> Result<Config, String> {
        let mut config = self.config.clone();
        if config.write_timeout.is_zero() {
            return Err(
                "--write-timeout (DAEMON_WRITE_TIMEOUT) must be longer than 0; \
                the default is 30s"
                    .to_owned(),
            );
        }
        let length = config.message_delay.checked_mul(config.message_count);
        if length.is_none_or(|length| length > MAX_STREAM_DURATION) {
            return Err("--message-count × --message-delay (DAEMON_MESSAGE_COUNT, \
                DAEMON_MESSAGE_DELAY): a stream may last at most a year (366 days); lower one of them"
                .to_owned());
        }
        if self.metrics_enabled && !self.benchmark {
            config.metrics_addr = self.common.metrics_addr;
        }
        if self.backend_provider == Backend::Openai {
            config.openai = Some(self.openai()?);
        }
        config.shutdown_grace = self.common.shutdown_grace;
        Ok(config)
    }

    fn openai(&self) -> Result<OpenAiConfig, String> {
        let base = self.openai_base.clone().ok_or(
            "--openai-base (DAEMON_OPENAI_BASE): the backend `openai` needs an address; \
            set it for instance to http://127.0.0.1:8081",
        )?;
        if self.backend_timeout.is_zero() {
            return Err(
                "--backend-timeout (DAEMON_BACKEND_TIMEOUT) must be longer than 0; \
                the default is 30s"
                    .to_owned(),
            );
        }
        Ok(OpenAiConfig {
            base,
            http: self.openai_http,
            key: Key::from_environment()?,
            model: self.openai_model.clone(),
            timeout: self.backend_timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use daemon_kit::cli::name_variable;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let all = ["streaming-daemon"].iter().chain(arguments);
        let options =
            Options::parse_with_variables(all).map_err(|error| name_variable::<Options>(&error))?;
        options.config()
    }

    #[test]
    fn a_bad_value_is_answered_with_option_variable_and_remedy() {
        for line in [
            "--message-delay=5 --message-delay DAEMON_MESSAGE_DELAY 50ms",
            "--socket=@a --socket DAEMON_SOCKET_PATH abstract sockets file",
            "--socket-mode=rw --socket-mode DAEMON_SOCKET_MODE 0660",
            "--socket-mode=7777 --socket-mode DAEMON_SOCKET_MODE 0660",
            "--socket-type=dgram --socket-type DAEMON_SOCKET_TYPE seqpacket",
            "--max-connections=0 --max-connections DAEMON_MAX_CONNECTIONS 1..",
            "--metrics-addr=9090 --metrics-addr DAEMON_METRICS_ADDR 127.0.0.1:9090",
            "--metrics-enabled=5 --metrics-enabled DAEMON_METRICS_ENABLED boolean",
            "--backend-provider=openai --openai-base DAEMON_OPENAI_BASE http://",
            "--openai-base=https://a --openai-base DAEMON_OPENAI_BASE proxy",
            "--openai-http=3 --openai-http DAEMON_OPENAI_HTTP auto",
            "--backend-timeout=30 --backend-timeout DAEMON_BACKEND_TIMEOUT 50ms",
            "--allow-uid=33,www-data --allow-uid DAEMON_ALLOW_UID 33,1000",
            "--allow-gid= --allow-gid DAEMON_ALLOW_GID 33,1000",
            "--write-timeout=0 --write-timeout DAEMON_WRITE_TIMEOUT 30s",
            "--message-delay=2562047h --message-delay DAEMON_MESSAGE_DELAY lower",
        ] {
            let mut words = line.split(' ');
            let complaint = parse(&[words.next().unwrap()]).unwrap_err();
            for word in words {
                assert!(complaint.contains(word), "{word} is not in: {complaint}");
            }
        }
    }

    #[test]
    fn benchmark_and_metrics_enabled_false_turn_the_metrics_off() {
        assert_eq!(parse(&["--benchmark"]).unwrap().metrics_addr, None);
        assert_eq!(
            parse(&["--metrics-enabled", "false"]).unwrap().metrics_addr,
            None
        );
    }
}
