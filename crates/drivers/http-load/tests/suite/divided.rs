//! One run that is divided over several programs, and merged.

use std::fs;
use std::process::Stdio;

use harness_testing::divided::DividedRun;
use harness_testing::processes::{send, wait_until};
use harness_testing::program::{ended_with, words};
use harness_testing::result::ResultFile;
use harness_testing::rows;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{PROGRAM, program};
use crate::servers::{url, well};

/// Starts three shards of a rate against a server.
fn three(url: &str, seconds: &str) -> DividedRun {
    let mut run = DividedRun::new(PROGRAM);
    let load = format!("{url} -R 300 -c 30 -d {seconds} --threads 1");
    run.start_shards(3, &words(&load));
    run
}

/// Waits until a shard drives its load.
fn wait_for_start(run: &DividedRun) {
    let go = run.folder().join("go");
    wait_until("the shards agree on a start", || go.exists());
    let live = run.folder().join("shard-1/live.jsonl");
    wait_until("a second has passed", || {
        fs::metadata(&live).is_ok_and(|file| file.len() > 0)
    });
}

fn sum(run: &DividedRun, of: impl Fn(&ResultFile) -> u64) -> u64 {
    (0..3).map(|index| of(&run.shard(index))).sum()
}

#[test]
fn three_shards_make_one_result_in_which_nothing_is_missing_or_twice() {
    let server = well();
    let mut run = three(&url(&server), "3s");
    run.wait_for_results();
    let (merged, _, report) = run.merge();
    let started = merged.operations("started");
    // A rate of 300 for 3 s, as one program would start it.
    assert_eq!(started + merged.operations("missed"), 900, "{report}");
    assert_eq!(started, sum(&run, |shard| shard.operations("started")));
    assert_eq!(
        merged.count("bytes"),
        sum(&run, |shard| shard.count("bytes"))
    );
    assert_eq!(
        merged.values("response"),
        sum(&run, |shard| shard.values("response"))
    );
    assert_eq!(merged["shards"].as_array().unwrap().len(), 3);
    let rows = merged["seconds"].as_array().unwrap();
    let in_rows: u64 = rows
        .iter()
        .filter_map(|row| row["counts"]["started"].as_u64())
        .sum();
    assert_eq!(in_rows, started);
    // Each row has a second of all shards: a third of the rate each.
    assert_eq!(rows[0]["second"], 0);
    for index in 0..3 {
        let shard = run.shard(index);
        assert_eq!(shard["run_id"], merged["run_id"]);
        assert_eq!(
            shard["part"]["origin_unix_ns"],
            run.shard(0)["part"]["origin_unix_ns"]
        );
        assert_eq!(
            shard.operations("started") + shard.operations("missed"),
            300
        );
    }
    let commands = merged["commands"].as_array().unwrap();
    let of_shards = commands.iter().enumerate().all(|(index, command)| {
        let command = command.as_str().unwrap();
        command.starts_with("http-load --result-dir ")
            && command.contains(&format!(" --shard {index}/3 "))
    });
    assert!(commands.len() == 3 && of_shards, "{commands:?}");
    assert!(run.folder().join("report.html").is_file());
    assert!(report.contains("3 shards"), "{report}");
    assert!(
        merged.warning("ShardsMissing").is_none(),
        "{}",
        merged["warnings"]
    );
    assert!(
        merged.warning("CountsDisagree").is_none(),
        "{}",
        merged["warnings"]
    );
    // As if a program had launched a daemon, and been killed.
    fs::write(run.folder().join("daemon.json"), "").unwrap();
    let (merged, code, _) = run.merge();
    let warning = merged.warning("ShardsMissing").unwrap();
    assert_eq!((code, &warning["severity"]), (3, &Value::from("suspect")));
    fs::create_dir(run.folder().join("daemon")).unwrap();
    fs::write(run.folder().join("daemon/result.json"), "").unwrap();
    let (merged, code, _) = run.merge();
    let warning = merged.warning("ShardsMissing").unwrap().to_string();
    assert!(
        code == 3 && warning.contains("daemon/SHA256SUMS"),
        "{warning}"
    );
}

#[test]
fn a_shard_divides_its_share_over_processes_of_its_own() {
    let server = well();
    let mut run = DividedRun::new(PROGRAM);
    let url = url(&server);
    let load = ["-R", "300", "-c", "30", "-d", "2s", "--keep-open"];
    let share = ["--processes", "2", "--threads", "1"];
    run.start_shards(2, &[&[url.as_str()][..], &load, &share].concat());
    run.wait_for_results();
    let (merged, _, report) = run.merge();
    assert_eq!(merged.number("/processes"), 4, "{report}");
    assert_eq!(merged.count("opened"), 30, "{report}");
    let due = |result: &ResultFile| result.operations("started") + result.operations("missed");
    let shards = [run.shard(0), run.shard(1)];
    assert_eq!(shards.each_ref().map(due), [300, 300]);
    assert_eq!(due(&merged), 600);
    // All four begin the load together, once all connections are open.
    let opening = |result: &ResultFile| result["facts"]["opening"].clone();
    assert_eq!(opening(&shards[0])["complete"], true);
    let begins = shards
        .each_ref()
        .map(|shard| opening(shard)["took_s"].clone());
    assert_eq!(begins[0], begins[1], "both count from one start");
    // Two of each check, and the load's.
    assert_eq!(server.finish().connections, 30 + 2 * 2);
}

#[test]
fn a_shard_that_was_killed_is_named_and_the_rest_is_kept() {
    let server = well();
    let mut run = three(&url(&server), "4s");
    wait_for_start(&run);
    send(run.process(1), Signal::SIGKILL);
    let codes: Vec<Option<i32>> = run.wait().iter().map(|part| part.status.code()).collect();
    assert_eq!(codes[1], None);
    let (merged, code, report) = run.merge();
    assert_eq!((code, &merged["verdict"]), (3, &Value::from("INVALID")));
    for text in [&report, &merged["warnings"].to_string()] {
        assert!(text.contains("1 of 3 shards are missing: 1"), "{text}");
    }
    let missing = merged.operations("missed");
    assert_eq!(
        merged.operations("started") + missing,
        800,
        "two of three shares"
    );
}

#[test]
fn the_daemons_part_ends_soon_after_the_others_if_a_shard_is_killed_and_says_so_before() {
    let mut run = DividedRun::new(PROGRAM);
    // Operations may take ten minutes, and so may the end of a shard.
    let load = ["-R", "30", "-d", "3s", "--timeout", "10m"];
    let load = [&load[..], &["--threads", "1"]].concat();
    run.start_shards(2, &load);
    let mut daemon = std::process::Command::new(PROGRAM);
    daemon.arg("--result-dir").arg(run.folder());
    daemon.args(["--role", "daemon", "--daemon", "http-daemon"]);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    daemon.args(load).current_dir(root);
    daemon.stdout(Stdio::null()).stderr(Stdio::piped());
    run.start_command(daemon);
    wait_for_start(&run);
    send(run.process(1), Signal::SIGKILL);
    let ended = run.wait();
    let words = ["No sign of life", "shard 1", "Result: "];
    let code = ended[2].status.code().unwrap();
    assert!(matches!(code, 0 | 3), "{:?}", ended[2]);
    ended_with(&ended[2], code, &words, &"daemon");
    let (merged, code, report) = run.merge();
    assert_eq!(code, 3, "{report}");
    assert_eq!(merged.operations("failed"), 0, "{report}");
}

#[test]
fn an_interrupted_shard_makes_the_whole_run_suspect() {
    let server = well();
    let mut run = three(&url(&server), "6s");
    wait_for_start(&run);
    send(run.process(1), Signal::SIGINT);
    run.wait_for_results();
    let (merged, code, report) = run.merge();
    assert_eq!(code, 3, "{report}");
    let warning = merged.warning("Interrupted").unwrap();
    assert!(
        warning["message"]
            .as_str()
            .unwrap()
            .starts_with("shard 1 on "),
        "{warning}"
    );
    assert!(merged.warning("ShardsMissing").is_none());
}

#[test]
fn a_threshold_is_judged_for_the_whole_load() {
    let server = well();
    let mut run = DividedRun::new(PROGRAM);
    let url = url(&server);
    let load = format!("{url} -R 300 -d 2s --threads 1 --threshold 'rate >= 250'");
    run.start_shards(2, &words(&load));
    run.wait_for_results();
    assert_eq!(run.shard(0)["thresholds"], Value::Array(Vec::new()));
    let (merged, _, _) = run.merge();
    assert_eq!(
        merged["thresholds"][0]["met"], true,
        "{}",
        merged["thresholds"]
    );
}

#[test]
fn shards_that_know_the_time_need_not_wait_for_each_other() {
    let server = well();
    let mut run = DividedRun::new(PROGRAM);
    let at = (load::clock::unix_ns() / 1_000_000_000 + 8).to_string();
    let url = url(&server);
    let load = format!("{url} -R 100 -d 1s --threads 1 --start-at {at}");
    run.start_shards(2, &words(&load));
    run.wait_for_results();
    assert!(!run.folder().join("go").exists());
    let (merged, _, report) = run.merge();
    let missed = merged.operations("missed");
    assert_eq!(merged.operations("started") + missed, 100, "{report}");
}

#[test]
fn shards_that_cannot_run_together_end_at_once_and_say_why() {
    let server = well();
    let url = url(&server);
    let mut run = DividedRun::new(PROGRAM);
    for (shard, rate) in [("0/3", "10"), ("1/3", "20"), ("2/3", "10")] {
        run.start(&["--shard", shard, &url, "-R", rate, "-d", "60s"]);
    }
    let ended = run.wait();
    ended_with(
        &ended[0],
        2,
        &["shard 1 on", "another plan", "--print-plan"],
        &"shard 0",
    );
    for shard in &ended[1..] {
        ended_with(shard, 1, &["shard 0 failed", "another plan"], &"others");
    }
    // A folder is for one run.
    let again = run.part(&["--shard", "0/3", &url]).output().unwrap();
    ended_with(
        &again,
        2,
        &["--result-dir", "ready-0", "new folder"],
        &"again",
    );
    let none = run.try_merge();
    ended_with(&none, 2, &["has no shard-I/result.json"], &"merge");
}

#[test]
fn shards_end_with_the_part_that_cannot_launch_their_daemon() {
    let mut run = DividedRun::new(PROGRAM);
    let shard = ["--role", "load", "--shard", "0/1"];
    run.start(&[&shard[..], &["--shard-timeout", "60s"]].concat());
    run.start(&["--role", "daemon", "--daemon", "no-such-daemon"]);
    let ended = run.wait();
    ended_with(&ended[1], 2, &["no-such-daemon"], &"daemon");
    let words = ["the part with the daemon failed", "no-such-daemon"];
    ended_with(&ended[0], 1, &words, &"shard");
}

#[test]
fn shards_end_with_the_part_whose_call_is_refused() {
    let server = well();
    let url = url(&server);
    for (wrong, words) in [
        (&["-R", "1", "-R", "2"][..], "cannot be used multiple times"),
        (&["--no-such-option"], "--no-such-option"),
        (&["-d", "soon"], "soon"),
        (&["--plan", "/no/such/plan.toml"], "/no/such/plan.toml"),
        (&["--threshold", "nothing < 1"], "nothing"),
    ] {
        let mut run = DividedRun::new(PROGRAM);
        run.start(&["--shard", "0/2", "--shard-timeout", "60s", &url]);
        let waits = run.folder().join("ready-0");
        wait_until("a shard waits", || waits.exists());
        // Nobody waits for a call that only prints the plan.
        let look = run.part(&[&["--shard=1/2", "--print-plan", &url], wrong].concat());
        ended_with(&{ look }.output().unwrap(), 2, &[words], &wrong);
        run.start(&[&["--shard=1/2", &url], wrong].concat());
        let ended = run.wait();
        ended_with(&ended[1], 2, &[words], &wrong);
        ended_with(&ended[0], 1, &["shard 1 failed", words], &wrong);
        // The result of another run is not touched.
        let told = || fs::read_to_string(run.folder().join("failed-0")).unwrap();
        let before = told();
        let again = run.part(&["--shard", "0/2", "--again"]).output();
        ended_with(&again.unwrap(), 2, &["--again"], &"again");
        assert_eq!(told(), before);
    }
}

#[test]
fn a_shard_that_is_not_ready_is_named() {
    let server = well();
    let url = url(&server);
    let run = DividedRun::new(PROGRAM);
    let alone = run
        .part(&["--shard", "0/3", "--shard-timeout", "300ms", &url])
        .output()
        .unwrap();
    let words = ["2 of 3 shards to be ready, 1–2", "--shard-timeout"];
    ended_with(&alone, 1, &words, &"alone");
}

#[test]
fn results_of_different_runs_are_not_merged() {
    let server = well();
    let mut run = DividedRun::new(PROGRAM);
    let url = url(&server);
    run.start_shards(2, &[&url, "-R", "100", "-d", "1s", "--threads", "1"]);
    run.wait_for_results();
    let path = run.folder().join("shard-1/result.json");
    let whole = fs::read_to_string(&path).unwrap();
    let (shard, first) = (run.shard(1), run.folder().join("shard-0/result.json"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for (content, words) in [
        (
            whole.replace(&text(&shard["run_id"]), "another"),
            ["has run another", "new folder"],
        ),
        (
            whole.replace(&text(&shard["part"]["plan_sha256"]), "0000"),
            ["has plan 0000", "same plan"],
        ),
        (
            fs::read_to_string(first).unwrap(),
            ["is shard 0 again", "one result"],
        ),
    ] {
        fs::write(&path, content).unwrap();
        sha256sum(&run, "result.json seconds.jsonl > SHA256SUMS");
        ended_with(&run.try_merge(), 2, &words, &"merge");
    }
}

/// Calls sha256sum in the folder of shard 1.
fn sha256sum(run: &DividedRun, arguments: &str) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("sha256sum {arguments}")]);
    shell.current_dir(run.folder().join("shard-1"));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_damaged_shard_counts_as_missing_and_is_named_and_the_rest_is_reported() {
    let server = well();
    let mut run = three(&url(&server), "2s");
    run.wait_for_results();
    sha256sum(&run, "--check --strict SHA256SUMS");
    let shard = run.folder().join("shard-1");
    let (result, seconds) = ("result.json", "seconds.jsonl");
    let [whole, rows, sums] =
        [result, seconds, "SHA256SUMS"].map(|name| fs::read_to_string(shard.join(name)).unwrap());
    let (first, rest) = rows.split_once('\n').unwrap();
    let edited = |text: &str| text.replace("\"started\":", "\"started\":1");
    assert_ne!(edited(&rows), rows);
    let without_series = {
        let mut result: Value = serde_json::from_str(&whole).unwrap();
        result["series"] = Value::Array(Vec::new());
        result.to_string()
    };
    for (name, content) in [
        (result, Some(whole[..whole.len() / 2].to_owned())),
        (result, Some("not JSON".to_owned())),
        (result, Some(edited(&whole))),
        (result, Some(without_series)),
        (seconds, None),
        (seconds, Some(String::new())),
        (seconds, Some(rows[..rows.len() / 2].to_owned())),
        (seconds, Some(rest.to_owned())),
        (seconds, Some(format!("{first}\n{rows}"))),
        (seconds, Some(edited(&rows))),
        ("SHA256SUMS", None),
        ("SHA256SUMS", Some(sums[..sums.len() / 2].to_owned())),
    ] {
        let intact = fs::read(shard.join(name)).unwrap();
        match &content {
            Some(content) => fs::write(shard.join(name), content).unwrap(),
            None => fs::remove_file(shard.join(name)).unwrap(),
        }
        let (merged, code, report) = run.merge();
        assert_eq!((code, &merged["verdict"]), (3, &Value::from("INVALID")));
        let message = merged.warning("ShardsMissing").unwrap()["message"].to_string();
        for words in ["1 of 3 shards are missing: 1", "/shard-1/", name] {
            assert!(message.contains(words), "{name}: {message}");
            assert!(report.contains(words), "{name}: {report}");
        }
        let others = [0, 2].map(|index| run.shard(index).operations("started"));
        assert_eq!(merged.operations("started"), others.iter().sum::<u64>());
        fs::write(shard.join(name), intact).unwrap();
    }
    // Everything is as it was: the merge is complete.
    let (merged, _, _) = run.merge();
    assert_eq!(merged["shards"].as_array().unwrap().len(), 3);
    for index in 0..3 {
        let path = run.folder().join(format!("shard-{index}/result.json"));
        fs::write(path, "").unwrap();
    }
    let none = run.try_merge();
    ended_with(&none, 2, &["no shard can be merged", "shard-2"], &"none");
}

#[test]
fn options_that_contradict_each_other_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let dir = dir.to_str().unwrap();
    let server = well();
    let url = url(&server);
    let calls = "
        --shard 0/2 {url} => --result-dir
        --result-dir {dir} {url} => --result-dir … --shard I/N … --role daemon
        --result-dir {dir} --shard 2/2 {url} => --shard 2/2 … 0/2 to 1/2
        --result-dir {dir} --shard auto {url} => SLURM_STEP_ID … srun
        --result-dir {dir} --role daemon --shard 0/2 => --role daemon … leave out --shard
        --result-dir {dir} --role daemon {url} => --role … --role load
        --result-dir {dir} --shard 0/2 --start-at 2020-01-01T00:00:00Z {url} => --start-at … ago
        merge {dir}/none => reading
    ";
    for (call, parts) in rows(&calls.replace("{dir}", dir).replace("{url}", &url)) {
        let mut command = std::process::Command::new(PROGRAM);
        // No engine has started this test.
        command.env_remove("SLURM_STEP_ID").args(words(call));
        ended_with(&command.output().unwrap(), 2, &parts, &call);
    }
    let not_divided = program(&[&url, "-d", "100ms"]).run();
    let merge = std::process::Command::new(PROGRAM)
        .args(["merge"])
        .arg(dir)
        .output();
    assert_eq!(merge.unwrap().status.code(), Some(2));
    assert!(not_divided.result["part"].is_null());
}

#[test]
fn descriptors_are_judged_for_the_share() {
    let server = well();
    let with = |shard: &str, code: i32, parts: &[&str]| {
        let run = DividedRun::new(PROGRAM);
        let url = url(&server);
        let load = format!("--shard {shard} {url} -c 1200 -d 1s --threads 1 --processes 1");
        let part = run.part(&words(&load));
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "ulimit -n 700; exec \"$@\"", "sh"]);
        limited.arg(part.get_program()).args(part.get_args());
        limited.args(["--shard-timeout", "1s"]);
        let output = limited.output().unwrap();
        ended_with(&output, code, parts, &limited);
    };
    with(
        "0/1",
        5,
        &["each process of the driver needs 1300 open files"],
    );
    // A third of the connections fits.
    with("0/3", 1, &["waited 1s for 2 of 3 shards"]);
}
