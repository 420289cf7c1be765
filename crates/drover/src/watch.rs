//! `drover watch`: shows a running suite, or the run of a driver, from the files that it leaves. It reads them once a
//! second and writes none, so that it does not disturb the measurement.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use harness::failure::Failure;
use harness::signals::Signals;
use harness::{launcher, output};
use load::clock;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;

mod view;
mod watched;

use view::Scroll;
use watched::Watched;

use crate::exit;
use crate::folder::RESULTS;

/// Time between two readings of the files, nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Time between two looks for a signal.
const TURN: Duration = Duration::from_millis(250);
/// Size of the frame of `--once` without a terminal.
const SIZE: (u16, u16) = (80, 24);

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Read this suite or run, or the newest that runs below this folder of results
    #[arg(value_name = "DIR", default_value = RESULTS)]
    folder: PathBuf,
    /// Print one frame as text, and end
    #[arg(long)]
    once: bool,
}

/// Shows the suite until the user quits.
///
/// # Errors
/// There is nothing to watch, or no terminal to show it on.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    let mut watched = Watched::open(&options.folder).map_err(Failure::Call)?;
    if options.once {
        let text = frame(&watched).map_err(Failure::Run)?;
        output::print(&text)?;
        return Ok(exit::FINE);
    }
    require_terminal().map_err(Failure::Call)?;
    let asked_to_end = signals().map_err(Failure::Run)?;
    // Restores the terminal on a panic too.
    let mut terminal = ratatui::try_init()
        .context("preparing the terminal")
        .map_err(Failure::Run)?;
    let shown = show(&mut terminal, &mut watched, &asked_to_end);
    ratatui::restore();
    shown
        .context("showing the suite")
        .map_err(Failure::Run)
        .map(|()| exit::FINE)
}

fn require_terminal() -> anyhow::Result<()> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        bail!("this is no terminal: print one frame as text with --once");
    }
    Ok(())
}

/// Returns a flag that is set by a signal to end. The signal must not end the program before the terminal is restored.
fn signals() -> anyhow::Result<Arc<AtomicBool>> {
    let asked_to_end = Arc::new(AtomicBool::new(false));
    let runtime = launcher::runtime()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen().context("listening for signals")?
    };
    let flag = Arc::clone(&asked_to_end);
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        flag.store(true, Ordering::Relaxed);
    });
    Ok(asked_to_end)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    watched: &mut Watched,
    asked_to_end: &AtomicBool,
) -> io::Result<()> {
    let mut scroll = Scroll::default();
    let mut due = clock::now() + INTERVAL_NS;
    loop {
        terminal.draw(|frame| view::draw(frame, watched, &mut scroll))?;
        while !event::poll(until(due))? {
            if asked_to_end.load(Ordering::Relaxed) {
                return Ok(());
            }
            if clock::now() >= due {
                watched.refresh();
                due = clock::now() + INTERVAL_NS;
                break;
            }
        }
        // Keys and changes of the size are drawn at once, from what was read last.
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if !is_handled(key, &mut scroll) => return Ok(()),
                // A terminal that was small for a moment has lost what it showed.
                Event::Resize(width, height) => terminal.resize(Rect::new(0, 0, width, height))?,
                _ => {}
            }
        }
    }
}

/// Returns the time to wait for a key: until the next reading, and no longer than a turn.
fn until(due: u64) -> Duration {
    Duration::from_nanos(due.saturating_sub(clock::now())).min(TURN)
}

/// Handles a key; returns false if it quits.
fn is_handled(key: KeyEvent, scroll: &mut Scroll) -> bool {
    if key.kind == KeyEventKind::Release {
        return true;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Down => scroll.rows = scroll.rows.saturating_add(1),
        KeyCode::Up => scroll.rows = scroll.rows.saturating_sub(1),
        KeyCode::Right => scroll.columns = scroll.columns.saturating_add(1),
        KeyCode::Left => scroll.columns = scroll.columns.saturating_sub(1),
        KeyCode::PageDown => scroll.rows = scroll.rows.saturating_add(10),
        KeyCode::PageUp => scroll.rows = scroll.rows.saturating_sub(10),
        KeyCode::Home => *scroll = Scroll::default(),
        _ => {}
    }
    true
}

/// Renders one frame as text.
fn frame(watched: &Watched) -> anyhow::Result<String> {
    let size = match io::stdout().is_terminal() {
        true => ratatui::crossterm::terminal::size().unwrap_or(SIZE),
        false => SIZE,
    };
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1))?;
    terminal.draw(|frame| view::draw(frame, watched, &mut Scroll::default()))?;
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(size.0.max(1)));
    let lines = rows.map(|row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Ok(format!("{}\n", text.trim_end()))
}
