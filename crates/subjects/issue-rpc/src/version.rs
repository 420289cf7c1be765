//! The rule by which a daemon serves a client of another version.

use crate::code::Code;

/// The version of the protocol's programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Checks that a daemon of one version serves a client of another: the major number is the same, and the daemon is not
/// older than the client.
///
/// # Errors
/// They do not fit; the text says which one to update.
pub fn check_version(daemon: &str, client: &str) -> Result<(), (Code, String)> {
    let Some(client_numbers) = parse(client) else {
        let problem = format!(
            "client_version: {client:?} is not a version: write three numbers, such as {VERSION}"
        );
        return Err((Code::InvalidRequest, problem));
    };
    let daemon_numbers = parse(daemon).unwrap_or_default();
    let mismatch = |remedy: &str| {
        let problem = format!("the daemon is {daemon}, and the client {client}: {remedy}");
        Err((Code::VersionMismatch, problem))
    };
    match (client_numbers, daemon_numbers) {
        (client, daemon) if client[0] < daemon[0] => mismatch("update the client"),
        (client, daemon) if client > daemon => mismatch("stop the daemon and start the newer one"),
        _ => Ok(()),
    }
}

fn parse(text: &str) -> Option<[u32; 3]> {
    // What follows the numbers, such as -rc.1 or +build, does not matter.
    let numbers = text.split(['-', '+']).next()?;
    let numbers: Vec<u32> = numbers
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_the_same_major_version_that_is_not_newer_is_served() {
        assert_eq!(check_version("1.2.3", "1.2.3"), Ok(()));
        assert_eq!(check_version("1.2.3", "1.0.9-rc.1"), Ok(()));
        let refused = |daemon, client| check_version(daemon, client).unwrap_err();
        assert_eq!(refused("1.2.3", "1.2.4").0, Code::VersionMismatch);
        assert!(refused("1.2.3", "2.0.0").1.contains("start the newer one"));
        assert!(refused("2.0.0", "1.9.9").1.contains("update the client"));
        assert_eq!(refused("1.2.3", "one").0, Code::InvalidRequest);
    }
}
