//! Options of a run that is divided over several programs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use load::clock;
use load::plan::Invalid;
use load::schedule::Share;
use measure::shard::Role;

use super::{two_dashes, variables};
use crate::divided::{DividedRun, MOST_SHARDS};

/// Options of a run that is divided over several programs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "One run on several machines")]
pub struct ShardOptions {
    /// Drive share I of N, from 0/N to N-1/N; `auto` takes both from Slurm, Open MPI or MPICH, and `auto/N` takes the
    /// index of a Kubernetes job
    #[arg(long, value_name = "I/N|auto|auto/N", requires = "result_dir")]
    pub shard: Option<String>,
    /// Use this folder to agree with the other parts of the run on the start, and store the result below it; the
    /// command `merge` makes one result of all
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "into", "repeat", "output"])]
    pub result_dir: Option<PathBuf>,
    /// Begin at this time in UTC, such as 2026-01-31T12:00:00Z, or Unix seconds [default: once all shards are ready]
    #[arg(long, value_name = "TIME", requires = "shard")]
    pub start_at: Option<String>,
    /// Drive a share (`load`), launch the daemon and observe it until all shards have ended (`daemon`), or drive a
    /// share against a daemon of its own (`both`) [default with --shard: load]
    #[arg(long, value_name = "ROLE", requires = "result_dir", value_parser = parse_role)]
    pub role: Option<Role>,
    /// Let the launched daemon listen on this address, so that other machines reach it [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", requires = "result_dir", value_parser = super::common::ip_address)]
    pub listen: Option<IpAddr>,
    /// Wait this long for the other parts of the run to be ready
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "result_dir", value_parser = load::duration::parse)]
    pub shard_timeout: Option<Duration>,
}

fn parse_role(text: &str) -> Result<Role, String> {
    match text {
        "load" => Ok(Role::Load),
        "daemon" => Ok(Role::Daemon),
        "both" => Ok(Role::Both),
        _ => Err("must be load, daemon or both".to_owned()),
    }
}

impl ShardOptions {
    /// Returns this program's part in a divided run, or `None` if the run is not divided. `plan` is the whole plan,
    /// and `has_target` says whether the call names a running daemon.
    ///
    /// # Errors
    /// Options that contradict each other, or a variable of an engine that is missing.
    pub(super) fn divided(
        &self,
        plan: serde_json::Value,
        has_target: bool,
    ) -> Result<Option<DividedRun>, Invalid> {
        let Some(folder) = &self.result_dir else {
            return Ok(None);
        };
        let share = self
            .shard
            .as_deref()
            .map(|text| parse_share(text, |name| std::env::var(name).ok()))
            .transpose()?;
        let role = match (self.role, share) {
            (Some(Role::Daemon), Some(_)) => {
                let problem = "launches the daemon and drives no share: leave out --shard, or take --role both";
                return Err(Invalid::new("--role daemon", problem));
            }
            (Some(Role::Daemon | Role::Both), _) if has_target => {
                let problem = "launches a daemon: leave out the address of the running one, or take --role load";
                return Err(Invalid::new("--role", problem));
            }
            (Some(Role::Load | Role::Both) | None, None) => {
                let problem =
                    "needs the share to drive (--shard I/N or --shard auto), or --role daemon";
                return Err(Invalid::new("--result-dir", problem));
            }
            (role, _) => role.unwrap_or(Role::Load),
        };
        let start_at = self.start_at.as_deref().map(parse_time).transpose()?;
        let limit = self.shard_timeout.unwrap_or(Duration::from_secs(600));
        DividedRun::new(role, share, folder, start_at, limit, plan).map(Some)
    }
}

/// Tells the other parts of a divided run that a call of this part was refused. Such a call cannot be read as a whole,
/// so only its words and variables that name the part are read.
pub(super) fn tell_refused(program: &str, reason: &str) {
    let words: Vec<String> = std::env::args_os()
        .map(|word| two_dashes(word).to_string_lossy().into_owned())
        .collect();
    // Nothing was to run, or nobody waits.
    let alone = |word: &String| word == "--print-plan" || word.starts_with("--start-at");
    if words.iter().any(alone) {
        return;
    }
    let option = |name: &str| {
        let flag = format!("--{name}");
        let mut at = words.iter().enumerate();
        let typed = at.find_map(|(index, word)| match word.strip_prefix(&flag)? {
            "" => words.get(index + 1).cloned(),
            value => value.strip_prefix('=').map(str::to_owned),
        });
        typed.or_else(|| std::env::var(variables::name(program, name)).ok())
    };
    let options = ShardOptions {
        shard: option("shard"),
        result_dir: option("result-dir").map(PathBuf::from),
        role: option("role").and_then(|role| parse_role(&role).ok()),
        ..ShardOptions::default()
    };
    // A part that cannot be read has no name to tell, and one that has begun or failed has told it.
    if let Ok(Some(divided)) = options.divided(serde_json::Value::Null, false) {
        divided.give_up(reason);
    }
}

/// Reads a share: `2/8`, or `auto` and `auto/8`, which take the rest from the variables of an engine.
fn parse_share(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Share, Invalid> {
    let wrong = |problem: &str| Invalid::new(format!("--shard {text}"), problem);
    let (index, of) = match text.split_once('/') {
        None if text == "auto" => from_engine(&variable).ok_or_else(|| {
            wrong(
                "found no task of Slurm (inside srun: SLURM_STEP_ID and SLURM_PROCID), Open MPI (OMPI_COMM_WORLD_RANK) or MPICH (PMI_RANK): start this program with srun or mpirun, or give I/N; in a Kubernetes job give auto/N",
            )
        })?,
        Some(("auto", of)) => {
            let index = variable("JOB_COMPLETION_INDEX")
                .or_else(|| from_engine(&variable).map(|(index, _)| index))
                .ok_or_else(|| {
                    wrong("JOB_COMPLETION_INDEX is not set: run it in an Indexed Job, or give I/N")
                })?;
            (index, of.to_owned())
        }
        Some((index, of)) => (index.to_owned(), of.to_owned()),
        None => return Err(wrong("must be I/N, such as 0/3, or auto, or auto/N")),
    };
    let number = |part: &str| part.parse::<u64>().ok();
    match (number(&index), number(&of)) {
        (Some(index), Some(of @ 1..=MOST_SHARDS)) if index < of => Ok(Share { index, of }),
        (Some(index), Some(of @ 1..=MOST_SHARDS)) => Err(wrong(&format!(
            "there is no share {index} of {of}: the shares are 0/{of} to {}/{of}",
            of - 1
        ))),
        (Some(_), Some(_)) => Err(wrong(&format!(
            "the number of shards must be from 1 to {MOST_SHARDS}"
        ))),
        _ => Err(wrong("must be two numbers, such as 0/3")),
    }
}

/// Returns the index and the number of tasks of the engine that started this program. A batch script of Slurm has a
/// `SLURM_PROCID` of 0 too, so a step is required: every shard would be 0 otherwise.
fn from_engine(variable: &impl Fn(&str) -> Option<String>) -> Option<(String, String)> {
    let pair = |index: &str, of: &str| Some((variable(index)?, variable(of)?));
    let slurm = || {
        variable("SLURM_STEP_ID")?;
        pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
            .or_else(|| pair("SLURM_PROCID", "SLURM_NTASKS"))
    };
    slurm()
        .or_else(|| pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
        .or_else(|| pair("PMI_RANK", "PMI_SIZE"))
}

/// Reads a time as Unix nanoseconds. It must not have passed.
fn parse_time(text: &str) -> Result<u64, Invalid> {
    let wrong = |problem: String| Invalid::new(format!("--start-at {text}"), problem);
    let unix_ns = match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => (seconds * 1e9) as u64,
        _ => {
            let time = humantime::parse_rfc3339(text).map_err(|_| {
                wrong(
                    "must be a time in UTC with its Z, such as 2026-01-31T12:00:00Z, or Unix seconds"
                        .to_owned(),
                )
            })?;
            let since = time
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            since.as_nanos() as u64
        }
    };
    let now = clock::unix_ns();
    if unix_ns < now {
        let past = Duration::from_secs((now - unix_ns) / 1_000_000_000);
        let past = humantime::format_duration(past);
        return Err(wrong(format!(
            "was {past} ago: give a time that leaves all shards enough to start (date -u prints this machine's time)"
        )));
    }
    Ok(unix_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::assert_contains;

    fn share(text: &str, variables: &[(&str, &str)]) -> Result<(u64, u64), String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        parse_share(text, variable)
            .map(|share| (share.index, share.of))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_share_is_given_or_taken_from_the_engine() {
        let slurm = [
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "2"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_NTASKS", "9"),
        ];
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];
        let mpich = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
        let job = [("JOB_COMPLETION_INDEX", "5")];
        for (text, variables, expected) in [
            ("2/8", &[][..], (2, 8)),
            ("auto", &slurm, (2, 3)),
            ("auto", &mpi, (1, 4)),
            ("auto", &mpich, (3, 4)),
            ("auto/6", &job, (5, 6)),
            ("auto/4", &mpi, (1, 4)),
        ] {
            assert_eq!(share(text, variables), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_share_that_cannot_be_is_refused_with_the_remedy() {
        // Inside a batch script, but outside of srun.
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "3")];
        for (text, variables, words) in [
            ("3/3", &[][..], "the shares are 0/3 to 2/3"),
            ("0/0", &[], "from 1 to"),
            ("1", &[], "must be I/N"),
            ("a/b", &[], "two numbers"),
            ("auto", &[], "SLURM_STEP_ID"),
            ("auto", &batch, "srun"),
            ("auto/3", &[], "JOB_COMPLETION_INDEX"),
            ("auto/3", &[("JOB_COMPLETION_INDEX", "3")], "0/3 to 2/3"),
        ] {
            let error = share(text, variables).unwrap_err();
            assert_contains(&error, &["--shard", words]);
        }
    }

    #[test]
    fn a_start_is_a_time_to_come() {
        let soon = clock::unix_ns() / 1_000_000_000 + 60;
        let parsed = parse_time(&soon.to_string()).unwrap();
        assert!(parsed.abs_diff(soon * 1_000_000_000) < 1_000);
        assert!(parse_time("2100-01-31T12:00:00Z").is_ok());
        for (text, words) in [
            ("2020-01-31T12:00:00Z", "ago"),
            ("soon", "in UTC"),
            // Nobody can tell whose time it is.
            ("2100-01-31T12:00:00", "with its Z"),
            ("2100-01-31 12:00:00", "with its Z"),
            ("2100-01-31T12:00:00+02:00", "with its Z"),
        ] {
            let error = parse_time(text).unwrap_err().to_string();
            assert_contains(&error, &["--start-at", words]);
        }
    }
}
