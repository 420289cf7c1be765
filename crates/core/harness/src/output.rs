//! Writes to a terminal, a pipe or a file. A reader that closes its pipe does not end the program.

use std::io::{self, Write};

use load::redact;
use measure::report::{Format, plain, terminal};

/// Writes text to stdout, with a line end, without the secrets in it and without control characters. A closed pipe is
/// not an error.
///
/// # Errors
/// Any other error of the system, such as a full disk.
pub fn print(text: &str) -> io::Result<()> {
    whole_lines(&mut io::stdout().lock(), &shown(text))
}

/// Writes text to stdout as it is, with a line end, for a program that reads it. The caller has refused secrets: a name
/// in such text may look like one. A closed pipe is not an error.
///
/// # Errors
/// As [`print()`].
pub fn print_exactly(text: &str) -> io::Result<()> {
    whole_lines(&mut io::stdout().lock(), text)
}

/// Writes a report of results, which contain no secrets, to stdout. A report for people is coloured if stdout is a
/// screen and `NO_COLOR` (no-color.org) is not set.
///
/// # Errors
/// As [`print()`].
pub fn print_report(format: Format, report: &str) -> io::Result<()> {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if format.is_for_people() && is_screen(&io::stdout()) && !plain {
        whole_lines(&mut io::stdout().lock(), &terminal::coloured(report))
    } else {
        whole_lines(&mut io::stdout().lock(), report)
    }
}

/// Returns true if a stream is a terminal with a cursor that can be moved, and with colours: `TERM=dumb` has neither.
pub fn is_screen(stream: &impl io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the number of columns of stdout: `COLUMNS`, or the width of the terminal. Without both, a line has no limit.
#[must_use]
pub fn columns() -> Option<usize> {
    let set = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    set.filter(|columns| *columns > 0).or_else(|| {
        let (_, columns) = console::Term::stdout().size_checked()?;
        Some(usize::from(columns))
    })
}

/// Writes a line to stderr, with a line end, without the secrets in it and without control characters. Errors are
/// ignored: there is nowhere left to report them.
pub fn note(text: &str) {
    let _ = whole_lines(&mut io::stderr().lock(), &shown(text));
}

/// Returns text as a terminal may show it: a daemon, a file or another user chose parts of it.
#[must_use]
pub fn shown(text: &str) -> String {
    plain(&redact::text(text))
}

fn whole_lines(to: &mut impl Write, text: &str) -> io::Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = to
        .write_all(text.as_bytes())
        .and_then(|()| to.write_all(end.as_bytes()))
        .and_then(|()| to.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        whole_lines(&mut writer, "a line").unwrap();
    }

    #[test]
    fn text_of_others_controls_no_terminal() {
        let text = "\u{1b}]0;title\u{7}\u{9b}2J\r\u{202e}a\nb";
        assert_eq!(shown(text), " ]0;title  2J  a\nb");
    }

    #[test]
    fn text_gets_one_line_end() {
        for text in ["a", "a\n"] {
            let mut written = Vec::new();
            whole_lines(&mut written, text).unwrap();
            assert_eq!(written, b"a\n");
        }
    }

    #[test]
    fn a_full_disk_is_told() {
        let mut full = std::fs::File::create("/dev/full").unwrap();
        assert!(whole_lines(&mut full, "a").is_err());
    }
}
