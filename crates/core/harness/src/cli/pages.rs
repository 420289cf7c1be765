//! The hidden command `pages` of every program: writes its manual pages and its shell completions, for packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

use super::refuse;
use crate::failure::Failure;

const COMMAND: &str = "pages";

/// The shells, each with the folder of its completions below `share`.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

#[derive(Debug, Args)]
struct PagesOptions {
    /// Write below this folder, in the folders of `share` in which man and the shells look
    #[arg(value_name = "DIR")]
    share: PathBuf,
    /// Show this date at the foot of the manual pages, such as 2026-01-31
    date: String,
}

/// Adds the command to a program.
pub(super) fn with_pages(program: Command) -> Command {
    let command = Command::new(COMMAND).about("Write the manual pages and the shell completions");
    program.subcommand(PagesOptions::augment_args(command).hide(true))
}

/// Writes the pages of a program if `typed` is that command; else returns `None`. `program` is without the command.
pub fn write_pages(program: &Command, typed: &ArgMatches) -> Option<Result<(), Failure>> {
    let arguments = typed.subcommand_matches(COMMAND)?;
    let options = PagesOptions::from_arg_matches(arguments).unwrap_or_else(|error| refuse(&error));
    let written = write(program, &options.share, &options.date);
    let context = || format!("writing pages below {}", options.share.display());
    Some(written.map_err(|error| Failure::Run(anyhow::Error::new(error).context(context()))))
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
    let inner = command.get_subcommands();
    for inner in inner.filter(|inner| !inner.is_hide_set()) {
        write_manual(inner, folder, date)?;
    }
    let page = Man::new(command.clone()).date(date).manual("Drover");
    page.source(concat!("drover ", env!("CARGO_PKG_VERSION")))
        .generate_to(folder)?;
    Ok(())
}
