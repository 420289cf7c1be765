//! Writes the manual pages and the shell completions of all programs below a folder, for packages.
//!
//! `program-pages DIR` writes `DIR/man/man1`, `DIR/bash-completion/completions`, `DIR/zsh/site-functions` and
//! `DIR/fish/vendor_completions.d`: the folders below `share` in which man and the shells look.

use std::path::{Path, PathBuf};
use std::{fs, io};

use amqp_perftest::driver::Perftest;
use clap::Command;
use clap_complete::{Shell, generate_to};
use fdpass_gen::driver::FdPass;
use harness::cli::command;
use http_load::HttpLoad;
use issue_stress::IssueStress;
use presence_load::PresenceLoad;

/// The shells, each with the folder of its completions below `share`.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

fn main() -> io::Result<()> {
    let Some(share) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("name the folder to write to"));
    };
    for program in programs() {
        write(&program, &share)?;
    }
    Ok(())
}

/// Returns the command lines of the programs that a user calls.
fn programs() -> Vec<Command> {
    vec![
        drover::cli::command(),
        command::<FdPass>(),
        command::<Perftest>(),
        command::<HttpLoad>(),
        command::<PresenceLoad>(),
        command::<IssueStress>(),
    ]
}

fn write(program: &Command, share: &Path) -> io::Result<()> {
    let name = program.get_name().to_owned();
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(program.clone(), &pages)?;
    for (shell, folder) in SHELLS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let path = generate_to(shell, &mut program.clone(), &name, &folder)?;
        if shell == Shell::Bash {
            // bash-completion looks for a file with the name of the program.
            fs::rename(path, folder.join(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_and_command_has_a_page_and_each_shell_its_completions() {
        let share = tempfile::tempdir().unwrap();
        for program in programs() {
            let name = program.get_name().to_owned();
            write(&program, share.path()).unwrap();
            let page = fs::read_to_string(share.path().join(format!("man/man1/{name}.1"))).unwrap();
            assert!(
                page.contains(".SH NAME") && page.contains(".SH OPTIONS"),
                "{page}"
            );
            for file in [
                format!("bash-completion/completions/{name}"),
                format!("zsh/site-functions/_{name}"),
                format!("fish/vendor_completions.d/{name}.fish"),
            ] {
                let text = fs::read_to_string(share.path().join(file)).unwrap();
                assert!(text.contains(&name));
            }
        }
        assert!(share.path().join("man/man1/drover-run.1").is_file());
    }
}
