//! Splits the calls of a shell block into words: the little of a shell that the pages use.

use std::path::PathBuf;

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
    let mut tokens = tokens(line).into_iter();
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "\0&&" | "\0||" | "\0;" | "\0|" => calls.push(std::mem::take(&mut call)),
            "\0>" => call.into = tokens.next().map(PathBuf::from),
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

/// Splits a line into words and operators; an operator begins with NUL. A comment ends the line.
fn tokens(line: &str) -> Vec<String> {
    let (mut tokens, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => tokens.extend(word.take()),
            (None, '&' | '|' | ';' | '>') => {
                tokens.extend(word.take());
                let doubled = letters
                    .next_if_eq(&letter)
                    .map(String::from)
                    .unwrap_or_default();
                tokens.push(format!("\0{letter}{doubled}"));
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    tokens.extend(word);
    tokens
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
