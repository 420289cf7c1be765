//! Time in nanoseconds of `CLOCK_MONOTONIC`: the only place where clocks are read.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND: u64 = 1_000_000_000;

/// Returns the nanoseconds of `CLOCK_MONOTONIC`, comparable between threads and processes of one boot.
#[must_use]
pub fn now() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds since 1970, for people and for other machines. Not suitable for durations.
#[must_use]
pub fn unix_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Returns the difference between the wall clock and `CLOCK_MONOTONIC`, in nanoseconds: the monotonic time of an instant
/// of the wall clock is that instant minus the difference. It changes if the wall clock is set or slewed.
#[must_use]
pub fn wall_offset() -> u64 {
    let sandwiched = || {
        let before = now();
        let wall = unix_ns();
        let after = now();
        (after - before, wall.saturating_sub(before.midpoint(after)))
    };
    // A thread may lose its CPU between two readings; the closest readings are the best ones.
    let readings = (0..5).map(|_| sandwiched());
    readings.min().expect("five readings were taken").1
}

/// Returns whether the kernel's wall clock is synchronised, and the bound of its error in nanoseconds (`maxerror` of
/// adjtimex(2)). Without a time service, or where the system call is not allowed, it is not synchronised and has no
/// bound.
#[must_use]
#[expect(unsafe_code, reason = "adjtimex has no safe wrapper")]
pub fn synchronisation() -> (bool, Option<u64>) {
    // SAFETY: a `timex` consists of integers, for which zero is valid; with `modes` 0 the call only fills it in.
    let (state, read) = unsafe {
        let mut state: libc::timex = std::mem::zeroed();
        let read = libc::adjtimex(&raw mut state);
        (state, read)
    };
    let is_synchronised = read >= 0 && state.status & libc::STA_UNSYNC == 0;
    let bound = u64::try_from(state.maxerror).ok().map(|us| us * 1_000);
    (is_synchronised, bound.filter(|_| is_synchronised))
}

/// Returns the CPU time, user and system, that the calling thread has used, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("every Linux has this clock");
    let part = |part: i64| u64::try_from(part).expect("no clock reads before its zero");
    part(time.tv_sec()) * SECOND + part(time.tv_nsec())
}

/// A timerfd on the runtime's reactor, for loops of futures. Tokio's own timers have a resolution of 1 ms and wake
/// 640–940 µs late at the median at 4 kHz; a timerfd wakes 28–47 µs late.
#[derive(Debug)]
pub struct Timer(AsyncFd<Descriptor>);

impl Timer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// No file descriptor is left for it.
    ///
    /// # Panics
    /// Outside a Tokio runtime that drives I/O.
    #[expect(
        unsafe_code,
        reason = "Tokio has no safe way to watch a descriptor of a kind that it does not know"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(timerfd::ClockId::CLOCK_MONOTONIC, flags)?;
        // SAFETY: `Descriptor` owns the timerfd, gives out no other descriptor, and is closed only by the drop of the
        // `AsyncFd` that owns it.
        let watched =
            unsafe { AsyncFd::register_with_interest(Descriptor(timer), Interest::READABLE) };
        watched.map(Self).map_err(|failure| failure.into_parts().1)
    }

    /// Waits until `at` or later, never less; returns at once if `at` has passed.
    /// Cancel-safe: a dropped wait leaves nothing behind that affects a later one.
    ///
    /// Setting the timer discards an unseen expiry, and the reactor's edge-triggered epoll reports
    /// each expiry by itself. The count is therefore never read, which saves one system call per wait. Readiness may
    /// be left over from an earlier, dropped wait; the check of the clock filters it out.
    pub async fn sleep_until(&self, at: u64) {
        if now() >= at {
            return;
        }
        self.0.get_ref().set(at);
        loop {
            let mut ready = self
                .0
                .readable()
                .await
                .expect("the runtime outlives its tasks");
            ready.clear_ready();
            if now() >= at {
                return;
            }
        }
    }
}

/// A timerfd with the `AsRawFd` that `AsyncFd` requires and nix's type does not implement.
#[derive(Debug)]
struct Descriptor(TimerFd);

impl Descriptor {
    fn set(&self, at: u64) {
        // The kernel's seconds are signed; the furthest that they reach is 292 years from boot.
        let at = TimeSpec::from_duration(Duration::from_nanos(at.min(i64::MAX as u64)));
        self.0
            .set(
                Expiration::OneShot(at),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .expect("an absolute time after boot is valid");
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_of_the_wall_clock_is_found_on_the_monotonic_clock() {
        let offset = wall_offset();
        let (before, wall, after) = (now(), unix_ns(), now());
        let monotonic = wall - offset;
        // A time service may slew the clock by 500 parts per million.
        let slack = 1_000_000;
        assert!(monotonic + slack >= before && monotonic <= after + slack);
    }

    #[test]
    fn a_bound_is_known_only_of_a_synchronised_clock() {
        let (is_synchronised, bound) = synchronisation();
        assert_eq!(bound.is_some(), is_synchronised);
    }
}
