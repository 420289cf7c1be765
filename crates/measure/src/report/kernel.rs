//! The kernel's part of a run in words: memory outside of processes, and TCP drops and retransmissions.

use super::cost::kib;
use super::page::{self, Block};
use crate::result::RunResult;
use crate::units;

/// Summarizes the machine-wide figures, or returns `None` if the machine was not sampled.
pub(super) fn block(result: &RunResult) -> Option<Block> {
    let system = result.usage.system?;
    let connections = result.most_held().unwrap_or(result.operations.peak_active);
    let mut facts = Vec::new();
    if let Some(kb) = result.kernel_kb().filter(|kb| *kb > 0) {
        let memory = format!(
            "{}: MemAvailable dropped by {}, minus RSS growth of daemon and driver; includes changes caused by other programs",
            units::bytes(kib(kb)),
            units::bytes(kib(system.taken_kb()))
        );
        facts.push(("kernel", memory));
    }
    if system.objects_kb() > 0 {
        let objects = format!(
            "{}: growth of the slab and of TCP queues",
            units::bytes(kib(system.objects_kb()))
        );
        facts.push(("objects", objects));
    }
    if connections > 0 {
        let each = match system.kb_for_each(connections) {
            Ok(kb) => format!(
                "{} per held connection: growth of the unreclaimable slab and of TCP queues",
                units::bytes((kb * 1024.0) as u64)
            ),
            Err(why) => format!("{}: {why}", page::NONE),
        };
        facts.push(("each", each));
    }
    let tcp = system.tcp;
    let counters = [
        (tcp.listen_overflows, "accept queue overflows"),
        (tcp.listen_drops, "listen drops"),
        (tcp.syn_cookies_sent, "SYN cookies"),
        (tcp.timeouts, "retransmission timeouts"),
        (tcp.retransmits, "segments retransmitted"),
        (tcp.resets, "connections reset"),
    ];
    let counted = counters.into_iter().filter(|(count, _)| *count > 0);
    let counted: Vec<String> = counted
        .map(|(count, what)| format!("{what} {}", units::count(count)))
        .collect();
    if !counted.is_empty() {
        facts.push(("tcp", format!("{}; machine-wide", counted.join(", "))));
    }
    (!facts.is_empty()).then_some(Block::Facts(facts))
}
