//! The check of all hosts before the start: what each lacks for its parts, and how far their clocks are apart.

use std::sync::Arc;

use anyhow::bail;
use harness::output;
use load::clock;
use measure::units;
use measure::warning::{Severity, Warning};

use super::PlacedHost;
use super::hosts::Hosts;
use super::message::{FromHost, HostState, ToHost};
use super::session::Event;
use crate::doctor::{Finding, Needs};
use crate::resolve::Suite;

/// Number of times that each clock is asked. The quickest answer counts.
const ASKED: usize = 8;

/// The difference of a clock from the clock of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockOffset {
    /// Nanoseconds that it is ahead.
    ns: i64,
    /// The error is at most this: half of the time between question and answer.
    bound_ns: u64,
}

impl ClockOffset {
    /// Returns the offset by the time that a host has answered, and the times of this machine before and after.
    fn new(sent: u64, answered: u64, received: u64) -> Self {
        let bound_ns = received.saturating_sub(sent) / 2;
        Self {
            ns: answered.cast_signed() - (sent + bound_ns).cast_signed(),
            bound_ns,
        }
    }
}

impl Hosts {
    /// Checks all hosts, and prints a table.
    ///
    /// # Errors
    /// Hosts that lack something, or whose clocks are too far apart for a common start.
    pub(super) async fn check(&mut self, suites: &[Suite]) -> anyhow::Result<()> {
        let clocks = self.clocks().await?;
        let needs = suites.iter().map(Suite::needs);
        let needs: Vec<Needs> = needs.collect::<anyhow::Result<_>>()?;
        let shards = self.placed.iter().map(|host| host.shards.end).max();
        let shards = shards.unwrap_or_default();
        for (host, session) in self.placed.iter().zip(&self.sessions) {
            let launches = host.has_daemon || self.own_daemons;
            let daemons = if launches { needs.clone() } else { Vec::new() };
            let of_shard = needs.iter().filter(|_| !host.shards.is_empty());
            let shards = of_shard.map(|needs| needs.of_shard(shards)).collect();
            session.send(ToHost::Check { daemons, shards }, &Arc::default());
        }
        let checking = self.gather("checking the hosts", |_, _, event| match event {
            Event::Message(FromHost::Checked(state), _) => Some(*state),
            _ => None,
        });
        let states = checking.await?;
        output::note(&table(&self.placed, &states, &clocks));
        let problems = problems(&self.placed, &states, &clocks);
        if !problems.is_empty() {
            bail!("{}", problems.join("\n"));
        }
        let daemon_host = self.placed.iter().position(|host| host.has_daemon);
        if let Some(index) = daemon_host.filter(|_| self.placed.len() > 1) {
            self.listen = self.listen.or(states[index].address);
            if self.listen.is_none() {
                bail!(
                    "{}: says no address at which other hosts reach it: name one with --listen",
                    self.placed[index].name
                );
            }
        }
        Ok(())
    }

    /// Compares the clock of each host with the clock of this machine.
    async fn clocks(&mut self) -> anyhow::Result<Vec<ClockOffset>> {
        let mut asked: Vec<u64> = Vec::new();
        for session in &self.sessions {
            asked.push(clock::unix_ns());
            session.send(ToHost::Ping, &Arc::default());
        }
        let mut answers = vec![Vec::new(); asked.len()];
        let clocks = self.gather("comparing clocks", |session, host, event| {
            let Event::Message(FromHost::Pong { unix_ns }, _) = event else {
                return None;
            };
            let offset = ClockOffset::new(asked[host], unix_ns, clock::unix_ns());
            answers[host].push(offset);
            if answers[host].len() == ASKED {
                return answers[host].iter().min_by_key(|it| it.bound_ns).copied();
            }
            asked[host] = clock::unix_ns();
            session.send(ToHost::Ping, &Arc::default());
            None
        });
        clocks.await
    }
}

fn table(hosts: &[PlacedHost], states: &[HostState], clocks: &[ClockOffset]) -> String {
    let heads = [
        "host",
        "parts",
        "CPUs",
        "memory",
        "files",
        "ports",
        "free disk",
        "clock",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    for ((host, state), clock) in hosts.iter().zip(states).zip(clocks) {
        let machine = &state.machine;
        let ports = machine
            .port_range
            .map(|(from, to)| u64::from(to) - u64::from(from) + 1);
        let sign = if clock.ns < 0 { '-' } else { '+' };
        rows.push([
            host.name.clone(),
            host.parts(),
            machine.cpus.to_string(),
            units::bytes(machine.memory_bytes),
            units::count(machine.nofile_hard),
            ports.map_or_else(String::new, units::count),
            units::bytes(state.free_bytes),
            format!(
                "{sign}{} ± {}",
                units::duration(clock.ns.unsigned_abs()),
                units::duration(clock.bound_ns)
            ),
        ]);
    }
    let widths = heads.iter().enumerate().map(|(column, _)| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let widths: Vec<usize> = widths.collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the problems, each with its host and its remedy. Two clocks are too far apart if a shard that begins by one would
/// be INVALID by the other.
fn problems(hosts: &[PlacedHost], states: &[HostState], clocks: &[ClockOffset]) -> Vec<String> {
    let mut problems = Vec::new();
    for ((host, state), clock) in hosts.iter().zip(states).zip(clocks) {
        let apart = clock.ns - clocks[0].ns;
        let proven = apart
            .unsigned_abs()
            .saturating_sub(clock.bound_ns + clocks[0].bound_ns);
        let is_apart = Warning::shard_late(proven)
            .is_some_and(|warning| warning.severity == Severity::Invalid);
        let of_clock = is_apart.then(|| {
            let what = format!(
                "its clock is {} {} the clock of {}",
                units::duration(apart.unsigned_abs()),
                if apart < 0 { "behind" } else { "ahead of" },
                hosts[0].name
            );
            Finding::new(what, "run a time service (chrony) on both")
        });
        for finding in state.findings.iter().chain(&of_clock) {
            let fix = finding.fix.trim().replace('\n', "\n    ");
            problems.push(format!(
                "{}: {}\n    fix: {fix}",
                host.name,
                finding.what.trim()
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use measure::machine::Machine;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn hosts() -> Vec<PlacedHost> {
        let host = |name: &str, has_daemon, shards| PlacedHost {
            name: name.to_owned(),
            has_daemon,
            shards,
        };
        vec![host("a", true, 0..0), host("b", false, 0..2)]
    }

    fn states() -> Vec<HostState> {
        let state = HostState {
            machine: Machine {
                cpus: 2,
                memory_bytes: 4 << 30,
                nofile_hard: 20_000,
                port_range: Some((32_768, 60_999)),
                ..Machine::default()
            },
            free_bytes: 9 << 30,
            address: None,
            findings: Vec::new(),
        };
        vec![state.clone(), state]
    }

    #[test]
    fn a_clock_is_between_the_question_and_the_answer() {
        let offset = ClockOffset::new(10 * SECOND, 13 * SECOND, 12 * SECOND);
        let expected = ClockOffset {
            ns: 2_000_000_000,
            bound_ns: SECOND,
        };
        assert_eq!(offset, expected);
    }

    #[test]
    fn clocks_that_are_proven_to_be_apart_are_refused_whatever_this_machine_s_says() {
        let clock = |ns, bound_ns| ClockOffset { ns, bound_ns };
        let hour = 3_600_000_000_000;
        let found = |clocks: &[ClockOffset]| problems(&hosts(), &states(), clocks);
        assert_eq!(found(&[clock(hour, 1), clock(hour + 5, 1)]), [""; 0]);
        // The answers took so long that nothing is proven.
        assert_eq!(
            found(&[clock(0, SECOND), clock(1_500_000_000, SECOND)]),
            [""; 0]
        );
        let apart = found(&[clock(0, 1_000), clock(-3_000_000_000, 1_000)]);
        assert_eq!(
            apart,
            [
                "b: its clock is 3.00 s behind the clock of a\n    fix: run a time service (chrony) on both"
            ]
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_host() {
        let clock = |ns| ClockOffset {
            ns,
            bound_ns: 400_000,
        };
        let text = table(&hosts(), &states(), &[clock(1_000_000), clock(-20_000)]);
        assert_eq!(
            text,
            "host  parts     CPUs  memory    files   ports   free disk  clock\n\
             a     daemon    2     4.00 GiB  20,000  28,232  9.00 GiB   +1.00 ms ± 400 µs\n\
             b     2 shards  2     4.00 GiB  20,000  28,232  9.00 GiB   -20.0 µs ± 400 µs"
        );
    }
}
