//! Answers as text. The text of issues comes from other people and programs, so control characters in it are escaped: a
//! terminal must not obey them.

use std::borrow::Cow;
use std::io::Write;

use issue_store::{Blocked, Comment, Details, Event, Issue, IssuePage, Record, TreeNode};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::session::{member, parse};

type Out<'a> = &'a mut dyn Write;

/// Returns a text of one or more lines in which control characters are escaped.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_control = |character: char| character.is_control() && character != '\n';
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_control(character) {
            escaped.extend(character.escape_default())
        } else {
            escaped.push(character)
        }
    }
    Cow::Owned(escaped)
}

/// Prints a line to stderr. A closed stderr leaves nobody to tell.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain(line));
}

/// Prints an issue as `show` does, with its texts.
pub(crate) fn issue(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let Details {
        issue,
        comments,
        dependents,
    } = parse(data)?;
    writeln!(out, "{}  {}", plain(&issue.id), plain(&issue.title))?;
    let mut facts = format!(
        "{}, priority {}, {}",
        issue.status.name(),
        issue.priority,
        issue.issue_type.name()
    );
    if !issue.assignee.is_empty() {
        facts.push_str(&format!(", assigned to {}", issue.assignee));
    }
    if !issue.labels.is_empty() {
        facts.push_str(&format!(", labels {}", issue.labels.join(", ")));
    }
    writeln!(out, "  {}", plain(&facts))?;
    let closed = issue.closed_at.map(|at| format!(", closed {at}"));
    writeln!(
        out,
        "  created {}, changed {}{}",
        issue.created_at,
        issue.updated_at,
        closed.unwrap_or_default()
    )?;
    if !issue.close_reason.is_empty() {
        writeln!(out, "  closed because: {}", plain(&issue.close_reason))?;
    }
    for dependency in &issue.dependencies {
        let kind = dependency.kind.name();
        writeln!(out, "  {kind}: {}", plain(&dependency.depends_on))?;
    }
    for dependent in &dependents {
        let text = format!(
            "{} of: {}  {}  {}",
            dependent.kind.name(),
            dependent.id,
            dependent.status.name(),
            dependent.title.replace('\n', " ")
        );
        writeln!(out, "  {}", plain(&text))?;
    }
    for (name, text) in [
        ("Description", &issue.description),
        ("Design", &issue.design),
        ("Acceptance criteria", &issue.acceptance_criteria),
        ("Notes", &issue.notes),
    ] {
        if !text.is_empty() {
            writeln!(out, "\n{name}\n{}", plain(text))?;
        }
    }
    for comment in &comments {
        writeln!(out)?;
        print_comment(out, comment)?;
    }
    Ok(())
}

/// Prints an issue on one line.
pub(crate) fn line(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    print_line(out, &parse(data)?, &[])
}

/// Prints issues, one per line.
pub(crate) fn lines(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let page: IssuePage = parse(data)?;
    page.issues
        .iter()
        .try_for_each(|issue| print_line(out, issue, &[]))
}

/// Prints blocked issues, each with those that it waits for.
pub(crate) fn blocked(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let page: IssuePage<Blocked> = parse(data)?;
    page.issues
        .iter()
        .try_for_each(|blocked| print_line(out, &blocked.issue, &blocked.blocked_by))
}

fn print_line(out: Out<'_>, issue: &Issue, blocked_by: &[String]) -> Result<(), Failure> {
    let mut text = format!(
        "{}  P{}  {:<11}  {:<7}  {}",
        issue.id,
        issue.priority,
        issue.status.name(),
        issue.issue_type.name(),
        issue.title.replace('\n', " ")
    );
    if !issue.labels.is_empty() {
        text.push_str(&format!("  [{}]", issue.labels.join(", ")));
    }
    if !issue.assignee.is_empty() {
        text.push_str(&format!("  @{}", issue.assignee));
    }
    if !blocked_by.is_empty() {
        text.push_str(&format!("  waits for {}", blocked_by.join(", ")));
    }
    Ok(writeln!(out, "{}", plain(&text))?)
}

/// Prints the id of an issue.
pub(crate) fn id(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let id: String = member(data, "id")?;
    Ok(writeln!(out, "{}", plain(&id))?)
}

/// Prints the number of a count.
pub(crate) fn count(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", member::<u64>(data, "count")?)?)
}

/// Prints an object, one field per line.
pub(crate) fn fields(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let fields: Map<String, Value> = parse(data)?;
    let width = fields.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in &fields {
        let value = match value {
            Value::String(text) => plain(text).into_owned(),
            other => other.to_string(),
        };
        writeln!(out, "{name:<width$}  {value}")?;
    }
    Ok(())
}

/// Prints a page of metrics.
pub(crate) fn page(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    Ok(write!(out, "{}", member::<String>(data, "page")?)?)
}

/// Prints the outcome of `dep add`.
pub(crate) fn added(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let is_new: bool = member(data, "added")?;
    let text = if is_new { "added" } else { "was there already" };
    Ok(writeln!(out, "{text}")?)
}

/// Prints that a dependency was removed.
pub(crate) fn removed(out: Out<'_>, _data: &RawValue) -> Result<(), Failure> {
    Ok(writeln!(out, "removed")?)
}

/// Prints that an issue was deleted.
pub(crate) fn deleted(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let id: String = member(data, "id")?;
    Ok(writeln!(out, "deleted {}", plain(&id))?)
}

/// Prints that the daemon stops.
pub(crate) fn stopped(out: Out<'_>, _data: &RawValue) -> Result<(), Failure> {
    Ok(writeln!(out, "the daemon stops")?)
}

/// Prints a tree of dependencies.
pub(crate) fn tree(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    for node in member::<Vec<TreeNode>>(data, "nodes")? {
        let indent = "  ".repeat(node.depth as usize);
        let kind = node.kind.map(|kind| format!("{}: ", kind.name()));
        let kind = kind.unwrap_or_default();
        let repeated = if node.is_repeated { "  (as above)" } else { "" };
        let text = format!("{kind}{}  {}  {}", node.id, node.status.name(), node.title);
        writeln!(out, "{indent}{}{repeated}", plain(&text))?;
    }
    Ok(())
}

/// Prints a comment that was added.
pub(crate) fn comment(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    print_comment(out, &parse(data)?)
}

/// Prints comments.
pub(crate) fn comments(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    let all: Vec<Comment> = member(data, "comments")?;
    all.iter()
        .try_for_each(|comment| print_comment(out, comment))
}

fn print_comment(out: Out<'_>, comment: &Comment) -> Result<(), Failure> {
    let heading = format!("{}  {}", comment.created_at, comment.author);
    Ok(writeln!(
        out,
        "{}\n{}",
        plain(&heading),
        plain(&comment.text)
    )?)
}

/// Prints changes, one per line.
pub(crate) fn events(out: Out<'_>, data: &RawValue) -> Result<(), Failure> {
    for event in member::<Vec<Event>>(data, "events")? {
        let text = format!(
            "{}  {}  {}  {}  {}  {}",
            event.id,
            event.at,
            event.issue,
            event.actor,
            event.kind,
            event.value.replace('\n', " ")
        );
        writeln!(out, "{}", plain(text.trim_end()))?;
    }
    Ok(())
}

/// Returns what a record depends on, with its id.
pub(crate) fn dependencies(record: &Record) -> (String, Vec<String>) {
    let on = record.issue.dependencies.iter();
    let on = on.map(|dependency| dependency.depends_on.clone());
    (record.issue.id.clone(), on.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_lines_kept() {
        assert_eq!(plain("plain\nzwei Wörter"), "plain\nzwei Wörter");
        assert_eq!(plain("a\x1b[2Jb\u{9b}31m"), "a\\u{1b}[2Jb\\u{9b}31m");
        assert_eq!(plain("tab\tand\rreturn"), "tab\\tand\\rreturn");
    }
}
