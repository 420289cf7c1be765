//! Heat maps: counts by time and by value, as cells of five shades.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::{Chart, colour};

/// Number of shades in the style sheet.
const SHADES: usize = 5;

/// Counts of one daemon by column of the x axis and by row of the y axis.
#[derive(Debug)]
pub(in crate::report) struct Heat {
    /// Index of the daemon, which determines the colour.
    pub(in crate::report) daemon: usize,
    /// Width of a column in the unit of the x axis. The first begins at 0.
    pub(in crate::report) column: f64,
    /// Bounds of the rows in the unit of the y axis, from the lowest: one more than there are rows.
    pub(in crate::report) bounds: Vec<f64>,
    /// Counts by column, then by row.
    pub(in crate::report) counts: Vec<Vec<u64>>,
}

impl Heat {
    /// Returns the highest count of a cell.
    pub(in crate::report) fn most(&self) -> u64 {
        self.counts.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Writes the counts for the read-out: columns separated by `;`, each with its lowest row and the counts from there on.
    fn cells(&self) -> String {
        let column = |rows: &Vec<u64>| {
            let Some(first) = rows.iter().position(|count| *count > 0) else {
                return String::new();
            };
            let last = rows.iter().rposition(|count| *count > 0).unwrap_or(first);
            let mut column = first.to_string();
            for count in &rows[first..=last] {
                column.push(',');
                if *count > 0 {
                    column.push_str(&count.to_string());
                }
            }
            column
        };
        let columns: Vec<String> = self.counts.iter().map(column).collect();
        columns.join(";")
    }

    /// Returns the shade of a count, from 1 to the number of shades, on a log scale, or 0 for no count.
    fn shade(count: u64, most: u64) -> usize {
        match count {
            0 => 0,
            1 if most > 1 => 1,
            count => {
                let share = (count as f64).ln() / (most as f64).ln();
                let share = if share.is_finite() { share } else { 1.0 };
                1 + (share * (SHADES - 1) as f64).round() as usize
            }
        }
    }
}

impl Chart {
    /// Draws one path per shade: a stroke per run of neighbouring cells of a row, as high as the row.
    pub(super) fn draw_heat(&self, heat: &Heat) -> Markup {
        let most = heat.most();
        let mut paths = vec![String::new(); SHADES];
        let mut height = 1;
        for row in 0..heat.bounds.len().saturating_sub(1) {
            let low = self.position_y(heat.bounds[row]);
            let high = self.position_y(heat.bounds[row + 1]);
            height = height.max(low - high);
            let shades = heat.counts.iter().map(|rows| Heat::shade(rows[row], most));
            let shades: Vec<usize> = shades.collect();
            let mut begin = 0;
            for cells in shades.chunk_by(|one, next| one == next) {
                let end = begin + cells.len();
                if let Some(path) = cells[0].checked_sub(1).map(|shade| &mut paths[shade]) {
                    let from = self.position_x(begin as f64 * heat.column);
                    let to = self.position_x(end as f64 * heat.column);
                    let _ = write!(path, "M{from} {}h{}", i64::midpoint(low, high), to - from);
                }
                begin = end;
            }
        }
        html! {
            g class=(format!("heat {}", colour(heat.daemon))) data-d=(heat.daemon) stroke-width=(height)
                data-column=(heat.column) data-rows=(heat.bounds.len().saturating_sub(1)) data-cells=(heat.cells()) {
                @for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                    path class=(format!("q{}", shade + 1)) d=(path) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_every_count_from_the_lowest_row_on() {
        let heat = Heat {
            daemon: 0,
            column: 1.0,
            bounds: vec![1.0; 6],
            counts: vec![vec![0, 3, 0, 12, 0], vec![0; 5], vec![7, 0, 0, 0, 0]],
        };
        assert_eq!(heat.cells(), "1,3,,12;;0,7");
    }

    #[test]
    fn shades_follow_the_logarithm_and_a_single_operation_is_seen() {
        let shades = [0, 1, 10, 100, 1_000, 10_000].map(|count| Heat::shade(count, 10_000));
        assert_eq!(shades, [0, 1, 2, 3, 4, 5]);
        assert_eq!(Heat::shade(1, 1), 5);
    }
}
