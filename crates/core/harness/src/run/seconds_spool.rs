//! Stores the seconds of a run on disk while it lasts: the histograms of a second are kilobytes, and a run may last for
//! hours.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, Write as _};

use anyhow::Context as _;
use measure::result::Second;

use crate::store::Folder;

/// Seconds in an unnamed file, which vanishes with the process.
#[derive(Debug)]
pub(super) struct SecondsSpool {
    file: File,
    written: usize,
    /// Seconds that the disk did not take: a full disk must not end the run.
    kept: Vec<Second>,
}

impl SecondsSpool {
    /// Creates an empty store on the disk of the result.
    pub(super) fn beside(folder: &Folder) -> anyhow::Result<Self> {
        let path = folder.path();
        let file = tempfile::tempfile_in(path)
            .with_context(|| format!("creating a temporary file in {}", path.display()))?;
        Ok(Self::from_file(file))
    }

    fn from_file(file: File) -> Self {
        Self {
            file,
            written: 0,
            kept: Vec::new(),
        }
    }

    /// Adds the next second.
    pub(super) fn push(&mut self, second: Second) {
        // After an incomplete second nothing more is written.
        if self.kept.is_empty() && self.write(&second).is_ok() {
            self.written += 1;
        } else {
            self.kept.push(second);
        }
    }

    fn write(&mut self, second: &Second) -> io::Result<()> {
        self.file.write_all(&serde_json::to_vec(second)?)
    }

    /// Returns all seconds in order, and the reason if some are missing.
    pub(super) fn read_back(&mut self) -> (Vec<Second>, Option<String>) {
        let mut seconds = Vec::new();
        let lost = self.read(&mut seconds).err().map(|error| error.to_string());
        seconds.append(&mut self.kept);
        (seconds, lost)
    }

    fn read(&mut self, seconds: &mut Vec<Second>) -> io::Result<()> {
        self.file.rewind()?;
        let read = serde_json::Deserializer::from_reader(BufReader::new(&self.file));
        for second in read.into_iter().take(self.written) {
            seconds.push(second?);
        }
        match self.written - seconds.len() {
            0 => Ok(()),
            missing => Err(io::Error::other(format!("{missing} are missing"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::result::SecondSeries;
    use measure::tally::Distribution;

    use super::*;

    fn with_index(second: u64) -> Second {
        let mut values = Distribution::default();
        (0..=second).for_each(|value| values.record(1_000 * value + 1));
        Second {
            second,
            active_mean: Some(second as f64 / 7.0),
            counts: [("started".to_owned(), second)].into(),
            series: SecondSeries::from_distribution("response", &values)
                .into_iter()
                .collect(),
            ..Second::default()
        }
    }

    fn filled(file: File) -> SecondsSpool {
        let mut seconds = SecondsSpool::from_file(file);
        (0..20).for_each(|second| seconds.push(with_index(second)));
        seconds
    }

    #[test]
    fn rows_are_held_on_disk_and_come_back_as_they_were() {
        let mut seconds = filled(tempfile::tempfile().unwrap());
        assert!(seconds.kept.is_empty());
        assert_eq!(
            seconds.read_back(),
            ((0..20).map(with_index).collect(), None)
        );
    }

    #[test]
    fn rows_that_a_full_disk_does_not_take_are_kept_in_memory() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut seconds = filled(full);
        assert_eq!(seconds.kept.len(), 20);
        assert_eq!(
            seconds.read_back().0,
            (0..20).map(with_index).collect::<Vec<_>>()
        );
    }

    #[test]
    fn rows_that_can_not_be_read_back_are_told() {
        let nothing = File::options().read(true).write(true).open("/dev/null");
        let (seconds, lost) = filled(nothing.unwrap()).read_back();
        assert_eq!(
            (seconds, lost),
            (Vec::new(), Some("20 are missing".to_owned()))
        );
    }
}
