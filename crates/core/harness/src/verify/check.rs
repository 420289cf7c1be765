//! Checks daemons with a driver's own operations. Prints a line for each: `right`, or `WRONG` and why.

use anyhow::anyhow;
use clap::Args;
use subject::daemon::{DaemonError, Endpoint, Prepared};

use crate::failure::Failure;
use crate::launcher::{self, Launcher, note};
use crate::output;

/// Options of every `check` command.
#[derive(Debug, Args)]
pub struct DaemonsToCheck {
    /// Launch these daemons, named by their folders in daemons/ [default: all that serve the protocol of this program]
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',')]
    daemon: Vec<String>,
    /// Hide notes on stderr
    #[arg(long, short)]
    quiet: bool,
}

/// The result of checking one daemon, or one of its addresses.
#[derive(Debug)]
pub struct Finding {
    /// Name or address of the daemon.
    pub name: String,
    /// Description of what was right, or the error.
    pub found: anyhow::Result<String>,
}

/// Prints a line for each finding. Returns true if none is an error.
///
/// # Errors
/// Stdout can't be written.
pub fn print(findings: &[Finding]) -> Result<bool, Failure> {
    for Finding { name, found } in findings {
        let line = match found {
            Ok(right) => format!("{name}: right, {right}"),
            Err(error) => format!("{name}: WRONG: {error:#}"),
        };
        output::print(&line)?;
    }
    Ok(findings.iter().all(|finding| finding.found.is_ok()))
}

/// Launches the daemons that the options name, or all that serve a protocol, and prints what `check` finds at their
/// endpoints. Returns true if all is right. A daemon that ends by itself is wrong.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with a daemon.
pub fn check_daemons(
    protocol: &str,
    options: &DaemonsToCheck,
    mut check: impl FnMut(&str, &Endpoint) -> Vec<Finding>,
) -> Result<bool, Failure> {
    check_prepared(protocol, options, |launcher, prepared| {
        let name = prepared.name();
        let checked = launcher.with(prepared, &[], |daemon| {
            let mut findings = check(name, daemon.endpoint());
            let wrong = findings
                .iter_mut()
                .find_map(|finding| finding.found.as_mut().err());
            if let Some(error) = wrong
                && let Some(death) = launcher.death(daemon, true)
            {
                *error = anyhow!("{error:#}\n{death}");
            }
            findings
        });
        checked.unwrap_or_else(|error| {
            vec![Finding {
                name: name.to_owned(),
                found: Err(error.into()),
            }]
        })
    })
}

/// As [`check_daemons`], for a check that launches each daemon itself, such as with several settings.
///
/// # Errors
/// As [`check_daemons`].
pub fn check_prepared(
    protocol: &str,
    options: &DaemonsToCheck,
    mut check: impl FnMut(&Launcher, &Prepared) -> Vec<Finding>,
) -> Result<bool, Failure> {
    let root = launcher::root()?;
    let launcher = Launcher::new().map_err(Failure::Run)?;
    let is_required = !options.daemon.is_empty() || launcher::everything_is_required();
    let mut all_right = true;
    for name in launcher::named_or_all(&root, &options.daemon, protocol)? {
        let findings = match launcher::prepare(&root, &name, protocol, options.quiet) {
            Ok(prepared) => {
                note(options.quiet, &format!("checking {name}"));
                check(&launcher, &prepared)
            }
            Err(
                DaemonError::ToolMissing { tool, .. }
                | DaemonError::ProgramMissing { program: tool, .. },
            ) if !is_required => {
                let line = format!("{name}: skipped: it needs `{tool}`");
                output::print(&line)?;
                continue;
            }
            Err(error) => vec![not_prepared(name, error)?],
        };
        all_right &= print(&findings)?;
    }
    Ok(all_right)
}

/// Returns the finding about a daemon that can't be launched. A wrong name or manifest is an error of the call.
fn not_prepared(name: String, error: DaemonError) -> Result<Finding, Failure> {
    let is_tool = matches!(
        error,
        DaemonError::ToolMissing { .. } | DaemonError::ProgramMissing { .. }
    );
    match Failure::from(error) {
        Failure::Call(error) if !is_tool => Err(Failure::Call(error)),
        Failure::Call(error) | Failure::Limit(error) | Failure::Run(error) => Ok(Finding {
            name,
            found: Err(error),
        }),
    }
}
