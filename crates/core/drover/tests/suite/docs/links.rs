//! Links lead somewhere, and pages stay short.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::docs::markdown::{Page, book, included, read, root, user_pages};

/// Returns the targets of the links and pictures in a line.
fn targets(line: &str) -> Vec<&str> {
    let mut prose = line
        .split('`')
        .step_by(2)
        .flat_map(|part| part.match_indices("](").map(|(at, _)| &part[at + 2..]));
    let mut found: Vec<&str> = Vec::new();
    // A link whose text is code is split: its target begins the part after the code.
    found.extend(prose.by_ref().filter_map(|rest| rest.split(')').next()));
    found
}

/// Removes `..` from a path, without following links.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Returns the pages beside the code: of the whole, of crates and of daemons.
fn other_pages() -> Vec<Page> {
    let folders = ["crates", "daemons"].map(|name| root().join(name));
    let subfolders = folders.iter().flat_map(|folder| entries(folder));
    let parents = [root(), root().join("bench-results")];
    let crates = harness::drivers::crates(&root());
    let all = parents
        .iter()
        .chain(&folders)
        .cloned()
        .chain(subfolders)
        .chain(crates);
    let files = all
        .filter(|path| path.is_dir())
        .flat_map(|folder| entries(&folder));
    let pages = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(Page::read).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns what is wrong with a link of a page, if anything is.
fn problem(page: &Page, target: &str) -> Option<String> {
    if target.starts_with("https://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.path.clone(),
        file => normal(&page.path.parent()?.join(file)),
    };
    if !path.exists() {
        return Some("does not exist".to_owned());
    }
    if page.path.starts_with(book()) && !path.starts_with(book()) {
        return Some("leads out of the book, where it is broken: name the file instead".to_owned());
    }
    if anchor.is_empty() {
        return None;
    }
    let anchors = Page::read(path).anchors();
    (!anchors.iter().any(|known| known == anchor)).then(|| format!("no such heading: {anchors:?}"))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let others = other_pages();
    let (mut found, mut count) = (Vec::new(), 0);
    for page in user_pages().iter().chain(&others) {
        for line in page.prose().lines() {
            for target in targets(line) {
                count += 1;
                let problem = problem(page, target);
                found
                    .extend(problem.map(|problem| format!("{}: {target}: {problem}", page.name())));
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_broken_link_is_found() {
    let page = Page {
        path: book().join("x.md"),
        text: String::new(),
    };
    for target in ["none.md", "verdicts.md#none", "../../README.md"] {
        assert!(problem(&page, target).is_some(), "{target}");
    }
    assert_eq!(problem(&page, "verdicts.md#in-a-suite"), None);
    assert_eq!(
        targets("see [a `b`](c.md#d) and ![e](f.png), not `[g](h)`"),
        ["c.md#d", "f.png"]
    );
}

#[test]
fn the_contents_list_every_page_of_the_book() {
    let contents = Page::of_book("SUMMARY.md");
    for page in user_pages()
        .iter()
        .filter(|page| page.path.starts_with(book()))
    {
        let name = page
            .path
            .strip_prefix(book())
            .unwrap()
            .display()
            .to_string();
        let is_listed = contents.text.contains(&format!("]({name})"));
        assert!(
            is_listed || name == "SUMMARY.md",
            "docs/src/SUMMARY.md does not list {name}"
        );
    }
}

#[test]
fn the_front_page_and_the_pages_of_the_book_are_short() {
    for page in user_pages() {
        let most = match page.name().as_str() {
            "README.md" => 150,
            // The code of a whole driver, and a whole report.
            "docs/src/adding-a-driver.md" => 400,
            name if name.starts_with("docs/src/reference/") || name == "docs/src/manifest.md" => {
                continue;
            }
            _ => 210,
        };
        let lines = page.text.lines().count();
        assert!(
            lines <= most,
            "{} has {lines} lines, and {most} at most",
            page.name()
        );
    }
}

#[test]
fn a_page_names_the_files_that_it_includes_because_a_code_host_does_not_show_them() {
    let mut count = 0;
    for page in user_pages() {
        let text = read(&page.path);
        for (file, _) in text.lines().filter_map(included) {
            let file = normal(&page.path.parent().unwrap().join(file));
            let file = file.strip_prefix(root()).unwrap().display().to_string();
            assert!(
                text.contains(&format!("`{file}`")),
                "{}: {file}",
                page.name()
            );
            count += 1;
        }
    }
    assert!(count > 0, "no page includes a file");
}

#[test]
fn pages_name_the_oldest_rust_that_compiles_the_workspace() {
    let manifest: toml::Table = read(&root().join("Cargo.toml")).parse().unwrap();
    let version = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    for page in ["README.md", "docs/src/installation.md"] {
        let text = read(&root().join(page));
        assert!(text.contains(&format!("Rust {version} or newer")), "{page}");
    }
}
