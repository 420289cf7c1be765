//! The table of the shards of a divided run.

use harness::divided::{Shard, ShardState};
use harness::progress::compact;
use measure::units;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::Scroll;
use crate::watch::divided::{Condition, Divided, totals};

/// Draws the rows that fit, from the scrolled one on.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, divided: &Divided, scroll: &mut Scroll) {
    let shards = divided.shards.all();
    let height = usize::from(area.height).saturating_sub(1).max(1);
    scroll.rows = scroll.rows.min(shards.len().saturating_sub(height));
    let hosts = shards.iter().filter_map(|shard| shard.host.as_ref());
    let width = hosts.map(|host| host.chars().count()).max().unwrap_or(0);
    let head = cells(
        width,
        [
            "shard", "host", "second", "starts/s", "started", "failed", "p99",
        ],
    );
    let mut lines = vec![Line::from(head + "  state").bold()];
    for shard in shards.iter().skip(scroll.rows).take(height) {
        lines.push(row(divided, shard, width));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn row(divided: &Divided, shard: &Shard, width: usize) -> Line<'static> {
    let condition = divided.condition(shard);
    let last = shard.last.as_ref().filter(|_| !shard.has_ended());
    let of_last = |text: Option<String>| text.unwrap_or_else(|| units::NONE.to_owned());
    let (started, _, failed) = totals(shard);
    let columns = cells(
        width,
        [
            &shard.index.to_string(),
            shard.host.as_deref().unwrap_or(units::NONE),
            &of_last(last.map(|last| last.second.to_string())),
            &of_last(last.map(|last| compact(last.rate))),
            &compact(started),
            &compact(failed),
            &of_last(last.and_then(|last| last.p99_ns).map(units::duration)),
        ],
    );
    let more = match &shard.state {
        ShardState::Ended(verdict) => format!(" {verdict}"),
        ShardState::Failed(reason) => format!(": {}", reason.lines().next().unwrap_or_default()),
        _ if condition == Condition::Silent => {
            format!(" for {} s", shard.silent_ns() / 1_000_000_000)
        }
        _ => String::new(),
    };
    let colour = match condition {
        Condition::Failed | Condition::Silent => Color::Red,
        Condition::Late => Color::Yellow,
        Condition::Ended => Color::Green,
        Condition::Absent | Condition::Ready | Condition::Running => Color::Reset,
    };
    let text = format!("{columns}  {}{more}", condition.name());
    Line::styled(text, Style::new().fg(colour))
}

/// Aligns the cells of a row; the column of the hosts has this width.
fn cells(width: usize, texts: [&str; 7]) -> String {
    let [shard, host, second, rate, started, failed, p99] = texts;
    let width = width.max(4);
    format!(
        "{shard:>5}  {host:width$}  {second:>6}  {rate:>8}  {started:>7}  {failed:>6}  {p99:>7}"
    )
}
