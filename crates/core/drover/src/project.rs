//! Finds the plans, drivers and daemons of a project, and installed ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use harness::drivers::{self, KnownDriver, entries};
use load::trust::{self, Untrusted};
use measure::similar::{similar, suggest};
use subject::manifest::{self, Manifest, Roots};

/// A project, by its root folder, and what is installed.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) root: Roots,
    pub(crate) drivers: Vec<KnownDriver>,
}

impl Project {
    /// Finds the project that the current folder belongs to.
    ///
    /// # Errors
    /// There is no project, and nothing is installed.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let root = manifest::find_root().context("finding the project")?;
        for root in root.iter() {
            trusted(&root.path).context("finding the project")?;
        }
        let drivers = drivers::list(&root);
        Ok(Self { root, drivers })
    }

    /// Returns the driver of a protocol.
    ///
    /// # Errors
    /// There is none.
    fn driver_for(&self, protocol: &str) -> anyhow::Result<&KnownDriver> {
        let found = self.drivers.iter().find(|driver| driver.speaks(protocol));
        found.with_context(|| {
            format!(
                "no driver speaks `{protocol}`: known protocols are {}",
                listed(self.drivers.iter().map(|driver| &driver.protocol))
            )
        })
    }

    /// Returns the protocol in which the driver of `protocol` speaks to a daemon: its own, or another one that it knows.
    pub(crate) fn spoken(&self, protocol: &str, daemon: &str) -> String {
        let driver = self
            .drivers
            .iter()
            .find(|driver| driver.protocol == protocol);
        let served = Manifest::load(&self.root, daemon).map(|manifest| manifest.serves);
        let mut served = served.unwrap_or_default().into_iter();
        let spoken = served.find(|name| driver.is_some_and(|driver| driver.speaks(name)));
        spoken.unwrap_or_else(|| protocol.to_owned())
    }

    /// Returns the driver of a plan. Its field `protocol` names the protocol, or else the folder
    /// `configs/<protocol>/`; elsewhere, it is the one that the daemons serve.
    ///
    /// # Errors
    /// There is no driver, or there are several. The error says what to add to the plan.
    pub(crate) fn driver_of(
        &self,
        plan: &Path,
        protocol: Option<&str>,
        daemons: &[String],
    ) -> anyhow::Result<&KnownDriver> {
        if let Some(protocol) = protocol {
            return self
                .driver_for(protocol)
                .with_context(|| format!("{}: protocol", plan.display()));
        }
        let path = std::path::absolute(plan)?;
        let by_folder = path.ancestors().skip(1).find_map(|folder| {
            let name = folder.file_name()?.to_str()?;
            self.drivers.iter().find(|driver| driver.protocol == name)
        });
        if let Some(driver) = by_folder {
            return Ok(driver);
        }
        let serves = |name: &String, driver: &KnownDriver| {
            let manifest = Manifest::load(&self.root, name);
            manifest.is_ok_and(|daemon| daemon.serves.iter().any(|it| driver.speaks(it)))
        };
        let all_serve = |driver: &&KnownDriver| daemons.iter().all(|name| serves(name, driver));
        let fitting: Vec<&KnownDriver> = self.drivers.iter().filter(all_serve).collect();
        match fitting.as_slice() {
            [driver] if !daemons.is_empty() => Ok(driver),
            _ => bail!(
                "{}: no driver found for this plan: add `protocol = \"…\"` as its first line, or keep it in configs/<protocol>/, for one of {}",
                plan.display(),
                listed(self.drivers.iter().map(|driver| &driver.protocol))
            ),
        }
    }

    /// Checks that daemons exist.
    ///
    /// # Errors
    /// The first unknown one, with the one that is probably meant, or all.
    pub(crate) fn require_daemons(&self, names: &[String]) -> anyhow::Result<()> {
        let known = manifest::names(&self.root);
        match names.iter().find(|name| !known.contains(name)) {
            Some(name) => bail!(
                "there is no daemon `{name}`: {}",
                suggest(name, known.iter().map(String::as_str))
            ),
            None => Ok(()),
        }
    }

    /// Checks that daemons speak the protocol of a driver.
    ///
    /// # Errors
    /// The first that does not, with those that do.
    pub(crate) fn require_protocol(
        &self,
        names: &[String],
        driver: &KnownDriver,
    ) -> anyhow::Result<()> {
        let protocol = &driver.protocol;
        let daemons = manifest::list(&self.root)?;
        let serves = |manifest: &Manifest| manifest.serves.iter().any(|it| driver.speaks(it));
        let misfit = names.iter().find_map(|name| {
            let (_, manifest) = daemons.iter().find(|(known, _)| known == name)?;
            (!serves(manifest)).then_some((name, manifest))
        });
        let Some((name, manifest)) = misfit else {
            return Ok(());
        };
        let fitting = daemons.iter().filter(|(_, manifest)| serves(manifest));
        bail!(
            "the daemon `{name}` serves {}, and the plan is for {protocol}: choose one of {}",
            listed(&manifest.serves),
            listed(fitting.map(|(name, _)| name))
        )
    }

    /// Returns the file of a plan: the file of that path, or else the plan of this project with that name.
    ///
    /// # Errors
    /// No plan or several plans have the name, with those that may be meant.
    pub(crate) fn find_plan(&self, named: &Path) -> anyhow::Result<PathBuf> {
        let is_path = named.components().count() > 1 || named.extension().is_some();
        if is_path || named.is_file() {
            return Ok(manifest::find_plan(named));
        }
        let plans: Vec<(String, PathBuf)> = self
            .plans()
            .into_keys()
            .filter_map(|below| Some((below.file_stem()?.to_str()?.to_owned(), below)))
            .collect();
        let shown = |path: &Path| path.display().to_string();
        let name = named.to_string_lossy();
        let paths = |wanted: &str| -> Vec<&PathBuf> {
            let fitting = plans.iter().filter(|(name, _)| name == wanted);
            fitting.map(|(_, path)| path).collect()
        };
        match paths(&name).as_slice() {
            [path] => Ok(manifest::find_plan(path)),
            [] => match similar(&name, plans.iter().map(|(name, _)| name.as_str())) {
                Some(meant) => bail!(
                    "there is no plan `{name}`: did you mean {}?",
                    paths(meant)
                        .into_iter()
                        .map(|path| shown(path))
                        .collect::<Vec<_>>()
                        .join(" or ")
                ),
                None => bail!(
                    "there is no plan `{name}`: `drover list` shows the plans of this project"
                ),
            },
            several => bail!(
                "several plans are called `{name}`: name one of {}",
                listed(several.iter().map(|path| shown(path)))
            ),
        }
    }

    /// Returns all plans by their path below a root, such as `configs/http/latency.toml`, with their files. The nearest
    /// root with a plan of that path counts.
    pub(crate) fn plans(&self) -> BTreeMap<PathBuf, PathBuf> {
        let mut plans = BTreeMap::new();
        for root in self.root.iter() {
            let files = entries(&root.path.join("configs"));
            let files = files.iter().flat_map(|folder| entries(folder));
            for file in files.filter(|path| path.extension().is_some_and(|it| it == "toml")) {
                let below = file.strip_prefix(&root.path).unwrap_or(&file).to_owned();
                plans.entry(below).or_insert(file);
            }
        }
        plans
    }
}

/// Refuses sources that somebody else may have written, because building a driver executes them; and descriptions of
/// drivers, because they name programs.
fn trusted(root: &Path) -> Result<(), Untrusted> {
    let members = drivers::crates(root)
        .into_iter()
        .filter(|folder| folder.is_dir());
    let described = entries(&root.join("drivers"));
    let files = [
        root.join("Cargo.toml"),
        root.join(".cargo"),
        root.join("crates"),
        root.join("drivers"),
    ]
    .into_iter()
    .chain(described)
    .chain(members.flat_map(|folder| [folder.join("Cargo.toml"), folder.join("src"), folder]));
    files
        .filter(|path| path.exists())
        .try_for_each(|path| trust::require(&path))
}

/// Joins names for a sentence.
pub(crate) fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<T> = names.into_iter().collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Returns the question that a plan answers: the comment at its beginning, without the directive for editors.
pub(crate) fn question(plan: &str) -> Option<String> {
    let comment: Vec<&str> = plan
        .lines()
        .skip_while(|line| line.starts_with("#:schema"))
        .map_while(|line| line.strip_prefix('#'))
        .map(str::trim)
        .collect();
    Some(comment.join(" ")).filter(|question| !question.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::assert_contains;

    const DAEMON: &str = "about = 'a'\nserves = ['fdpass']\nrun = ['d']\nready = { line = 'up' }\n";

    fn project(drivers: &[(&str, &str)]) -> (tempfile::TempDir, Project) {
        let root = tempfile::tempdir().unwrap();
        for (name, manifest) in [
            ("d", DAEMON),
            ("other", &DAEMON.replace("fdpass", "more-http")),
        ] {
            let folder = root.path().join("daemons").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("daemon.toml"), manifest).unwrap();
        }
        let drivers = drivers.iter().map(|(name, protocol)| KnownDriver {
            name: (*name).to_owned(),
            protocol: (*protocol).to_owned(),
            also: vec![format!("more-{protocol}")],
            about: String::new(),
            sources: None,
        });
        let project = Project {
            root: Roots::from(root.path()),
            drivers: drivers.collect(),
        };
        (root, project)
    }

    #[test]
    fn a_plan_finds_its_driver_by_its_folder_and_else_by_its_daemons() {
        let (root, project) = project(&[("fdpass-gen", "fdpass"), ("http-load", "http")]);
        let name = |plan: &str, daemons: &[&str]| {
            let daemons: Vec<String> = daemons.iter().map(|name| (*name).to_owned()).collect();
            let driver = project.driver_of(&root.path().join(plan), None, &daemons);
            driver
                .map(|driver| driver.name.clone())
                .map_err(|error| error.to_string())
        };
        assert_eq!(name("configs/http/a.toml", &[]).unwrap(), "http-load");
        assert_eq!(name("configs/http/deep/a.toml", &[]).unwrap(), "http-load");
        assert_eq!(name("mine.toml", &["d"]).unwrap(), "fdpass-gen");
        assert_eq!(name("mine.toml", &["other"]).unwrap(), "http-load");
        let serve = |driver: usize| {
            let named = ["other".to_owned()];
            project.require_protocol(&named, &project.drivers[driver])
        };
        assert!(serve(1).is_ok() && serve(0).is_err());
        let spoken = |daemon| project.spoken("http", daemon);
        assert_eq!([spoken("other"), spoken("d")], ["more-http", "http"]);
        let named =
            |protocol| project.driver_of(Path::new("configs/http/a.toml"), Some(protocol), &[]);
        assert_eq!(named("fdpass").unwrap().name, "fdpass-gen");
        let unknown = format!("{:#}", named("smtp").unwrap_err());
        assert_contains(
            &unknown,
            &["no driver speaks `smtp`: known protocols are fdpass, http"],
        );
        let unknown = name("mine.toml", &[]).unwrap_err();
        assert!(unknown.contains("configs/<protocol>/") && unknown.contains("fdpass, http"));
    }

    #[test]
    fn the_question_is_the_comment_at_the_top() {
        assert_eq!(
            question("#:schema ./plan.schema.json\n# How many?\n# Two lines.\nname = 'a' # no\n# nor this").unwrap(),
            "How many? Two lines."
        );
        assert_eq!(question("name = 'a'"), None);
    }
}
