//! Labels at the ends of lines.

use maud::{Markup, html};

use super::{Chart, Mark, TOP, colour};

/// Minimum distance between two labels.
const LINE: f64 = 30.0;
/// Width of a letter in a label.
const LETTER: f64 = 18.0;
/// Maximum number of letters in a label.
const LETTERS: usize = 14;
/// Room on the right of a chart without labels: half of the last label of the x axis.
const MARGIN: f64 = 36.0;

impl Chart {
    /// Draws labels at the ends of their lines, pushed apart so that they do not overlap.
    pub(super) fn labels(&self) -> Markup {
        let end = |mark: &Mark| {
            let last = mark.points().last().map(|point| self.position(*point))?;
            Some((mark.daemon, mark.label.clone()?, last.1 as f64))
        };
        let mut labels: Vec<(usize, String, f64)> = self.marks.iter().filter_map(end).collect();
        labels.sort_by(|one, other| one.2.total_cmp(&other.2));
        let mut heights: Vec<f64> = Vec::new();
        for (_, _, y) in &labels {
            let lowest = heights.last().map_or(TOP, |above| above + LINE);
            heights.push(y.max(lowest));
        }
        let mut below = self.bottom() + 6.0 + LINE;
        for height in heights.iter_mut().rev() {
            *height = height.min(below - LINE);
            below = *height;
        }
        html! {
            @for ((daemon, label, _), y) in labels.iter().zip(heights) {
                text class=(format!("n {}", colour(*daemon))) x=(self.right() as i64 + 18) y=(y as i64 + 8) data-d=(daemon) { (shortened(label)) }
            }
        }
    }

    /// Returns the width that the labels need.
    pub(super) fn width_of_labels(&self) -> f64 {
        let labels = self.marks.iter().filter_map(|mark| mark.label.as_ref());
        let longest = labels.map(|label| shortened(label).chars().count()).max();
        longest.map_or(MARGIN, |longest| longest as f64 * LETTER + 22.0)
    }
}

/// Shortens a label to leave room for the plot.
fn shortened(label: &str) -> String {
    if label.chars().count() <= LETTERS {
        return label.to_owned();
    }
    let kept: String = label.chars().take(LETTERS - 1).collect();
    format!("{kept}…")
}
