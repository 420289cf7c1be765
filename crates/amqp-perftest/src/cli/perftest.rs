//! PerfTest's spellings (2.22): options of one or several letters after one dash.

use std::ffi::OsString;

use harness::failure::Failure;
use load::plan::Invalid;

/// Options of several letters, each with its equivalent here.
const LONGER: [(&str, &str); 18] = [
    ("-ad", "--auto-delete"),
    ("-ca", "--consumer-args"),
    ("-ct", "--confirm-timeout"),
    ("-jb", "--json-body"),
    ("-mp", "--message-properties"),
    ("-na", "--nack"),
    ("-pi", "--polling-interval"),
    ("-po", "--polling"),
    ("-qa", "--queue-args"),
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qq", "--quorum-queue"),
    ("-re", "--requeue"),
    ("-sq", "--stream-queue"),
    ("-vr", "--variable-rate"),
    ("-vs", "--variable-size"),
    ("-H", "--uri"),
];

/// Options that do not exist here, each with the alternative.
const OTHERWISE: [(&[&str], &str); 6] = [
    (
        &["-X", "--producer-channel-count"],
        "producer channels have no count of their own: use --channels N and N times as many --producers",
    ),
    (
        &["-Y", "--consumer-channel-count"],
        "consumer channels have no count of their own: use --channels N and N times as many --consumers",
    ),
    (
        &["-m", "--ptxsize", "-n", "--ctxsize"],
        "transactions are not supported: use --confirm N for publisher confirms",
    ),
    (
        &["-K", "--random-routing-key"],
        "random routing keys are not supported: set one with --routing-key",
    ),
    (
        &["-M", "--framemax"],
        "set it in the address: --uri 'amqp://…/?frame_max=N'",
    ),
    (
        &["-i", "--interval"],
        "a line is printed every second: leave it out",
    ),
];

/// Translates the words of a PerfTest command line to this program's spelling. Returns an error for an option of PerfTest
/// that does not exist here.
pub(super) fn words(typed: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, Failure> {
    let typed: Vec<OsString> = typed.collect();
    let text = |index: usize| {
        typed
            .get(index)
            .and_then(|word| word.to_str())
            .unwrap_or("")
    };
    let mut words = Vec::new();
    for (index, word) in typed.iter().enumerate() {
        let next = text(index + 1);
        let option = text(index).split('=').next().unwrap_or_default();
        let otherwise = OTHERWISE.iter().find(|(names, _)| names.contains(&option));
        if let Some((_, remedy)) = otherwise {
            let field = format!("{option} (PerfTest's)");
            return Err(Invalid::new(field, *remedy).into());
        }
        let longer = LONGER.iter().find(|(letters, _)| *letters == option);
        words.push(match (text(index), longer) {
            // -h is --uri in PerfTest and --help elsewhere.
            ("-h", _) if next.starts_with("amqp") => "--uri".into(),
            // -q is --qos in PerfTest and --quiet in the other drivers.
            ("-q", _) if next.parse::<u16>().is_ok() => "--prefetch".into(),
            (text, Some((letters, long))) => text.replacen(letters, long, 1).into(),
            _ => word.clone(),
        });
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> Result<String, String> {
        let typed = line.split(' ').map(OsString::from);
        let words = words(typed).map_err(|failure| failure.to_string())?;
        let words = words.iter().map(|word| word.to_str().unwrap());
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn letters_of_perftest_become_the_options_of_this_program() {
        for (typed, expected) in [
            (
                "-qq -qp q-%d -qpf 1 -qpt=3",
                "--quorum-queue --queue-pattern q-%d --queue-pattern-from 1 --queue-pattern-to=3",
            ),
            (
                "-h amqp://a -H amqp://b,amqp://c",
                "--uri amqp://a --uri amqp://b,amqp://c",
            ),
            ("-h", "-h"),
            ("-q 100 -x 2", "--prefetch 100 -x 2"),
            ("-q --rate 3", "-q --rate 3"),
            ("--queue -a", "--queue -a"),
        ] {
            assert_eq!(spelled(typed).unwrap(), expected);
        }
        for (typed, remedy) in [
            ("-X 2", "--channels"),
            ("-n 5", "--confirm"),
            ("--framemax=1", "?frame_max"),
        ] {
            let said = spelled(typed).unwrap_err();
            assert!(said.contains(remedy), "{said}");
        }
    }
}
