//! Machine-wide figures of a run: memory that no process owns, and the kernel's TCP counters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;
use crate::warning::{Kind, Severity, Warning};

/// A reading of machine-wide figures. Counters count from boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemSample {
    /// `MemAvailable` of `/proc/meminfo`, KiB.
    pub available_kb: u64,
    /// `Slab`: memory of the kernel's object caches, KiB.
    pub slab_kb: u64,
    /// `SUnreclaim`: the part of the slab that memory pressure does not free, KiB. Inodes of sockets are in the other
    /// part.
    pub slab_unreclaimable_kb: u64,
    /// `TCP: … mem` of `/proc/net/sockstat`: pages held by TCP's queues, in KiB.
    pub tcp_kb: u64,
    /// Counters of TCP.
    pub tcp: TcpCounters,
}

/// Counters of the kernel's TCP, named as in `/proc/net/snmp` and `/proc/net/netstat`. They cover the whole network
/// namespace, including traffic of other programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TcpCounters {
    /// `ListenOverflows`: connections that found an accept queue full.
    pub listen_overflows: u64,
    /// `ListenDrops`: connections dropped by a listener, including overflows.
    pub listen_drops: u64,
    /// `SyncookiesSent`: SYN cookies sent because the queue of half-open connections was full.
    pub syn_cookies_sent: u64,
    /// `TCPTimeouts`: retransmission timers that expired.
    pub timeouts: u64,
    /// `RetransSegs`: retransmitted segments.
    pub retransmits: u64,
    /// `EstabResets`: established connections that were reset.
    pub resets: u64,
}

/// Machine-wide figures over a run: memory against a baseline before the load, counters from the first reading to the
/// last.
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
    /// TCP counters over the run.
    pub tcp: TcpCounters,
    /// Connections that the daemon's own listening sockets dropped over the run; absent if the kernel does not report
    /// them, and in older results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_by_daemon: Option<u64>,
}

/// Movement of a machine's unreclaimable memory without a load, KiB. The kernel fills and empties its per-processor
/// caches, and other programs open files. On two processors it moved by 2.9 MiB in 90 s while programs were built.
const NOISE_KB: u64 = 4 << 10;
/// Multiple of the noise above which growth is attributed to the load, with an error of up to a quarter.
const NOISE_MULTIPLE: u64 = 4;

/// The minimum retransmission timeout: `TCP_RTO_MIN` of Linux.
const MIN_RETRANSMIT_NS: u64 = 200_000_000;

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
    /// Summarizes readings in order of time, the first one before the load. Returns `None` if there are none.
    pub fn from_samples(samples: &[SystemSample]) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let most = |of: fn(&SystemSample) -> u64| samples.iter().map(of).max().unwrap_or(0);
        Some(Self {
            available_baseline_kb: first.available_kb,
            available_min_kb: samples.iter().map(|sample| sample.available_kb).min()?,
            slab_baseline_kb: first.slab_kb,
            slab_peak_kb: most(|sample| sample.slab_kb),
            slab_unreclaimable_baseline_kb: first.slab_unreclaimable_kb,
            slab_unreclaimable_peak_kb: most(|sample| sample.slab_unreclaimable_kb),
            tcp_baseline_kb: first.tcp_kb,
            tcp_peak_kb: most(|sample| sample.tcp_kb),
            tcp: last.tcp.since(first.tcp),
            dropped_by_daemon: None,
        })
    }

    /// Returns how far available memory dropped below its value before the load, KiB.
    pub fn taken_kb(&self) -> u64 {
        self.available_baseline_kb
            .saturating_sub(self.available_min_kb)
    }

    /// Returns the growth of the kernel's own objects over the value before the load, KiB: sockets, files, inodes and
    /// the like (the slab) and the pages of TCP's queues, without page tables. It complements [`RunResult::kernel_kb`](crate::result::RunResult::kernel_kb):
    /// inodes and directory entries of open sockets are counted as reclaimable, so `MemAvailable` treats them as free
    /// although they are not. Files opened by other programs during the run are included. With 9,000 idle pairs of
    /// sockets over loopback (Linux 6.18) the slab grew by 7.1 and 8.7 KiB a pair, its unreclaimable part by 5.3 and
    /// 5.3.
    pub fn objects_kb(&self) -> u64 {
        let slab = self.slab_peak_kb.saturating_sub(self.slab_baseline_kb);
        slab + self.tcp_peak_kb.saturating_sub(self.tcp_baseline_kb)
    }

    /// Returns the growth of kernel memory that memory pressure does not free, KiB: the unreclaimable part of the slab,
    /// which holds the sockets, and the pages of TCP's queues.
    pub fn unreclaimable_kb(&self) -> u64 {
        let slab = self
            .slab_unreclaimable_peak_kb
            .saturating_sub(self.slab_unreclaimable_baseline_kb);
        slab + self.tcp_peak_kb.saturating_sub(self.tcp_baseline_kb)
    }

    /// Returns the kernel memory for each of `connections` connections, KiB.
    ///
    /// # Errors
    /// The reason why no figure is possible: the growth is within the machine's own noise.
    pub fn kb_for_each(&self, connections: u64) -> Result<f64, String> {
        let grown = self.unreclaimable_kb();
        let least = NOISE_MULTIPLE * NOISE_KB;
        if grown < least || connections == 0 {
            let [grown, least, noise] =
                [grown, least, NOISE_KB].map(|kb| units::bytes(kb.saturating_mul(1024)));
            return Err(format!(
                "the kernel's unreclaimable memory grew by only {grown}; a machine moves by {noise} without a load, so the figure per connection needs at least {least}"
            ));
        }
        Ok(grown as f64 / connections as f64)
    }

    /// Returns warnings about the times of a run that drove its daemon over TCP. `slowest_ns` is the longest time of
    /// any series.
    ///
    /// The kernel retries what met a full queue: a SYN after 1 s, everything else after 200 ms or more. The measured
    /// times include that delay, which the queue caused, if the daemon's own sockets dropped connections and a time is
    /// that long. Otherwise the drops hit connections of other programs, or it is not known whose they were. Loopback
    /// loses no packets, so a retransmission there means a full queue or a stalled process.
    #[must_use]
    pub fn warnings(&self, slowest_ns: u64) -> Vec<Warning> {
        let TcpCounters {
            listen_overflows,
            listen_drops,
            syn_cookies_sent,
            timeouts,
            retransmits,
            resets: _,
        } = self.tcp;
        let dropped = listen_overflows.max(listen_drops);
        let own = self.dropped_by_daemon.unwrap_or(0);
        if own + dropped + syn_cookies_sent > 0 {
            let cookies = match syn_cookies_sent {
                0 => String::new(),
                sent => format!(
                    ", and answered {} with a SYN cookie because the SYN queue was full, which hides further drops",
                    units::count(sent)
                ),
            };
            let share = match self.dropped_by_daemon {
                Some(own) => format!("{} of them of the daemon", units::count(own)),
                None => "of the daemon or of other programs".to_owned(),
            };
            let message = format!(
                "the kernel dropped {} connections because accept queues were full, {share}{cookies}; {} segments were retransmitted",
                units::count(dropped.max(own)),
                units::count(retransmits)
            );
            let severity = if own > 0 && slowest_ns >= MIN_RETRANSMIT_NS {
                Severity::Suspect
            } else {
                Severity::Note
            };
            let hint = "lower the connect rate, or raise net.core.somaxconn and net.ipv4.tcp_max_syn_backlog together with the daemon's backlog; these counters are machine-wide";
            return vec![Kind::ListenOverflow.warning(severity, message, hint)];
        }
        if retransmits == 0 {
            return Vec::new();
        }
        let message = format!(
            "TCP retransmitted {} segments, {} of them after a timeout of 200 ms or more",
            units::count(retransmits),
            units::count(timeouts.min(retransmits))
        );
        let hint = "latencies near 200 ms or 1 s are TCP retransmissions; compare with the connect series. Counters are machine-wide";
        vec![Kind::Retransmits.note(message, hint)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(available_kb: u64, slab: u64, tcp_kb: u64, overflows: u64) -> SystemSample {
        SystemSample {
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
    fn memory_counts_from_the_first_sample_and_counters_to_the_last() {
        let samples = [
            sample(9_000, 500, 40, 7),
            sample(4_000, 2_500, 90, 8),
            sample(8_000, 700, 50, 10),
        ];
        let system = System::from_samples(&samples).unwrap();
        assert_eq!((system.taken_kb(), system.objects_kb()), (5_000, 2_050));
        assert_eq!((system.slab_baseline_kb, system.slab_peak_kb), (600, 2_600));
        assert_eq!(system.tcp.listen_overflows, 3);
        assert_eq!(System::from_samples(&[]), None);
    }

    #[test]
    fn memory_per_connection_is_reported_only_above_the_noise_of_the_machine() {
        // 45 MiB less are available, as after any build, while nine connections are open.
        let few = System::from_samples(&[sample(90_000, 500, 40, 0), sample(45_000, 620, 76, 0)])
            .unwrap();
        assert_eq!(few.unreclaimable_kb(), 156);
        let why = few.kb_for_each(9).unwrap_err();
        assert!(
            why.contains("grew by only 156 KiB") && why.contains("16.0 MiB"),
            "{why}"
        );
        let many =
            System::from_samples(&[sample(90_000, 500, 0, 0), sample(0, 16_884, 0, 0)]).unwrap();
        assert_eq!(many.kb_for_each(4_096), Ok(4.0));
        assert!(many.kb_for_each(0).is_err());
        let less =
            System::from_samples(&[sample(90_000, 500, 0, 0), sample(0, 16_883, 0, 0)]).unwrap();
        assert!(less.kb_for_each(4_096).is_err());
    }

    #[test]
    fn dropped_connections_are_suspect_and_segments_sent_again_a_note() {
        let of = |(own, listen_overflows), syn_cookies_sent, retransmits, slowest_ns| {
            let system = System {
                dropped_by_daemon: own,
                tcp: TcpCounters {
                    listen_overflows,
                    listen_drops: listen_overflows,
                    syn_cookies_sent,
                    retransmits,
                    ..TcpCounters::default()
                },
                ..System::default()
            };
            let found = system.warnings(slowest_ns);
            found
                .first()
                .map(|warning| (warning.kind, warning.severity))
        };
        assert_eq!(of((Some(0), 0), 0, 0, MIN_RETRANSMIT_NS), None);
        assert_eq!(
            of((Some(0), 0), 0, 3, MIN_RETRANSMIT_NS),
            Some((Kind::Retransmits, Severity::Note))
        );
        assert_eq!(
            of((Some(0), 0), 5, 3, MIN_RETRANSMIT_NS),
            Some((Kind::ListenOverflow, Severity::Note))
        );
        let overflow = |severity| Some((Kind::ListenOverflow, severity));
        assert_eq!(
            of((Some(2), 2), 5, 3, MIN_RETRANSMIT_NS),
            overflow(Severity::Suspect)
        );
        // Connections of other programs, or nobody knows whose.
        for own in [Some(0), None] {
            assert_eq!(
                of((own, 945), 0, 3, MIN_RETRANSMIT_NS),
                overflow(Severity::Note)
            );
        }
        assert_eq!(
            of((Some(2), 2), 5, 3, MIN_RETRANSMIT_NS - 1),
            overflow(Severity::Note),
            "nobody here has waited"
        );
    }

    #[test]
    fn memory_that_came_free_and_counters_that_fell_are_no_overflow() {
        let system =
            System::from_samples(&[sample(1_000, 500, 40, 7), sample(3_000, 400, 30, 2)]).unwrap();
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
