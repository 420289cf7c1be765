//! Tests of the files that the parts of a run leave for each other.

use load::driver::SharedProgress;

use super::*;

fn part(folder: &Path, role: Role, share: Option<Share>) -> DividedRun {
    let limit = Duration::from_secs(1);
    let plan = serde_json::Value::Null;
    DividedRun::new(role, share, folder, None, limit, plan).unwrap()
}

/// Returns the shards of a run of three.
fn three(folder: &Path) -> [DividedRun; 3] {
    [0, 1, 2].map(|index| part(folder, Role::Load, Some(Share { index, of: 3 })))
}

#[test]
fn the_last_shard_adds_up_what_the_others_have_begun_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let shards = three(folder.path());
    let [first, second, last] = &shards;
    let progress = || {
        shards
            .each_ref()
            .map(|shard| shard.shared_progress().unwrap())
    };
    first.report_open(5).unwrap();
    last.report_open(-3).unwrap();
    assert_eq!(progress(), [None; 3], "the second may begin more");
    second.report_open(0).unwrap();
    assert_eq!(
        last.shared_progress().unwrap(),
        Some(SharedProgress::AllBegun)
    );
    assert_eq!(progress(), [Some(SharedProgress::AllBegun); 3]);
    last.report_open(-5).unwrap();
    assert_eq!(
        last.shared_progress().unwrap(),
        Some(SharedProgress::AllEnded)
    );
    assert_eq!(progress(), [Some(SharedProgress::AllEnded); 3]);
}

#[test]
fn one_shard_is_the_last_to_leave() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, last] = three(folder.path());
    assert!(!first.leave().unwrap());
    assert!(!last.leave().unwrap());
    assert!(second.leave().unwrap());
    // It left at the same time as another.
    assert!(!last.leave().unwrap());
    assert!(!part(folder.path(), Role::Daemon, None).leave().unwrap());
}

#[test]
fn programs_of_the_run_on_this_machine_are_no_strangers() {
    let folder = tempfile::tempdir().unwrap();
    let run = |role, share| part(folder.path(), role, share);
    let divided = run(Role::Load, Some(Share { index: 0, of: 3 }));
    let this = Program::this("here");
    let ready = |index: u64, program: Program| {
        let ready = Ready {
            of: 3,
            plan_sha256: String::new(),
            version: String::new(),
            program,
        };
        write(&folder.path().join(format!("ready-{index}")), &ready).unwrap();
    };
    let with_pid = |pid| Program {
        pid,
        ..this.clone()
    };
    ready(0, this.clone());
    ready(1, with_pid(7));
    let elsewhere = Program {
        processes: "another boot".to_owned(),
        ..with_pid(8)
    };
    ready(2, elsewhere);
    let daemon = PublishedDaemon {
        name: "daemon".to_owned(),
        target: load::driver::Target::at("/run/daemon.sock".into()),
        by: with_pid(9),
    };
    run(Role::Daemon, None).publish(&daemon).unwrap();
    let mut siblings = divided.siblings("here");
    siblings.sort_unstable();
    assert_eq!(siblings, [7, 9]);
}
