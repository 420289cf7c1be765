//! Words of a command that people copy into a shell, or that a script holds.

/// Quotes a word for a POSIX shell, if it needs to be.
pub(crate) fn quoted(word: &str) -> String {
    let quoted = shlex::try_quote(word).expect("neither arguments nor paths contain NUL");
    quoted.into_owned()
}
