//! The options that shape a load: the fields of a plan that each sets.

use amqp_perftest::driver::Perftest;
use clap::Arg;
use fdpass_gen::driver::FdPass;
use harness::cli::{DriverCli, command, job};
use http_load::HttpLoad;
use issue_stress::IssueStress;
use presence_load::PresenceLoad;
use tempfile::NamedTempFile;

/// Options on which the defaults of other fields depend where no plan is given.
const DEFAULTS: [(&str, &[&str]); 5] = [
    ("fdpass-gen", &["rate", "stream-timeout"]),
    ("amqp-perftest", &["churn"]),
    (
        "http-load",
        &["connections", "keep-open", "stage", "rate-stage", "timeout"],
    ),
    ("presence-load", &["mode", "ack-timeout"]),
    ("issue-stress", &["scenario", "duration", "rate"]),
];

#[test]
fn an_option_changes_a_plan_of_a_file_as_it_changes_the_default_one() {
    check::<FdPass>();
    check::<Perftest>();
    check::<HttpLoad>();
    check::<PresenceLoad>();
    check::<IssueStress>();
}

#[track_caller]
fn check<D: DriverCli>() {
    let name = &*D::SPEC.driver;
    let depended = DEFAULTS.iter().find(|(driver, _)| *driver == name);
    let (_, depended) = depended.unwrap();
    let file = NamedTempFile::new().unwrap();
    let mut default = plan::<D>(&[]);
    // These are chosen for the daemon where a plan leaves them open.
    default.remove("daemon_env");
    let settings = default["driver"].as_table_mut().unwrap();
    settings.retain(|field, _| !["engine", "path"].contains(&field));
    std::fs::write(file.path(), default.to_string()).unwrap();
    let file = format!("--plan={}", file.path().display());
    for option in command::<D>()
        .get_opts()
        .filter(|option| shapes_a_load(option))
    {
        let words = typed(option);
        let of_file = plan::<D>(&[&[file.clone()], &*words].concat());
        assert_ne!(of_file, plan::<D>(&[]), "{name}: {words:?} changes nothing");
        let is_same = of_file == plan::<D>(&words);
        let depends = depended.contains(&option.get_long().unwrap());
        assert_eq!(is_same, !depends, "{name}: {words:?} on a plan: {of_file}");
    }
}

/// Returns true if an option says what the load is, and not what is measured, where, and how it is reported.
fn shapes_a_load(option: &Arg) -> bool {
    let others = ["Common options", "One run on several machines"];
    let heading = option.get_help_heading();
    let is_other = heading.is_none_or(|heading| others.contains(&heading));
    // wrk's option is accepted and changes nothing.
    !is_other && option.get_long() != Some("latency")
}

/// Returns an option with a value that differs from its default, and with the option that it requires.
fn typed(option: &Arg) -> Vec<String> {
    let long = option.get_long().unwrap();
    let values = option.get_possible_values();
    let is_default = |name: &str| {
        option
            .get_default_values()
            .iter()
            .any(|value| value == name)
    };
    let mut names = values
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .rev();
    let value = match names.find(|name| !is_default(name)) {
        Some(name) => name,
        None => sample(option),
    };
    let word = match option.get_action().takes_values() {
        true => format!("--{long}={value}"),
        false => format!("--{long}"),
    };
    let required = match long {
        "queue-pattern" => Some("--queue-pattern-to=7"),
        "queue-pattern-to" => Some("--queue-pattern=q%d"),
        "streams" => Some("--http2"),
        _ => None,
    };
    [word]
        .into_iter()
        .chain(required.map(str::to_owned))
        .collect()
}

/// Returns a value of the form that an option takes.
fn sample(option: &Arg) -> &'static str {
    let names = option.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    match name.split('[').next().unwrap() {
        "BYTES:SECONDS" | "RATE:SECONDS" => "7:7",
        "DURATION:USERS" | "DURATION:PER_SECOND" => "7s:7",
        "KEY=VALUE" => "key=7",
        "BOOL" => "false",
        "DURATION" => "7s",
        "FILE" => concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        "SHARE" => "0.7",
        _ => "7",
    }
}

/// Returns the plan of a call.
#[track_caller]
fn plan<D: DriverCli>(words: &[String]) -> toml::Table {
    let name = D::SPEC.driver.clone().into_owned();
    let typed = command::<D>().try_get_matches_from([&[name], words].concat());
    let job = job::<D>(typed.unwrap()).map_err(|failure| format!("{words:?}: {failure}"));
    job.unwrap().plan.to_table().unwrap()
}
