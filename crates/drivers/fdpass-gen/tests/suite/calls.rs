//! Calls and plans: what is refused, with field and remedy, and what is printed.

use std::path::Path;
use std::process::Command;

use harness_testing::program::words;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::SockType;

use crate::drive;
use crate::target::{Target, right};

#[test]
fn a_call_that_cannot_be_right_is_refused_with_field_and_remedy() {
    drive::refused("--socket /dev/null", &["--socket /dev/null"]);
    drive::refused("--connections 0", &["clients", "at least 1"]);
    drive::refused("--connections 99999999999", &["clients", "lower"]);
    drive::refused("--connections many", &["--connections"]);
    drive::refused("--rate 0", &["rate"]);
    drive::refused("--rate -5", &["rate"]);
    drive::refused("--rate inf", &["--rate", "not a number"]);
    drive::refused("--ramp-up soon", &["--ramp-up", "1m30s"]);
    drive::refused("--hold 0s --ramp-up 0s --rate 5", &["timeline.measure"]);
    drive::refused("--stream-timeout 0s", &["stream_timeout"]);
    drive::refused("--data-file /nowhere/data", &["--data-file /nowhere/data"]);
    drive::refused("--retry 99", &["retries"]);
    drive::refused("--message-delay 500000000000h", &["message_delay"]);
    let quick = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../configs/fdpass/quick.toml"
    );
    drive::refused(
        &format!("--plan {quick} --set level=../../x"),
        &["level: `../../x`", "folder"],
    );
    drive::refused(
        &format!("--plan {quick} --set timeline.measure=1s"),
        &["groups[0].ramp", "lengthen timeline.measure"],
    );
    drive::refused("--abort-after 0", &["abort_after"]);
    drive::refused("--never-read --abort-after 3", &["never_read"]);
    drive::refused("--daemon nonesuch", &["nonesuch", "rust-streaming"]);
    drive::refused("--output /nowhere/x.json", &["--output /nowhere/x.json"]);
    drive::refused("--processes 0", &["--processes"]);
    drive::refused("--format full", &["terminal, markdown"]);
    drive::refused("--nonsense", &["--nonsense"]);
}

#[test]
fn an_argument_that_is_no_text_and_a_reader_that_is_gone_are_no_panic() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let output = drive::program(folder.path())
        .arg(std::ffi::OsStr::from_bytes(b"\xff"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = drive::program(folder.path())
        .arg("--print-plan")
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_payload_above_the_record_limit_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "x".repeat(16 << 20)).unwrap();
    drive::refused(
        &format!("--data-file {}", file.to_str().unwrap()),
        &["--data", "record limit", "16777216"],
    );
}

#[test]
fn a_socket_of_the_other_type_is_refused_where_one_was_asked_for() {
    let target = Target::start(SockType::Stream, |_| right(1));
    drive::refused(
        &format!(
            "--socket {} --socket-type seqpacket",
            target.path().to_str().unwrap()
        ),
        &["--socket-type auto"],
    );
}

#[test]
fn more_streams_than_files_can_be_open_names_limit_need_and_two_commands() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let limit = hard.to_string();
    let parts = ["5000100", &limit, "ulimit", "prlimit", "--instances"];
    drive::refused_with(5, "--connections 5000000", &parts);
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_the_run() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let mut program = Command::new(env!("CARGO_BIN_EXE_fdpass-gen"));
    let output = program
        .arg("--socket")
        .arg(target.path())
        .args(words("--out /proc/nowhere"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), said.contains("--out /proc/nowhere")),
        (Some(2), true),
        "{said}"
    );
    assert_eq!(target.stop(), 0);
}

#[test]
fn a_plan_says_which_key_is_unknown_and_a_printed_plan_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "name = \"x\"\nconections = 5\n").unwrap();
    drive::refused(&format!("--plan {path}"), &["conections", "plan.toml"]);
    drive::refused("--plan /nowhere/plan.toml", &["/nowhere/plan.toml"]);

    let print = |arguments: &str| {
        let mut program = drive::program(folder.path());
        let output = program.args(words(arguments)).arg("--print-plan").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let printed = print("--rate 12.5 --arrival poisson --data {}");
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(print(&format!("--plan {path}")), printed);
    let changed = print(&format!("--plan {path} --set groups.0.rate=99"));
    assert!(changed.contains("rate = 99"), "{changed}");
    drive::refused(
        &format!("--plan {path} --set groups.0.nonsense=1"),
        &["nonsense"],
    );
    drive::refused(
        &format!("--plan {path} --set groups.7.rate=1"),
        &["groups.7.rate"],
    );
}

#[test]
fn every_plan_of_the_project_can_be_run_and_printed_again() {
    let folder = tempfile::tempdir().unwrap();
    let plans = std::fs::read_dir(drive::root().join("configs/fdpass")).unwrap();
    let plans = plans.flatten().map(|entry| entry.path());
    for plan in plans.filter(|path| path.extension().is_some_and(|it| it == "toml")) {
        let printed = |plan: &Path| {
            let mut program = drive::program(folder.path());
            let output = program.arg("--plan").arg(plan).arg("--print-plan").output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", plan.display());
            output.stdout
        };
        let first = printed(&plan);
        let again = folder.path().join("again.toml");
        std::fs::write(&again, &first).unwrap();
        assert_eq!(printed(&again), first, "{}", plan.display());
    }
}
