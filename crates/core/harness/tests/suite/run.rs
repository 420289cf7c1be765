//! Tests a run with a test driver: workers that fail, and the time and the counts of a run.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use harness::divided::DividedRun;
use harness::merge::merge;
use harness::part::Part;
use harness::run::{External, Settings, Subject, run};
use harness::signals::Signals;
use harness::store::Folder;
use harness_testing::assert_contains;
use harness_testing::processes::wait_until;
use load::clock::{self, Timer};
use load::driver::{Cancellation, Checked, Description, Driver, Target, ValidPlan, Worker};
use load::pacer::Tick;
use load::plan::{Group, Invalid, Plan, Timeline};
use load::schedule::Share;
use load::workers::WorkerRange;
use measure::isolation::Isolation;
use measure::result::RunResult;
use measure::shard::Role;
use measure::spec::{SeriesRole, SeriesSpec, Spec};
use measure::tally::Series;
use measure::warning::{Kind, Verdict};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

const RESPONSE: Series = Series(0);
static SPEC: Spec = Spec {
    driver: Cow::Borrowed("toy"),
    protocol: Cow::Borrowed("toy"),
    series: Cow::Borrowed(&[SeriesSpec::new("response", SeriesRole::Headline)]),
    ..Spec::UNKNOWN
};

/// The behaviour of the driver's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Behaviour {
    Work,
    OnePanics,
    OneFails,
    OneHangs,
    CheckFails,
    OpensLate,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ToySettings {
    behaviour: Behaviour,
}

#[derive(Debug)]
struct Toy(Behaviour);

impl Driver for Toy {
    const SPEC: &'static Spec = &SPEC;
    type Config = ToySettings;
    type Shared = ();

    fn validate(plan: &mut Plan<ToySettings>) -> Result<Description, Invalid> {
        let sentence = "Play.".to_owned();
        let opens = plan.driver.behaviour == Behaviour::OpensLate;
        Ok(Description {
            opening: opens.then_some(Duration::from_millis(100)),
            ..Description::new(plan, &SPEC, sentence, RESPONSE, 0)
        })
    }

    fn setup(plan: &Plan<ToySettings>, _: &Target, _: &WorkerRange) -> anyhow::Result<Self> {
        Ok(Self(plan.driver.behaviour))
    }

    fn check(&self) -> anyhow::Result<Checked> {
        anyhow::ensure!(self.0 != Behaviour::CheckFails, "the answer is wrong");
        Ok(Checked::default())
    }

    /// Performs one operation at a time, each of 1 ms, like the loop of a driver whose clients are tasks.
    async fn work(&self, mut worker: Worker) -> anyhow::Result<()> {
        let timer = Timer::new()?;
        let mut done = 0;
        loop {
            let start = match worker.pacer.poll(clock::now()) {
                Tick::Ready(start) => start,
                Tick::Wait(due) => {
                    timer.sleep_until(due).await;
                    continue;
                }
                Tick::Over => return Ok(()),
            };
            worker.record.begin();
            if let Some(late) = start.lag {
                worker.record.lag(late);
            }
            timer.sleep_until(clock::now() + 1_000_000).await;
            worker.record.value(RESPONSE, clock::now() - start.at);
            worker.record.ok();
            worker.record.tick(clock::now());
            done += 1;
            let first = start.index % 2 == 0;
            match self.0 {
                Behaviour::OnePanics if first && done == 3 => panic!("out of luck"),
                Behaviour::OneFails if first && done == 3 => anyhow::bail!("out of words"),
                Behaviour::OpensLate => worker.opening.report_open(),
                Behaviour::OneHangs if first && done == 3 => {
                    hang_and_interrupt(&worker.cancellation)
                }
                _ => {}
            }
        }
    }
}

/// Interrupts this process twice and never returns. Two equal signals in quick succession merge to one, so the first
/// must have been handled.
fn hang_and_interrupt(cancellation: &Cancellation) -> ! {
    kill(Pid::this(), Signal::SIGINT).unwrap();
    wait_until("the load is cancelled", || {
        cancellation.deadline().is_some()
    });
    kill(Pid::this(), Signal::SIGINT).unwrap();
    loop {
        std::thread::park();
    }
}

/// Returns a plan of 100 operations in 1 s, shared by two workers.
fn plan(behaviour: Behaviour) -> Plan<ToySettings> {
    let group = Group {
        rate: Some(100.0),
        ..Group::new("open", 0)
    };
    let timeline = Timeline::new(Duration::from_secs(1), Duration::from_secs(5));
    Plan::new("toy", timeline, vec![group], ToySettings { behaviour })
}

/// Runs the plan on a current-thread runtime, as the command line does.
fn play(behaviour: Behaviour) -> anyhow::Result<(RunResult, tempfile::TempDir)> {
    let out = tempfile::tempdir()?;
    let folder = Folder::reserve(out.path(), "host", "toy", "none", "1")?;
    let result = play_into(&folder, behaviour, Part::Whole)?;
    let path = folder.write_result(&result)?;
    let kept: RunResult = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    assert_eq!(kept, result, "what is stored is what is known");
    Ok((result, out))
}

fn play_into(folder: &Folder, behaviour: Behaviour, part: Part) -> anyhow::Result<RunResult> {
    let settings = Settings {
        lines_on_stdout: false,
        processes: 1,
        threads: 2,
        metrics_addr: None,
        quiet: true,
        listen: None,
        isolation: Isolation::default(),
        flamegraph: None,
        part,
    };
    let subject = External::new(
        Target::at(PathBuf::from("/nowhere")),
        None,
        Vec::new(),
        Vec::new(),
    )?;
    let subject = Subject::External(subject);
    let plan = ValidPlan::new::<Toy>(plan(behaviour))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        run::<Toy>(&plan, &subject, &settings, folder, &mut signals).await
    })
}

fn failure(result: &RunResult) -> String {
    let failed = result
        .warnings
        .iter()
        .find(|warning| warning.kind == Kind::WorkersFailed);
    failed.expect("a warning").message.clone()
}

#[test]
fn a_run_starts_what_was_due_and_accounts_for_all_of_it() {
    let (result, _) = play(Behaviour::Work).unwrap();
    assert_eq!(
        (result.operations.started, result.operations.ok),
        (100, 100)
    );
    assert!(result.operations.add_up());
    assert_eq!(result.series("response").unwrap().count, 100);
    assert!(
        result.series("response").unwrap().min_ns >= 999_000,
        "an operation takes 1 ms"
    );
    let rows: u64 = result
        .seconds
        .iter()
        .map(|second| second.counts["started"])
        .sum();
    assert_eq!(rows, 100);
    let system = result.usage.system.expect("the machine was looked at");
    assert!(
        system.available_min_kb > 0
            && system.available_min_kb <= system.available_baseline_kb
            && system.slab_peak_kb >= system.slab_baseline_kb
            && system.slab_baseline_kb > system.slab_unreclaimable_baseline_kb,
        "{system:?}"
    );
}

#[test]
fn a_panic_in_one_worker_ends_neither_the_run_nor_the_result() {
    let (result, _) = play(Behaviour::OnePanics).unwrap();
    assert!(failure(&result).contains("1 of 2 workers failed; the first: panicked: out of luck"));
    assert_eq!(
        result.operations.ok,
        50 + 3,
        "the other worker did its share"
    );
    assert_eq!(result.verdict, Verdict::Invalid);
}

#[test]
fn an_error_of_one_worker_is_told_with_its_reason() {
    let (result, _) = play(Behaviour::OneFails).unwrap();
    assert!(failure(&result).contains("out of words"));
    assert_eq!(result.operations.ok, 53);
}

#[test]
fn nothing_is_measured_where_the_check_fails() {
    let error = format!("{:#}", play(Behaviour::CheckFails).unwrap_err());
    assert!(error.contains("the answer is wrong"), "{error}");
}

#[test]
fn connections_that_open_after_the_load_has_begun_do_not_complete_the_opening() {
    let (result, _) = play(Behaviour::OpensLate).unwrap();
    let opening = result.audit_inputs.opening.unwrap();
    assert_eq!((opening.took_s, opening.complete), (0.1, false));
}

/// In a process of its own, since it interrupts the whole process.
#[test]
fn a_thread_that_hangs_does_not_outlive_the_second_interruption() {
    const ALONE: &str = "DROVER_TEST_HUNG_THREAD";
    const TEST: &str = "run::a_thread_that_hangs_does_not_outlive_the_second_interruption";
    if std::env::var_os(ALONE).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let (result, _) = play(Behaviour::OneHangs).unwrap();
    let failure = failure(&result);
    assert_contains(&failure, &["did not end after the second interruption"]);
    assert!(result.operations.add_up());
    assert!(result.operations.ok >= 3, "{:?}", result.operations);
}

#[test]
fn a_merge_of_one_shard_is_the_run() {
    for behaviour in [Behaviour::Work, Behaviour::OneFails, Behaviour::OnePanics] {
        let whole = tempfile::tempdir().unwrap();
        let stored = plan(behaviour).to_json().unwrap();
        let share = Some(Share { index: 0, of: 1 });
        let limit = Duration::from_secs(60);
        let divided =
            DividedRun::new(Role::Both, share, whole.path(), None, limit, stored).unwrap();
        let folder = Folder::at(&divided.result_folder()).unwrap();
        let run = play_into(&folder, behaviour, Part::Divided(divided)).unwrap();
        folder.write_part(&run).unwrap();
        let merged = merge::<Toy>(whole.path()).unwrap();
        // Warnings name the shard, samples have whole seconds, and a disturbance belongs to one machine.
        let kinds = |result: &RunResult| -> BTreeSet<String> {
            let kinds = result.warnings.iter().map(|warning| warning.kind);
            kinds.map(|kind| format!("{kind:?}")).collect()
        };
        assert_eq!(kinds(&merged), kinds(&run));
        let mut expected = run.clone();
        expected.part = None;
        expected.shards.clone_from(&merged.shards);
        expected.warnings.clone_from(&merged.warnings);
        expected.resources.clone_from(&merged.resources);
        expected.usage.clone_from(&merged.usage);
        assert_eq!(merged, expected);
    }
}
