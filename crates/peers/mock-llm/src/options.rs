//! Options of the command line, and their `MOCK_LLM_*` variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};

use crate::pattern::Pattern;

/// Simulate an OpenAI-compatible streaming chat API, over HTTP/1.1 and HTTP/2.
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100)]
pub struct Options {
    /// Listen on this address; port 0 lets the system choose
    #[arg(long, env = "MOCK_LLM_LISTEN", value_name = "HOST:PORT")]
    #[arg(default_value = "127.0.0.1:8081")]
    pub listen: SocketAddr,

    /// Listen on this Unix socket instead of an address
    #[arg(long, env = "MOCK_LLM_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The defaults for requests.
    #[command(flatten)]
    pub settings: Settings,
}

/// The defaults for requests.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Send this many contents per response
    #[arg(
        long,
        env = "MOCK_LLM_TOKENS",
        value_name = "NUMBER",
        default_value_t = 18
    )]
    pub tokens: u32,

    /// Wait this long before each content, such as 50ms
    #[arg(
        long,
        env = "MOCK_LLM_DELAY",
        value_name = "DURATION",
        default_value = "50ms",
        value_parser = humantime::parse_duration
    )]
    pub delay: Duration,

    /// Choose the response to requests without an X-Test-Pattern header: plain, unicode, byte-chunks, 4k-chunks,
    /// quirks, echo, abort-after-N, finish-length, finish-only, no-finish, linger, error-event, stall, stall-head,
    /// status-NNN or not-sse
    #[arg(
        long,
        env = "MOCK_LLM_PATTERN",
        value_name = "NAME",
        default_value = "plain"
    )]
    pub pattern: Pattern,

    /// Reject requests without this bearer token
    #[arg(long, env = "MOCK_LLM_KEY", value_name = "KEY", hide_env_values = true)]
    pub key: Option<String>,
}
