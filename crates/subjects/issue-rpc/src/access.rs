//! Access to a database through its daemon, or directly while no daemon runs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use issue_store::Options;
use serde_json::value::RawValue;

use crate::client::{Call, Client, ClientError};
use crate::code::Code;
use crate::direct::Direct;
use crate::socket_path::{check_socket_folder, socket_path};

/// The time between two attempts to reach a daemon during direct mode.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Access to a database: through its daemon, or directly while no daemon runs.
///
/// If the daemon ends, the next request goes to the database itself. Once a second at most, a request in direct mode
/// first tries to reach a daemon. A write that was sent to a daemon that died is repeated only with an idempotency key.
#[derive(Debug)]
pub struct Access {
    database: PathBuf,
    socket: PathBuf,
    options: Options,
    actor: String,
    timeout: Option<Duration>,
    link: Option<Link>,
    /// True if a daemon is never asked.
    is_direct_only: bool,
    next_look: Instant,
    change: Option<String>,
}

#[derive(Debug)]
enum Link {
    Daemon(Client),
    Direct(Box<Direct>),
}

impl Access {
    /// Prepares access to a database, given by its [identity](crate::database_identity). Nothing is opened yet.
    /// Direct mode uses `options`; a daemon has its own.
    #[must_use]
    pub fn new(database: &Path, actor: &str, options: Options) -> Self {
        Self {
            socket: socket_path(database),
            database: database.to_owned(),
            options,
            actor: actor.to_owned(),
            timeout: Some(Duration::from_secs(30)),
            link: None,
            is_direct_only: false,
            next_look: Instant::now(),
            change: None,
        }
    }

    /// Sets the time for each request. `None` waits forever.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Never asks a daemon.
    #[must_use]
    pub fn direct_only(mut self) -> Self {
        self.is_direct_only = true;
        self
    }

    /// Returns the last change of the route and its reason, once.
    pub fn take_change(&mut self) -> Option<String> {
        self.change.take()
    }

    /// Performs a request, by the daemon if one runs. Returns the data of the answer.
    ///
    /// # Errors
    /// The request was refused, no answer arrived, or the database cannot be opened.
    pub fn call(&mut self, call: &Call) -> Result<Box<RawValue>, ClientError> {
        self.choose()?;
        match self.link.as_mut().expect("it was chosen above") {
            Link::Direct(direct) => direct.perform(call, &self.actor, self.timeout),
            Link::Daemon(client) => match client.call(call) {
                // The client has tried to connect again, so the daemon is gone.
                Err(ClientError::NoDaemon { error, .. }) if is_absent(&error) => {
                    self.go_direct("the daemon ended")?;
                    self.call(call)
                }
                other => other,
            },
        }
    }

    fn choose(&mut self) -> Result<(), ClientError> {
        let may_look = !self.is_direct_only && Instant::now() >= self.next_look;
        match &self.link {
            Some(Link::Daemon(_)) => return Ok(()),
            Some(Link::Direct(_)) if !may_look => return Ok(()),
            _ => {}
        }
        if self.is_direct_only {
            return self.go_direct("as asked");
        }
        let connected = match check_socket_folder(&self.database, &self.socket) {
            Ok(()) => Client::connect(&self.socket, &self.actor),
            Err(error) => Err(ClientError::NoDaemon {
                socket: self.socket.clone(),
                error,
            }),
        };
        match connected {
            Ok(client) => {
                if self.link.is_some() {
                    self.change = Some("through the daemon: one has started".to_owned());
                }
                let client = client
                    .with_timeout(self.timeout)
                    .with_database(&self.database);
                self.link = Some(Link::Daemon(client));
                Ok(())
            }
            Err(ClientError::NoDaemon { error, .. }) if is_absent(&error) => {
                self.next_look = Instant::now() + LOOK_AGAIN;
                match self.link {
                    Some(_) => Ok(()),
                    None => self.go_direct("no daemon runs"),
                }
            }
            Err(other) => Err(other),
        }
    }

    fn go_direct(&mut self, reason: &str) -> Result<(), ClientError> {
        let direct = Direct::open(&self.database, self.options.clone()).map_err(|error| {
            ClientError::Refused {
                code: Code::from(error.code()),
                error: error.to_string(),
                data: None,
            }
        })?;
        self.link = Some(Link::Direct(Box::new(direct)));
        self.next_look = Instant::now() + LOOK_AGAIN;
        self.change = Some(format!("directly to {}: {reason}", self.database.display()));
        Ok(())
    }
}

/// Returns true if nothing listens at a socket, as opposed to a daemon that this user cannot reach.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}
