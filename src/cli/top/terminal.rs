//! Control of the terminal: raw mode, alternate screen, hidden cursor; restored on every exit.
//!
//! Guarantee: dropping an [`OwnedTerminal`], a panic in any thread, and [`OwnedTerminal::suspend`] restore the terminal first.

use super::app::App;
use super::draw::{self, Theme};
use super::input::Now;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute, queue, style};
use ratatui::layout::Rect;
use rustix::process::{Signal, kill_current_process_group};
use std::fs;
use std::io::{self, BufWriter, Stdout, Write};
use std::panic;

/// Size of the write buffer: a whole screen is written at once.
const SCREEN_BYTES: usize = 64 * 1024;

/// A terminal under our control. It uses two buffers instead of `ratatui::Terminal`, which queries the cursor position on every clear:
/// that takes two seconds if the terminal does not reply, and consumes keys meant for the key reader.
pub(super) struct OwnedTerminal {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    theme: Theme,
    /// The current content of the screen.
    shown: Buffer,
    next: Buffer,
}

impl OwnedTerminal {
    /// Takes control of the terminal on the standard output.
    ///
    /// # Errors
    /// The output is not a terminal, or cannot be written to.
    pub(super) fn take(theme: Theme) -> io::Result<OwnedTerminal> {
        // The caller has already decided about colour, from more than the environment.
        style::force_color_output(theme.color);
        let backend = CrosstermBackend::new(BufWriter::with_capacity(SCREEN_BYTES, io::stdout()));
        restore_on_panic();
        let mut terminal = OwnedTerminal { backend, theme, shown: Buffer::default(), next: Buffer::default() };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(self.backend, EnterAlternateScreen, cursor::Hide)?;
        self.redraw();
        Ok(())
    }

    /// Draws the changed cells, or everything if the terminal was resized.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn show(&mut self, app: &mut App, now: Now) -> io::Result<()> {
        let area = Rect::from((ratatui::layout::Position::ORIGIN, self.backend.size()?));
        self.next.resize(area);
        self.next.reset();
        draw::draw(&mut self.next, app, now, self.theme);
        let everything = self.shown.area != area;
        if everything {
            self.shown = Buffer::empty(area);
        }
        let changes = self.shown.diff(&self.next);
        if everything || !changes.is_empty() {
            queue!(self.backend, BeginSynchronizedUpdate)?;
            if everything {
                queue!(self.backend, Clear(ClearType::All))?;
            }
            self.backend.draw(changes.into_iter())?;
            queue!(self.backend, EndSynchronizedUpdate)?;
            Backend::flush(&mut self.backend)?;
        }
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(())
    }

    /// Makes the next [`OwnedTerminal::show`] draw everything.
    pub(super) fn redraw(&mut self) {
        self.shown = Buffer::default();
    }

    /// Restores the terminal, stops this process and its group as Ctrl-Z does, and takes the terminal again when continued. Does nothing
    /// and returns false if no shell would continue it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn suspend(&mut self) -> io::Result<bool> {
        if !has_shell() {
            return Ok(false);
        }
        restore()?;
        // A script that runs this program must stop too, or its shell would not notice.
        kill_current_process_group(Signal::STOP)?;
        self.enter()?;
        Ok(true)
    }
}

impl Drop for OwnedTerminal {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = restore();
    }
}

fn restore() -> io::Result<()> {
    let left = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    disable_raw_mode()?;
    left?;
    io::stdout().flush()
}

/// Whether a shell with job control waits for this process: such a shell starts each job in a process group of its own, in its session.
/// Without one, as with `ssh -t HOST flowctl top`, a stopped process would block the terminal.
fn has_shell() -> bool {
    // Not by system calls: for a session outside of this container they return 0, which rustix does not allow for.
    let ids_of = |process: &str| ids(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?);
    ids_of("self").is_some_and(|[parent, group, session]| {
        group != session && ids_of(&parent.to_string()).is_some_and(|[_, _, of_parent]| of_parent == session)
    })
}

/// Parent, process group and session in the text of a `/proc/PID/stat`. The command name before them may contain blanks and parentheses.
fn ids(stat: &str) -> Option<[i32; 3]> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(1).map(|id| id.parse::<i32>().ok());
    Some([fields.next()??, fields.next()??, fields.next()??])
}

/// Makes a panic restore the terminal, print its message and end the program: the other threads could not use the terminal any more.
fn restore_on_panic() {
    let print_panic = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let _ = restore(); // the terminal may be what failed
        print_panic(panic);
        std::process::exit(101);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::jobs::Order;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    const INSIDE: &str = "top::terminal::tests::a_thread_panics_while_the_terminal_is_taken";

    #[test]
    #[ignore = "takes the terminal and ends the program: the next test runs it on a separate terminal"]
    fn a_thread_panics_while_the_terminal_is_taken() {
        let mut terminal = OwnedTerminal::take(Theme { color: true, ascii: false }).expect("a terminal");
        let mut app = App::new(Duration::from_secs(1), Order::default(), "");
        terminal.show(&mut app, Now { up: Duration::ZERO, unix_ms: 0 }).expect("a terminal");
        let _ = std::thread::spawn(|| panic!("something is wrong")).join();
        unreachable!("the program has ended");
    }

    #[test]
    fn blanks_and_parentheses_in_a_command_name_do_not_shift_the_ids() {
        assert_eq!(ids("42 (a) R 9 (b)) S 7 40 39 34816 40 4194560"), Some([7, 40, 39]));
        assert_eq!(ids("42 (sh) S 7"), None);
        assert_eq!(ids(""), None);
    }

    #[test]
    fn a_panic_in_any_thread_restores_the_terminal_prints_the_message_and_ends_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let program = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
        let script = format!(
            "stty rows 24 cols 80; stty -a > {before}; {program} --exact {INSIDE} --ignored --nocapture; echo $? > {code}; stty -a > {after}",
            before = path("before"),
            code = path("code"),
            after = path("after"),
        );
        let mut terminal = Command::new("script");
        terminal.args(["-qfc", &script, "/dev/null"]).env("SHELL", "/bin/sh").env("TERM", "xterm-256color");
        // Its input stays open until it exits.
        let running = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` of util-linux");
        let written = running.wait_with_output().expect("it ends").stdout;
        let text = |name: &str| std::fs::read_to_string(path(name)).expect("written by the shell");
        assert_eq!(text("code").trim(), "101");
        assert_eq!(text("before"), text("after"), "the terminal's settings");

        let cells = |count| std::num::NonZero::new(count).expect("some");
        let mut seen = vt100::Parser::new(cells(24), cells(80), 0);
        let taken = written.windows(8).position(|bytes| bytes == b"\x1b[?1049h").expect("the alternate screen");
        seen.process(&written[..taken + 8]);
        assert!(seen.screen().alternate_screen());
        seen.process(&written[taken + 8..]);
        assert!(!seen.screen().alternate_screen() && !seen.screen().hide_cursor());
        let contents = seen.screen().contents();
        assert!(contents.contains("something is wrong"), "the message is readable: {contents}");
    }
}
