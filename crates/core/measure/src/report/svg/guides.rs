//! Guides behind and above the marks: stretches of time, and bounds.

use maud::{Markup, html};

use super::{Chart, LEFT, TOP};

/// Width of a letter in the name of a stretch.
const LETTER: f64 = 14.0;
/// Minimum width of a stretch, so that it can be seen.
const NARROWEST: i64 = 3;

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
        // Names of phases stand above the plot, those of faults inside.
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
}
