//! A batch script for Slurm: one job on nodes that it shares with nobody, with a step for the daemon and its sampler, and
//! one for the shards.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use harness::command_line::quoted;
use harness::failure::Failure;
use harness::output;
use harness::progress::StepLine;

use super::{Job, absolute};
use crate::driver_program;
use crate::project::Project;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct SlurmOptions {
    #[command(flatten)]
    shared: super::RunOptions,
    /// Store the parts and the merged result in this folder, which all nodes reach
    #[arg(long, value_name = "DIR")]
    result_dir: PathBuf,
    /// Run this program on the nodes [default: the driver of the plan, as it is found here]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Run this many shards on each node
    #[arg(long, value_name = "N", default_value_t = 1)]
    tasks_per_node: u32,
    /// Let the daemon listen on this address [default: the first address of its node]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::IpAddr>,
    /// Add this option of sbatch, such as --partition=bench. Repeat it for more
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Send the job to sbatch, instead of printing the script
    #[arg(long)]
    submit: bool,
}

/// Prints the batch script, or submits it.
///
/// # Errors
/// A wrong call, or a job that sbatch refuses.
pub(super) fn run(project: &Project, options: &SlurmOptions) -> Result<(), Failure> {
    let job = Job::read(project, &options.shared).map_err(Failure::Call)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            let mut line = StepLine::new(false);
            let found = driver_program::program(&job.driver, &mut |step| line.show(step));
            found.map_err(Failure::Run)?
        }
    };
    let program = absolute(&program).map_err(Failure::Call)?;
    let folder = absolute(&options.result_dir).map_err(Failure::Call)?;
    let script = script(&job, options, &program, &folder);
    super::refuse_secrets(&script)
        .context("the script")
        .map_err(Failure::Call)?;
    // Slurm writes the output of the script there, and creates no folder for it: the job would fail without a message.
    std::fs::create_dir_all(&folder)
        .with_context(|| {
            format!("creating {folder} (--result-dir): name a folder that this machine and all nodes reach")
        })
        .map_err(Failure::Call)?;
    if options.submit {
        let remedy = "submit on a machine with Slurm's client programs, or leave out --submit and copy the script";
        super::submit("sbatch", &[], &script, remedy).map_err(Failure::Run)
    } else {
        Ok(output::print_exactly(&script)?)
    }
}

/// Returns the batch script.
///
/// The daemon and the shards are two steps of one job. As components of a heterogeneous job they would not survive the loss
/// of a node: Slurm then ends or requeues the first component, with the script, whatever `--no-kill` says.
fn script(job: &Job, options: &SlurmOptions, program: &str, folder: &str) -> String {
    let shared = &options.shared;
    let shards = shared.shards;
    let load_nodes = shards.div_ceil(options.tasks_per_node);
    let daemon_nodes = u32::from(!job.own_daemons);
    let words = [
        "--plan".to_owned(),
        job.plan.display().to_string(),
        "--daemon".to_owned(),
        job.daemon.clone(),
        "--result-dir".to_owned(),
        folder.to_owned(),
    ];
    let words = words.iter().chain(&shared.driver_options);
    let words: Vec<String> = words.map(|word| quoted(word)).collect();
    let step = |part: &str, log: &str, place: &str| {
        // The other tasks go on if one fails or loses its node.
        format!(
            "srun --no-kill --kill-on-bad-exit=0 --cpu-bind=cores {place} --output={} \\\n  {} {part} --quiet {} &\n",
            quoted(&format!("{folder}/{log}")),
            quoted(program),
            words.join(" ")
        )
    };
    let mut script = format!(
        "#!/bin/bash\n# {} as {shards} shards: made by `drover cluster slurm`, to be submitted with sbatch.\n",
        job.name
    );
    let name = quoted(&format!("drover-{}", job.name));
    let output = format!("{folder}/slurm-%j.out");
    let lines = [
        format!("--job-name={name}"),
        format!("--output={}", quoted(&output)),
        format!("--nodes={}", daemon_nodes + load_nodes),
        "--exclusive".to_owned(),
        format!("--time={}", job.limit.as_secs().div_ceil(60)),
        // What is there is merged if a node is lost, and nothing is started twice.
        "--no-kill".to_owned(),
        "--no-requeue".to_owned(),
    ];
    for line in lines.iter().chain(&options.sbatch) {
        script += &format!("#SBATCH {line}\n");
    }
    script += "\nulimit -n \"$(ulimit -Hn)\"\n";
    let of_load = format!(
        "--nodes={load_nodes} --ntasks={shards} --ntasks-per-node={} --relative={daemon_nodes}",
        options.tasks_per_node
    );
    if job.own_daemons {
        script += &step("--shard auto --role both", "shard-%t.log", &of_load);
    } else {
        // The script runs on the first node, and so does the daemon.
        let listen = options.listen.map_or_else(
            || "\"$(hostname -I | cut -d ' ' -f 1)\"".to_owned(),
            |address| address.to_string(),
        );
        let part = format!("--role daemon --listen {listen}");
        script += &step(&part, "daemon.log", "--nodes=1 --ntasks=1 --relative=0");
        script += &step("--shard auto", "shard-%t.log", &of_load);
    }
    // The state of the job is no proof that every shard has a result: the merge is.
    script += &format!("wait\n{} merge {}\n", quoted(program), quoted(folder));
    script
}
