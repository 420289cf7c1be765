//! Writes the manual pages and the shell completions of all programs below a folder, for packages.
//!
//! `program-pages DIR DATE` writes `DIR/man/man1`, `DIR/bash-completion/completions`, `DIR/zsh/site-functions` and
//! `DIR/fish/vendor_completions.d`: the folders below `share` in which man and the shells look. The date, such as
//! 2026-01-31, stands at the foot of the manual pages.

use std::path::{Path, PathBuf};
use std::{fs, io};

use amqp_perftest::driver::Perftest;
use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
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
    let mut arguments = std::env::args().skip(1);
    let (Some(share), Some(date)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("name the folder to write to and the date"));
    };
    for program in programs() {
        write(&program, &PathBuf::from(&share), &date)?;
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

fn write(program: &Command, share: &Path, date: &str) -> io::Result<()> {
    let name = program.get_name().to_owned();
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    let mut with_commands = program.clone().disable_help_subcommand(true);
    with_commands.build();
    write_manual(&with_commands, &pages, date)?;
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

/// Writes the manual page of a command and of its commands.
fn write_manual(command: &Command, folder: &Path, date: &str) -> io::Result<()> {
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        write_manual(inner, folder, date)?;
    }
    let page = Man::new(command.clone()).date(date).manual("Drover");
    page.source(concat!("drover ", env!("CARGO_PKG_VERSION")))
        .generate_to(folder)?;
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
            write(&program, share.path(), "2026-01-31").unwrap();
            let page = fs::read_to_string(share.path().join(format!("man/man1/{name}.1"))).unwrap();
            assert!(
                page.contains(".SH NAME") && page.contains(".SH OPTIONS"),
                "{page}"
            );
            let version = env!("CARGO_PKG_VERSION");
            let title = format!(".TH {name} 1 2026-01-31 \"drover {version}\" Drover");
            assert!(page.contains(&title), "{page}");
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
