//! Static SVG charts. They need no script; colours and strokes come from the page's style sheet.
//!
//! Coordinates are whole numbers of about half a pixel each at the displayed size, and paths are relative: five bytes
//! per point.

use maud::{Markup, html};

mod guides;
mod heat;
mod lines;
mod scale;

pub(super) use guides::{Limit, Span, SpanKind};
pub(super) use heat::Heat;
pub(super) use scale::Scale;

const LEFT: f64 = 112.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 84.0;

/// A point of a chart, in the units of its axes.
pub(super) type Point = (f64, f64);

#[derive(Debug)]
pub(super) struct Chart {
    /// Element ID within a page.
    pub(super) id: String,
    pub(super) title: String,
    /// Explanation of the marks, below the title.
    pub(super) reading: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) marks: Vec<Mark>,
    /// Counts of a heat map, behind the marks.
    pub(super) heat: Option<Heat>,
    /// Stretches of the x axis with a meaning, such as the warm-up.
    pub(super) spans: Vec<Span>,
    /// Bounds on the y axis.
    pub(super) limits: Vec<Limit>,
    /// Name of the time axis, if the x axis is one. Charts of one time axis share a cursor.
    pub(super) timeline: Option<String>,
    pub(super) size: Size,
    /// Text alternative: the content of the chart in words.
    pub(super) alternative: String,
}

/// The box of a chart, in its own coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Three side by side on a wide screen.
    Normal,
    /// Four side by side on a wide screen.
    Compact,
}

impl Size {
    /// Returns width and height.
    const fn extent(self) -> (f64, f64) {
        match self {
            Self::Normal => (960.0, 500.0),
            Self::Compact => (700.0, 440.0),
        }
    }
}

/// An axis with its unit in its label.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    /// Unit of values in the read-out: `ns` for times that choose their own unit, or the text behind a number.
    pub(super) unit: &'static str,
}

/// The mark of one daemon.
#[derive(Debug)]
pub(super) struct Mark {
    /// Index of the daemon, which determines colour and shape.
    pub(super) daemon: usize,
    pub(super) kind: MarkKind,
    /// Line segments, separated by gaps in the data.
    pub(super) pieces: Vec<Vec<Point>>,
    /// Label at its end.
    pub(super) label: Option<String>,
    /// Name of each point, for kinds that draw points; empty, or as long as the list of points.
    pub(super) names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind {
    /// The main line.
    Line,
    /// A thin line behind the main one.
    Thin,
    /// A line for another quantity of the same daemon.
    Dashed,
    /// A band from the lowest to the highest: the upper points from left to right, then the lower ones back.
    Band,
    /// Dots for single runs.
    Dots,
    /// Dots for runs whose figures do not count.
    HollowDots,
    /// A short stroke across each point.
    MeanStroke,
}

impl MarkKind {
    /// All kinds, from back to front.
    const BACK_TO_FRONT: [Self; 7] = [
        Self::Band,
        Self::Thin,
        Self::Dashed,
        Self::Line,
        Self::MeanStroke,
        Self::HollowDots,
        Self::Dots,
    ];

    fn class(self) -> &'static str {
        match self {
            Self::Line => "l",
            Self::Thin => "t",
            Self::Dashed => "h",
            Self::Band => "b",
            Self::Dots => "p",
            Self::HollowDots => "p i",
            Self::MeanStroke => "m",
        }
    }
}

impl Mark {
    pub(super) fn new(daemon: usize, kind: MarkKind, pieces: Vec<Vec<Point>>) -> Self {
        Self {
            daemon,
            kind,
            pieces,
            label: None,
            names: Vec::new(),
        }
    }

    pub(super) fn labelled(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }

    pub(super) fn named(mut self, names: Vec<String>) -> Self {
        self.names = names;
        self
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.pieces.iter().flatten()
    }
}

/// Number of shapes that distinguish daemons without colour.
const SHAPES: usize = 4;

/// Defines the shapes of points for all charts of a page.
pub(super) fn shapes() -> Markup {
    html! {
        svg width="0" height="0" aria-hidden="true" class="shapes" {
            symbol id="s0" overflow="visible" { circle r="9" {} }
            symbol id="s1" overflow="visible" { path d="M-8-8h16v16h-16z" {} }
            symbol id="s2" overflow="visible" { path d="M0-11l10 18h-20z" {} }
            symbol id="s3" overflow="visible" { path d="M0-11l11 11-11 11-11-11z" {} }
        }
    }
}

fn shape(daemon: usize) -> String {
    format!("#s{}", daemon % SHAPES)
}

impl Chart {
    /// Returns true if nothing is drawn between the axes.
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.heat.is_none()
    }

    /// Draws the chart as SVG, with at most `most` points per line.
    pub(super) fn draw(&self, most: usize) -> Markup {
        let (width, height) = self.size.extent();
        html! {
            svg viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(self.alternative)
                data-x=[self.x.scale.spec()] data-y=[self.y.scale.spec()] data-unit=(format!("{}|{}", self.x.unit, self.y.unit))
                data-time=[&self.timeline] data-box=(format!("{LEFT} {} {TOP} {}", self.right(), self.bottom())) {
                (self.draw_spans())
                (self.axes())
                @if let Some(heat) = &self.heat { (self.draw_heat(heat)) }
                @for kind in MarkKind::BACK_TO_FRONT {
                    @for mark in self.marks.iter().filter(|mark| mark.kind == kind) {
                        (self.mark(mark, most))
                    }
                }
                (self.draw_limits())
                (self.labels())
            }
        }
    }

    fn axes(&self) -> Markup {
        let (right, bottom) = (self.right() as i64, self.bottom() as i64);
        let place = |ticks: Vec<(f64, String)>, position: &dyn Fn(f64) -> i64| {
            let ticks = ticks.into_iter();
            let placed = ticks.map(|(value, label)| (position(value), label));
            placed.collect::<Vec<_>>()
        };
        let ys = place(self.y.scale.ticks(), &|value| self.position_y(value));
        let xs = place(self.x.scale.ticks(), &|value| self.position_x(value));
        let lines = ys.iter().map(|(y, _)| format!("M{LEFT} {y}H{right}"));
        let strokes = xs.iter().map(|(x, _)| format!("M{x} {bottom}v8"));
        let grid: String = lines.chain(strokes).collect();
        html! {
            text.a x="0" y="22" { (self.y.label) }
            text.a.e x=(right) y=(self.size.extent().1 as i64 - 12) { (self.x.label) }
            path.g d=(grid) {}
            g.k.e { @for (y, label) in &ys { text x=(LEFT as i64 - 12) y=(y + 9) { (label) } } }
            g.k.c { @for (x, label) in &xs { text x=(x) y=(bottom + 36) { (label) } } }
            path.x d=(format!("M{LEFT} {bottom}H{right}")) {}
        }
    }

    fn mark(&self, mark: &Mark, most: usize) -> Markup {
        let class = format!("{} {}", mark.kind.class(), colour(mark.daemon));
        match mark.kind {
            MarkKind::Dots | MarkKind::HollowDots => self.dots(mark, &class),
            MarkKind::MeanStroke => {
                let stroke = |point: &Point| {
                    let (x, y) = self.position(*point);
                    format!("M{} {y}h36", x - 18)
                };
                let strokes: String = mark.points().map(stroke).collect();
                html! { path class=(class) d=(strokes) data-d=(mark.daemon) {} }
            }
            kind => {
                // Only charts over time have points without end.
                let most = match self.timeline {
                    Some(_) => most / mark.pieces.len().max(1),
                    None => usize::MAX,
                };
                let close = kind == MarkKind::Band;
                let lines: String = mark
                    .pieces
                    .iter()
                    .map(|piece| lines::relative(&self.outline(piece, close, most), close))
                    .collect();
                html! { path class=(class) d=(lines) data-d=(mark.daemon) {} }
            }
        }
    }

    /// Returns the points of a line, or of both edges of a band one after the other.
    fn outline(&self, piece: &[Point], band: bool, most: usize) -> Vec<(i64, i64)> {
        let edges = if band { 2 } else { 1 };
        piece
            .chunks(piece.len().div_ceil(edges).max(1))
            .flat_map(|edge| lines::thinned(edge, most))
            .map(|point| self.position(point))
            .collect()
    }

    fn dots(&self, mark: &Mark, class: &str) -> Markup {
        html! {
            g class=(class) data-d=(mark.daemon) {
                @for (index, point) in mark.points().enumerate() {
                    @let (x, y) = self.position(*point);
                    use href=(shape(mark.daemon)) x=(x) y=(y) {
                        @if let Some(name) = mark.names.get(index) { title { (name) } }
                    }
                }
            }
        }
    }

    /// Returns the position where the plot ends and the labels begin.
    fn right(&self) -> f64 {
        self.size.extent().0 - self.width_of_labels()
    }

    /// Returns the position of the x axis.
    fn bottom(&self) -> f64 {
        self.size.extent().1 - BOTTOM
    }

    fn position(&self, (x, y): Point) -> (i64, i64) {
        (self.position_x(x), self.position_y(y))
    }

    fn position_x(&self, x: f64) -> i64 {
        (LEFT + (self.right() - LEFT) * self.x.scale.share(x)).round() as i64
    }

    fn position_y(&self, y: f64) -> i64 {
        (self.bottom() - (self.bottom() - TOP) * self.y.scale.share(y)).round() as i64
    }
}

fn colour(daemon: usize) -> String {
    format!("d{}", daemon % COLOURS)
}

/// Number of colours in the style sheet.
const COLOURS: usize = 8;

/// Returns the CSS classes of text about a daemon: its colour, and its shape, which the style sheet puts before the
/// text.
pub(super) fn swatch(daemon: usize) -> String {
    format!("{} s{}", colour(daemon), daemon % SHAPES)
}
