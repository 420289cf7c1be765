//! PerfTest's spellings (2.22): options of one or several letters after one dash.

use std::ffi::OsString;

use amqp_client::stamp;
use harness::cli::two_dashes;
use harness::failure::Failure;
use load::plan::Invalid;

/// All options of PerfTest, a row each, in the order of its help. The second column has the words that replace the
/// option, a dash if nothing does, or the reason for which it is refused. A page of the book includes this table.
///
/// The first row that [fits](fits) an option and its value counts. A name in capitals stands for the value in both
/// columns.
const OPTIONS: &str = include_str!("perftest.md");

/// Translates the words of a PerfTest command line to this program's spelling. Returns an error that names all options of
/// PerfTest that do not exist here.
pub(super) fn words(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let (mut words, mut refused) = (Vec::new(), Vec::new());
    let mut typed = typed.into_iter().peekable();
    while let Some(word) = typed.next() {
        let (option, attached) = with_value(word.to_str().unwrap_or_default());
        let next = typed.peek().and_then(|next| next.to_str());
        let value = attached.or(next).map(str::to_owned);
        let long = two_dashes(option.into());
        let names = [option, long.to_str().unwrap_or_default()];
        let mut rows = names.iter().filter_map(|name| row(name, value.as_deref()));
        let Some((placeholder, here)) = rows.next() else {
            words.push(two_dashes(word));
            continue;
        };
        if attached.is_none() && !placeholder.is_empty() {
            typed.next();
        }
        if here == "–" {
            continue;
        }
        let Some(here) = here.strip_prefix('`') else {
            refused.push(format!("`{option}` ({})", here.replace('`', "")));
            continue;
        };
        let value = adapted(placeholder, value.unwrap_or_default());
        let here = here.trim_end_matches('`').split(' ');
        words.extend(here.map(|word| match placeholder {
            "" => word.into(),
            _ => word.replace(placeholder, &value).into(),
        }));
    }
    if refused.is_empty() {
        return Ok(words);
    }
    Err(Invalid::new("options of PerfTest", refused.join(", ")).into())
}

/// Divides a word such as `-x=10` or `-x10` into the option and its value.
fn with_value(word: &str) -> (&str, Option<&str>) {
    let divided = word.split_once('=').or_else(|| {
        let (letter, number) = word.split_at_checked(2)?;
        number.parse::<f64>().ok().map(|_| (letter, number))
    });
    match divided {
        Some((option, value)) if option.starts_with('-') => (option, Some(value)),
        _ => (word, None),
    }
}

/// Returns the name of the value, and the second column, of the first row for an option and its value.
fn row(option: &str, value: Option<&str>) -> Option<(&'static str, &'static str)> {
    OPTIONS.lines().find_map(|line| {
        let (names, here) = line.trim_matches(['|', ' ']).split_once(" | ")?;
        let names = names.split('`').skip(1).step_by(2);
        let placeholder = names.clone().last()?.split_once(' ');
        let placeholder = placeholder.map_or("", |(_, placeholder)| placeholder);
        let mut names = names.filter_map(|name| name.split(' ').next());
        let applies = names.any(|name| name == option) && fits(placeholder, value);
        applies.then_some((placeholder, here))
    })
}

/// Returns true if a row with this name of a value is about the value that was typed. A name that is not in capitals is
/// the value itself.
fn fits(placeholder: &str, value: Option<&str>) -> bool {
    let Some(value) = value else {
        return placeholder.is_empty();
    };
    match placeholder {
        // What follows is another option.
        "" => value.starts_with('-'),
        "N" => value.parse::<u64>().is_ok(),
        // -h is --help elsewhere.
        "URI" => value.starts_with("amqp"),
        "NAME,NAME" => value.contains(','),
        "FROM-TO" => value.contains('-'),
        name => name.starts_with(char::is_uppercase) || name == value,
    }
}

/// Returns a value as this program takes it.
fn adapted(placeholder: &str, value: String) -> String {
    match (placeholder, value.parse::<usize>()) {
        // PerfTest enlarges bodies to its stamp of 12 bytes.
        ("BYTES", Ok(size)) => size.max(stamp::BYTES).to_string(),
        // The name of a plan is a folder too.
        ("ID", _) => value.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"),
        _ => value,
    }
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
                "--quorum-queue --queue-pattern=q-%d --queue-pattern-from=1 --queue-pattern-to=3",
            ),
            (
                "-h amqp://a -H amqp://b,amqp://c",
                "--uri=amqp://a --uri=amqp://b,amqp://c",
            ),
            ("-h", "-h"),
            ("-q 100 -x 2", "--prefetch=100 --producers=2"),
            ("-x10 -r0.5 -z=9", "--producers=10 --rate=0.5 --duration=9"),
            ("-q --rate 3", "-q --rate=3"),
            (
                "-pmessages 5 -Q 3",
                "--pmessages=5 --global-qos --prefetch=3",
            ),
            ("-ad true -ad false -a", "--auto-delete --auto-ack"),
            ("-c -1 -rate -1 -x 1", "--producers=1"),
            ("-s 12 -s 0 --size 100", "--size=28 --size=28 --size=100"),
            (
                "-L 50 -L 3ms -pi 7",
                "--consumer-latency=50us -L 3ms --polling-interval=7ms",
            ),
            ("-routing-key=-a=b", "--routing-key=-a=b"),
            ("--nack 0.5 -a", "--nack 0.5 --auto-ack"),
            ("-d te/st.1 -k", "--set name=te-st-1 -k"),
        ] {
            assert_eq!(spelled(typed).unwrap(), expected);
        }
        for (typed, remedy) in [
            ("-X 2", "--channels"),
            ("-n 5", "--multi-ack-every"),
            ("--framemax=1", "?frame_max"),
            ("-u a,b", "--queue-pattern"),
            ("-na -a", "--nack 1"),
            ("-hst 1 -x 2 -sb", "leave it out), `-sb` (use queues"),
        ] {
            let said = spelled(typed).unwrap_err();
            assert!(said.contains(remedy), "{said}");
        }
    }
}
