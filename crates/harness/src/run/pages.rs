//! The daemons' metrics pages: fetched in the background, so that a daemon that does not answer holds nothing up, and
//! added up over all daemons and all their lives.

use tokio::task::JoinSet;

use super::Gauges;
use crate::daemon::CountersCommand;
use crate::gauges;

/// A page to fetch.
#[derive(Debug)]
pub(super) struct Source {
    /// Which daemon.
    pub(super) place: usize,
    /// Which start of it.
    pub(super) life: u64,
    pub(super) origin: Origin,
}

/// Where a page comes from.
#[derive(Debug)]
pub(super) enum Origin {
    Url(String),
    /// A command prints it, before and after the load alone.
    Command(CountersCommand),
}

/// A page that was asked for; `None` where it did not come.
#[derive(Debug)]
pub(super) struct Page {
    place: usize,
    life: u64,
    gauges: Option<Gauges>,
    /// Whether it is of a command: it has counters to compare, and nothing to watch.
    printed: bool,
}

/// Fetches pages, all at the same time. Dropping the future ends it.
pub(super) async fn fetch(sources: Vec<Source>) -> Vec<Page> {
    let mut fetching = JoinSet::new();
    for source in sources {
        fetching.spawn(async move {
            let Source {
                place,
                life,
                origin,
            } = source;
            let (gauges, printed) = match origin {
                Origin::Url(url) => (gauges::scrape(&url).await.ok(), false),
                Origin::Command(command) => (command.read().await.ok(), true),
            };
            Page {
                place,
                life,
                gauges,
                printed,
            }
        });
    }
    fetching.join_all().await
}

/// All pages as one; `None` where one did not come, since a sum without it would be wrong.
pub(super) fn sum(pages: &[Page]) -> Option<Gauges> {
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

    /// What all daemons counted of a metric; `None` where none has it, or one did not say with what it began. One that
    /// counts less than at first was started again by somebody else, and counts from 0.
    pub(super) fn counted(&self, metric: &str) -> Option<Counted> {
        if self.daemons.iter().any(|account| account.unknown) {
            return None;
        }
        let of = |account: &Account| {
            let last = account.last.as_ref().and_then(|last| last.get(metric));
            let before = account.before.get(metric);
            if last.is_none() && before.is_none() {
                return None;
            }
            let first = *account.first.get(metric).unwrap_or(&0.0);
            let restarted = last.is_some_and(|last| *last < first);
            let first = if restarted { 0.0 } else { first };
            let running = last.map_or(0.0, |last| last - first);
            Some(Counted {
                number: running + before.unwrap_or(&0.0),
                whole: !restarted,
            })
        };
        let counted: Vec<Counted> = self.daemons.iter().filter_map(of).collect();
        let all_whole = counted.iter().all(|counted| counted.whole);
        (!counted.is_empty()).then(|| Counted {
            number: counted.iter().map(|counted| counted.number).sum(),
            whole: all_whole && !self.daemons.iter().any(|account| account.short),
        })
    }
}

/// A count of all daemons together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counted {
    pub(super) number: f64,
    /// Whether nothing of it can be missing.
    pub(super) whole: bool,
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
            printed: false,
        }
    }

    fn opened() -> Ledger {
        Ledger::open(2, vec![page(0, 0, Some(1.0)), page(1, 0, Some(1.0))])
    }

    fn whole(number: f64) -> Option<Counted> {
        let whole = true;
        Some(Counted { number, whole })
    }

    #[test]
    fn what_several_daemons_counted_is_summed_without_what_was_there_before() {
        let mut ledger = opened();
        ledger.close(&[page(0, 0, Some(11.0)), page(1, 0, Some(21.0))]);
        assert_eq!(ledger.counted("handoffs"), whole(30.0));
        assert_eq!(ledger.counted("nothing"), None);
    }

    #[test]
    fn a_new_start_counts_from_0_and_adds_to_what_the_life_before_was_last_seen_with() {
        let mut ledger = opened();
        ledger.note(&[page(0, 0, Some(8.0)), page(1, 0, Some(4.0))]);
        ledger.reborn(0, 1);
        ledger.note(&[page(0, 0, Some(9.0))]);
        ledger.close(&[page(0, 1, Some(5.0)), page(1, 0, Some(6.0))]);
        // What came after the last page is not known.
        let number = 7.0 + 5.0 + 5.0;
        let whole = false;
        assert_eq!(ledger.counted("handoffs"), Some(Counted { number, whole }));
    }

    #[test]
    fn a_daemon_that_somebody_else_started_again_counts_from_0_and_not_below() {
        let mut ledger = Ledger::open(1, vec![page(0, 0, Some(1_000.0))]);
        ledger.close(&[page(0, 0, Some(5.0))]);
        let (number, whole) = (5.0, false);
        assert_eq!(ledger.counted("handoffs"), Some(Counted { number, whole }));
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
        assert!(
            ledger
                .counted("handoffs")
                .is_some_and(|counted| !counted.whole)
        );
    }
}
