//! Text of daemons, hosts and warnings, made safe to show.

use crate::warning::{Severity, Warning};

/// Removes control characters from a text of a daemon or host, so that it cannot control the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| {
            if letter.is_control() && letter != '\n' {
                ' '
            } else {
                letter
            }
        })
        .collect()
}

/// Removes control characters from the texts of a warning.
pub(super) fn plain_warning(warning: &Warning) -> Warning {
    Warning {
        message: plain(&warning.message),
        hint: plain(&warning.hint),
        ..warning.clone()
    }
}

/// Returns the name of a severity.
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Suspect => "suspect",
        Severity::Invalid => "invalid",
    }
}
