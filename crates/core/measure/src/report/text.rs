//! Text of daemons, hosts and warnings, made safe to show.

/// Removes control characters from a text of a daemon or host, so that it cannot control the terminal.
pub(super) fn plain(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && letter != '\n', " ")
}
