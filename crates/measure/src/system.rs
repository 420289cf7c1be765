//! What the machine had and dropped during a run: memory that no process owns, and the kernel's TCP counters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::RunResult;
use crate::units;
use crate::warning::{Kind, Severity, Warning};

/// One look at the machine. Counters are those since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemLook {
    /// `MemAvailable` of `/proc/meminfo`, KiB.
    pub available_kb: u64,
    /// `Slab`: what the kernel's caches of objects take, KiB.
    pub slab_kb: u64,
    /// `SUnreclaim`: the part of it that no pressure frees; the inodes of sockets are in the other part, KiB.
    pub slab_unreclaimable_kb: u64,
    /// `TCP: … mem` of `/proc/net/sockstat`, in KiB: pages that TCP's queues hold.
    pub tcp_kb: u64,
    /// Counters of TCP.
    pub tcp: TcpCounters,
}

/// Counters of the kernel's TCP, those of `/proc/net/snmp` and `/proc/net/netstat` by their names there. They are the
/// machine's (of the network namespace), whoever caused them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TcpCounters {
    /// `ListenOverflows`: connections that found an accept queue full.
    pub listen_overflows: u64,
    /// `ListenDrops`: the same and what else a listener dropped.
    pub listen_drops: u64,
    /// `SyncookiesSent`: answers to a SYN that the queue of half-open connections had no place for.
    pub syn_cookies_sent: u64,
    /// `TCPTimeouts`: retransmission timers that ran out.
    pub timeouts: u64,
    /// `RetransSegs`: segments sent again.
    pub retransmits: u64,
    /// `EstabResets`: established connections that were reset.
    pub resets: u64,
}

/// The machine over a run: memory from a baseline before the load, counters from the first look to the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct System {
    /// `MemAvailable` before the load, KiB.
    pub available_baseline_kb: u64,
    /// Least `MemAvailable` seen, KiB.
    pub available_min_kb: u64,
    /// `Slab` before the load, KiB.
    pub slab_baseline_kb: u64,
    /// Largest `Slab` seen, KiB.
    pub slab_peak_kb: u64,
    /// `SUnreclaim` before the load, KiB.
    pub slab_unreclaimable_baseline_kb: u64,
    /// Largest `SUnreclaim` seen, KiB.
    pub slab_unreclaimable_peak_kb: u64,
    /// Memory of TCP's queues before the load, KiB.
    pub tcp_baseline_kb: u64,
    /// Largest memory of TCP's queues seen, KiB.
    pub tcp_peak_kb: u64,
    /// What TCP counted meanwhile.
    pub tcp: TcpCounters,
}

/// What the unreclaimable memory of a machine moves by, without a load, KiB: the kernel's caches for each processor are
/// filled and emptied, and other programs open files. On two processors it moved by 2.9 MiB in 90 s while programs were built.
const NOISE_KB: u64 = 4 << 10;
/// A growth so many times the noise is a load's, to a quarter.
const BEYOND_NOISE: u64 = 4;

/// The least time after which TCP sends again what was not acknowledged: `TCP_RTO_MIN` of Linux.
const RETRANSMIT_NS: u64 = 200_000_000;

impl TcpCounters {
    fn since(self, first: Self) -> Self {
        Self {
            listen_overflows: self.listen_overflows.saturating_sub(first.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(first.listen_drops),
            syn_cookies_sent: self.syn_cookies_sent.saturating_sub(first.syn_cookies_sent),
            timeouts: self.timeouts.saturating_sub(first.timeouts),
            retransmits: self.retransmits.saturating_sub(first.retransmits),
            resets: self.resets.saturating_sub(first.resets),
        }
    }
}

impl System {
    /// Sums up looks in the order of time, the first of them before the load; `None` for none.
    #[must_use]
    pub fn of(looks: &[SystemLook]) -> Option<Self> {
        let (first, last) = (looks.first()?, looks.last()?);
        let most = |of: fn(&SystemLook) -> u64| looks.iter().map(of).max().unwrap_or(0);
        Some(Self {
            available_baseline_kb: first.available_kb,
            available_min_kb: looks.iter().map(|look| look.available_kb).min()?,
            slab_baseline_kb: first.slab_kb,
            slab_peak_kb: most(|look| look.slab_kb),
            slab_unreclaimable_baseline_kb: first.slab_unreclaimable_kb,
            slab_unreclaimable_peak_kb: most(|look| look.slab_unreclaimable_kb),
            tcp_baseline_kb: first.tcp_kb,
            tcp_peak_kb: most(|look| look.tcp_kb),
            tcp: last.tcp.since(first.tcp),
        })
    }

    /// How much less memory was available at the worst than before the load, KiB.
    #[must_use]
    pub fn taken_kb(&self) -> u64 {
        self.available_baseline_kb
            .saturating_sub(self.available_min_kb)
    }

    /// What the kernel's own objects took more than before the load, KiB: sockets, files, inodes and their like (the
    /// slab) and the pages of TCP's queues, without page tables. A second account beside [`RunResult::kernel_kb`]: inodes
    /// and directory entries of open sockets are counted as reclaimable, so that `MemAvailable` has them as free although
    /// they are not. Files that others open meanwhile are part of it. With 9,000 idle pairs of sockets over loopback
    /// (Linux 6.18) the slab grew by 7.1 and 8.7 KiB a pair, its unreclaimable part by 5.3 and 5.3.
    #[must_use]
    pub fn objects_kb(&self) -> u64 {
        let slab = self.slab_peak_kb.saturating_sub(self.slab_baseline_kb);
        slab + self.tcp_peak_kb.saturating_sub(self.tcp_baseline_kb)
    }

    /// Returns how much the kernel's memory grew that no pressure frees, KiB: the unreclaimable part of the slab, where the
    /// sockets are, and the pages of TCP's queues.
    #[must_use]
    pub fn unreclaimable_kb(&self) -> u64 {
        let slab = self
            .slab_unreclaimable_peak_kb
            .saturating_sub(self.slab_unreclaimable_baseline_kb);
        slab + self.tcp_peak_kb.saturating_sub(self.tcp_baseline_kb)
    }

    /// Returns the kernel's memory for each of so many connections, KiB.
    ///
    /// # Errors
    /// The reason why it can't be told: the machine moves as much by itself.
    pub fn kb_for_each(&self, connections: u64) -> Result<f64, String> {
        let grown = self.unreclaimable_kb();
        let least = BEYOND_NOISE * NOISE_KB;
        if grown < least || connections == 0 {
            let [grown, least, noise] =
                [grown, least, NOISE_KB].map(|kb| units::bytes(kb.saturating_mul(1024)));
            return Err(format!(
                "the kernel's unreclaimable memory grew by {grown}, and a machine moves by {noise} without a load: for each connection it is told from {least} on"
            ));
        }
        Ok(grown as f64 / connections as f64)
    }

    /// What speaks against the times of a run that drove its daemon over TCP, whose longest time of any series was
    /// `slowest_ns`.
    ///
    /// What met a full queue is tried again by the kernel, a SYN after 1 s, all else after 200 ms or more: that is in the
    /// times, and is the queue's doing. Where no time is as long as that, the drops were of somebody else's connections.
    /// Over loopback nothing is lost on the way, so that what was sent again had met a full queue or a stalled process.
    #[must_use]
    pub fn doubts(&self, slowest_ns: u64) -> Vec<Warning> {
        let TcpCounters {
            listen_overflows,
            listen_drops,
            syn_cookies_sent,
            timeouts,
            retransmits,
            resets: _,
        } = self.tcp;
        let dropped = listen_overflows.max(listen_drops);
        if dropped + syn_cookies_sent > 0 {
            let cookies = match syn_cookies_sent {
                0 => String::new(),
                sent => format!(
                    ", and {} half-open ones had no place but a SYN cookie, which hides further drops",
                    units::count(sent)
                ),
            };
            let message = format!(
                "the kernel dropped {} connections at full accept queues{cookies}; {} segments were sent again",
                units::count(dropped),
                units::count(retransmits)
            );
            // A cookie alone delays nothing.
            let severity = if dropped > 0 && slowest_ns >= RETRANSMIT_NS {
                Severity::Suspect
            } else {
                Severity::Note
            };
            let hint = "lower the connect rate, or raise net.core.somaxconn and net.ipv4.tcp_max_syn_backlog, and the daemon's backlog with them; the counts are the machine's, whoever caused them";
            return vec![warning(Kind::ListenOverflow, severity, message, hint)];
        }
        if retransmits == 0 {
            return Vec::new();
        }
        let message = format!(
            "TCP sent {} segments again, {} of them after a timer of 200 ms or more",
            units::count(retransmits),
            units::count(timeouts.min(retransmits))
        );
        let hint = "times near 200 ms and 1 s are then the kernel's: compare with the series of connecting; the counts are the machine's, whoever caused them";
        vec![warning(Kind::Retransmits, Severity::Note, message, hint)]
    }
}

fn warning(kind: Kind, severity: Severity, message: String, hint: &str) -> Warning {
    Warning {
        kind,
        severity,
        message,
        hint: hint.to_owned(),
    }
}

impl RunResult {
    /// Memory that the load took from the machine and that no process shows, KiB: how much less was available at the
    /// worst, without the growth of daemon and driver. What else the machine did meanwhile is part of it. `None` where
    /// one of them was not looked at, or where they grew by more than was taken, as memory that processes share does.
    #[must_use]
    pub fn kernel_kb(&self) -> Option<u64> {
        let growth = |side: &Option<crate::usage::UsageSummary>| {
            let usage = side.as_ref()?;
            Some(usage.rss_peak_kb.saturating_sub(usage.rss_baseline_kb))
        };
        let taken = self.usage.system?.taken_kb();
        taken.checked_sub(growth(&self.usage.daemon)? + growth(&self.usage.driver)?)
    }

    /// Connections open at the end of each second, as the driver counted them: what its workers told as `held`, once a
    /// second each, where they do, else all that was `opened` until then less what was `closed` and `lost`. Empty for a
    /// driver that counts neither.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        if self.count("held") > 0 {
            let told = |row: &crate::result::Second| Some((row.second, *row.counts.get("held")?));
            return self.seconds.iter().filter_map(told).collect();
        }
        if self.count("opened") == 0 {
            return Vec::new();
        }
        let mut open = 0_u64;
        let row = |row: &crate::result::Second| {
            let of = |name: &str| row.counts.get(name).copied().unwrap_or(0);
            open = (open + of("opened")).saturating_sub(of("closed") + of("lost"));
            (row.second, open)
        };
        self.seconds.iter().map(row).collect()
    }

    /// Operations that ended, well or not, and those of the warm-up that a driver counts apart (`warmup`): what the CPU
    /// time of a whole run was spent on.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.operations.ok + self.operations.failed + self.count("warmup")
    }

    /// Most connections open at the end of a second, as the driver counted them.
    #[must_use]
    pub fn most_held(&self) -> Option<u64> {
        self.held().into_iter().map(|(_, open)| open).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(available_kb: u64, slab: u64, tcp_kb: u64, overflows: u64) -> SystemLook {
        SystemLook {
            available_kb,
            slab_kb: slab + 100,
            slab_unreclaimable_kb: slab,
            tcp_kb,
            tcp: TcpCounters {
                listen_overflows: overflows,
                ..TcpCounters::default()
            },
        }
    }

    #[test]
    fn memory_counts_from_the_first_look_and_counters_to_the_last() {
        let looks = [
            look(9_000, 500, 40, 7),
            look(4_000, 2_500, 90, 8),
            look(8_000, 700, 50, 10),
        ];
        let system = System::of(&looks).unwrap();
        assert_eq!((system.taken_kb(), system.objects_kb()), (5_000, 2_050));
        assert_eq!((system.slab_baseline_kb, system.slab_peak_kb), (600, 2_600));
        assert_eq!(system.tcp.listen_overflows, 3);
        assert_eq!(System::of(&[]), None);
    }

    #[test]
    fn memory_for_each_connection_is_told_beyond_the_noise_of_the_machine_alone() {
        // 45 MiB less are available, as after any build, while nine connections are open.
        let few = System::of(&[look(90_000, 500, 40, 0), look(45_000, 620, 76, 0)]).unwrap();
        assert_eq!(few.unreclaimable_kb(), 156);
        let why = few.kb_for_each(9).unwrap_err();
        assert!(
            why.contains("grew by 156 KiB") && why.contains("16.0 MiB"),
            "{why}"
        );
        let many = System::of(&[look(90_000, 500, 0, 0), look(0, 16_884, 0, 0)]).unwrap();
        assert_eq!(many.kb_for_each(4_096), Ok(4.0));
        assert!(many.kb_for_each(0).is_err());
        let less = System::of(&[look(90_000, 500, 0, 0), look(0, 16_883, 0, 0)]).unwrap();
        assert!(less.kb_for_each(4_096).is_err());
    }

    #[test]
    fn dropped_connections_are_suspect_and_segments_sent_again_a_note() {
        let of = |listen_overflows, syn_cookies_sent, retransmits, slowest_ns| {
            let system = System {
                tcp: TcpCounters {
                    listen_overflows,
                    listen_drops: listen_overflows,
                    syn_cookies_sent,
                    retransmits,
                    ..TcpCounters::default()
                },
                ..System::default()
            };
            let found = system.doubts(slowest_ns);
            found
                .first()
                .map(|warning| (warning.kind, warning.severity))
        };
        assert_eq!(of(0, 0, 0, RETRANSMIT_NS), None);
        assert_eq!(
            of(0, 0, 3, RETRANSMIT_NS),
            Some((Kind::Retransmits, Severity::Note))
        );
        assert_eq!(
            of(0, 5, 3, RETRANSMIT_NS),
            Some((Kind::ListenOverflow, Severity::Note))
        );
        let overflow = |severity| Some((Kind::ListenOverflow, severity));
        assert_eq!(of(2, 5, 3, RETRANSMIT_NS), overflow(Severity::Suspect));
        assert_eq!(
            of(2, 5, 3, RETRANSMIT_NS - 1),
            overflow(Severity::Note),
            "nobody here has waited"
        );
    }

    #[test]
    fn memory_that_came_free_and_counters_that_fell_are_no_overflow() {
        let system = System::of(&[look(1_000, 500, 40, 7), look(3_000, 400, 30, 2)]).unwrap();
        assert_eq!(
            (
                system.taken_kb(),
                system.objects_kb(),
                system.tcp.listen_overflows
            ),
            (0, 0, 0)
        );
    }
}
