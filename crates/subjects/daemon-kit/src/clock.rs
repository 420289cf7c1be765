//! Time in nanoseconds of CLOCK_MONOTONIC, and a timer that is late by microseconds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::watch;
use nix::sys::time::TimeSpec;
use nix::sys::timer::TimerSetTimeFlags;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags};
use nix::time::{ClockId, clock_gettime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Returns the time in nanoseconds of CLOCK_MONOTONIC, which [`Timer`] uses too.
///
/// # Panics
/// The system is without that clock.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has CLOCK_MONOTONIC");
    time.tv_sec().unsigned_abs() * NANOS_PER_SECOND + time.tv_nsec().unsigned_abs()
}

/// A one-shot timer.
///
/// It is a timerfd because Tokio's own timers count whole milliseconds and are late by most of one; this one is late by
/// some tens of microseconds. It is set once, while a timer of Tokio gives a timeout to each wait of the runtime, which
/// the kernel starts and cancels.
#[derive(Debug)]
pub struct Timer {
    timer: TimerFd,
    /// A second descriptor of the same timer.
    watched: AsyncFd<OwnedFd>,
    armed: Option<u64>,
}

impl Timer {
    /// Creates the timer unarmed. Needs a Tokio runtime with I/O.
    ///
    /// # Errors
    /// The system refuses the timer, most often because too many files are open.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(timerfd::ClockId::CLOCK_MONOTONIC, flags)?;
        let watched = watch(timer.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
        Ok(Self {
            timer,
            watched,
            armed: None,
        })
    }

    /// Sets the timer to `at` (nanoseconds, as [`now`] counts); a time in the past fires at once. Setting it to its
    /// current time costs nothing.
    ///
    /// # Errors
    /// The system refuses the time.
    pub fn set(&mut self, at: u64) -> io::Result<()> {
        if self.armed == Some(at) {
            return Ok(());
        }
        // Zero would disarm the timer instead of firing at once.
        let wait = Duration::from_nanos(at.saturating_sub(now()).max(1));
        let wait = Expiration::OneShot(TimeSpec::from_duration(wait));
        self.timer.set(wait, TimerSetTimeFlags::empty())?;
        self.armed = Some(at);
        Ok(())
    }

    /// Waits until the timer has fired. It may return early, once, after it was set again: callers check the clock. May
    /// be dropped at any time.
    ///
    /// The descriptor is never read: it is watched for edges, and setting the timer again resets it.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn expired(&mut self) -> io::Result<()> {
        self.watched.readable().await?.clear_ready();
        self.armed = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_timer_never_fires_early_even_when_it_is_set_again() {
        let mut timer = Timer::new().unwrap();
        for wait in [0, 1_000_000, 3_000_000, 200_000] {
            let due = now() + wait;
            timer.set(due + 50_000_000).unwrap();
            timer.set(due).unwrap();
            timer.expired().await.unwrap();
            assert!(now() >= due);
        }
    }

    #[tokio::test]
    async fn a_time_in_the_past_fires_at_once() {
        let mut timer = Timer::new().unwrap();
        timer.set(0).unwrap();
        timer.expired().await.unwrap();
    }
}
