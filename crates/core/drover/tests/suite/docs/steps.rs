//! Pages that are followed step by step, as their readers do, in an empty folder.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use harness_testing::daemons::prepared;
use harness_testing::program::{CompletedRun, Program};

use crate::docs::markdown::{Block, Page};
use crate::docs::programs;
use crate::docs::words::{self, Call};

/// Follows a page: writes its files (`file: NAME`), makes its runs (`run`), and looks for what a run finds
/// (`finds: TEXT`, `finds not: TEXT`). Returns the number of runs.
fn follow(page: &Page) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (mut last, mut runs) = (None, 0);
    for block in page.blocks() {
        for directive in &block.directives {
            let at = || format!("{}: {directive}", page.name());
            match directive.split_once(": ").unwrap_or((directive, "")) {
                ("file", name) => write(folder.path(), name, &block),
                ("run", _) => {
                    for call in words::calls(&block.text) {
                        last = Some(run(&call, folder.path()));
                        runs += 1;
                    }
                }
                ("finds", text) => {
                    assert!(messages(last.as_ref().unwrap()).contains(text), "{}", at())
                }
                ("finds not", text) => {
                    assert!(!messages(last.as_ref().unwrap()).contains(text), "{}", at())
                }
                _ => {}
            }
        }
    }
    runs
}

fn write(folder: &Path, name: &str, block: &Block) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, &block.text).unwrap();
}

/// Makes a run. Its figures do not matter here, so it may be SUSPECT or INVALID.
fn run(call: &Call, folder: &Path) -> CompletedRun {
    let mut command = Command::new(programs::path(&call.words[0]));
    command
        .args(&call.words[1..])
        .current_dir(folder)
        .env_remove("DROVER_ROOT")
        .stdin(Stdio::null());
    let run = Program::from_command(command).run();
    assert!([0, 3].contains(&run.code), "{call:?}: {}", run.stderr);
    assert!(run.result.operations("ok") > 0, "{call:?}: {}", run.result);
    run
}

fn messages(run: &CompletedRun) -> String {
    run.result["warnings"].to_string()
}

#[test]
fn a_reader_of_the_page_adds_a_daemon() {
    if programs::are_built(&["http-load"]) {
        assert_eq!(follow(&Page::of_book("adding-a-daemon.md")), 3);
    }
}

#[test]
fn a_reader_of_the_page_describes_people() {
    if programs::are_built(&["http-load"]) {
        assert_eq!(follow(&Page::of_book("drivers/realistic.md")), 2);
    }
}

#[test]
fn a_reader_of_the_page_measures_a_chat() {
    let daemons = ["node-chat", "node-echo"];
    let are_prepared = daemons
        .iter()
        .all(|name| prepared(name, "socket.io").is_some());
    if programs::are_built(&["presence-load"]) && are_prepared {
        assert_eq!(follow(&Page::of_book("drivers/your-own-socketio.md")), 2);
    }
}

#[test]
fn a_reader_of_the_page_adds_a_driver() {
    if programs::are_built(&["echo-load"]) {
        assert_eq!(follow(&Page::of_book("adding-a-driver.md")), 1);
    }
}
