//! The terminal, taken and given back: raw, on its other screen, without cursor; as it was before after an end of any kind.
//!
//! Guarantee: dropping a [`Held`], a panic in any thread, and [`Held::suspend`] all put the terminal back first.
//! Imports: ratatui, rustix.

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
use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, BufWriter, Stdout, Write};
use std::panic;

/// A whole screen is written at once.
const SCREEN_BYTES: usize = 64 * 1024;

/// A terminal that is ours for now. Two buffers and no `ratatui::Terminal`: that one asks the terminal for its cursor's place whenever
/// it clears, which takes two seconds where nobody answers, and takes keys from whoever reads them.
pub struct Held {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    theme: Theme,
    /// What is on the screen.
    shown: Buffer,
    next: Buffer,
}

impl Held {
    /// Takes the terminal on the standard output.
    ///
    /// # Errors
    /// It is no terminal, or cannot be written to.
    pub fn take(theme: Theme) -> io::Result<Held> {
        // The choice was made already, from more than the environment.
        style::force_color_output(theme.color);
        let backend = CrosstermBackend::new(BufWriter::with_capacity(SCREEN_BYTES, io::stdout()));
        give_back_on_panic();
        let mut held = Held { backend, theme, shown: Buffer::default(), next: Buffer::default() };
        held.enter()?;
        Ok(held)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(self.backend, EnterAlternateScreen, cursor::Hide)?;
        self.redraw();
        Ok(())
    }

    /// Draws what has changed, or everything on a terminal of another size.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, app: &mut App, now: Now) -> io::Result<()> {
        let area = Rect::from((ratatui::layout::Position::ORIGIN, self.backend.size()?));
        self.next.resize(area);
        self.next.reset();
        draw::draw(&mut self.next, app, now, self.theme);
        let anew = self.shown.area != area;
        if anew {
            self.shown = Buffer::empty(area);
        }
        let changes = self.shown.diff(&self.next);
        if anew || !changes.is_empty() {
            queue!(self.backend, BeginSynchronizedUpdate)?;
            if anew {
                queue!(self.backend, Clear(ClearType::All))?;
            }
            self.backend.draw(changes.into_iter())?;
            queue!(self.backend, EndSynchronizedUpdate)?;
            Backend::flush(&mut self.backend)?;
        }
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(())
    }

    /// Forgets what is on the screen: the next [`Held::show`] draws everything.
    pub fn redraw(&mut self) {
        self.shown = Buffer::default();
    }

    /// Gives the terminal back, stops this process as Ctrl-Z does, and takes the terminal again when continued.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back()?;
        kill_process(getpid(), Signal::STOP)?;
        self.enter()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Where the terminal is gone, there is nothing to put right.
        let _ = give_back();
    }
}

fn give_back() -> io::Result<()> {
    let left = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    disable_raw_mode()?;
    left?;
    io::stdout().flush()
}

/// A panic is told on a terminal that can show it, and ends the program: half of it would go on with a terminal that is not its own.
fn give_back_on_panic() {
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let _ = give_back(); // the terminal may be what failed
        told(panic);
        std::process::exit(101);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::jobs::Order;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    const INSIDE: &str = "cli::top::terminal::tests::a_thread_panics_while_the_terminal_is_taken";

    #[test]
    #[ignore = "takes the terminal and ends the program: the next test runs it on a terminal of its own"]
    fn a_thread_panics_while_the_terminal_is_taken() {
        let mut held = Held::take(Theme { color: true, ascii: false }).expect("a terminal");
        let mut app = App::new(Duration::from_secs(1), Order::default(), "");
        held.show(&mut app, Now { up: Duration::ZERO, unix_ms: 0 }).expect("a terminal");
        let _ = std::thread::spawn(|| panic!("something is wrong")).join();
        unreachable!("the program has ended");
    }

    #[test]
    fn a_panic_in_any_thread_gives_the_terminal_back_before_it_is_told_and_ends_the_program() {
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
        // Its input stays open until its end.
        let running = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` of util-linux");
        let written = running.wait_with_output().expect("it ends").stdout;
        let text = |name: &str| std::fs::read_to_string(path(name)).expect("written by the shell");
        assert_eq!(text("code").trim(), "101");
        assert_eq!(text("before"), text("after"), "the terminal's settings");

        let cells = |count| std::num::NonZero::new(count).expect("some");
        let mut seen = vt100::Parser::new(cells(24), cells(80), 0);
        let taken = written.windows(8).position(|bytes| bytes == b"\x1b[?1049h").expect("its own screen");
        seen.process(&written[..taken + 8]);
        assert!(seen.screen().alternate_screen());
        seen.process(&written[taken + 8..]);
        assert!(!seen.screen().alternate_screen() && !seen.screen().hide_cursor());
        let told = seen.screen().contents();
        assert!(told.contains("something is wrong"), "told where it can be read: {told}");
    }
}
