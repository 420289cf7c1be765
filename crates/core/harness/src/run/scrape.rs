//! Fetches the daemons' metrics pages in the background, so that a daemon that does not answer delays nothing. Adds
//! the counters up over all daemons and all their starts.

use tokio::task::JoinSet;

use super::Gauges;
use subject::daemon::CountersCommand;
use subject::prometheus;

/// A page to fetch.
#[derive(Debug)]
pub(super) struct ScrapeTarget {
    /// The index of the daemon.
    pub(super) index: usize,
    /// The number of the daemon's start.
    pub(super) restarts: u64,
    pub(super) origin: Origin,
}

/// The origin of a page.
#[derive(Debug)]
pub(super) enum Origin {
    Url(String),
    /// Printed by a command, only before and after the load.
    Command(CountersCommand),
}

/// A page that was requested; without gauges if it did not arrive.
#[derive(Debug)]
pub(super) struct Scrape {
    index: usize,
    restarts: u64,
    gauges: Option<Gauges>,
    /// True for the output of a command: it has counters to compare, and no gauges to watch.
    printed: bool,
}

/// Fetches pages, all at the same time. Dropping the future cancels them.
pub(super) async fn fetch(scrape_targets: Vec<ScrapeTarget>) -> Vec<Scrape> {
    let mut fetching = JoinSet::new();
    for source in scrape_targets {
        fetching.spawn(async move {
            let ScrapeTarget {
                index,
                restarts,
                origin,
            } = source;
            let (gauges, printed) = match origin {
                Origin::Url(url) => (prometheus::scrape(&url).await.ok(), false),
                Origin::Command(command) => (command.read().await.ok(), true),
            };
            Scrape {
                index,
                restarts,
                gauges,
                printed,
            }
        });
    }
    fetching.join_all().await
}

/// Returns the sum of all pages; `None` if one did not arrive, because the sum would be wrong.
pub(super) fn sum(pages: &[Scrape]) -> Option<Gauges> {
    let mut sum = None;
    for page in pages.iter().filter(|page| !page.printed) {
        let sum = sum.get_or_insert_with(Gauges::new);
        add(sum, page.gauges.as_ref()?, 1.0);
    }
    sum
}

fn add(sum: &mut Gauges, page: &Gauges, sign: f64) {
    for (name, value) in page {
        *sum.entry(name.clone()).or_default() += sign * value;
    }
}

/// The counters of the daemons since the beginning of the load, over all their starts.
#[derive(Debug)]
pub(super) struct DaemonCounters {
    daemons: Vec<InstanceCounters>,
}

#[derive(Debug, Default)]
struct InstanceCounters {
    restarts: u64,
    /// The page at the beginning of the current start: empty after a restart.
    first: Gauges,
    /// The newest page of the current start.
    last: Option<Gauges>,
    /// The counts of previous starts, as last seen.
    before: Gauges,
    /// True if the count may be incomplete.
    incomplete: bool,
    /// True if the counts before the load are unknown.
    unknown: bool,
    /// The page after the load, empty if it did not arrive; absent if it was not requested.
    at_end: Option<Gauges>,
}

/// A page that could not be read before or after the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unread {
    /// The index of the daemon.
    pub(super) index: usize,
    /// True if the page could be read before the load.
    pub(super) answered_before: bool,
}

impl DaemonCounters {
    /// Begins with the pages before the load.
    pub(super) fn open(daemons: usize, pages: Vec<Scrape>) -> Self {
        let mut daemon_counters = Self {
            daemons: (0..daemons).map(|_| InstanceCounters::default()).collect(),
        };
        for page in pages {
            let instance = &mut daemon_counters.daemons[page.index];
            instance.unknown = page.gauges.is_none();
            instance.last.clone_from(&page.gauges);
            instance.first = page.gauges.unwrap_or_default();
        }
        daemon_counters
    }

    /// Stores newer pages. A page of a previous start is ignored.
    pub(super) fn note(&mut self, pages: &[Scrape]) {
        for page in pages {
            let instance = &mut self.daemons[page.index];
            if instance.restarts == page.restarts
                && let Some(gauges) = &page.gauges
            {
                instance.last = Some(gauges.clone());
            }
        }
    }

    /// Registers a restart: the daemon counts from 0, and its counts after the last page are lost.
    pub(super) fn restarted(&mut self, index: usize, restarts: u64) {
        let instance = &mut self.daemons[index];
        let last = instance.last.take().unwrap_or_default();
        add(&mut instance.before, &last, 1.0);
        let first = std::mem::take(&mut instance.first);
        add(&mut instance.before, &first, -1.0);
        instance.restarts = restarts;
        instance.incomplete = true;
    }

    /// Ends with the pages after the load.
    pub(super) fn close(&mut self, pages: &[Scrape]) {
        self.note(pages);
        for (index, instance) in self.daemons.iter_mut().enumerate() {
            let page = pages.iter().find(|page| page.index == index);
            instance.incomplete |= page.is_none_or(|page| page.gauges.is_none());
            instance.at_end = page.map(|page| page.gauges.clone().unwrap_or_default());
        }
    }

    /// Returns the pages that could not be read before or after the load. A page that no longer has a number for one of
    /// the `compared` metrics was not read either. A daemon that was down at the end was not asked.
    pub(super) fn unread(&self, compared: &[&str]) -> Vec<Unread> {
        let unread = |(index, instance): (usize, &InstanceCounters)| {
            let at_end = instance.at_end.as_ref()?;
            let InstanceCounters { first, before, .. } = instance;
            let is_known =
                |metric: &&str| first.contains_key(*metric) || before.contains_key(*metric);
            let is_empty = at_end.is_empty();
            let mut known = compared.iter().filter(|metric| is_known(metric));
            let answered_before = known.any(|metric| !at_end.contains_key(*metric))
                || (is_empty && !(first.is_empty() && before.is_empty()));
            (answered_before || is_empty || instance.unknown).then_some(Unread {
                index,
                answered_before,
            })
        };
        let daemons = self.daemons.iter().enumerate();
        daemons.filter_map(unread).collect()
    }

    /// Returns the count of a metric over all daemons; `None` if no daemon has it, or the count before the load is
    /// unknown for one of them. A daemon that counts less than at first was restarted by somebody else, and counts
    /// from 0.
    pub(super) fn counted(&self, metric: &str) -> Option<Counted> {
        if self.daemons.iter().any(|instance| instance.unknown) {
            return None;
        }
        let of = |instance: &InstanceCounters| {
            let last = instance.last.as_ref().and_then(|last| last.get(metric));
            let before = instance.before.get(metric);
            if last.is_none() && before.is_none() {
                return None;
            }
            let first = *instance.first.get(metric).unwrap_or(&0.0);
            let restarted = last.is_some_and(|last| *last < first);
            let first = if restarted { 0.0 } else { first };
            let running = last.map_or(0.0, |last| last - first);
            Some(Counted {
                number: running + before.unwrap_or(&0.0),
                complete: !restarted,
            })
        };
        let counted: Vec<Counted> = self.daemons.iter().filter_map(of).collect();
        let all_complete = counted.iter().all(|counted| counted.complete);
        (!counted.is_empty()).then(|| Counted {
            number: counted.iter().map(|counted| counted.number).sum(),
            complete: all_complete && !self.daemons.iter().any(|instance| instance.incomplete),
        })
    }
}

/// A count of all daemons together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counted {
    pub(crate) number: f64,
    /// True if the count is complete.
    pub(crate) complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(index: usize, restarts: u64, value: Option<f64>) -> Scrape {
        let gauges = value.map(|value| [("handoffs".to_owned(), value)].into());
        Scrape {
            index,
            restarts,
            gauges,
            printed: false,
        }
    }

    fn opened() -> DaemonCounters {
        DaemonCounters::open(2, vec![page(0, 0, Some(1.0)), page(1, 0, Some(1.0))])
    }

    fn complete(number: f64) -> Option<Counted> {
        let complete = true;
        Some(Counted { number, complete })
    }

    #[test]
    fn counters_of_several_daemons_are_summed_without_their_first_values() {
        let mut daemon_counters = opened();
        daemon_counters.close(&[page(0, 0, Some(11.0)), page(1, 0, Some(21.0))]);
        assert_eq!(daemon_counters.counted("handoffs"), complete(30.0));
        assert_eq!(daemon_counters.counted("nothing"), None);
    }

    #[test]
    fn a_new_start_counts_from_0_and_adds_to_what_the_life_before_was_last_seen_with() {
        let mut daemon_counters = opened();
        daemon_counters.note(&[page(0, 0, Some(8.0)), page(1, 0, Some(4.0))]);
        daemon_counters.restarted(0, 1);
        daemon_counters.note(&[page(0, 0, Some(9.0))]);
        daemon_counters.close(&[page(0, 1, Some(5.0)), page(1, 0, Some(6.0))]);
        // Counts after the last page are unknown.
        let number = 7.0 + 5.0 + 5.0;
        let complete = false;
        assert_eq!(
            daemon_counters.counted("handoffs"),
            Some(Counted { number, complete })
        );
    }

    #[test]
    fn an_instance_that_stays_away_keeps_its_last_count_and_leaves_the_sum_incomplete() {
        let mut daemon_counters = opened();
        daemon_counters.note(&[page(0, 0, Some(8.0)), page(1, 0, Some(4.0))]);
        // Its page is not requested any more.
        daemon_counters.note(&[page(0, 0, Some(11.0))]);
        daemon_counters.close(&[page(0, 0, Some(21.0))]);
        let (number, complete) = (20.0 + 3.0, false);
        assert_eq!(
            daemon_counters.counted("handoffs"),
            Some(Counted { number, complete })
        );
    }

    #[test]
    fn a_daemon_that_somebody_else_started_again_counts_from_0_and_not_below() {
        let mut daemon_counters = DaemonCounters::open(1, vec![page(0, 0, Some(1_000.0))]);
        daemon_counters.close(&[page(0, 0, Some(5.0))]);
        let (number, complete) = (5.0, false);
        assert_eq!(
            daemon_counters.counted("handoffs"),
            Some(Counted { number, complete })
        );
    }

    #[test]
    fn a_page_that_vanished_or_has_no_number_any_more_is_unread() {
        let unread = |first: Option<f64>, last: Vec<Scrape>| {
            let mut counters = DaemonCounters::open(1, vec![page(0, 0, first)]);
            counters.close(&last);
            let found = counters.unread(&["handoffs", "other"]).into_iter().next();
            found.map(|unread| unread.answered_before)
        };
        let html = || Scrape {
            gauges: Some(Gauges::new()),
            ..page(0, 0, None)
        };
        // As `NaN` is parsed.
        let without_a_number = || Scrape {
            gauges: Some([("idle".to_owned(), 1.0)].into()),
            ..page(0, 0, None)
        };
        let both_ends = vec![page(0, 0, Some(2.0))];
        assert_eq!(unread(Some(1.0), both_ends), None);
        for last in [page(0, 0, None), html(), without_a_number()] {
            assert_eq!(unread(Some(1.0), vec![last]), Some(true));
        }
        for last in [page(0, 0, None), html(), page(0, 0, Some(2.0))] {
            assert_eq!(unread(None, vec![last]), Some(false));
        }
        // A daemon that a fault has ended, and a user who did not wait.
        assert_eq!(unread(Some(1.0), Vec::new()), None);
        let mut restarted = opened();
        restarted.restarted(0, 1);
        restarted.close(&[page(0, 1, None), page(1, 0, Some(2.0))]);
        let vanished = Unread {
            index: 0,
            answered_before: true,
        };
        assert_eq!(restarted.unread(&["handoffs"]), [vanished]);
    }

    #[test]
    fn an_unknown_first_value_is_not_guessed() {
        let mut daemon_counters =
            DaemonCounters::open(2, vec![page(0, 0, Some(1.0)), page(1, 0, None)]);
        daemon_counters.close(&[page(0, 0, Some(11.0)), page(1, 0, Some(1_000.0))]);
        assert_eq!(daemon_counters.counted("handoffs"), None);
    }

    #[test]
    fn a_page_that_did_not_come_leaves_no_sum() {
        assert_eq!(sum(&[page(0, 0, Some(1.0)), page(1, 0, None)]), None);
        assert_eq!(sum(&[]), None);
        let both = sum(&[page(0, 0, Some(1.0)), page(1, 0, Some(2.0))]).unwrap();
        assert_eq!(both["handoffs"], 3.0);
        let mut daemon_counters = opened();
        daemon_counters.close(&[page(0, 0, Some(2.0)), page(1, 0, None)]);
        assert!(
            daemon_counters
                .counted("handoffs")
                .is_some_and(|counted| !counted.complete)
        );
    }
}
