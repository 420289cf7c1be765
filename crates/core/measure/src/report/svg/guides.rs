//! Guides around the marks: stretches of time, bounds, and labels at the ends of lines.

use maud::{Markup, html};

use super::{Chart, LEFT, Mark, TOP, colour};

/// Width of a letter in the name of a stretch, with room between two names; letters are largest on a narrow screen.
const LETTER: f64 = 21.0;
/// Minimum width of a stretch, so that it can be seen.
const NARROWEST: i64 = 3;

/// Minimum distance between two labels.
const LINE: f64 = 30.0;
/// Width of a letter in a label.
const LABEL_LETTER: f64 = 18.0;
/// Maximum number of letters in a label.
const LETTERS: usize = 14;
/// Room on the right of a chart without labels: half of the last label of the x axis.
const MARGIN: f64 = 36.0;

/// A stretch of the x axis with a name.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Span {
    pub(in crate::report) from: f64,
    pub(in crate::report) to: f64,
    /// Name above the plot, if there is room for it.
    pub(in crate::report) name: String,
    /// The complete explanation.
    pub(in crate::report) about: String,
    pub(in crate::report) kind: SpanKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum SpanKind {
    /// A phase whose operations do not count.
    Aside,
    /// The phase whose operations count.
    Measured,
    /// A fault, until its end.
    Fault,
}

/// A bound on the y axis.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Limit {
    pub(in crate::report) value: f64,
    pub(in crate::report) text: String,
    pub(in crate::report) met: bool,
}

impl Chart {
    pub(super) fn draw_spans(&self) -> Markup {
        // Names of phases stand above the plot, names of faults inside.
        let (mut free_above, mut free_inside) = (LEFT, LEFT);
        let named = self.spans.iter().map(|span| {
            let (from, to) = (self.position_x(span.from), self.position_x(span.to));
            let width = (to - from).max(NARROWEST);
            let (begin, end) = (
                from as f64,
                from as f64 + span.name.chars().count() as f64 * LETTER,
            );
            let room = match span.kind {
                SpanKind::Fault => self.right(),
                SpanKind::Aside | SpanKind::Measured => (from + width) as f64,
            };
            let free_from = match span.kind {
                SpanKind::Fault => &mut free_inside,
                SpanKind::Aside | SpanKind::Measured => &mut free_above,
            };
            let is_named = begin >= *free_from && end <= room;
            if is_named {
                *free_from = end;
            }
            (span, from, width, is_named)
        });
        let named: Vec<_> = named.collect();
        let (top, height) = (TOP as i64, (self.bottom() - TOP) as i64);
        html! {
            @for (span, from, width, is_named) in named {
                @let class = match span.kind { SpanKind::Aside => "w", SpanKind::Fault => "f", SpanKind::Measured => "" };
                @if !class.is_empty() {
                    path class=(class) d=(format!("M{from} {top}h{width}v{height}h-{width}z")) { title { (span.about) } }
                }
                @if is_named && span.kind == SpanKind::Fault {
                    text.a.z x=(from + width + 4) y=(top + 24) { (span.name) }
                } @else if is_named {
                    text.a x=(from) y=(top - 8) { (span.name) }
                }
            }
        }
    }

    pub(super) fn draw_limits(&self) -> Markup {
        let right = self.right() as i64;
        html! {
            @for limit in self.limits.iter().filter(|limit| self.y.scale.contains(limit.value)) {
                @let y = self.position_y(limit.value);
                path class=(if limit.met { "y" } else { "y z" }) d=(format!("M{LEFT} {y}H{right}")) { title { (limit.text) } }
                text class=(if limit.met { "a" } else { "a z" }) x=(LEFT as i64 + 8) y=(y - 7) { (limit.text) }
            }
        }
    }

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
        longest.map_or(MARGIN, |longest| longest as f64 * LABEL_LETTER + 22.0)
    }
}

/// Shortens a label in its middle to leave room for the plot: names of versions differ at their ends.
fn shortened(label: &str) -> String {
    const HALF: usize = LETTERS / 2 - 1;
    let letters: Vec<char> = label.chars().collect();
    if letters.len() <= LETTERS {
        return label.to_owned();
    }
    let (begin, end) = (&letters[..HALF], &letters[letters.len() - HALF..]);
    [begin, &['…'], end].concat().into_iter().collect()
}
