//! The surroundings of a daemon: its environment, its log and its scratch directory.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use harness_testing::assert_contains;
use subject::daemon::Options;

use crate::project::{Project, script};

#[tokio::test]
async fn a_flood_on_stderr_neither_blocks_nor_fills_memory_or_disk() {
    let text = "yes 'a line of noise' | head -c 300000000 >&2; echo ready; exec sleep 1000";
    let project = Project::with("floods", &script(text));
    let options = Options {
        log_limit: 1 << 20,
        ..Options::default()
    };
    let mut daemon = project
        .prepare("floods")
        .unwrap()
        .start(&[], &options)
        .await
        .unwrap();
    let shortened = async {
        while std::fs::metadata(daemon.log_path()).unwrap().blocks() * 512 > options.log_limit {
            // Between two looks; the log is shortened by a task of this runtime, so nothing here may block.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shortened)
        .await
        .unwrap();
    assert_eq!(daemon.last_lines(1), "ready");
    let kept = std::io::read_to_string(daemon.open_log().unwrap()).unwrap();
    assert!(kept.contains("bytes above this line were dropped"));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak_kb: u64 = status
        .split("VmHWM:")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        peak_kb < 200_000,
        "the flood of 300 MB went through memory: {peak_kb} kB"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_sees_only_the_listed_environment() {
    let manifest = "env = { OWN = 'of {port}', BOTH = 'manifest' }\n".to_owned()
        + &script("env | sort; echo ready; exec sleep 1000");
    let project = Project::with("environment", &manifest);
    let extra = [("BOTH".to_owned(), "extra".to_owned())];
    let daemon = project
        .prepare("environment")
        .unwrap()
        .start(&extra, &Options::default())
        .await
        .unwrap();
    let log = std::fs::read_to_string(daemon.log_path()).unwrap();
    let names: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    // The last three are set by the shell itself.
    let allowed = [
        "PATH", "HOME", "LANG", "TZ", "TMPDIR", "OWN", "BOTH", "PWD", "OLDPWD", "SHLVL", "_",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    assert_contains(
        &log,
        &[
            "BOTH=extra\n",
            &format!("OWN=of {}\n", daemon.endpoint().port.unwrap()),
        ],
    );
    assert!(
        std::env::vars().any(|(name, _)| !allowed.contains(&name.as_str())),
        "the test's own environment is too small to show it"
    );
}

#[tokio::test]
async fn the_commands_beside_run_see_the_listed_environment_and_what_the_manifest_names() {
    let manifest = "needs = [['sh', '-c', 'env >{build}/needs']]\n\
                    build = [['sh', '-c', 'env >{build}/build']]\n\
                    test = [['sh', '-c', 'env >{build}/test']]\n\
                    version = ['sh', '-c', 'env >{build}/version; echo 1']\n\
                    env = { OWN = 'of {dir}', OF_A_RUN = '{port}' }\npass_env = ['CARGO_PKG_NAME']\n"
        .to_owned()
        + &script("env | sort; echo ready; exec sleep 1000");
    let project = Project::with("environments", &manifest);
    // A build creates it, but the tools are checked before.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || project.root().join("target"),
        |set| std::path::absolute(set).unwrap(),
    );
    std::fs::create_dir_all(target.join("daemons/environments")).unwrap();
    let prepared = project.prepare("environments").unwrap();
    let log = prepared.test().unwrap();
    let daemon = prepared.start(&[], &Options::default()).await.unwrap();
    let seen = ["needs", "build", "test", "version"]
        .map(|command| log.with_file_name(command))
        .into_iter()
        .chain([daemon.log_path().to_owned()]);
    for (place, file) in seen.enumerate() {
        let text = std::fs::read_to_string(&file).unwrap();
        let has = |line: &str| text.lines().any(|it| it == line);
        let starts = |name: &str| text.lines().any(|line| line.starts_with(name));
        let own = format!("OWN=of {}", project.dir("environments").display());
        assert!(has(&own), "{}: {text}", file.display());
        // Set by the caller of this test, and passed on by name or not at all.
        assert!(has("CARGO_PKG_NAME=subject"), "{}: {text}", file.display());
        assert!(!starts("CARGO_MANIFEST_DIR"), "{}: {text}", file.display());
        let is_of_run = place == 4;
        assert_eq!(starts("OF_A_RUN="), is_of_run, "{}: {text}", file.display());
        assert_eq!(starts("CARGO_TARGET_DIR="), !is_of_run, "{text}");
    }
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
}

#[tokio::test]
async fn the_scratch_directory_stays_on_request() {
    let project = Project::with("kept", &script("echo ready; exec sleep 1000"));
    let options = Options {
        keep_scratch: true,
        ..Options::default()
    };
    let daemon = project
        .prepare("kept")
        .unwrap()
        .start(&[], &options)
        .await
        .unwrap();
    let log = daemon.log_path().to_owned();
    drop(daemon);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ready\n");
    std::fs::remove_dir_all(log.parent().unwrap()).unwrap();
}
