//! Tests of the files that the parts of a run leave for each other.

use super::*;

#[test]
fn programs_of_the_run_on_this_machine_are_no_strangers() {
    let folder = tempfile::tempdir().unwrap();
    let run = |role, share| {
        let limit = Duration::from_secs(1);
        let plan = serde_json::Value::Null;
        DividedRun::new(role, share, folder.path(), None, limit, plan).unwrap()
    };
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
