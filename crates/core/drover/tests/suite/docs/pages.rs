//! The manual pages and the completions that each program writes about itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::docs::programs;
use crate::support::{assert_contains, ends_with};

#[test]
fn each_program_and_command_has_a_page_and_each_shell_its_completions() {
    let share = tempfile::tempdir().unwrap();
    let read = |file: String| fs::read_to_string(share.path().join(file)).unwrap();
    let names = [vec!["drover".to_owned()], programs::drivers()].concat();
    if !programs::are_built(&names) {
        return;
    }
    for name in names {
        write(&name, share.path());
        let page = read(format!("man/man1/{name}.1"));
        let version = env!("CARGO_PKG_VERSION");
        let title = format!(".TH {name} 1 2026-01-31 \"drover {version}\" Drover");
        assert_contains(&page, &[".SH NAME", ".SH OPTIONS", &title]);
        for file in [
            format!("bash-completion/completions/{name}"),
            format!("zsh/site-functions/_{name}"),
            format!("fish/vendor_completions.d/{name}.fish"),
        ] {
            let completions = read(file);
            assert_contains(&completions, &[&name]);
            // The command that wrote them is for packages.
            assert!(!completions.contains("shell completions"), "{completions}");
        }
    }
    assert!(share.path().join("man/man1/drover-run.1").is_file());
}

fn write(name: &str, share: &Path) {
    let mut program = Command::new(programs::path(name));
    let output = program.arg("pages").arg(share).arg("2026-01-31").output();
    ends_with(&output.unwrap(), 0);
}
