//! The daemons' metrics pages: fetched in the background, so that a daemon that does not answer holds nothing up, and
//! added up over all daemons and all their lives.

use tokio::task::JoinSet;

use super::Gauges;
use crate::gauges;

/// A page to fetch.
#[derive(Debug)]
pub(super) struct Source {
    /// Which daemon.
    pub(super) place: usize,
    /// Which start of it.
    pub(super) life: u64,
    pub(super) url: String,
}

/// A page that was asked for; `None` where it did not come.
#[derive(Debug)]
pub(super) struct Page {
    place: usize,
    life: u64,
    gauges: Option<Gauges>,
}

/// Fetches pages, all at the same time. Dropping the future ends it.
pub(super) async fn fetch(sources: Vec<Source>) -> Vec<Page> {
    let mut fetching = JoinSet::new();
    for Source { place, life, url } in sources {
        fetching.spawn(async move {
            Page {
                place,
                life,
                gauges: gauges::scrape(&url).await.ok(),
            }
        });
    }
    fetching.join_all().await
}

/// All pages as one; `None` where one did not come, since a sum without it would be wrong.
pub(super) fn sum(pages: &[Page]) -> Option<Gauges> {
    let mut sum = Gauges::new();
    for page in pages {
        add(&mut sum, page.gauges.as_ref()?, 1.0);
    }
    (!pages.is_empty()).then_some(sum)
}

fn add(sum: &mut Gauges, page: &Gauges, sign: f64) {
    for (name, value) in page {
        *sum.entry(name.clone()).or_default() += sign * value;
    }
}

/// What the daemons counted from the beginning of the load, over all their lives.
#[derive(Debug)]
pub(super) struct Ledger {
    daemons: Vec<Account>,
}

#[derive(Debug, Default)]
struct Account {
    life: u64,
    /// The page with which the running life began: empty after a new start.
    first: Gauges,
    /// The newest page of the running life.
    last: Option<Gauges>,
    /// What the lives before had counted when they were last seen.
    before: Gauges,
    /// Whether what is counted may lack something.
    short: bool,
    /// Whether it is not known what it had counted before the load.
    unknown: bool,
}

impl Ledger {
    /// Begins with the pages before the load.
    pub(super) fn open(daemons: usize, pages: Vec<Page>) -> Self {
        let mut ledger = Self {
            daemons: (0..daemons).map(|_| Account::default()).collect(),
        };
        for page in pages {
            let account = &mut ledger.daemons[page.place];
            account.unknown = page.gauges.is_none();
            account.last.clone_from(&page.gauges);
            account.first = page.gauges.unwrap_or_default();
        }
        ledger
    }

    /// Notes newer pages. One of a life that is over says nothing new.
    pub(super) fn note(&mut self, pages: &[Page]) {
        for page in pages {
            let account = &mut self.daemons[page.place];
            if account.life == page.life
                && let Some(gauges) = &page.gauges
            {
                account.last = Some(gauges.clone());
            }
        }
    }

    /// A daemon was started again: it counts from 0, and what it did after its last page is lost.
    pub(super) fn reborn(&mut self, place: usize, life: u64) {
        let account = &mut self.daemons[place];
        let last = account.last.take().unwrap_or_default();
        add(&mut account.before, &last, 1.0);
        let first = std::mem::take(&mut account.first);
        add(&mut account.before, &first, -1.0);
        account.life = life;
        account.short = true;
    }

    /// Ends with the pages after the load.
    pub(super) fn close(&mut self, pages: &[Page]) {
        self.note(pages);
        for (place, account) in self.daemons.iter_mut().enumerate() {
            let came = |page: &Page| page.place == place && page.gauges.is_some();
            account.short |= !pages.iter().any(came);
        }
    }

    /// What all daemons counted of a metric; `None` where none has it, or one did not say with what it began.
    pub(super) fn counted(&self, metric: &str) -> Option<f64> {
        if self.daemons.iter().any(|account| account.unknown) {
            return None;
        }
        let of = |account: &Account| {
            let last = account.last.as_ref().and_then(|last| last.get(metric));
            let before = account.before.get(metric);
            if last.is_none() && before.is_none() {
                return None;
            }
            let first = account.first.get(metric).unwrap_or(&0.0);
            let running = last.map_or(0.0, |last| last - first);
            Some(running + before.unwrap_or(&0.0))
        };
        let counted: Vec<f64> = self.daemons.iter().filter_map(of).collect();
        (!counted.is_empty()).then(|| counted.iter().sum())
    }

    /// Whether nothing can be missing.
    pub(super) fn is_whole(&self) -> bool {
        !self.daemons.iter().any(|account| account.short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(place: usize, life: u64, value: Option<f64>) -> Page {
        let gauges = value.map(|value| [("handoffs".to_owned(), value)].into());
        Page {
            place,
            life,
            gauges,
        }
    }

    fn opened() -> Ledger {
        Ledger::open(2, vec![page(0, 0, Some(1.0)), page(1, 0, Some(1.0))])
    }

    #[test]
    fn what_several_daemons_counted_is_summed_without_what_was_there_before() {
        let mut ledger = opened();
        ledger.close(&[page(0, 0, Some(11.0)), page(1, 0, Some(21.0))]);
        assert_eq!(
            (ledger.counted("handoffs"), ledger.is_whole()),
            (Some(30.0), true)
        );
        assert_eq!(ledger.counted("nothing"), None);
    }

    #[test]
    fn a_new_start_counts_from_0_and_adds_to_what_the_life_before_was_last_seen_with() {
        let mut ledger = opened();
        ledger.note(&[page(0, 0, Some(8.0)), page(1, 0, Some(4.0))]);
        ledger.reborn(0, 1);
        ledger.note(&[page(0, 0, Some(9.0))]);
        ledger.close(&[page(0, 1, Some(5.0)), page(1, 0, Some(6.0))]);
        assert_eq!(ledger.counted("handoffs"), Some(7.0 + 5.0 + 5.0));
        assert!(
            !ledger.is_whole(),
            "what came after the last page is not known"
        );
    }

    #[test]
    fn what_a_daemon_had_counted_before_is_not_guessed() {
        let mut ledger = Ledger::open(2, vec![page(0, 0, Some(1.0)), page(1, 0, None)]);
        ledger.close(&[page(0, 0, Some(11.0)), page(1, 0, Some(1_000.0))]);
        assert_eq!(ledger.counted("handoffs"), None);
    }

    #[test]
    fn a_page_that_did_not_come_leaves_no_sum() {
        assert_eq!(sum(&[page(0, 0, Some(1.0)), page(1, 0, None)]), None);
        assert_eq!(sum(&[]), None);
        let both = sum(&[page(0, 0, Some(1.0)), page(1, 0, Some(2.0))]).unwrap();
        assert_eq!(both["handoffs"], 3.0);
        let mut ledger = opened();
        ledger.close(&[page(0, 0, Some(2.0)), page(1, 0, None)]);
        assert!(!ledger.is_whole());
    }
}
