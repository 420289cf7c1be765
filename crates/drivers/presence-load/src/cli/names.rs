//! The names that the reference's scripts use: environment variables, and options of the same names.

use std::ffi::OsString;

use harness::failure::Failure;
use load::plan::Invalid;

/// A name of the reference.
struct Name {
    variable: &'static str,
    /// The option in the spelling of the variable.
    theirs: &'static str,
    /// The option of this program.
    ours: &'static str,
    /// Another spelling of the option, which takes precedence over the variable as well.
    alias: &'static str,
    kind: ValueKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Value,
    Milliseconds,
    Flag,
}

const fn name(
    variable: &'static str,
    theirs: &'static str,
    ours: &'static str,
    kind: ValueKind,
) -> Name {
    Name {
        variable,
        theirs,
        ours,
        alias: theirs,
        kind,
    }
}

const NAMES: [Name; 9] = [
    Name {
        alias: "--daemon",
        ..name("TARGET_URL", "--target-url", "--url", ValueKind::Value)
    },
    name("ROOM_COUNT", "--room-count", "--rooms", ValueKind::Value),
    name(
        "USERS_PER_ROOM",
        "--users-per-room",
        "--users-per-room",
        ValueKind::Value,
    ),
    name(
        "HEARTBEATS_PER_SEC",
        "--heartbeats-per-sec",
        "--heartbeats-per-sec",
        ValueKind::Value,
    ),
    Name {
        alias: "-d",
        ..name(
            "TEST_DURATION_MS",
            "--test-duration-ms",
            "--duration",
            ValueKind::Milliseconds,
        )
    },
    name(
        "RAMP_UP_MS",
        "--ramp-up-ms",
        "--ramp-up",
        ValueKind::Milliseconds,
    ),
    name(
        "REPORT_INTERVAL_MS",
        "--report-interval-ms",
        "--report-interval",
        ValueKind::Milliseconds,
    ),
    name(
        "ACK_TIMEOUT_MS",
        "--ack-timeout-ms",
        "--ack-timeout",
        ValueKind::Milliseconds,
    ),
    name(
        "BENCHMARK_DEBUG",
        "--benchmark-debug",
        "--debug",
        ValueKind::Flag,
    ),
];

/// The variables, each with its option without dashes.
pub(super) const VARIABLES: [(&str, &str); NAMES.len()] = {
    let mut variables = [("", ""); NAMES.len()];
    let mut index = 0;
    while index < NAMES.len() {
        variables[index] = (NAMES[index].variable, NAMES[index].ours.split_at(2).1);
        index += 1;
    }
    variables
};

/// Translates words of the command line, and adds options for the variables that are set and have none. A plan file and
/// a command take no variables.
///
/// # Errors
/// A number of milliseconds that is none.
pub(super) fn translate(
    typed: Vec<OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let mut words = rewrite(typed)?;
    let takes_none = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "check" || word == "conformance" || option(&word) == "--plan"
    };
    if words.iter().skip(1).any(takes_none) {
        return Ok(words);
    }
    let has_url = words
        .iter()
        .skip(1)
        .any(|word| word.to_string_lossy().contains("://"));
    for name in &NAMES {
        let is_typed = words.iter().skip(1).any(|word| {
            let word = word.to_string_lossy();
            [name.ours, name.theirs, name.alias].contains(&option(&word))
        });
        let is_url = name.ours == "--url";
        let Some(value) = variable(name.variable).filter(|value| !value.is_empty()) else {
            continue;
        };
        if is_typed || (is_url && has_url) {
            continue;
        }
        let value = value.to_string_lossy().into_owned();
        if let Some(word) = word(name, name.variable, &value)? {
            words.push(word);
        }
    }
    Ok(words)
}

/// Returns the option that a word begins with.
fn option(word: &str) -> &str {
    word.split_once('=').map_or(word, |(option, _)| option)
}

/// Rewrites options in milliseconds.
fn rewrite(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let mut words = Vec::new();
    let mut typed = typed.into_iter();
    while let Some(next) = typed.next() {
        let text = next.to_string_lossy().into_owned();
        let known = NAMES.iter().find(|name| {
            name.theirs == option(&text)
                && name.theirs != name.ours
                && name.kind != ValueKind::Value
        });
        let Some(name) = known else {
            words.push(next);
            continue;
        };
        let value = match text.split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None if name.kind == ValueKind::Flag => Some("1".to_owned()),
            None => typed
                .next()
                .map(|value| value.to_string_lossy().into_owned()),
        };
        match value {
            Some(value) => words.extend(word(name, name.theirs, &value)?),
            // clap says that the value is missing.
            None => words.push(name.ours.into()),
        }
    }
    Ok(words)
}

/// Returns the word that stands for a value of a name.
fn word(name: &Name, shown: &str, value: &str) -> Result<Option<OsString>, Failure> {
    let word = match name.kind {
        ValueKind::Value => format!("{}={value}", name.ours),
        ValueKind::Milliseconds => {
            let ms: u64 = value.parse().map_err(|_| {
                let problem =
                    format!("`{value}` is not a whole number of milliseconds: write it as 5000");
                Invalid::new(shown, problem)
            })?;
            format!("{}={ms}ms", name.ours)
        }
        ValueKind::Flag if ["", "0", "false", "no", "off"].contains(&value) => return Ok(None),
        ValueKind::Flag => name.ours.to_owned(),
    };
    Ok(Some(word.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(typed: &str, set: &[(&str, &str)]) -> Result<String, Failure> {
        let typed = std::iter::once("presence-load").chain(typed.split_whitespace());
        let words = translate(typed.map(OsString::from).collect(), |name| {
            let mut set = set.iter();
            set.find(|variable| variable.0 == name)
                .map(|variable| variable.1.into())
        })?;
        let words = words.iter().skip(1).map(|word| word.to_str().unwrap());
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn variables_become_options_unless_the_option_is_given() {
        let set = [
            ("TARGET_URL", "http://h:1"),
            ("ROOM_COUNT", "7"),
            ("TEST_DURATION_MS", "60000"),
            ("BENCHMARK_DEBUG", "1"),
        ];
        let all = "--url=http://h:1 --rooms=7 --duration=60000ms --debug";
        assert_eq!(translated("", &set).unwrap(), all);
        let typed = "--room-count 5 -d 3s ws://x --debug";
        assert_eq!(translated(typed, &set).unwrap(), typed);
        for typed in ["check", "--plan x.toml", "--plan=x.toml"] {
            assert_eq!(translated(typed, &set).unwrap(), typed);
        }
        assert_eq!(translated("--daemon x", &set[..1]).unwrap(), "--daemon x");
        assert_eq!(
            translated("", &[("BENCHMARK_DEBUG", "0"), ("RAMP_UP_MS", "")]).unwrap(),
            ""
        );
    }

    #[test]
    fn options_in_milliseconds_are_durations() {
        let typed = "--test-duration-ms 5000 --ramp-up-ms=10 --ack-timeout-ms 7 --benchmark-debug";
        let expected = "--duration=5000ms --ramp-up=10ms --ack-timeout=7ms --debug";
        assert_eq!(translated(typed, &[]).unwrap(), expected);
        for (typed, set) in [
            ("--ramp-up-ms 1s", ("X", "")),
            ("", ("ACK_TIMEOUT_MS", "soon")),
        ] {
            let error = translated(typed, &[set]).unwrap_err();
            assert!(error.to_string().contains("milliseconds"), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
