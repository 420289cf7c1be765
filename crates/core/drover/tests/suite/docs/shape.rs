//! Outputs that a page shows have the lines that the program prints. Figures differ from run to run.

use std::process::{Command, Stdio};

use harness_testing::program::Program;

use crate::docs::markdown::{root, user_pages};
use crate::docs::{programs, words};

/// Labels of lines that a report may lack: warnings, and growth of the kernel's memory, if it has not grown.
const DEPENDING: [&str; 5] = ["note", "suspect", "invalid", "kernel", "objects"];

/// Returns the label of a line of a report: what stands before two spaces; in Markdown a title, the bold words of an
/// item or the first cell of a row. Lines that depend on the run have none: the verdict, reasons and hints, and lines
/// that go on.
fn label(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(['#', '-', '*', '|', ' ']);
    let label = ["  ", " |", ":**"].iter().fold(text, |label, end| {
        label.split_once(end).map_or(label, |(label, _)| label)
    });
    let first = label.chars().next()?;
    let goes_on = line.starts_with("      ");
    let depends = label.contains(": ") || DEPENDING.contains(&label);
    let label = if label.contains(|letter: char| letter.is_ascii_digit()) {
        // The content follows the label after one space.
        label.split(' ').next()?
    } else {
        label
    };
    (first.is_alphabetic() && !goes_on && !depends).then_some(label)
}

#[test]
fn a_report_has_the_lines_that_the_page_shows() {
    let mut count = 0;
    for page in user_pages() {
        for block in page.blocks() {
            let Some(call) = block
                .directives
                .iter()
                .find_map(|text| text.strip_prefix("shape of: "))
            else {
                continue;
            };
            let call = words::calls(call).remove(0);
            if !programs::are_built(&[&call.words[0]]) {
                return;
            }
            let mut command = Command::new(programs::path(&call.words[0]));
            command
                .args(&call.words[1..])
                .current_dir(root())
                .stdin(Stdio::null());
            let printed = Program::from_command(command).run().stdout;
            let labels: Vec<&str> = printed.lines().filter_map(label).collect();
            let shown = block.text.lines().filter_map(label);
            let missing: Vec<&str> = shown.filter(|label| !labels.contains(label)).collect();
            assert!(
                missing.is_empty(),
                "{}: {call:?} prints no {missing:?}: {printed}",
                page.name()
            );
            count += 1;
        }
    }
    assert!(count > 0, "no output was compared");
}
