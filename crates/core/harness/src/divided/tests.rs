//! Tests of the files that the parts of a run leave for each other.

use load::driver::SharedProgress;

use super::*;

fn part(folder: &Path, role: Role, share: Option<Share>) -> DividedRun {
    let limit = Duration::from_secs(60);
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
fn the_last_shard_waits_for_the_others_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, last] = three(folder.path());
    let last = std::thread::spawn(move || last.leave().unwrap());
    assert!(!first.leave().unwrap());
    assert!(!second.leave().unwrap());
    assert!(last.join().unwrap());
    assert!(!part(folder.path(), Role::Daemon, None).leave().unwrap());
}

#[test]
fn programs_of_the_run_on_this_machine_are_no_strangers() {
    let folder = tempfile::tempdir().unwrap();
    let run = |role, share| part(folder.path(), role, share);
    let divided = run(Role::Load, Some(Share { index: 0, of: 3 }));
    let this = ProgramId::this("here");
    let ready = |index: u64, program: ProgramId| {
        let ready = Ready {
            of: 3,
            plan_sha256: String::new(),
            version: String::new(),
            program,
        };
        write(&folder.path().join(format!("ready-{index}")), &ready).unwrap();
    };
    let with_pid = |pid| ProgramId {
        pid,
        ..this.clone()
    };
    ready(0, this.clone());
    ready(1, with_pid(7));
    let elsewhere = ProgramId {
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

#[tokio::test]
async fn a_daemon_that_only_its_own_machine_reaches_is_refused_on_others_with_the_remedy() {
    for (address, words) in [
        (
            "http://127.0.0.1:22898/a",
            "http://127.0.0.1:22898/a of there",
        ),
        ("amqp://guest:x@localhost:5672", "--listen ADDRESS"),
        ("http://[::1]:80", "--listen ADDRESS"),
        ("/run/daemon.sock", "--role both"),
        ("http://10.0.0.1:80/http://127.0.0.1", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut by = ProgramId::this("there");
        by.pid = 9;
        let target = if address.starts_with('/') {
            load::driver::Target::at(address.into())
        } else {
            load::driver::Target::of_urls(vec![address.to_owned()])
        };
        let name = "daemon".to_owned();
        let daemon = PublishedDaemon { name, target, by };
        part(folder.path(), Role::Daemon, None)
            .publish(&daemon)
            .unwrap();
        let shard = part(folder.path(), Role::Load, Some(Share { index: 0, of: 1 }));
        assert_eq!(shard.published_daemon("there").await.unwrap(), daemon);
        let elsewhere = shard.published_daemon("here").await;
        let problem = elsewhere.map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(problem.is_empty(), words.is_empty(), "{address}: {problem}");
        assert!(
            problem.contains(words) && !problem.contains(":x@"),
            "{problem}"
        );
    }
}

#[test]
fn the_files_of_shards_show_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(Shards::find(folder.path()).is_none());
    let ready = Ready {
        of: 4,
        plan_sha256: String::new(),
        version: String::new(),
        program: ProgramId::this("here"),
    };
    write(&path("ready-1"), &ready).unwrap();
    let (mut shards, _) = Shards::find(folder.path()).unwrap();
    let states = |shards: &Shards| -> Vec<ShardState> {
        let shards = shards.all().iter();
        shards.map(|shard| shard.state.clone()).collect()
    };
    use ShardState::{Absent, Ended, Failed, Ready as IsReady, Running};
    assert_eq!(states(&shards), [Absent, IsReady, Absent, Absent]);
    for index in 0..3 {
        fs::create_dir(path(&format!("shard-{index}"))).unwrap();
    }
    let second = crate::live::tests::second;
    let line = |number| serde_json::to_string(&second(number)).unwrap() + "\n";
    let live = |index: u64, text: String| {
        fs::write(path(&format!("shard-{index}/live.jsonl")), text).unwrap();
    };
    live(0, line(1));
    live(1, line(1) + &line(2));
    // Half a line is left out.
    live(2, line(1)[..9].to_owned());
    assert_eq!(shards.refresh(), [second(1), second(1), second(2)]);
    assert_eq!(states(&shards), [Running, Running, Absent, Absent]);
    assert_eq!(shards.all()[1].last, Some(second(2)));
    assert_eq!(shards.all()[1].host.as_deref(), Some("here"));
    fs::write(path("failed-3"), "no port").unwrap();
    let result = measure::result::RunResult::default();
    let result = serde_json::to_string(&result).unwrap();
    fs::write(path("shard-0/result.json"), &result).unwrap();
    fs::write(path("shard-1/result.json"), &result[..9]).unwrap();
    live(2, line(1));
    assert_eq!(shards.refresh(), [second(1)]);
    let [first, second, third, fourth] = states(&shards).try_into().unwrap();
    assert!(matches!(first, Ended(_)) && third == Running);
    assert!(matches!(second, Failed(reason) if reason.contains("result.json is damaged")));
    assert_eq!(fourth, Failed("no port".to_owned()));
    // A program that begins to watch knows the silence from the file.
    let file = fs::File::options()
        .append(true)
        .open(path("shard-2/live.jsonl"));
    let before = std::time::SystemTime::now() - Duration::from_secs(60);
    file.unwrap().set_modified(before).unwrap();
    let (found, _) = Shards::find(folder.path()).unwrap();
    assert!(found.all()[2].silent_ns() >= 59_000_000_000);
    assert!(found.all()[3].silent_ns() < 59_000_000_000);
}

#[test]
fn a_name_that_is_not_listed_is_not_looked_up() {
    // /proc lists processes only, but a thread is found by its number: reading the folder would be an error.
    let (send, thread) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        send.send(nix::unistd::gettid()).unwrap();
        let _ = wait.recv();
    });
    let thread = thread.recv().unwrap().to_string();
    assert!(Path::new("/proc").join(&thread).exists());
    assert_eq!(look(Path::new("/proc"), &thread).unwrap(), (None, None));
    drop(end);
    other.join().unwrap();
}

#[test]
fn a_folder_that_shows_files_late_gets_a_longer_head_start() {
    let (quick, slow) = (Duration::from_millis(20), Duration::from_secs(13));
    assert_eq!(head_start(quick, true), LOCAL_HEAD_START);
    assert_eq!(head_start(quick, false), REMOTE_HEAD_START);
    assert_eq!(head_start(slow, true), 2 * slow);
}

#[tokio::test]
async fn the_start_is_set_once_every_shard_has_seen_both_probes_of_this_moment() {
    let folder = tempfile::tempdir().unwrap();
    let shard = |index| {
        let share = Some(Share { index, of: 2 });
        let limit = Duration::from_secs(60);
        let plan = serde_json::Value::Null;
        DividedRun::new(Role::Load, share, folder.path(), None, limit, plan).unwrap()
    };
    let (first, second) = (shard(0), shard(1));
    let ready = Ready {
        of: 2,
        plan_sha256: second.plan_sha256.clone(),
        version: String::new(),
        program: ProgramId::this("here"),
    };
    write(&folder.path().join("ready-1"), &ready).unwrap();
    let start = tokio::spawn(async move { first.meet(START, "here").await });
    for (probe, seen) in [("probe-0", "seen-0-1"), ("probe-1", "seen-1-1")] {
        let () = second.wait_for(probe, |_| String::new()).await.unwrap();
        assert!(!folder.path().join(START.go).exists());
        write(&folder.path().join(seen), &()).unwrap();
    }
    let before = clock::unix_ns();
    let go = start.await.unwrap().unwrap();
    assert!(go.at_unix_ns > before);
}

#[tokio::test]
async fn shards_of_one_machine_begin_at_one_instant_of_its_monotonic_clock() {
    let folder = tempfile::tempdir().unwrap();
    let shard = |index| part(folder.path(), Role::Load, Some(Share { index, of: 2 }));
    let (first, second) = (shard(0), shard(1));
    let (first_start, second_start) = tokio::join!(first.start("here"), second.start("here"));
    let start = first_start.unwrap();
    // Conversions from the wall clock would differ by nanoseconds.
    assert_eq!(second_start.unwrap(), start);
    let begins = tokio::join!(
        first.load_begin(&start, "here"),
        second.load_begin(&start, "here")
    );
    assert!(begins.0.is_some_and(|begin| begin > start.origin));
    assert_eq!(begins.0, begins.1);
    let mut go: Go = serde_json::from_slice(&fs::read(folder.path().join("go")).unwrap()).unwrap();
    assert_eq!(go.monotonic("here"), Some(start.origin));
    "another boot".clone_into(&mut go.processes);
    assert_eq!(go.monotonic("here"), None);
}

#[test]
fn a_shard_that_reads_the_start_a_second_late_drives_nothing() {
    assert!(refuse_late(500_000_000).is_ok());
    let refused = refuse_late(13_400_000_000).unwrap_err().to_string();
    assert!(refused.contains("13.4 s ago"), "{refused}");
}
