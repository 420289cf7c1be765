//! The crates of the workspace, and what each may depend on.

use std::path::PathBuf;

use toml::{Table, Value};

use crate::tidy::tree::{folders, read, root};

/// The purpose of a crate, as its name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `measure`, `linearizability`: computation on what was recorded.
    Measure,
    /// `load`: when operations start, and what happened to them.
    Load,
    /// `subject`: the daemon under test and its machine.
    Subject,
    /// `harness`: runs.
    Harness,
    /// `*-daemon`: a subject under test.
    Daemon,
    /// `daemon-kit`: what daemons have in common, and nothing that measures them.
    DaemonKit,
    /// `mock-*`: replaces a service or a system that a subject calls, in the tests of the subject.
    Mock,
    /// `*-sdk`, `*-store`, `*-rpc`: shared by a driver and a daemon because it is the subject's own client, storage or
    /// protocol.
    Library,
    /// `*-cli`: the command line of a library, and nothing that measures it.
    Cli,
    /// `*-client`: the client side of a protocol, for drivers, instruments and conformance cases.
    Client,
    /// `null-*`: a peer that measures the driver itself.
    Instrument,
    /// `*-conformance`: functional cases for any daemon of a protocol.
    Conformance,
    /// `test-kit`: what the tests of all crates have in common.
    TestKit,
    /// `*-testing`: support for the tests of the instrument.
    Testing,
    /// `workspace-hack`: names features of indirect dependencies, and has no code.
    Features,
    /// `*-pages`: manual pages and completions of all programs.
    Pages,
    /// `build-*`: facts that a program is given as it is compiled.
    Build,
    /// Everything else: a driver, or the suite that runs them.
    Driver,
}

impl Kind {
    pub(crate) fn from_name(name: &str) -> Self {
        match name {
            "measure" | "linearizability" => Self::Measure,
            "load" => Self::Load,
            "subject" => Self::Subject,
            "harness" => Self::Harness,
            "daemon-kit" => Self::DaemonKit,
            "test-kit" => Self::TestKit,
            "workspace-hack" => Self::Features,
            name if name.starts_with("build-") => Self::Build,
            name if name.ends_with("-pages") => Self::Pages,
            name if name.ends_with("-daemon") => Self::Daemon,
            name if name.starts_with("mock-") => Self::Mock,
            name if name.starts_with("null-") => Self::Instrument,
            name if name.ends_with("-client") => Self::Client,
            name if name.ends_with("-conformance") => Self::Conformance,
            name if name.ends_with("-testing") => Self::Testing,
            name if ["-sdk", "-store", "-rpc"]
                .iter()
                .any(|end| name.ends_with(end)) =>
            {
                Self::Library
            }
            name if name.ends_with("-cli") => Self::Cli,
            _ => Self::Driver,
        }
    }

    /// The rules: what a crate of this kind may depend on in the workspace.
    pub(crate) fn may_use(self) -> &'static [Self] {
        match self {
            Self::Features | Self::Build | Self::TestKit => &[],
            // The types of plans and manifests for their schemas.
            Self::Pages => &[Self::Driver, Self::Harness, Self::Load, Self::Subject],
            Self::Measure | Self::Mock | Self::DaemonKit => &[Self::Features],
            // A mock only in tests.
            Self::Library => &[Self::Features, Self::Library, Self::Mock],
            Self::Cli => &[Self::Features, Self::Library],
            // The subject shares no code with the instrument but the histogram.
            Self::Load => &[Self::Measure],
            Self::Subject => &[Self::Measure, Self::Load, Self::Testing],
            Self::Harness => &[Self::Measure, Self::Load, Self::Subject, Self::Testing],
            Self::Testing => &[Self::Measure, Self::Load, Self::Subject, Self::Harness],
            Self::Daemon => &[
                Self::Measure,
                Self::Library,
                Self::Mock,
                Self::DaemonKit,
                Self::Build,
            ],
            Self::Client => &[Self::Measure, Self::Load, Self::Client],
            Self::Instrument | Self::Conformance => &[
                Self::Measure,
                Self::Load,
                Self::Subject,
                Self::Harness,
                Self::Client,
                Self::Testing,
            ],
            // An instrument only in tests. The conformance cases of its own protocol for `check`, so that each rule of
            // the protocol is written once.
            Self::Driver => &[
                Self::Build,
                Self::Measure,
                Self::Load,
                Self::Subject,
                Self::Harness,
                Self::Library,
                Self::Client,
                Self::Instrument,
                Self::Testing,
                Self::Conformance,
            ],
        }
    }
}

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Table,
}

impl Member {
    fn read(folder: PathBuf) -> Self {
        let text = read(&folder.join("Cargo.toml"));
        let manifest: Table = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let name = manifest["package"]["name"]
            .as_str()
            .expect("a package has a name")
            .to_owned();
        Self {
            name,
            folder,
            manifest,
        }
    }

    /// Its dependencies of any sort, for tests and for one platform included.
    pub(crate) fn dependencies(&self) -> Vec<(&String, &Value)> {
        let platforms = self.manifest.get("target").and_then(Value::as_table);
        let tables = [&self.manifest].into_iter().chain(
            platforms
                .into_iter()
                .flat_map(|of| of.values().filter_map(Value::as_table)),
        );
        let sorts = ["dependencies", "dev-dependencies", "build-dependencies"];
        tables
            .flat_map(|table| sorts.iter().filter_map(|sort| table.get(*sort)?.as_table()))
            .flatten()
            .collect()
    }
}

pub(crate) fn members() -> Vec<Member> {
    let members: Vec<Member> = folders(&root().join("crates"))
        .iter()
        .flat_map(|room| folders(room))
        .map(Member::read)
        .collect();
    assert!(
        members.len() >= 4,
        "only {} crates were found",
        members.len()
    );
    members
}
