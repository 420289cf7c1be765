//! A program on a pseudo-terminal, and the screen that its user sees.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};

use crate::processes;

/// Generous limit: a machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that runs on a terminal of its own. It is killed if the test fails.
#[expect(missing_debug_implementations, reason = "the parser has none")]
pub struct TerminalProgram {
    child: Child,
    keyboard: File,
    screen: vt100::Parser,
    /// Everything that was written, with the control sequences.
    written: Vec<u8>,
}

impl TerminalProgram {
    /// Starts a command on a terminal of this size; stdin, stdout and stderr are the terminal.
    #[must_use]
    pub fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let (keyboard, terminal) = pair(rows, columns);
        // The terminal must control the program, or /dev/tty would be the tests' own.
        let mut on_terminal = Command::new("setsid");
        on_terminal.arg("--ctty");
        // Under `nohup` the tests ignore the signal of a closed terminal, and so would the program.
        on_terminal.args(["env", "--default-signal=HUP"]);
        on_terminal.arg(command.get_program());
        on_terminal.args(command.get_args()).env("TERM", "xterm");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on_terminal.env(name, value),
                None => on_terminal.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            on_terminal.current_dir(folder);
        }
        let end = || terminal.try_clone().unwrap();
        on_terminal.stdin(end()).stdout(end()).stderr(end());
        Self {
            child: on_terminal.spawn().unwrap(),
            keyboard,
            screen: vt100::Parser::new(cells(rows), cells(columns), 0),
            written: Vec::new(),
        }
    }

    /// Returns the screen as it is now, as text.
    pub fn screen(&mut self) -> String {
        let mut bytes = [0; 4096];
        // An error means that nothing is there yet, or that the program has ended.
        while let Ok(read @ 1..) = self.keyboard.read(&mut bytes) {
            self.screen.process(&bytes[..read]);
            self.written.extend_from_slice(&bytes[..read]);
        }
        self.screen.screen().contents()
    }

    /// Waits for a screen; returns it.
    ///
    /// # Panics
    /// It does not appear.
    #[track_caller]
    pub fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let deadline = std::time::SystemTime::now() + LIMIT;
        processes::wait_until_within(2 * LIMIT, what, || {
            last = self.screen();
            let is_late = std::time::SystemTime::now() > deadline;
            assert!(!is_late, "no {what} on the screen:\n{last}");
            holds(&last)
        });
        last
    }

    /// Returns true if the program has left the alternate screen, so that its user sees the shell again.
    pub fn shows_shell(&mut self) -> bool {
        self.screen();
        let screen = self.screen.screen();
        !screen.alternate_screen() && !screen.hide_cursor()
    }

    /// Types keys.
    pub fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.screen();
        self.screen
            .screen_mut()
            .set_size(cells(rows), cells(columns));
        set_size(&self.keyboard, rows, columns);
    }

    /// Closes the user's end of the terminal, as a closed window does.
    ///
    /// # Panics
    /// /dev/null cannot be opened.
    pub fn hang_up(&mut self) {
        self.keyboard = File::open("/dev/null").unwrap();
    }

    /// Returns the process of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// It does not end.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let mut status = None;
        processes::wait_until_within(LIMIT, "the end of the program", || {
            // The program waits if nobody reads what it writes.
            self.screen();
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.screen();
        status.unwrap()
    }

    /// Returns all that was written, with its control sequences.
    #[must_use]
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a terminal has rows and columns")
}

/// Returns both ends of a new pseudo-terminal. The first is the user's, and never waits.
#[expect(
    unsafe_code,
    reason = "nix would need a further feature for all crates"
)]
fn pair(rows: u16, columns: u16) -> (File, OwnedFd) {
    let (mut user, mut program) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: openpty writes two descriptors; the other pointers may be null.
    let opened = unsafe {
        libc::openpty(
            &raw mut user,
            &raw mut program,
            none,
            none.cast(),
            none.cast(),
        )
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: openpty has just opened both, and nothing else owns them.
    let (user, program) = unsafe { (File::from_raw_fd(user), OwnedFd::from_raw_fd(program)) };
    fcntl(&user, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    for end in [user.as_fd(), program.as_fd()] {
        // It must not be inherited: its last copy ends the terminal.
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    }
    set_size(&user, rows, columns);
    (user, program)
}

#[expect(unsafe_code, reason = "no crate here sets the size of a terminal")]
fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads a winsize.
    let set = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
