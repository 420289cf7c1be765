//! PerfTest's spellings (2.22): options of one or several letters after one dash.

use std::ffi::OsString;

use amqp_client::stamp;
use harness::cli::two_dashes;
use harness::failure::Failure;
use load::plan::Invalid;

/// Options of several letters, each with its equivalent here.
const LONGER: [(&str, &str); 22] = [
    ("-ad", "--auto-delete"),
    ("-ca", "--consumer-args"),
    ("-ct", "--confirm-timeout"),
    ("-E", "--exclusive"),
    ("-ew", "--exit-when"),
    ("-jb", "--json-body"),
    ("-mp", "--message-properties"),
    ("-na", "--nack"),
    ("-pi", "--polling-interval"),
    ("-po", "--polling"),
    ("-prsd", "--producer-random-start-delay"),
    ("-qa", "--queue-args"),
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qq", "--quorum-queue"),
    ("-re", "--requeue"),
    ("-sq", "--stream-queue"),
    ("-st", "--drain"),
    ("-vr", "--variable-rate"),
    ("-vs", "--variable-size"),
    ("-H", "--uri"),
];

/// Options that do not exist here, each with the alternative.
const OTHERWISE: [(&[&str], &str); 17] = [
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
    (&["-d", "--id"], "name the daemon with --name"),
    (
        &["-o", "--output-file"],
        "write the result to a file with --output FILE",
    ),
    (
        &["-S", "--slow-start"],
        "start the producers over some time with --ramp-up",
    ),
    (
        &["-T", "--body-content-type"],
        "set it with --message-properties contentType=TYPE",
    ),
    (
        &[
            "-ei",
            "--expected-instances",
            "-it",
            "--instance-sync-timeout",
        ],
        "divide the load over processes and machines with --shard I/N, which wait for each other",
    ),
    (
        &["-vl", "--variable-latency"],
        "the latency of consumers does not vary: use --consumer-latency",
    ),
    (
        &["-csd", "--consumer-start-delay"],
        "consumers start before the producers: fill the queue with --consumers 0 --predeclared first",
    ),
    (
        &["-qf", "--queue-file"],
        "queue names are made from a pattern: use --queue-pattern and --queue-pattern-to",
    ),
    (
        &["-sb", "--skip-binding-queues"],
        "use queues that exist with --predeclared, which binds nothing",
    ),
    (
        &["-sni", "--server-name-indication", "-se", "--sasl-external"],
        "the name for TLS is the host of --uri, and users log in with the password in it",
    ),
    (
        &["-sco", "--stream-consumer-offset"],
        "set it with --consumer-args x-stream-offset=OFFSET",
    ),
];

/// Translates the words of a PerfTest command line to this program's spelling. Returns an error for an option of PerfTest
/// that does not exist here.
pub(super) fn words(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let mut words = Vec::new();
    let mut typed = typed.into_iter().peekable();
    while let Some(word) = typed.next() {
        let next = typed.peek().and_then(|next| next.to_str()).unwrap_or("");
        let text = word.to_str().unwrap_or("");
        let option = text.split('=').next().unwrap_or_default();
        let longer = LONGER.iter().find(|(letters, _)| *letters == option);
        let word = match longer {
            Some((letters, long)) => text.replacen(letters, long, 1).into(),
            None => two_dashes(word.clone()),
        };
        let long = word.to_str().unwrap_or("").split('=').next().unwrap_or("");
        let mut otherwise = OTHERWISE.iter();
        let otherwise =
            otherwise.find(|(names, _)| names.contains(&option) || names.contains(&long));
        if let Some((_, remedy)) = otherwise {
            let field = format!("{option} (PerfTest's)");
            return Err(Invalid::new(field, *remedy).into());
        }
        let is_number = next.parse::<u64>().is_ok();
        match long {
            // -h is --uri in PerfTest and --help elsewhere.
            "-h" if next.starts_with("amqp") => words.push("--uri".into()),
            // -q is --qos in PerfTest and --quiet in the other drivers.
            "-q" if is_number => words.push("--prefetch".into()),
            // These two have a value in PerfTest: true or false, and the prefetch of the channel.
            "--auto-delete" if ["true", "false"].contains(&next) => {
                words.extend((next == "true").then_some(word));
                typed.next();
            }
            "-Q" | "--global-qos" if is_number => {
                words.extend(["--global-qos".into(), "--prefetch".into()]);
            }
            // PerfTest enlarges bodies to its stamp of 12 bytes.
            "-s" | "--size" if next.parse::<usize>().is_ok_and(|size| size < stamp::BYTES) => {
                words.extend([word, stamp::BYTES.to_string().into()]);
                typed.next();
            }
            "--nack" if text == option && next.parse::<f64>().is_err() => {
                let problem = "takes the share of deliveries to refuse here: use --nack 1 for all";
                return Err(Invalid::new(format!("{option} (--nack)"), problem).into());
            }
            _ => words.push(word),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> Result<String, String> {
        let typed = line.split(' ').map(OsString::from).collect();
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
            (
                "-pmessages 5 -Q 3",
                "--pmessages 5 --global-qos --prefetch 3",
            ),
            ("-ad true -ad false -ad", "--auto-delete --auto-delete"),
            ("-s 12 -s 0 --size 100", "-s 28 -s 28 --size 100"),
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
