//! What a run cost the kernel, in words: memory that no process shows, and what TCP dropped or sent again.

use super::cost::kib;
use super::page::{self, Block};
use crate::result::RunResult;
use crate::units;

/// Nothing where nobody looked at the machine.
pub(super) fn of(result: &RunResult) -> Option<Block> {
    let system = result.usage.system?;
    let connections = result.most_held().unwrap_or(result.operations.peak_active);
    let mut facts = Vec::new();
    if let Some(kb) = result.kernel_kb().filter(|kb| *kb > 0) {
        let memory = format!(
            "{}: {} less available than before the load, without what daemon and driver grew by; other programs move it too",
            units::bytes(kib(kb)),
            units::bytes(kib(system.taken_kb()))
        );
        facts.push(("kernel", memory));
    }
    if system.objects_kb() > 0 {
        let objects = format!(
            "{}: growth of the slab and of TCP's queues",
            units::bytes(kib(system.objects_kb()))
        );
        facts.push(("objects", objects));
    }
    if connections > 0 {
        let each = match system.kb_for_each(connections) {
            Ok(kb) => format!(
                "{} for each held: growth of the slab that no pressure frees and of TCP's queues",
                units::bytes((kb * 1024.0) as u64)
            ),
            Err(why) => format!("{}: {why}", page::NONE),
        };
        facts.push(("each", each));
    }
    let tcp = system.tcp;
    let counters = [
        (tcp.listen_overflows, "accept queue overflows"),
        (tcp.listen_drops, "drops of listeners"),
        (tcp.syn_cookies_sent, "SYN cookies"),
        (tcp.timeouts, "timers run out"),
        (tcp.retransmits, "segments sent again"),
        (tcp.resets, "connections reset"),
    ];
    let counted = counters.into_iter().filter(|(count, _)| *count > 0);
    let counted: Vec<String> = counted
        .map(|(count, what)| format!("{what} {}", units::count(count)))
        .collect();
    if !counted.is_empty() {
        facts.push((
            "tcp",
            format!("{}; of the whole machine", counted.join(", ")),
        ));
    }
    (!facts.is_empty()).then_some(Block::Facts(facts))
}
