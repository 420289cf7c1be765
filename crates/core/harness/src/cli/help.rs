//! The two lengths of help: `-h` shows the main options on a screen or two, `--help` everything.

use clap::Command;
use console::{measure_text_width, strip_ansi_codes};

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

/// Breaks the lines of rendered help that are wider than `width`. The rest of an option's text begins below its begin.
pub(super) fn fitted(help: &str, width: usize) -> String {
    let lines = help.lines().map(|line| {
        if measure_text_width(line) <= width {
            line.to_owned()
        } else {
            broken(line, width)
        }
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\n", lines.join("\n"))
}

fn broken(line: &str, width: usize) -> String {
    let plain = strip_ansi_codes(line);
    let begin = plain.chars().take_while(|letter| *letter == ' ').count();
    // An option and its text stand in one line, with two spaces between them.
    let text = plain.trim_start().split_once("  ").map(|(name, text)| {
        let gap = text.chars().take_while(|letter| *letter == ' ').count();
        begin + name.chars().count() + 2 + gap
    });
    let indent = text.filter(|column| *column <= width / 2).unwrap_or(begin);
    let mut lines = vec![String::new()];
    let mut is_first = true;
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is a first line");
        let needed = measure_text_width(last) + 1 + measure_text_width(word);
        if needed > width && measure_text_width(last) > indent {
            lines.push(format!("{:indent$}{word}", ""));
        } else {
            if !std::mem::take(&mut is_first) {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
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

    #[test]
    fn help_is_broken_between_words_and_continues_below_its_begin() {
        let help = "About it\n  -d, --duration <TIME>  Set the duration of the run\n      in detail, with \u{1b}[1mmuch\u{1b}[0m more to say\n";
        assert_eq!(fitted(help, 100), help);
        let (about, detail) = (
            "About it",
            "      in detail, with \u{1b}[1mmuch\u{1b}[0m more to say",
        );
        let option = format!(
            "  -d, --duration <TIME>  Set the duration of the\n{:25}run",
            ""
        );
        assert_eq!(fitted(help, 50), format!("{about}\n{option}\n{detail}\n"));
        // A text that begins late continues below the option.
        let option = "  -d, --duration <TIME>  Set the\n  duration of the run";
        assert_eq!(fitted(help, 40), format!("{about}\n{option}\n{detail}\n"));
        let long = format!("{}\n", "word ".repeat(40).trim());
        for width in [20, 80, 200] {
            let fitted = fitted(&long, width);
            assert!(fitted.lines().all(|line| line.len() <= width), "{fitted}");
            assert_eq!(fitted.split_whitespace().count(), 40);
        }
    }
}
