//! `drover watch`: shows a running suite, the run of a driver, or the shards of a divided one, from the files that it leaves. It reads them once a
//! second and writes none, so that it does not disturb the measurement.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use harness::failure::Failure;
use harness::signals::Signals;
use harness::{launcher, output};
use load::clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;

mod divided;
mod view;
mod watched;

pub(crate) use divided::add;

use view::Scroll;
use watched::Watched;

use crate::exit;
use crate::folder::RESULTS;

/// Time between two readings of the files, nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Size of the frame of `--once` without a terminal.
const SIZE: (u16, u16) = (80, 24);

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// Read this suite or run, the --result-dir of a divided run, or the newest that runs below this folder of results
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
pub(crate) fn run(options: &WatchOptions) -> Result<u8, Failure> {
    let mut watched = Watched::open(&options.folder).map_err(Failure::Call)?;
    if options.once {
        let text = frame(&watched).map_err(Failure::Run)?;
        output::print(&text)?;
        return Ok(exit::FINE);
    }
    require_terminal().map_err(Failure::Call)?;
    let inputs = inputs().map_err(Failure::Run)?;
    // Restores the terminal on a panic too.
    let mut terminal = ratatui::try_init()
        .context("preparing the terminal")
        .map_err(Failure::Run)?;
    let shown = match show(&mut terminal, &mut watched, &inputs) {
        Err(_) if is_closed(io::stdin()) => Ok(()),
        shown => shown,
    };
    // A closed terminal can't be restored: nobody would see why, and dropping it would panic.
    if terminal.show_cursor().is_err() {
        std::mem::forget(terminal);
    }
    let _ = ratatui::try_restore();
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

/// Something to react to.
#[derive(Debug)]
enum Input {
    /// A key, or another size of the terminal.
    Event(Event),
    /// A signal to end, or an error of the terminal.
    End,
}

/// Receives keys and signals. The program must not wait for keys itself: crossterm reads a terminal that is closed in a
/// loop, and never returns. A signal must not end the program before the terminal is restored.
fn inputs() -> anyhow::Result<Receiver<Input>> {
    let (inputs, received) = mpsc::channel();
    let runtime = launcher::runtime()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen().context("listening for signals")?
    };
    let ends = inputs.clone();
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        let _ = ends.send(Input::End);
    });
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let _ = inputs.send(Input::Event(event));
        }
        let _ = inputs.send(Input::End);
    });
    Ok(received)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    watched: &mut Watched,
    inputs: &Receiver<Input>,
) -> io::Result<()> {
    let mut scroll = Scroll::default();
    let mut due = clock::now() + INTERVAL_NS;
    while !is_closed(io::stdin()) {
        terminal.draw(|frame| view::draw(frame, watched, &mut scroll))?;
        // Keys and changes of the size are drawn at once, from what was read last.
        let left = Duration::from_nanos(due.saturating_sub(clock::now()));
        let first = inputs.recv_timeout(left).ok();
        for input in first.into_iter().chain(inputs.try_iter()) {
            match input {
                Input::Event(Event::Key(key)) if is_handled(key, &mut scroll) => {}
                // A terminal that was small for a moment has lost what it showed.
                Input::Event(Event::Resize(width, height)) => {
                    terminal.resize(Rect::new(0, 0, width, height))?;
                }
                Input::Event(Event::Key(_)) | Input::End => return Ok(()),
                Input::Event(_) => {}
            }
        }
        if clock::now() >= due {
            watched.refresh();
            due = clock::now() + INTERVAL_NS;
        }
    }
    Ok(())
}

/// Returns true if the other end of a terminal is closed.
fn is_closed(terminal: impl AsFd) -> bool {
    // POLLHUP and POLLERR are always reported.
    let mut watched = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
    poll(&mut watched, PollTimeout::ZERO).is_ok_and(|closed| closed > 0)
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
    let size = if io::stdout().is_terminal() {
        ratatui::crossterm::terminal::size().unwrap_or(SIZE)
    } else {
        SIZE
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
