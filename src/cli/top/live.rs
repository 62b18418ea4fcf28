//! The main loop on a terminal: handles keys, replies and signals; draws, sends requests and commands.

use super::app::App;
use super::draw::Theme;
use super::feed::Feed;
use super::input::{Effect, Input, Now};
use super::terminal::OwnedTerminal;
use api::client::Client;
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use term::exit::{Exit, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Capacity of the input queue.
const INBOX: usize = 256;

/// Maximum time between two redraws: parts of the screen depend on the time.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// Shows the jobs until a key or signal quits, or until the daemon has replied `updates` times.
///
/// # Errors
/// The terminal cannot be opened, or is gone.
pub(super) async fn watch(client: Client, mut app: App, updates: Option<u64>, theme: Theme) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut exits = ExitSignals::new()?;
    // Sent by a shell or another process to suspend; Ctrl-Z itself arrives as a key.
    let mut suspends = listen(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let (inputs, mut inbox) = mpsc::channel(INBOX);
    let mut screen = OwnedTerminal::take(theme).map_err(unusable)?;
    read_keys(inputs.clone())?;
    let feed = Feed::start(client, app.delay, inputs);
    let mut updates_left = updates.unwrap_or(u64::MAX);
    loop {
        screen.show(&mut app, now(begun))?;
        if updates_left == 0 {
            return Ok(());
        }
        let first = tokio::select! {
            input = inbox.recv() => input,
            () = exits.recv() => return Ok(()),
            _ = suspends.recv() => {
                suspend(&mut screen, &mut app, now(begun))?;
                continue;
            }
            () = sleep(REDRAW_EVERY) => continue,
        };
        let mut next = first;
        while let Some(input) = next {
            if matches!(input, Input::Status(_) | Input::Unchanged) {
                updates_left = updates_left.saturating_sub(1);
            }
            for effect in app.take(input, now(begun)) {
                match effect {
                    Effect::Quit => return Ok(()),
                    Effect::Suspend => suspend(&mut screen, &mut app, now(begun))?,
                    Effect::Redraw => screen.redraw(),
                    Effect::Refresh => {
                        feed.set_detail(app.detail_id());
                        feed.refresh();
                    }
                    Effect::Command(path) => feed.command(path),
                    Effect::Delay(delay) => feed.set_delay(delay),
                }
            }
            next = if updates_left == 0 { None } else { inbox.try_recv().ok() };
        }
        feed.set_detail(app.detail_id());
    }
}

/// Suspends the program, or says why it cannot.
fn suspend(screen: &mut OwnedTerminal, app: &mut App, now: Now) -> io::Result<()> {
    if !screen.suspend()? {
        app.show_message("no shell to return to; q quits", true, now);
    }
    Ok(())
}

fn now(begun: Instant) -> Now {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { up: begun.elapsed(), unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX) }
}

fn unusable(error: io::Error) -> Failure {
    let next = "`flowctl status --watch` and `flowctl top -b` work without a terminal";
    Failure::new(Exit::Failed, format!("cannot take over the terminal: {error}"), next)
}

/// Starts a thread that reads keys, because reading blocks. It ends with the process.
fn read_keys(inputs: mpsc::Sender<Input>) -> Result<(), Failure> {
    let listen = move || {
        while let Ok(event) = event::read() {
            let input = match event {
                Event::Key(key) => Input::Key(key),
                Event::Resize(..) => Input::Resized,
                _ => continue,
            };
            if inputs.blocking_send(input).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("keys".to_owned()).spawn(listen);
    started.map(|_| ()).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot start a thread: {error}"), "check `ulimit -u` and free memory")
    })
}

/// Signals that end the program.
struct ExitSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl ExitSignals {
    fn new() -> Result<ExitSignals, Failure> {
        Ok(ExitSignals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for one of the signals.
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot install a signal handler: {error}"), "check `ulimit -n`")
    })
}
