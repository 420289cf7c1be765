//! Removes secrets from results.

use std::borrow::Cow;
use std::collections::BTreeMap;

use measure::result::RunResult;

use super::value;

/// Removes secrets from the texts of a result: passwords, tokens, authentication header fields. Every stored or shown result
/// has passed through this function.
pub fn result(result: &mut RunResult) {
    value(&mut result.plan);
    let daemon = &mut result.daemon;
    let mut texts = vec![&mut result.plan_sentence, &mut daemon.target];
    texts.extend(&mut result.commands);
    texts.extend(&mut daemon.about);
    texts.extend(&mut daemon.version);
    texts.extend(&mut daemon.process);
    texts.extend(&mut result.machine.kernel_command_line);
    let services = result.services.iter_mut();
    texts.extend(services.filter_map(|service| service.version.as_mut()));
    for warning in &mut result.warnings {
        texts.extend([&mut warning.message, &mut warning.hint]);
    }
    texts.extend(
        result
            .thresholds
            .iter_mut()
            .map(|threshold| &mut threshold.text),
    );
    texts.extend(result.faults.iter_mut().map(|fault| &mut fault.what));
    for text in texts {
        if let Cow::Owned(redacted) = super::text(text) {
            *text = redacted;
        }
    }
    // Counters of checks are named after the check's text.
    let mut counts = vec![&mut result.counts, &mut result.errors];
    counts.extend(
        result
            .throughput
            .iter_mut()
            .map(|throughput| &mut throughput.counts),
    );
    for second in &mut result.seconds {
        counts.extend([&mut second.counts, &mut second.errors]);
    }
    counts.into_iter().for_each(redact_names);
}

fn redact_names(counts: &mut BTreeMap<String, u64>) {
    let names = counts.keys().filter_map(|name| match super::text(name) {
        Cow::Owned(redacted) => Some((name.clone(), redacted)),
        Cow::Borrowed(_) => None,
    });
    for (name, redacted) in names.collect::<Vec<_>>() {
        let count = counts.remove(&name).unwrap_or(0);
        *counts.entry(redacted).or_default() += count;
    }
}
