//! The rows of a run, on disk while it lasts: the histograms of a second are kilobytes, and a run may last for hours.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, Write as _};

use anyhow::Context as _;
use measure::result::Second;

use crate::store::Folder;

/// Rows in a file without a name, which vanishes with the process.
#[derive(Debug)]
pub(super) struct Rows {
    file: File,
    written: usize,
    /// Those that came when the disk took no more: a full one must not end the run.
    kept: Vec<Second>,
}

impl Rows {
    /// No rows yet, on the disk that the result goes to.
    pub(super) fn beside(folder: &Folder) -> anyhow::Result<Self> {
        let path = folder.path();
        let file = tempfile::tempfile_in(path)
            .with_context(|| format!("creating a temporary file in {}", path.display()))?;
        Ok(Self::of(file))
    }

    fn of(file: File) -> Self {
        Self {
            file,
            written: 0,
            kept: Vec::new(),
        }
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, row: Second) {
        // Behind a row that was cut off nothing is written any more.
        if self.kept.is_empty() && self.write(&row).is_ok() {
            self.written += 1;
        } else {
            self.kept.push(row);
        }
    }

    fn write(&mut self, row: &Second) -> io::Result<()> {
        self.file.write_all(&serde_json::to_vec(row)?)
    }

    /// All rows in their order; and why some are missing, where that is so.
    pub(super) fn read_back(mut self) -> (Vec<Second>, Option<String>) {
        let mut rows = Vec::new();
        let lost = self.read(&mut rows).err().map(|error| error.to_string());
        rows.append(&mut self.kept);
        (rows, lost)
    }

    fn read(&mut self, rows: &mut Vec<Second>) -> io::Result<()> {
        self.file.rewind()?;
        let read = serde_json::Deserializer::from_reader(BufReader::new(&self.file));
        for row in read.into_iter().take(self.written) {
            rows.push(row?);
        }
        match self.written - rows.len() {
            0 => Ok(()),
            missing => Err(io::Error::other(format!("{missing} are gone"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::result::SecondSeries;
    use measure::tally::Distribution;

    use super::*;

    fn row(second: u64) -> Second {
        let mut values = Distribution::default();
        (0..=second).for_each(|value| values.record(1_000 * value + 1));
        Second {
            second,
            active_mean: Some(second as f64 / 7.0),
            counts: [("started".to_owned(), second)].into(),
            series: SecondSeries::of("response", &values).into_iter().collect(),
            ..Second::default()
        }
    }

    fn filled(file: File) -> Rows {
        let mut rows = Rows::of(file);
        (0..20).for_each(|second| rows.push(row(second)));
        rows
    }

    #[test]
    fn rows_are_held_on_disk_and_come_back_as_they_were() {
        let rows = filled(tempfile::tempfile().unwrap());
        assert!(rows.kept.is_empty());
        assert_eq!(rows.read_back(), ((0..20).map(row).collect(), None));
    }

    #[test]
    fn rows_that_a_full_disk_does_not_take_are_kept_in_memory() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let rows = filled(full);
        assert_eq!(rows.kept.len(), 20);
        assert_eq!(rows.read_back().0, (0..20).map(row).collect::<Vec<_>>());
    }

    #[test]
    fn rows_that_can_not_be_read_back_are_told() {
        let nothing = File::options().read(true).write(true).open("/dev/null");
        let (rows, lost) = filled(nothing.unwrap()).read_back();
        assert_eq!((rows, lost), (Vec::new(), Some("20 are gone".to_owned())));
    }
}
