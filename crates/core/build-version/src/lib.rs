//! Tells a program its version, the commit and date of its sources, and its kind of build.
//!
//! A macro and not a build script: a build script that follows the commits makes cargo compile the whole package again
//! after each of them, this macro is expanded when the program is compiled anyway. A program whose sources have not
//! changed since an earlier commit names that earlier one.

use std::path::Path;
use std::process::Command;

use proc_macro::TokenStream;

/// Replaces what git reports, as `COMMIT, DATE`: for a build outside a repository, and for a package, which must name
/// the commit that it was made from.
const VARIABLE: &str = "DROVER_COMMIT";

/// Expands to the version of the calling program, such as `0.1.0 (28de1eb, 2026-11-25, release)`. The date is the date
/// of the commit, so that a build can be repeated; `28de1eb-dirty` marks sources that were changed since. Sources
/// without a repository give `0.1.0 (release)`.
#[proc_macro]
pub fn version(_: TokenStream) -> TokenStream {
    let commit = std::env::var(VARIABLE).ok().filter(|set| !set.is_empty());
    let commit = commit.or_else(commit_of_sources).unwrap_or_default();
    let comma = if commit.is_empty() { "" } else { ", " };
    let version = |build: &str| {
        let facts = format!(" ({commit}{comma}{build})");
        format!("concat!(env!(\"CARGO_PKG_VERSION\"), {facts:?})")
    };
    // Mentions the variable, so that cargo compiles the program again if its value has changed.
    let code = format!(
        "{{ const _: Option<&str> = option_env!(\"{VARIABLE}\"); if cfg!(debug_assertions) {{ {} }} else {{ {} }} }}",
        version("debug"),
        version("release")
    );
    code.parse().expect("the code was written above")
}

/// Returns the commit and its date, if the crate being compiled belongs to a repository of its own workspace.
fn commit_of_sources() -> Option<String> {
    let package = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let workspace = Path::new(&package).ancestors().nth(3)?;
    // Sources that were unpacked inside another repository have no commit.
    let top = git(workspace, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    let commit = git(workspace, &["rev-parse", "--short", "HEAD"])?;
    let date = git(workspace, &["log", "-1", "--format=%cs"])?;
    let sources = ["crates", "Cargo.toml", "Cargo.lock"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changed = git(workspace, &[&status[..], &sources].concat())?;
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    Some(format!("{commit}{dirty}, {date}"))
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
