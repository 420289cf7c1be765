//! Executes the composite action of `.github/actions/drover` as a runner of GitHub does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{Project, assert_contains, ends_with, shown};

fn action() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.github/actions/drover")
}

/// A step of the action, with its inputs.
struct Step {
    script: String,
    /// The variables, with the inputs that they have.
    env: Vec<(String, String)>,
    /// The inputs, with their defaults.
    defaults: Vec<(String, String)>,
}

impl Step {
    /// Reads the only step of the action, as far as this file's layout goes.
    fn read() -> Self {
        let text = fs::read_to_string(action().join("action.yml")).unwrap();
        let (inputs, rest) = text.split_once("\noutputs:").unwrap();
        let (_, runs) = rest.split_once("\nruns:").unwrap();
        let mut defaults = Vec::new();
        let mut name = String::new();
        for line in inputs.lines() {
            match line.strip_prefix("  ") {
                Some(key) if !key.starts_with(' ') => {
                    key.trim_end_matches(':').clone_into(&mut name)
                }
                Some(rest) => {
                    if let Some(value) = rest.trim().strip_prefix("default: ") {
                        defaults.push((name.clone(), value.trim_matches('"').to_owned()));
                    }
                }
                None => {}
            }
        }
        let lines = runs.lines().map(str::trim);
        let mut env = Vec::new();
        let mut scripts = Vec::new();
        for line in lines {
            if let Some(script) = line.strip_prefix("run: ") {
                scripts.push(script.to_owned());
            }
            if let Some((variable, input)) = line.split_once(": ${{ inputs.") {
                env.push((
                    variable.to_owned(),
                    input.trim_end_matches(" }}").to_owned(),
                ));
            }
        }
        let [script] = <[String; 1]>::try_from(scripts).unwrap();
        Self {
            script,
            env,
            defaults,
        }
    }

    /// Runs the step in a project with these inputs.
    fn run(&self, project: &Project, inputs: &[(&str, &str)]) -> Output {
        let folder = project.path("runner");
        fs::create_dir_all(&folder).unwrap();
        for file in ["output", "step-summary"] {
            fs::write(folder.join(file), "").unwrap();
        }
        // The project's own environment, but another program.
        let own = project.drover("");
        let mut command = Command::new("bash");
        command.args([
            "--noprofile",
            "--norc",
            "-eo",
            "pipefail",
            "-c",
            &self.script,
        ]);
        command.current_dir(own.get_current_dir().unwrap());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        for (variable, input) in &self.env {
            let given = inputs.iter().find(|(name, _)| name == input);
            let default = self.defaults.iter().find(|(name, _)| name == input);
            let value = match (given, default) {
                (Some((_, value)), _) => *value,
                (None, Some((_, value))) => value,
                (None, None) => "",
            };
            command.env(variable, value);
        }
        command
            .env("XDG_CACHE_HOME", project.path("cache"))
            .env("GITHUB_ACTION_PATH", action())
            .env("GITHUB_OUTPUT", folder.join("output"))
            .env("GITHUB_STEP_SUMMARY", folder.join("step-summary"));
        command.output().unwrap()
    }
}

/// Runs the action on the plan of a project; returns what the step printed and its outputs.
fn run(project: &Project, code: i32, inputs: &[(&str, &str)]) -> (String, String) {
    let command = env!("CARGO_BIN_EXE_drover");
    let always = [
        ("plan", "configs/fake/tiny.toml"),
        ("arguments", "--force\n--repeat 2"),
        ("command", command),
    ];
    let output = Step::read().run(project, &[inputs, &always].concat());
    ends_with(&output, code);
    let outputs = fs::read_to_string(project.path("runner/output")).unwrap();
    (shown(&output), outputs)
}

fn read(project: &Project, name: &str) -> String {
    fs::read_to_string(project.path(name)).unwrap()
}

#[test]
fn a_suite_leaves_summary_annotations_a_junit_file_and_outputs() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a', 'b']\n");
    let (printed, outputs) = run(&project, 0, &[("out", "results")]);
    assert_eq!(
        outputs,
        "verdict=VALID\nexit-code=0\nsummary=results/summary.md\njunit=results/junit.xml\n"
    );
    assert_contains(
        &printed,
        &["::notice title=drover%3A measured::tiny: 4 runs"],
    );
    let junit = read(&project, "results/junit.xml");
    assert_contains(&junit, &["<testsuites", "failures=\"0\""]);
    let summary = read(&project, "results/summary.md");
    assert_contains(&summary, &["tiny"]);
    assert_eq!(read(&project, "runner/step-summary"), summary);
    // A second call reports its own suite only.
    let again = [
        ("out", "results"),
        ("arguments", "--force --fresh --repeat 1"),
    ];
    let (printed, _) = run(&project, 0, &again);
    assert_contains(&printed, &["tiny: 2 runs"]);
}

#[test]
fn a_base_that_cannot_be_compared_with_is_a_warning_and_a_finished_suite_is_reported_again() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a', 'b']\n");
    let (printed, outputs) = run(&project, 0, &[("base", "nowhere")]);
    assert_contains(
        &printed,
        &["is not compared with base: the log has the reason"],
    );
    assert!(outputs.starts_with("verdict=VALID\n"), "{outputs}");
    assert!(read(&project, "bench-results/summary.md").contains("tiny"));
    let (printed, again) = run(&project, 0, &[]);
    assert_contains(&printed, &["tiny: 4 runs"]);
    assert_eq!(again, outputs);
}

#[test]
fn the_step_fails_as_it_was_told() {
    let missed =
        Project::new("[driver]\ncapacity = { a = 9, b = 1 }\n[suite]\ndaemons = ['a', 'b']\n");
    let plan = missed.path("configs/fake/tiny.toml");
    let text = fs::read_to_string(&plan).unwrap();
    let threshold = "thresholds = ['first_byte.p99 <= 50ms']\n";
    fs::write(plan, format!("{threshold}{text}")).unwrap();
    let (printed, outputs) = run(&missed, 4, &[]);
    assert_contains(&outputs, &["exit-code=4\n"]);
    assert_contains(
        &printed,
        &["::error title=drover%3A first_byte.p99 <= 50ms::"],
    );
    assert!(read(&missed, "bench-results/junit.xml").contains("<failure"));
    run(
        &missed,
        0,
        &[("fail-on", "failure"), ("arguments", "--force --fresh")],
    );
    let suspect =
        Project::new("[driver]\ndo = { 'b/5' = 'suspect' }\n[suite]\ndaemons = ['a', 'b']\n");
    let (printed, outputs) = run(&suspect, 0, &[]);
    assert!(
        outputs.starts_with("verdict=SUSPECT\nexit-code=3\n"),
        "{outputs}"
    );
    assert_contains(&printed, &["::warning title=drover%3A suspect run::"]);
    let arguments = ("arguments", "--force --fresh");
    run(&suspect, 0, &[("fail-on", "invalid"), arguments]);
    run(&suspect, 3, &[("fail-on", "suspect"), arguments]);
}

#[test]
fn a_daemon_that_is_worse_than_its_other_version_fails_the_step_that_asks() {
    let project = Project::new("[driver]\ndo = { 'a/5' = 'heavy' }\n[suite]\ndaemons = ['a']\n");
    let old = project.path("old.toml");
    fs::copy(project.path("daemons/a/daemon.toml"), &old).unwrap();
    let inputs = |fail_on| {
        [
            ("against", old.to_str().unwrap()),
            ("arguments", "--force --repeat 3"),
            ("fail-on", fail_on),
        ]
    };
    let (_, outputs) = run(&project, 6, &inputs("never worse:daemon.rss.peak"));
    assert_contains(&outputs, &["verdict=VALID\nexit-code=6\n"]);
    let summary = read(&project, "bench-results/summary.md");
    assert_contains(&summary, &["peak memory of a is worse by at least 3 %"]);
    run(&project, 0, &inputs("worse"));
    run(&project, 0, &inputs("threshold"));
    let (printed, _) = run(&project, 2, &[("fail-on", "threshold worse")]);
    assert_contains(&printed, &["name the version that is compared"]);
}

#[test]
fn a_wrong_call_is_an_annotation_and_never_passes() {
    let project = Project::new("[driver]\nrefuse = true\n[suite]\ndaemons = ['a']\n");
    let (printed, _) = run(&project, 2, &[("fail-on", "sometimes")]);
    assert!(
        printed.starts_with("::error title=drover::fail-on is 'sometimes'"),
        "{printed}"
    );
    run(&project, 2, &[("plan", " ")]);
    let (printed, outputs) = run(&project, 1, &[("command", "false")]);
    assert_contains(&printed, &["::error title=drover::no suite was run"]);
    assert!(outputs.starts_with("verdict=\nexit-code=1\n"), "{outputs}");
    let (_, outputs) = run(&project, 2, &[("fail-on", "never")]);
    assert_eq!(outputs, "verdict=\nexit-code=2\nsummary=\njunit=\n");
}
