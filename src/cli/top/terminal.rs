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
