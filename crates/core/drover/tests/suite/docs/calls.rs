//! Every call that a page shows is accepted by its program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::docs::markdown::{Page, read, root, user_pages};
use crate::docs::programs::{self, OTHERS, drivers};
use crate::docs::words::{self, Call};

/// Returns the calls of a page: its shell blocks, and spans that begin with a program and have more words.
fn calls(page: &Page) -> Vec<Call> {
    let blocks = page
        .blocks()
        .into_iter()
        // Those that are run need no other test.
        .filter(|block| block.language == "sh" && !block.directives.contains(&"run".to_owned()));
    let mut calls: Vec<Call> = blocks.flat_map(|block| words::calls(&block.text)).collect();
    let spans = page
        .spans()
        .into_iter()
        .flat_map(|span| words::calls(&span));
    calls.extend(spans.filter(|call| call.words.len() > 1));
    calls
}

/// Returns the program and the arguments of a call, also of `cargo run -p PROGRAM -- ARGUMENTS`.
fn program(words: &[String]) -> Option<(&str, &[String])> {
    let (mut name, mut arguments) = (words[0].as_str(), &words[1..]);
    if name == "cargo" && arguments.first().is_some_and(|word| word == "run") {
        let at = |option: &str| arguments.iter().position(|word| word == option);
        name = arguments.get(at("--example").or_else(|| at("-p"))? + 1)?;
        arguments = at("--").map_or(&[], |at| &arguments[at + 1..]);
    }
    let is_known = OTHERS.contains(&name) || is_driver(name);
    is_known.then_some((name, arguments))
}

fn is_driver(name: &str) -> bool {
    drivers().iter().any(|driver| driver == name)
}

/// Prepares a folder with the files that calls read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("configs"), folder.path().join("configs")).unwrap();
    for (name, text) in [
        ("uri.txt", "amqp://localhost:5672/"),
        ("url.txt", "http://localhost:8080/"),
        ("fields.txt", "X-Mine: 1"),
        ("users.csv", "user\nme\n"),
        ("words.csv", "word,language\napple,en\n"),
        ("tokens.csv", "token\n5f2a\n"),
        ("FILE", "x"),
        (
            "chat.toml",
            include_str!("../../../../../../configs/presence/chat.toml"),
        ),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Lets the program parse the call. A driver prints the plan; other commands and programs print their help, for which
/// they parse what stands before.
fn problem(call: &Call, folder: &Path) -> Option<String> {
    let (name, arguments) = program(&call.words)?;
    let is_command = arguments.first().is_some_and(|word| {
        let mut letters = word.split('-').flat_map(str::chars);
        !word.starts_with('-') && letters.all(|letter| letter.is_ascii_lowercase())
    });
    let parse = if is_driver(name) && !is_command {
        "--print-plan"
    } else {
        "--help"
    };
    let mut command = Command::new(programs::path(name));
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
        .env("DROVER_ROOT", root())
        .envs(call.variables.iter().cloned());
    if !arguments.iter().any(|word| word == parse) {
        command.arg(parse);
    }
    let output = command.output().unwrap();
    if let Some(into) = &call.into {
        fs::write(folder.join(into), &output.stdout).unwrap();
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| format!("{}: {stderr}", call.words.join(" ")))
}

#[test]
fn every_call_of_the_pages_is_accepted_by_its_program() {
    if !programs::are_built(&OTHERS) || !programs::are_built(&drivers()) {
        return;
    }
    let folder = folder();
    let (mut found, mut counts) = (Vec::new(), BTreeMap::new());
    for page in user_pages() {
        for call in calls(&page) {
            if let Some((name, _)) = program(&call.words) {
                *counts.entry(name.to_owned()).or_insert(0) += 1;
            }
            let problem = problem(&call, folder.path());
            found.extend(problem.map(|problem| format!("{}: {problem}", page.name())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    for name in drivers() {
        assert!(counts[&name] > 5, "few calls were found: {counts:?}");
    }
}

#[test]
fn every_plan_of_the_pages_is_accepted_by_its_driver() {
    if !programs::are_built(&drivers()) {
        return;
    }
    let folder = folder();
    let mut count = 0;
    for page in user_pages() {
        for block in page.blocks() {
            let driver = block
                .directives
                .iter()
                .find_map(|text| text.strip_prefix("plan for: "));
            if let Some(driver) = driver {
                fs::write(folder.path().join("plan.toml"), &block.text).unwrap();
                let call = words::calls(&format!("{driver} --plan plan.toml")).remove(0);
                assert_eq!(problem(&call, folder.path()), None, "{}", page.name());
                count += 1;
            } else if block.language == "toml" {
                let parsed = block.text.parse::<toml::Table>();
                assert!(
                    parsed.is_ok(),
                    "{}: {parsed:?}: {}",
                    page.name(),
                    block.text
                );
            }
        }
    }
    assert!(count > 1, "only {count} plans were found");
}

#[test]
fn a_call_with_an_unknown_option_is_found() {
    if !programs::are_built(&["http-load", "drover"]) {
        return;
    }
    let folder = folder();
    for text in [
        "http-load --nonsense",
        "http-load check --nonsense",
        "drover run --nonsense x.toml",
        "http-load --rate many",
    ] {
        let calls = words::calls(text);
        assert!(problem(&calls[0], folder.path()).is_some(), "{text}");
    }
}

#[test]
fn every_recipe_that_a_page_names_exists() {
    let justfile = read(&root().join("justfile"));
    let has = |name: &str| {
        justfile
            .lines()
            .any(|line| line == format!("{name}:") || line.starts_with(&format!("{name} ")))
    };
    for page in user_pages() {
        let spans = page.spans();
        for recipe in spans.iter().filter_map(|span| span.strip_prefix("just ")) {
            let name = recipe.split(' ').next().unwrap();
            assert!(has(name), "{}: there is no recipe {name}", page.name());
        }
    }
}

#[test]
fn the_front_page_has_the_two_commands_to_try() {
    let page = Page::read(root().join("README.md"));
    for command in ["cargo run --release -p fdpass-gen ", "scripts/test "] {
        let has = page.text.lines().any(|line| line.starts_with(command));
        assert!(has, "README.md does not show `{command}`");
    }
}
