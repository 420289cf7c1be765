//! Tests of the command line.

use harness::cli;

use super::*;
use crate::settings::Mode;
use std::time::Duration;

fn plan(words: &str) -> Plan<Settings> {
    let words = std::iter::once("presence-load").chain(words.split_whitespace());
    let words = names::translate(words.map(OsString::from).collect(), |_| None).unwrap();
    let typed = cli::command::<PresenceLoad>().try_get_matches_from(words);
    let plan = cli::job::<PresenceLoad>(typed.unwrap()).unwrap().plan;
    plan.validate().unwrap();
    plan
}

#[test]
fn each_mode_has_the_defaults_of_its_script() {
    let protocol = plan("http://127.0.0.1:3000");
    let seconds = |seconds| Duration::from_secs(seconds);
    assert_eq!(
        (protocol.driver.rooms, protocol.driver.users_per_room),
        (100, 2)
    );
    assert_eq!(protocol.groups[0].rate, Some(2_000.0));
    assert_eq!(
        (protocol.timeline.measure, protocol.driver.ramp_up),
        (seconds(300), seconds(60))
    );
    assert_eq!(
        (protocol.driver.report_interval, protocol.driver.ack_timeout),
        (seconds(5), seconds(2))
    );
    let sdk = plan("--mode sdk");
    assert_eq!((sdk.driver.mode, sdk.driver.rooms), (Mode::Sdk, 10));
    assert_eq!(sdk.groups[0].rate, Some(20.0));
    assert_eq!(
        (sdk.timeline.measure, sdk.driver.ramp_up),
        (seconds(60), seconds(10))
    );
}

#[test]
fn a_closed_loop_has_one_client_for_each_user_that_sends() {
    let plan = plan("--loop closed --rooms 5 --users-per-room 4 --slow-consumers 2 --half-open 1");
    assert_eq!((plan.groups[0].clients, plan.groups[0].rate), (17, None));
    Settings::validate(&plan).unwrap();
    let sdk = self::plan("--mode sdk --loop closed --slow-consumers 3 --churn 1");
    assert_eq!((sdk.groups[0].clients, sdk.groups[0].rate), (17, None));
    Settings::validate(&sdk).unwrap();
}

#[test]
fn held_users_send_a_heartbeat_each_ten_seconds_from_many_addresses() {
    let plan = plan("--keep-open --rooms 10000 --users-per-room 10 --ramp-up 50s");
    assert_eq!(plan.groups[0].rate, Some(10_000.0));
    assert_eq!(plan.driver.source_addresses, ["auto"]);
    assert_eq!(plan.driver.opening(), Duration::from_secs(80));
}

#[test]
fn the_reference_s_limits_are_thresholds() {
    let plan = plan("--reference-limits");
    assert_eq!(plan.thresholds(&crate::spec::SPEC).unwrap().len(), 4);
}

#[test]
fn settings_that_do_not_fit_are_refused_by_name() {
    for (words, field) in [
        ("--rooms 0", "driver.rooms (--rooms)"),
        ("--rooms 5000000 --users-per-room 5", "driver.rooms"),
        (
            "--rooms 10 --users-per-room 100000",
            "driver.users_per_room",
        ),
        (
            "--rooms 1 --users-per-room 2 --slow-consumers 1 --half-open 1",
            "driver.slow_consumers",
        ),
        ("--heartbeats-per-sec 0", "driver.heartbeats_per_sec"),
        ("--heartbeats-per-sec 1000000", "driver.heartbeats_per_sec"),
        ("--churn 0", "driver.churn"),
        ("--churn 1 --churn-cut 2", "driver.churn_cut"),
        ("--ack-timeout 0s", "driver.ack_timeout"),
        ("--open-timeout 5s", "driver.open_timeout"),
        ("--padding 2000000", "driver.padding"),
        ("--tick 20ms", "driver.tick (--tick)"),
        ("--tick 5ms --timer spin", "driver.tick"),
        ("--tick 5ms --loop closed", "driver.tick"),
        ("--mode sdk --transport upgrade", "driver.transport"),
        ("--mode sdk --half-open 1", "driver.half_open"),
        ("--mode sdk --keep-open", "driver.source_addresses"),
    ] {
        let error = Settings::validate(&plan(words)).unwrap_err();
        assert!(error.field.starts_with(field), "{words}: {error}");
    }
}
