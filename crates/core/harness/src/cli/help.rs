//! The two lengths of help: `-h` shows the main options on a screen or two, `--help` everything.

use clap::Command;

/// Longest default, in bytes, that is repeated in the short help.
const SHORT_DEFAULT: usize = 34;
/// Main options of those that all drivers share.
const COMMON: [&str; 8] = [
    "daemon",
    "plan",
    "set",
    "threshold",
    "repeat",
    "output",
    "format",
    "quiet",
];

/// Gives each option a short help, its first sentence, and a long one; `-h` shows the `main` options only.
pub(super) fn with_lengths(command: Command, main: &[&str]) -> Command {
    command.mut_args(|arg| {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let whole = help.map(ToString::to_string).unwrap_or_default();
        let id = arg.get_id().as_str();
        let is_main = arg.is_positional() || main.contains(&id) || COMMON.contains(&id);
        arg.help(first_sentence(&whole))
            .long_help(whole)
            .hide_short_help(!is_main)
    })
}

/// Returns the first sentence of a help text, with the default that the text names, if that is short.
fn first_sentence(help: &str) -> String {
    let (text, default) = match help.rfind("[default") {
        Some(at) => help.split_at(at),
        None => (help, ""),
    };
    let sentences = text.match_indices(". ").map(|(at, _)| at);
    let clauses = text.match_indices("; ").map(|(at, _)| at);
    let ends = sentences.chain(clauses);
    let paragraph = text.find("\n\n");
    let end = ends.chain(paragraph).min().unwrap_or(text.len());
    let sentence = text[..end].trim();
    match default.len() {
        1..=SHORT_DEFAULT => format!("{sentence} {default}"),
        _ => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_help_is_the_first_sentence_and_its_default() {
        for (help, short) in [
            ("Set it [default: 1]", "Set it [default: 1]"),
            ("Set it. In detail, so [default: 1]", "Set it [default: 1]"),
            ("Set it, such as 0.5. More", "Set it, such as 0.5"),
            ("Set it\n\nMore", "Set it"),
            ("Set it; more (here; there)", "Set it"),
            (
                "Set it [default: half of the processors and a long reason]",
                "Set it",
            ),
        ] {
            assert_eq!(first_sentence(help), short);
        }
    }
}
