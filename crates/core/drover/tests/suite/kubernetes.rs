//! Runs that Kubernetes places. There is no cluster here: the printed objects are checked against the published schemas,
//! and their containers are run as processes of this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness_testing::program::{beside, copy_program};
use harness_testing::result::{self, ResultFile};
use harness_testing::skip;
use serde_json::{Value, json};

use crate::slurm::STREAMS;
use crate::streaming::root;
use crate::support::{assert_contains, ends_with, has_three_shards, messages, shown};

const HTTP: &str = "name = \"http\"\nprotocol = \"http\"\n[timeline]\nmeasure = \"3s\"\ndrain = \"5s\"\n\
    [[groups]]\nname = \"rate\"\nrate = 300\n[driver]\npath = \"/1kb.txt\"\n";
/// An old version whose Jobs limit the retries of each index by default (1.29 and later), and a recent one.
const VERSIONS: [&str; 2] = ["1.30", "1.37"];

/// A call of `drover cluster k8s`, with a folder for its plan.
struct Call {
    folder: tempfile::TempDir,
    command: Command,
}

impl Call {
    fn new(plan: &str, daemon: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("written.toml");
        fs::write(&file, plan).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .current_dir(root())
            .args(["cluster", "k8s", "--shards", "3", "--daemon", daemon])
            .arg(&file);
        Self { folder, command }
    }

    fn with_image(plan: &str, daemon: &str) -> Self {
        let mut call = Self::new(plan, daemon);
        let options = ["--image", "registry.test/drover:1", "--claim", "shared"];
        call.command.args(options);
        call
    }

    /// Returns the objects and the note on stderr.
    fn objects(&mut self) -> (Vec<Value>, String) {
        let output = self
            .command
            .args(["--", "--threads", "1"])
            .output()
            .unwrap();
        ends_with(&output, 0);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(list["kind"], "List");
        (list["items"].as_array().unwrap().clone(), messages(&output))
    }

    /// Returns the error of a wrong call.
    fn error(&mut self, options: &[&str]) -> String {
        let output = self.command.args(options).output().unwrap();
        ends_with(&output, 2);
        assert_eq!(shown(&output), "");
        messages(&output)
    }
}

/// The containers of a run as processes of this machine, with folders instead of the volumes.
struct Processes {
    folder: PathBuf,
    objects: Vec<Value>,
}

impl Processes {
    /// Creates the folders; `None` if the driver has not been built.
    fn new(folder: &Path, objects: Vec<Value>, driver: &str) -> Option<Self> {
        beside(env!("CARGO_BIN_EXE_drover"), [driver])?;
        for name in ["plan", "results"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap");
        for (name, text) in config.unwrap()["data"].as_object().unwrap() {
            fs::write(folder.join("plan").join(name), text.as_str().unwrap()).unwrap();
        }
        let folder = folder.to_owned();
        Some(Self { folder, objects })
    }

    /// Returns a text with the folders of this machine.
    fn localized(&self, text: &str) -> String {
        let folder = self.folder.display();
        // Kubernetes reads two of them as one.
        text.replace("$$", "$")
            .replace("/plan/", &format!("{folder}/plan/"))
            .replace("/results/", &format!("{folder}/results/"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command
            .current_dir(root())
            .env("PATH", format!("{}:{path}", programs().display()))
            .env("POD_IP", "127.0.0.1");
        command
    }

    /// Runs all pods at once to their ends.
    fn run(&self) -> Vec<Output> {
        let mut commands = Vec::new();
        for job in self.objects.iter().filter(|object| object["kind"] == "Job") {
            let container = &job["spec"]["template"]["spec"]["containers"][0];
            let listed = |key: &str| container[key].as_array().unwrap().clone();
            let words = [listed("command"), listed("args")].concat();
            let words: Vec<String> = words
                .iter()
                .map(|word| self.localized(word.as_str().unwrap()))
                .collect();
            for index in 0..job["spec"]["completions"].as_u64().unwrap_or(1) {
                let mut command = self.command(&words[0]);
                command.args(&words[1..]);
                if job["spec"]["completionMode"] == "Indexed" {
                    command.env("JOB_COMPLETION_INDEX", index.to_string());
                }
                commands.push(command);
            }
        }
        std::thread::scope(|scope| {
            let running: Vec<_> = commands
                .iter_mut()
                .map(|command| scope.spawn(|| command.output().unwrap()))
                .collect();
            running.into_iter().map(|it| it.join().unwrap()).collect()
        })
    }

    #[track_caller]
    fn merged(&self, name: &str, outputs: &[Output]) -> ResultFile {
        let path = self.folder.join("results").join(name).join("result.json");
        assert!(path.is_file(), "{outputs:?}");
        let merged = ResultFile(result::json(&path));
        has_three_shards(&merged);
        assert_eq!(merged.operations("failed"), 0, "{outputs:?}");
        merged
    }
}

fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_drover")).parent().unwrap()
}

/// Returns the output of the validator for some objects; `None` if it is not installed.
fn validate(objects: &[Value], version: &str) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let mut validator = Command::new("kubernetes-validate");
    validator.args(["--strict", "-k", version]);
    for (number, object) in objects.iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        fs::write(&file, object.to_string()).unwrap();
        validator.arg(file);
    }
    match validator.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("kubernetes-validate: scripts/setup installs it");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_objects_follow_the_schemas_of_kubernetes() {
    let (with_daemon, _) = Call::with_image(HTTP, "http-daemon").objects();
    let mut named = Call::with_image(STREAMS, "rust-streaming");
    named.command.args(["--namespace", "bench", "--name", "n1"]);
    named.command.args(["--cpus", "500m", "--memory", "1Gi"]);
    let (own_daemons, _) = named.objects();
    assert_eq!((with_daemon.len(), own_daemons.len()), (4, 3));
    let mut broken = with_daemon[3].clone();
    broken["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRoot"] =
        json!(true);
    for version in VERSIONS {
        // The validator must find an error first.
        let Some(output) = validate(&[broken.clone()], version) else {
            return;
        };
        assert!(!output.status.success(), "{output:?}");
        assert_contains(&format!("{output:?}"), &["readOnlyRoot"]);
        let all = [with_daemon.as_slice(), &own_daemons].concat();
        let output = validate(&all, version).unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn names_that_objects_refer_to_are_those_of_others() {
    let (objects, _) = Call::with_image(HTTP, "http-daemon").objects();
    let [config, service, daemon, shards] = objects.as_slice() else {
        panic!("{objects:?}");
    };
    for job in [daemon, shards] {
        let template = &job["spec"]["template"];
        let pod = &template["spec"];
        assert_eq!(pod["subdomain"], service["metadata"]["name"]);
        let labels = template["metadata"]["labels"].as_object().unwrap();
        for (label, value) in service["spec"]["selector"].as_object().unwrap() {
            assert_eq!(labels[label], *value);
        }
        let volumes = pod["volumes"].as_array().unwrap();
        assert_eq!(volumes[0]["configMap"]["name"], config["metadata"]["name"]);
        let names = |list: &Value| -> Vec<Value> {
            let list = list.as_array().unwrap();
            list.iter().map(|item| item["name"].clone()).collect()
        };
        let mounts = &pod["containers"][0]["volumeMounts"];
        assert_eq!(names(&pod["volumes"]), names(mounts));
    }
    let spec = &shards["spec"]["template"]["spec"];
    let anti = &spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        [0]["podAffinityTerm"];
    for (selector, job) in [
        (&anti["labelSelector"], daemon),
        (
            &spec["topologySpreadConstraints"][0]["labelSelector"],
            shards,
        ),
    ] {
        assert_eq!(
            selector["matchLabels"],
            job["spec"]["template"]["metadata"]["labels"]
        );
    }
}

#[test]
fn an_http_load_of_three_pods_is_merged_with_the_daemon_of_a_fourth() {
    let mut call = Call::with_image(HTTP, "http-daemon");
    let (objects, note) = call.objects();
    assert!(note.contains("job/drover-http-daemon"), "{note}");
    let Some(processes) = Processes::new(call.folder.path(), objects, "http-load") else {
        return;
    };
    let outputs = processes.run();
    let merged = processes.merged("drover-http", &outputs);
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 900, "{outputs:?}");
    assert!(merged["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
}

#[test]
fn streams_have_a_daemon_in_every_pod() {
    let mut call = Call::with_image(STREAMS, "rust-streaming");
    call.command.args(["--name", "streams-2"]);
    let (objects, note) = call.objects();
    let Some(processes) = Processes::new(call.folder.path(), objects, "fdpass-gen") else {
        return;
    };
    let mut outputs = processes.run();
    let (_, merge) = note.trim_end().rsplit_once(": ").unwrap();
    let merge = processes.localized(merge);
    let mut shell = processes.command("sh");
    outputs.push(shell.args(["-c", &merge]).output().unwrap());
    let merged = processes.merged("streams-2", &outputs);
    assert_eq!(merged.operations("ok"), 30, "{outputs:?}");
    assert_eq!(merged["daemon"]["instances"], 3);
}

#[test]
fn a_wrong_call_is_refused_with_the_remedy() {
    let error = Call::new(HTTP, "http-daemon").error(&["--claim", "shared"]);
    assert!(error.contains("--image"), "{error}");
    let error = Call::new(HTTP, "http-daemon").error(&["--image", "i"]);
    assert!(error.contains("--claim"), "{error}");
    for (options, words) in [
        (["--name", "Not_a_label"], "lower-case letters"),
        (["--name", "1st"], "begin with a letter"),
        (["--namespace", "a.b"], "lower-case letters"),
        (["--cpus", "many"], "such as 2, 500m"),
    ] {
        let error = Call::with_image(HTTP, "http-daemon").error(&options);
        assert_contains(&error, &[options[0], words]);
    }
}

#[test]
fn no_object_shows_a_secret() {
    for plan in [
        format!("{HTTP}headers = [\"Authorization: Bearer 0123\"]\n"),
        format!("{HTTP}# password=0123\n"),
    ] {
        let error = Call::with_image(&plan, "http-daemon").error(&[]);
        assert_contains(&error, &["written.toml", "password, a token"]);
        assert!(!error.contains("0123"), "{error}");
    }
    let header = ["--", "--header", "Authorization: Bearer 0123"];
    let error = Call::with_image(HTTP, "http-daemon").error(&header);
    assert!(error.contains("options of the driver"), "{error}");
    assert!(!error.contains("0123"), "{error}");
}

#[test]
fn submitted_objects_are_those_that_are_printed() {
    let (printed, _) = Call::with_image(HTTP, "http-daemon").objects();
    let mut call = Call::with_image(HTTP, "http-daemon");
    let folder = call.folder.path().to_owned();
    let script = "#!/bin/sh\ncd \"${0%/*}\" && echo \"$@\" >arguments && cat >objects\n";
    fs::write(folder.join("script"), script).unwrap();
    copy_program(&folder.join("script"), &folder.join("kubectl"));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let submit = ["--submit", "--", "--threads", "1"];
    call.command.env("PATH", path).args(submit);
    let output = call.command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("arguments"), "apply -f -\n");
    let list: Value = serde_json::from_str(&read("objects")).unwrap();
    assert_eq!(list["items"], json!(printed));
}

#[test]
fn a_kubectl_that_is_missing_or_refuses_is_reported() {
    let mut call = Call::with_image(HTTP, "http-daemon");
    let empty = tempfile::tempdir().unwrap();
    let missing = call.command.arg("--submit").env("PATH", empty.path());
    let output = missing.output().unwrap();
    ends_with(&output, 1);
    assert_contains(&messages(&output), &["install it, or leave out"]);
    let script = empty.path().join("script");
    fs::write(&script, "#!/bin/sh\nexit 7\n").unwrap();
    copy_program(&script, &empty.path().join("kubectl"));
    let output = call.command.output().unwrap();
    ends_with(&output, 1);
    assert_contains(&messages(&output), &["kubectl refused the job"]);
}
