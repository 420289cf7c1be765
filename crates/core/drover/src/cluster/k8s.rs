//! Objects for Kubernetes: an Indexed Job of the shards, and a Job of the daemon's part, which also merges the results.

use anyhow::Context as _;
use clap::Args;
use harness::command_line::quoted;
use harness::failure::Failure;
use harness::output;
use load::plan::{self, Plan};
use serde_json::{Value, json};

use super::Job;
use crate::project::Project;
use crate::resolve::holds_no_secret;

/// The folder where the volume of the results is mounted.
const RESULTS: &str = "/results";
/// The folder where the plan is mounted, and its file there.
const PLAN_FOLDER: &str = "/plan";
const PLAN_FILE: &str = "plan.toml";
/// The last part of the name of the daemon's Job.
const OF_DAEMON: &str = "-daemon";
/// Letters of the longest name of the objects. Names of hosts have at most 63, and end with `-daemon` or `-99999`.
const LONGEST_NAME: usize = 63 - OF_DAEMON.len();
/// The user and the group of all programs: those that the image has been made for.
const USER: u32 = 1000;
const SHARD: &str = "shard";
const DAEMON: &str = "daemon";
/// The label of a node that pods are spread over.
const NODE: &str = "kubernetes.io/hostname";

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct K8sOptions {
    #[command(flatten)]
    shared: super::RunOptions,
    /// Run this image, which has the programs in PATH, as packaging/Containerfile makes it
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Store the parts and the merged result in this PersistentVolumeClaim, which all pods can write (ReadWriteMany).
    /// It is mounted at /results, and the run has the folder of its name there
    #[arg(long, value_name = "CLAIM")]
    claim: String,
    /// Create the objects in this namespace [default: the one of kubectl's context]
    #[arg(long, value_name = "NAME", value_parser = parse_label)]
    namespace: Option<String>,
    /// Request this many CPUs for each pod, and limit it to them. Nodes with the static CPU policy give a pod whole
    /// CPUs of its own, if the number is whole
    #[arg(long, value_name = "QUANTITY", default_value = "2", value_parser = parse_quantity)]
    cpus: String,
    /// Request this much memory for each pod, and limit it to that
    #[arg(long, value_name = "QUANTITY", default_value = "4Gi", value_parser = parse_quantity)]
    memory: String,
    /// Name the objects and the folder of the results. Each run needs a new name [default: drover-<name of the plan>]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    /// Hand the objects to kubectl apply, instead of printing them
    #[arg(long)]
    submit: bool,
}

/// Reads a DNS-1123 label.
fn parse_label(text: &str) -> Result<String, String> {
    let is_part = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let letters = text.as_bytes();
    let has_ends = letters.first().is_some_and(|&first| is_part(first))
        && letters.last().is_some_and(|&last| is_part(last));
    if has_ends && letters.len() <= 63 && letters.iter().all(|&it| is_part(it) || it == b'-') {
        Ok(text.to_owned())
    } else {
        Err("must be at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends".to_owned())
    }
}

/// Reads the name of the objects: a label that the names of hosts begin with, and that a Service can have.
fn parse_name(text: &str) -> Result<String, String> {
    let name = parse_label(text)?;
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err("must begin with a letter, because a Service has this name too".to_owned());
    }
    if name.len() <= LONGEST_NAME {
        Ok(name)
    } else {
        Err(format!(
            "must be at most {LONGEST_NAME} letters long, because names of hosts begin with it"
        ))
    }
}

/// Reads a quantity above 0, such as `500m` or `1.5Gi`.
fn parse_quantity(text: &str) -> Result<String, String> {
    let end = text.find(|letter: char| letter.is_ascii_alphabetic());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let units = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && units.contains(&unit) => Ok(text.to_owned()),
        _ => Err("must be a quantity of Kubernetes above 0, such as 2, 500m or 4Gi".to_owned()),
    }
}

/// Returns the name of the objects for a plan.
fn default_name(plan: &str) -> String {
    let letters = plan
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        });
    let mut name: String = "drover-".chars().chain(letters).collect();
    name.truncate(LONGEST_NAME);
    name.trim_end_matches('-').to_owned()
}

/// Prints the objects, or has kubectl create them.
///
/// # Errors
/// A wrong call, or objects that kubectl refuses.
pub(super) fn run(project: &Project, options: &K8sOptions) -> Result<(), Failure> {
    let job = Job::read(project, &options.shared).map_err(Failure::Call)?;
    let name = options.name.clone();
    let objects = Objects {
        job: &job,
        options,
        name: name.unwrap_or_else(|| default_name(&job.name)),
    };
    let text = objects.text().map_err(Failure::Call)?;
    if options.submit {
        let remedy = "install it, or leave out --submit and hand the output to `kubectl apply -f -` on a machine that has it";
        super::submit("kubectl", &["apply", "-f", "-"], &text, remedy).map_err(Failure::Run)?
    } else {
        output::print_exactly(&text)?
    }
    output::note(&objects.next_step());
    Ok(())
}

/// Escapes a word, because Kubernetes replaces `$(NAME)` in arguments.
fn literal(word: &str) -> String {
    word.replace('$', "$$")
}

/// The objects of a run.
struct Objects<'a> {
    job: &'a Job,
    options: &'a K8sOptions,
    name: String,
}

impl Objects<'_> {
    /// Returns the objects as JSON.
    ///
    /// # Errors
    /// The plan or an option contains a secret, which everybody who may read the objects would see.
    fn text(&self) -> anyhow::Result<String> {
        let file = &self.job.plan;
        let shown = || file.display().to_string();
        let plan: Plan<toml::Table> = plan::load(file, &[])?;
        holds_no_secret(&plan).with_context(shown)?;
        let plan = std::fs::read_to_string(file).with_context(shown)?;
        // Comments are part of the ConfigMap too.
        super::refuse_secrets(&plan).with_context(shown)?;
        let options = self.options.shared.driver_options.join(" ");
        super::refuse_secrets(&options).context("options of the driver")?;
        serde_json::to_string_pretty(&self.list(&plan)).context("writing JSON")
    }

    /// Returns all objects. Those that pods need come first.
    fn list(&self, plan: &str) -> Value {
        let config = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.metadata(&self.name),
            "data": { PLAN_FILE: plan },
        });
        // It gives names to pods, and no address to the run.
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.name),
            "spec": { "clusterIP": "None", "selector": self.labels() },
        });
        let daemon = (!self.job.own_daemons).then(|| self.daemon());
        let objects = [config, service]
            .into_iter()
            .chain(daemon)
            .chain([self.shards()]);
        json!({ "apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>() })
    }

    /// Returns the Job of the shards. A shard that fails is missing in the merged result; the others go on, and none is
    /// started twice.
    fn shards(&self) -> Value {
        let shards = self.options.shared.shards;
        let share = format!("auto/{shards}");
        let mut words = vec!["--shard", &share];
        if self.job.own_daemons {
            words.extend(["--role", "both"]);
        }
        let words = words.into_iter().map(str::to_owned);
        let words = words.chain(self.common_words());
        let arguments: Vec<String> = words.map(|word| literal(&word)).collect();
        let mut pod = self.pod(SHARD, &[&self.job.driver.name], &arguments);
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": NODE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": self.labels_of(SHARD) },
        }]);
        if !self.job.own_daemons {
            let term = json!({
                "topologyKey": NODE,
                "labelSelector": { "matchLabels": self.labels_of(DAEMON) },
            });
            pod["spec"]["affinity"] = json!({ "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    { "weight": 100, "podAffinityTerm": term },
                ],
            }});
        }
        self.batch_job(
            &self.name,
            json!({
                "completionMode": "Indexed",
                "completions": shards,
                "parallelism": shards,
                "backoffLimitPerIndex": 0,
                "template": pod,
            }),
        )
    }

    /// Returns the Job that launches and observes the daemon, and merges the results at the end. It ends with the run,
    /// as the pod of a Deployment would not.
    fn daemon(&self) -> Value {
        let driver = quoted(&self.job.driver.name);
        let words: Vec<String> = self.common_words().map(|word| quoted(&word)).collect();
        // The merge says whether every part has a result, so it is run whatever the first command returns.
        let script = format!(
            "{driver} --role daemon --listen \"$POD_IP\" {}; {}",
            literal(&words.join(" ")),
            self.merge_command()
        );
        let mut pod = self.pod(DAEMON, &["sh", "-c"], &[script]);
        let name = format!("{}{OF_DAEMON}", self.name);
        pod["spec"]["hostname"] = json!(name);
        self.batch_job(&name, json!({ "backoffLimit": 0, "template": pod }))
    }

    /// Returns the arguments that all parts have in common.
    fn common_words(&self) -> impl Iterator<Item = String> {
        let words = [
            "--plan".to_owned(),
            format!("{PLAN_FOLDER}/{PLAN_FILE}"),
            "--daemon".to_owned(),
            self.job.daemon.clone(),
            "--result-dir".to_owned(),
            self.result_folder(),
            "--quiet".to_owned(),
        ];
        let options = &self.options.shared.driver_options;
        words.into_iter().chain(options.iter().cloned())
    }

    fn result_folder(&self) -> String {
        format!("{RESULTS}/{}", self.name)
    }

    fn merge_command(&self) -> String {
        let driver = quoted(&self.job.driver.name);
        format!("{driver} merge {}", self.result_folder())
    }

    /// Returns a sentence about the way to the merged result.
    fn next_step(&self) -> String {
        let name = &self.name;
        let namespace = self.options.namespace.iter();
        let kubectl = namespace.fold("kubectl".to_owned(), |kubectl, name| {
            format!("{kubectl} --namespace {name}")
        });
        if self.job.own_daemons {
            format!(
                "once job/{name} has ended, merge the results in a pod of {} that mounts {} at {RESULTS}: {}",
                self.options.image,
                self.options.claim,
                self.merge_command()
            )
        } else {
            format!(
                "the report of the merged result is in {}, and is printed by: {kubectl} logs --follow job/{name}{OF_DAEMON}",
                self.result_folder()
            )
        }
    }

    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": "drover",
            "app.kubernetes.io/instance": self.name,
        })
    }

    fn labels_of(&self, component: &str) -> Value {
        let mut labels = self.labels();
        labels["app.kubernetes.io/component"] = json!(component);
        labels
    }

    fn metadata(&self, name: &str) -> Value {
        let mut metadata = json!({ "name": name, "labels": self.labels() });
        if let Some(namespace) = &self.options.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata
    }

    fn batch_job(&self, name: &str, mut spec: Value) -> Value {
        spec["activeDeadlineSeconds"] = json!(self.job.limit.as_secs());
        let mut metadata = self.metadata(name);
        metadata["labels"] = spec["template"]["metadata"]["labels"].clone();
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec })
    }

    /// Returns the template of a pod with one container.
    fn pod(&self, component: &str, command: &[&str], arguments: &[String]) -> Value {
        let options = self.options;
        let resources = json!({ "cpu": options.cpus, "memory": options.memory });
        let address = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
        let container = json!({
            "name": component,
            "image": options.image,
            "command": command,
            "args": arguments,
            "env": [
                { "name": "POD_IP", "valueFrom": address },
                // Builds of daemons are kept below it, and the root file system is read-only.
                { "name": "HOME", "value": "/tmp" },
            ],
            "resources": { "requests": resources, "limits": resources },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": [
                { "name": "plan", "mountPath": PLAN_FOLDER, "readOnly": true },
                { "name": "results", "mountPath": RESULTS },
                { "name": "tmp", "mountPath": "/tmp" },
            ],
        });
        json!({
            "metadata": { "labels": self.labels_of(component) },
            "spec": {
                "subdomain": self.name,
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                // The variables of a service `http-load` would be taken for options of the driver of that name.
                "enableServiceLinks": false,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "fsGroup": USER,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [container],
                "volumes": [
                    { "name": "plan", "configMap": { "name": self.name } },
                    { "name": "results", "persistentVolumeClaim": { "claimName": options.claim } },
                    { "name": "tmp", "emptyDir": {} },
                ],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_plan_becomes_one_that_objects_can_have() {
        assert_eq!(default_name("http"), "drover-http");
        assert_eq!(default_name("Slow_server.2"), "drover-slow-server-2");
        assert_eq!(default_name("__"), "drover");
        for plan in ["http", "Slow_server.2", "__", &"long-".repeat(30)] {
            assert!(parse_name(&default_name(plan)).is_ok(), "{plan}");
        }
    }

    #[test]
    fn names_and_quantities_that_the_cluster_would_refuse_are_refused() {
        assert!(parse_name(&"a".repeat(LONGEST_NAME)).is_ok());
        for name in ["", "A", "a_b", "-a", "a-", "1a", "a.b", &"a".repeat(57)] {
            assert!(parse_name(name).is_err(), "{name}");
        }
        for quantity in ["2", "0.5", "500m", "4Gi", "1.5G"] {
            assert!(parse_quantity(quantity).is_ok(), "{quantity}");
        }
        for quantity in ["", "0", "-1", "2 ", "inf", "4GiB", "2cpus", "1e3"] {
            assert!(parse_quantity(quantity).is_err(), "{quantity}");
        }
    }

    #[test]
    fn kubernetes_passes_on_an_argument_as_it_was_given() {
        assert_eq!(literal("$(POD_IP) $$ $HOME"), "$$(POD_IP) $$$$ $$HOME");
    }
}
