//! `drover list`: lists daemons, drivers, plans, and the suites that have been run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::ensure;
use harness::failure::Failure;
use harness::output;
use load::plan;
use subject::daemon::Daemon;
use subject::manifest::{self, Manifest, Roots};

use crate::project::{Project, question};
use crate::record::Record;
use crate::{exit, folder};

/// Prints the lists; with `words`, the entries that have all of them in their names or descriptions. Returns the exit code:
/// a manifest or a plan that can't be used is listed with the reason, and makes the call fail.
///
/// # Errors
/// No project, or words that no entry has.
pub(crate) fn list(out: &Path, words: &[String]) -> Result<u8, Failure> {
    let (text, broken) = lists(out, words).map_err(Failure::Call)?;
    output::print(&text)?;
    if broken.is_empty() {
        return Ok(exit::FINE);
    }
    let broken = broken.join(", ");
    output::note(&format!(
        "error: the list says why these cannot be used: {broken}"
    ));
    Ok(exit::WRONG_CALL)
}

/// Returns the lists as text, and the names of the daemons and plans in them that can't be used.
fn lists(out: &Path, words: &[String]) -> anyhow::Result<(String, Vec<String>)> {
    let project = Project::find()?;
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let is_wanted = |entry: &str| {
        let entry = entry.to_lowercase();
        lower.iter().all(|word| entry.contains(word))
    };
    let [mut drivers, mut plans, mut suites] = [const { String::new() }; 3];
    let mut broken = Vec::new();
    let daemons = daemons(&project, is_wanted, &mut broken);
    for driver in &project.drivers {
        let about = format!("{} ({})", driver.about, driver.protocol);
        if is_wanted(&format!("{} {about}", driver.name)) {
            line(&mut drivers, &driver.name, &about);
        }
    }
    for (name, path) in project.plans() {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let question = question(&text).unwrap_or_default();
        let name = format!("{}{}", name.display(), shown(&path, &project.root));
        if is_wanted(&format!("{name} {question}")) {
            // The first sentence says what the plan is for.
            let first = question.split_inclusive('?').next().unwrap_or_default();
            let _ = writeln!(plans, "  {name}\n      {first}");
            if let Err(error) = plan::load::<toml::Table>(&path, &[]) {
                let problem = error.to_string().replace('\n', "\n      ");
                let _ = writeln!(plans, "      cannot be used: {problem}");
                broken.push(name);
            }
        }
    }
    for (path, record) in &folder::all(out) {
        let entry = format!("{}  {}", path.display(), progress(record));
        if is_wanted(&entry) {
            let _ = writeln!(suites, "  {entry}");
        }
    }
    let of_suites = format!("suites in {}", out.display());
    let mut text = String::new();
    for (title, entries) in [
        ("daemons", daemons),
        ("drivers", drivers),
        ("plans", plans),
        (&of_suites, suites),
    ] {
        let space = if text.is_empty() { "" } else { "\n" };
        match (entries.as_str(), words) {
            ("", []) => text.push_str(&format!("{space}{title}\n  none\n")),
            ("", _) => {}
            (entries, _) => text.push_str(&format!("{space}{title}\n{entries}")),
        }
    }
    let words = words.join(" ");
    ensure!(
        !text.is_empty(),
        "no daemon, driver, plan or suite has {words} in its name or description: give fewer words"
    );
    Ok((text, broken))
}

/// Lists the daemons, and adds the names of those that can't be used to `broken`.
fn daemons(
    project: &Project,
    is_wanted: impl Fn(&str) -> bool,
    broken: &mut Vec<String>,
) -> String {
    let mut daemons = String::new();
    for name in manifest::names(&project.root) {
        let daemon = match Manifest::load(&project.root, &name) {
            Ok(daemon) => daemon,
            Err(error) => {
                let about = format!("cannot be used: {error}");
                if is_wanted(&format!("{name} {about}")) {
                    line(&mut daemons, &name, &about);
                    broken.push(name);
                }
                continue;
            }
        };
        let serves = daemon.serves.join(", ");
        let services = daemon.services.keys().chain(&daemon.behind);
        let services: Vec<&str> = services.map(String::as_str).collect();
        let services = match services.as_slice() {
            [] => String::new(),
            services => format!("; it needs {}", services.join(", ")),
        };
        let file = shown(&manifest::file(&project.root, &name), &project.root);
        let about = format!("{} ({serves}{services}){file}", daemon.about);
        if is_wanted(&format!("{name} {about}")) {
            // This calls the tools, which takes a while.
            let missing = Daemon::check_tools(&project.root, &name).err();
            let missing = missing.map_or(String::new(), |error| format!("\n{error}"));
            line(&mut daemons, &name, &(about + &missing));
        }
    }
    daemons
}

/// Returns the path of a file that is not in the nearest folder, in brackets: several folders may have one of its name.
fn shown(file: &Path, roots: &Roots) -> String {
    if file.starts_with(&roots.nearest().path) {
        String::new()
    } else {
        format!(" [{}]", file.display())
    }
}

fn line(text: &mut String, name: &str, about: &str) {
    let about = about.replace('\n', &format!("\n{:22}", ""));
    // Writing to a String can't fail.
    let _ = writeln!(text, "  {name:20}{about}");
}

fn progress(record: &Record) -> String {
    let of = record
        .suite
        .total()
        .map_or(String::new(), |total| format!(" of {total}"));
    let unreached = match record.unreached.len() {
        0 => String::new(),
        count => format!(", {count} not measured"),
    };
    let ended = if record.ended_at.is_some() {
        ""
    } else {
        ", not finished: repeat drover run to continue it"
    };
    format!("{}{of} runs{unreached}{ended}", record.runs.len())
}
