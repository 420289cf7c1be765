//! Corrections of the counts of all processes of a run, for operations that begin in one process and end in another.

use measure::result::{Second, SecondSeries};
use measure::spec::SeriesSpec;
use measure::tally::{Counts, DecodeError, Distribution, Tally, merge_counts};

/// Corrections of the sum of what the processes of a run have counted, by what only all of them together know.
#[derive(Debug)]
pub struct Reconciliation {
    /// Outcomes that no process has counted.
    pub added: Tally,
    /// Counters and errors that several processes have counted for one operation.
    pub withdrawn: Tally,
}

impl Reconciliation {
    /// Creates an empty reconciliation of a driver with these series.
    #[must_use]
    pub fn new(specs: &'static [SeriesSpec]) -> Self {
        Self {
            added: Tally::new(specs),
            withdrawn: Tally::new(specs),
        }
    }

    /// Corrects the totals of a run and its seconds, whose sums stay equal: additions belong to the last second, and
    /// withdrawals to the last seconds that have the counter.
    ///
    /// # Errors
    /// A histogram of the last second that cannot be decoded.
    pub fn apply(&self, total: &mut Tally, seconds: &mut [Second]) -> Result<(), DecodeError> {
        total.merge(&self.added);
        let Self { added, withdrawn } = self;
        let withdrawals = [
            (&withdrawn.counts, &mut total.counts),
            (&withdrawn.errors, &mut total.errors),
        ];
        for (withdrawn, total) in withdrawals {
            for (name, number) in withdrawn {
                if let Some(count) = total.get_mut(name) {
                    *count = count.saturating_sub(*number);
                }
            }
        }
        if let Some(last) = seconds.last_mut() {
            merge_counts(&mut last.counts, &added.counts);
            merge_counts(&mut last.errors, &added.errors);
            for (name, values) in added.series().filter(|(_, values)| !values.is_empty()) {
                add_to_series(&mut last.series, name, values)?;
            }
        }
        withdraw(seconds, &withdrawn.counts, |second| &mut second.counts);
        withdraw(seconds, &withdrawn.errors, |second| &mut second.errors);
        Ok(())
    }
}

fn add_to_series(
    row: &mut Vec<SecondSeries>,
    name: &str,
    values: &Distribution,
) -> Result<(), DecodeError> {
    let found = row.iter().position(|series| series.name == name);
    let mut sum = match found {
        Some(index) => {
            let series = row.remove(index);
            Distribution::decode(&series.histogram, series.clamped)?
        }
        None => Distribution::default(),
    };
    sum.merge(values);
    row.extend(SecondSeries::from_distribution(name, &sum));
    Ok(())
}

fn withdraw(seconds: &mut [Second], withdrawn: &Counts, counts: fn(&mut Second) -> &mut Counts) {
    for (name, number) in withdrawn {
        let mut left = *number;
        for second in seconds.iter_mut().rev() {
            if let Some(count) = counts(second).get_mut(name) {
                let part = left.min(*count);
                *count -= part;
                left -= part;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::spec::SeriesRole;
    use measure::tally::Series;

    const SPECS: &[SeriesSpec] = &[SeriesSpec::new("one", SeriesRole::Main)];
    const ONE: Series = Series(0);

    fn row(second: u64, tally: &Tally) -> Second {
        let series = tally.series();
        Second {
            second,
            counts: tally.counts.clone(),
            errors: tally.errors.clone(),
            series: series
                .filter_map(|(name, values)| SecondSeries::from_distribution(name, values))
                .collect(),
            ..Second::default()
        }
    }

    #[test]
    fn totals_and_rows_stay_equal() {
        let mut tally = Tally::new(SPECS);
        tally.count("ok", 2);
        tally.error("nacked");
        tally.record(ONE, 1_000);
        let mut total = Tally::new(SPECS);
        let mut rows: Vec<Second> = (0..3).map(|second| row(second, &tally)).collect();
        (0..3).for_each(|_| total.merge(&tally));

        let mut reconciliation = Reconciliation::new(SPECS);
        reconciliation.added.count("unfinished", 4);
        reconciliation.added.record(ONE, 5_000);
        reconciliation.withdrawn.count("ok", 3);
        reconciliation.withdrawn.error("nacked");
        reconciliation.apply(&mut total, &mut rows).unwrap();

        assert_eq!(total.counted("ok"), 3);
        assert_eq!(total.counted("unfinished"), 4);
        assert_eq!(total.errors["nacked"], 2);
        assert_eq!(total.distribution(ONE).len(), 4);
        let sum = |name: &str| -> u64 { rows.iter().filter_map(|row| row.counts.get(name)).sum() };
        assert_eq!([sum("ok"), sum("unfinished")], [3, 4]);
        assert_eq!(
            [
                rows[0].counts["ok"],
                rows[1].counts["ok"],
                rows[2].counts["ok"]
            ],
            [2, 1, 0]
        );
        assert_eq!(rows.iter().map(|row| row.errors["nacked"]).sum::<u64>(), 2);
        let last = &rows[2].series[0];
        let values = Distribution::decode(&last.histogram, last.clamped).unwrap();
        assert_eq!(values.len(), 2);
    }
}
