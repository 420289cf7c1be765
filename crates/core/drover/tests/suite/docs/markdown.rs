//! Reads the pages: the README, the book, and the pages that the book includes.

use std::fs;
use std::path::{Path, PathBuf};

/// A page with its includes in place.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A fenced block of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The comments that stand right above it, such as `run` or `file: NAME`.
    pub(crate) directives: Vec<String>,
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    root.unwrap().to_owned()
}

/// Returns the folder of the book's pages.
pub(crate) fn book() -> PathBuf {
    root().join("docs/src")
}

/// Returns the README and the pages of the book.
pub(crate) fn user_pages() -> Vec<Page> {
    let mut paths = vec![root().join("README.md")];
    let mut open = vec![book()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

impl Page {
    pub(crate) fn read(path: PathBuf) -> Self {
        let text = read(&path);
        let folder = path.parent().unwrap();
        let lines = text.lines().map(|line| match included(line) {
            Some((file, anchor)) => include(&folder.join(file), anchor),
            None => line.to_owned(),
        });
        let text = lines.collect::<Vec<String>>().join("\n");
        Self { path, text }
    }

    /// Reads a page of the book.
    pub(crate) fn of_book(name: &str) -> Self {
        Self::read(book().join(name))
    }

    /// Returns its path within the tree.
    pub(crate) fn name(&self) -> String {
        let path = self.path.strip_prefix(root()).unwrap_or(&self.path);
        path.display().to_string()
    }

    /// Returns its fenced blocks.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut directives) = (Vec::new(), Vec::new());
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let block = lines.by_ref().take_while(|line| !line.starts_with("```"));
                let text: String = block.map(|line| format!("{line}\n")).collect();
                blocks.push(Block {
                    directives: std::mem::take(&mut directives),
                    language: language.to_owned(),
                    text,
                });
            } else if let Some(comment) = line.strip_prefix("<!-- ") {
                directives.push(comment.trim_end_matches(" -->").to_owned());
            } else if !line.is_empty() {
                directives.clear();
            }
        }
        blocks
    }

    /// Returns its text without fenced blocks and comments.
    pub(crate) fn prose(&self) -> String {
        let mut is_fenced = false;
        let lines = self.text.lines().filter(|line| {
            let is_fence = line.starts_with("```");
            is_fenced ^= is_fence;
            !is_fence && !is_fenced && !line.starts_with("<!--")
        });
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Returns the spans of code in its prose.
    pub(crate) fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        let spans = prose
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2));
        spans.map(str::to_owned).collect()
    }

    /// Returns the names by which its headings can be linked to, as mdBook and GitHub make them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| anchor(line.trim_start_matches('#').trim()))
            .collect()
    }

    /// Returns the rows of the table below a heading, as cells. The row of the column names is left out.
    pub(crate) fn table(&self, heading: &str) -> Vec<Vec<String>> {
        let from = self
            .text
            .find(heading)
            .unwrap_or_else(|| panic!("{}: {heading}", self.name()));
        let lines = self.text[from..]
            .lines()
            .skip_while(|line| !line.starts_with('|'));
        let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
        let cells = |row: &str| {
            row.trim_matches('|')
                .split(" | ")
                .map(|cell| cell.trim().to_owned())
                .collect()
        };
        rows.map(cells).collect()
    }
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    });
    letters.collect()
}

/// Returns the file and the anchor of mdBook's `{{#include FILE:ANCHOR}}`.
pub(crate) fn included(line: &str) -> Option<(&str, Option<&str>)> {
    let target = line
        .trim()
        .strip_prefix("{{#include ")?
        .strip_suffix("}}")?;
    match target.split_once(':') {
        Some((file, anchor)) => Some((file, Some(anchor))),
        None => Some((target, None)),
    }
}

fn include(file: &Path, anchor: Option<&str>) -> String {
    let text = read(file);
    let Some(anchor) = anchor else { return text };
    let (begin, end) = (format!("ANCHOR: {anchor}"), format!("ANCHOR_END: {anchor}"));
    let lines = text
        .lines()
        .skip_while(|line| !line.contains(&begin))
        .skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.contains(&end)).collect();
    assert!(
        !lines.is_empty(),
        "{} has no anchor {anchor}",
        file.display()
    );
    lines.join("\n")
}

#[test]
fn blocks_have_the_comments_above_them() {
    let page = Page {
        path: root().join("x.md"),
        text: "# A `b`: c\n<!-- file: a -->\n```toml\nx = 1\n```\n\ntext `code`\n\n```sh\nls\n```"
            .to_owned(),
    };
    let blocks = page.blocks();
    assert_eq!(
        (blocks[0].directives.as_slice(), blocks[0].text.as_str()),
        (["file: a".to_owned()].as_slice(), "x = 1\n")
    );
    assert_eq!(
        (blocks[1].directives.len(), blocks[1].language.as_str()),
        (0, "sh")
    );
    assert_eq!(page.anchors(), ["a-b-c"]);
    assert_eq!(page.spans(), ["b", "code"]);
}
