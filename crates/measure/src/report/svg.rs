//! Static SVG charts. They need no script; colours and strokes come from the page's style sheet.
//!
//! Coordinates are whole numbers in a box of 960 × 560, about half a pixel each at the displayed size, and paths are
//! relative: five bytes per point.

use maud::{Markup, html};

mod path;
mod scale;
mod thin;

pub(super) use scale::Scale;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 112.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 84.0;
/// Minimum distance between two labels.
const LINE: f64 = 30.0;
/// Width of a letter in a label.
const LETTER: f64 = 18.0;
/// Maximum number of letters in a label.
const LETTERS: usize = 14;

/// A point of a chart, in the units of its axes.
pub(super) type Point = (f64, f64);

#[derive(Debug)]
pub(super) struct Chart {
    /// Element ID within a page.
    pub(super) id: String,
    pub(super) title: String,
    /// Explanation of the marks, next to the legend.
    pub(super) reading: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) marks: Vec<Mark>,
    /// Text alternative: the content of the chart in words.
    pub(super) alternative: String,
}

/// An axis with its unit in its label.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
}

impl Axis {
    /// Returns the unit of values in the read-out: seconds if the label says so, or none for counts.
    fn unit(&self) -> &'static str {
        match self.label.starts_with("seconds") {
            true => " s",
            false => "",
        }
    }
}

/// The mark of one daemon.
#[derive(Debug)]
pub(super) struct Mark {
    /// Index of the daemon, which determines colour and shape.
    pub(super) daemon: usize,
    pub(super) kind: Kind,
    /// Line segments, separated by gaps in the data.
    pub(super) pieces: Vec<Vec<Point>>,
    /// Label at its end.
    pub(super) label: Option<String>,
    /// Name of each point, for kinds that draw points; empty, or as long as the list of points.
    pub(super) names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
    /// A short stroke across each point.
    MedianStroke,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Line => "l",
            Self::Thin => "t",
            Self::Dashed => "h",
            Self::Band => "b",
            Self::Dots => "p",
            Self::MedianStroke => "m",
        }
    }
}

impl Mark {
    pub(super) fn new(daemon: usize, kind: Kind, pieces: Vec<Vec<Point>>) -> Self {
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
    /// Draws the chart as SVG, with at most `most` points per line.
    pub(super) fn draw(&self, most: usize) -> Markup {
        let (title, text) = (format!("{}-t", self.id), format!("{}-d", self.id));
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-labelledby=(format!("{title} {text}"))
                data-x=[self.x.scale.spec()] data-y=[self.y.scale.spec()] data-unit=(self.x.unit())
                data-box=(format!("{LEFT} {} {TOP} {}", self.right(), HEIGHT - BOTTOM)) {
                title id=(title) { (self.title) }
                desc id=(text) { (self.alternative) }
                (self.axes())
                @for kind in [Kind::Band, Kind::Thin, Kind::Dashed, Kind::Line, Kind::MedianStroke, Kind::Dots] {
                    @for mark in self.marks.iter().filter(|mark| mark.kind == kind) {
                        (self.mark(mark, most))
                    }
                }
                (self.labels())
            }
        }
    }

    fn axes(&self) -> Markup {
        let (right, bottom) = (self.right(), HEIGHT - BOTTOM);
        html! {
            text.a x="0" y="22" { (self.y.label) }
            text.a.e x=(right as i64) y=(HEIGHT as i64 - 12) { (self.x.label) }
            @for (value, label) in self.y.scale.ticks() {
                @let y = self.position_y(value);
                path.g d=(format!("M{LEFT} {y}H{right}")) {}
                text.k.e x=(LEFT as i64 - 12) y=(y + 9) { (label) }
            }
            @for (value, label) in self.x.scale.ticks() {
                @let x = self.position_x(value);
                path.g d=(format!("M{x} {bottom}v8")) {}
                text.k.c x=(x) y=(bottom as i64 + 36) { (label) }
            }
            path.x d=(format!("M{LEFT} {bottom}H{right}")) {}
        }
    }

    fn mark(&self, mark: &Mark, most: usize) -> Markup {
        let class = format!("{} {}", mark.kind.class(), colour(mark.daemon));
        match mark.kind {
            Kind::Dots => self.dots(mark, &class),
            Kind::MedianStroke => {
                let stroke = |point: &Point| {
                    let (x, y) = self.position(*point);
                    format!("M{} {y}h36", x - 18)
                };
                let strokes: String = mark.points().map(stroke).collect();
                html! { path class=(class) d=(strokes) {} }
            }
            kind => {
                let most = most / mark.pieces.len().max(1);
                let close = kind == Kind::Band;
                let lines: String = mark
                    .pieces
                    .iter()
                    .map(|piece| path::relative(&self.outline(piece, close, most), close))
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
            .flat_map(|edge| thin::thinned(edge, most))
            .map(|point| self.position(point))
            .collect()
    }

    fn dots(&self, mark: &Mark, class: &str) -> Markup {
        html! {
            g class=(class) {
                @for (index, point) in mark.points().enumerate() {
                    @let (x, y) = self.position(*point);
                    use href=(shape(mark.daemon)) x=(x) y=(y) {
                        @if let Some(name) = mark.names.get(index) { title { (name) } }
                    }
                }
            }
        }
    }

    /// Draws labels at the ends of their lines, pushed apart so that they do not overlap.
    fn labels(&self) -> Markup {
        let end = |mark: &Mark| {
            let last = mark.points().last().map(|point| self.position(*point))?;
            Some((mark.daemon, mark.label.clone()?, last.1 as f64))
        };
        let mut labels: Vec<(usize, String, f64)> = self.marks.iter().filter_map(end).collect();
        labels.sort_by(|one, other| one.2.total_cmp(&other.2));
        let most = HEIGHT - BOTTOM + 6.0;
        let mut heights: Vec<f64> = Vec::new();
        for (_, _, y) in &labels {
            let lowest = heights.last().map_or(TOP, |above| above + LINE);
            heights.push(y.max(lowest));
        }
        let mut below = most + LINE;
        for height in heights.iter_mut().rev() {
            *height = height.min(below - LINE);
            below = *height;
        }
        html! {
            @for ((daemon, label, _), y) in labels.iter().zip(heights) {
                text class=(format!("n {}", colour(*daemon))) x=(self.right() as i64 + 18) y=(y as i64 + 8) { (shortened(label)) }
            }
        }
    }

    /// Returns the position where the plot ends and the labels begin.
    fn right(&self) -> f64 {
        let labels = self.marks.iter().filter_map(|mark| mark.label.as_ref());
        let longest = labels.map(|label| shortened(label).chars().count()).max();
        WIDTH - longest.map_or(36.0, |longest| longest as f64 * LETTER + 22.0)
    }

    fn position(&self, (x, y): Point) -> (i64, i64) {
        (self.position_x(x), self.position_y(y))
    }

    fn position_x(&self, x: f64) -> i64 {
        (LEFT + (self.right() - LEFT) * self.x.scale.share(x)).round() as i64
    }

    fn position_y(&self, y: f64) -> i64 {
        (HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * self.y.scale.share(y)).round() as i64
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
