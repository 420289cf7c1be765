//! Splits the calls of a shell block into words: the little of a shell that the pages use.

use std::path::PathBuf;

use harness_testing::program::words;

/// A simple command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) words: Vec<String>,
    /// The file that its output goes to.
    pub(crate) into: Option<PathBuf>,
}

/// Returns the commands of a block. A command whose words are made by another one (`$(…)`) is left out.
pub(crate) fn calls(text: &str) -> Vec<Call> {
    let joined = text.replace("\\\n", " ");
    joined
        .lines()
        .filter(|line| !line.contains("$("))
        .flat_map(line_calls)
        .collect()
}

fn line_calls(line: &str) -> Vec<Call> {
    let (mut calls, mut call) = (Vec::new(), Call::default());
    // An operator stands between spaces, and is not quoted.
    let mut tokens = words(&line.replace("; ", " ; ")).into_iter();
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "&&" | "||" | ";" | "|" => calls.push(std::mem::take(&mut call)),
            ">" => call.into = tokens.next().map(PathBuf::from),
            _ => match token.split_once('=') {
                Some((name, value)) if call.words.is_empty() && is_name(name) => {
                    call.variables.push((name.to_owned(), value.to_owned()));
                }
                _ => call.words.push(token),
            },
        }
    }
    calls.push(call);
    calls.retain(|call| !call.words.is_empty());
    calls
}

fn is_name(name: &str) -> bool {
    let is_letter =
        |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    !name.is_empty() && name.chars().all(is_letter)
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    let calls =
        calls("A_B=1 x -t \"a <= b\" 'c d' > out.txt  # why\ny && z; w || v\nid=$(x y)\nx \\\n  y");
    let words: Vec<Vec<&str>> = calls
        .iter()
        .map(|call| call.words.iter().map(String::as_str).collect())
        .collect();
    assert_eq!(
        words,
        [
            vec!["x", "-t", "a <= b", "c d"],
            vec!["y"],
            vec!["z"],
            vec!["w"],
            vec!["v"],
            vec!["x", "y"]
        ]
    );
    assert_eq!(calls[0].variables, [("A_B".to_owned(), "1".to_owned())]);
    assert_eq!(calls[0].into, Some(PathBuf::from("out.txt")));
}
