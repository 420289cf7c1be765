//! The page on security: its inventory of unsafe code, the tests that it names, and where daemons listen.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::tidy::tree::{read, root, rust_sources};

/// Counts the unsafe blocks, functions and implementations of a source. Names of lints are not among them.
fn unsafe_count(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//"));
    let keywords = ["{", "fn ", "impl ", "extern "];
    code.flat_map(|line| line.split("unsafe ").skip(1))
        .filter(|after| keywords.iter().any(|keyword| after.starts_with(keyword)))
        .count()
}

fn page() -> String {
    read(&root().join("docs/src/security.md"))
}

#[test]
fn every_test_that_the_page_names_exists() {
    let sources: String = rust_sources().into_iter().map(|(_, text)| text).collect();
    let page = page();
    let code = page.split('`').skip(1).step_by(2);
    let mut named = code.filter(|word| word.matches('_').count() > 2).peekable();
    assert!(named.peek().is_some(), "the page names no test");
    for name in named {
        let is_there = sources.contains(&format!("fn {name}("));
        assert!(is_there, "there is no test {name}");
    }
}

#[test]
fn no_program_listens_to_other_machines_unless_it_is_asked_to() {
    let mut defaults = 0;
    for (path, text) in rust_sources() {
        for default in text.split("default_value = \"").skip(1) {
            let default = default.split('"').next().unwrap_or_default();
            let socket = default.parse::<SocketAddr>().map(|socket| socket.ip());
            if let Ok(address) = socket.or_else(|_| default.parse::<IpAddr>()) {
                assert!(address.is_loopback(), "{}: {default}", path.display());
                defaults += 1;
            }
        }
    }
    assert!(defaults > 4, "only {defaults} defaults were found");
}

#[test]
fn every_file_with_unsafe_code_is_in_the_inventory() {
    let own = root().join(file!());
    let sources = rust_sources().into_iter().filter(|(path, _)| *path != own);
    let counted: BTreeMap<String, usize> = sources
        .map(|(path, text)| {
            let path = path.strip_prefix(root()).expect("it is a source");
            (path.display().to_string(), unsafe_count(&text))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let page = page();
    let rows = page.lines().filter_map(|line| {
        let (path, rest) = line.strip_prefix("| `crates/")?.split_once("` | ")?;
        let (count, reason) = rest.split_once(" | ")?;
        assert!(reason.len() > 5, "{path} has no reason");
        Some((format!("crates/{path}"), count.parse().ok()?))
    });
    let listed: BTreeMap<String, usize> = rows.collect();
    assert_eq!(counted, listed, "the table of docs/src/security.md");
}
