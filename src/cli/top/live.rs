//! The loop on a terminal: keys, answers and signals in; screens, questions and commands out. Imports: siblings.

use super::app::App;
use super::draw::Theme;
use super::feed::Feed;
use super::input::{Input, Now, Wish};
use super::terminal::Held;
use crate::api::client::Client;
use crate::term::exit::{Exit, Failure};
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Inputs that wait; whoever brings more waits too.
const INBOX: usize = 256;

/// A screen on which nothing happens is drawn so often, for what depends on the time.
const AT_LATEST: Duration = Duration::from_secs(1);

/// Shows the jobs until told to end, or until the daemon answered `looks` times.
///
/// # Errors
/// The terminal cannot be taken, or is gone.
pub async fn watch(client: Client, mut app: App, looks: Option<u64>, theme: Theme) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut ends = Ends::new()?;
    // What a shell or another process sends to suspend; Ctrl-Z itself arrives as a key.
    let mut suspends = heard(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let (inputs, mut inbox) = mpsc::channel(INBOX);
    let mut screen = Held::take(theme).map_err(unusable)?;
    listen_to_keys(inputs.clone())?;
    let feed = Feed::start(client, app.delay, inputs);
    let mut looks_left = looks.unwrap_or(u64::MAX);
    loop {
        screen.show(&mut app, now(begun))?;
        if looks_left == 0 {
            return Ok(());
        }
        let first = tokio::select! {
            input = inbox.recv() => input,
            () = ends.one() => return Ok(()),
            _ = suspends.recv() => {
                screen.suspend()?;
                continue;
            }
            () = sleep(AT_LATEST) => continue,
        };
        let mut next = first;
        while let Some(input) = next {
            if matches!(input, Input::Status(_) | Input::Unchanged) {
                looks_left = looks_left.saturating_sub(1);
            }
            for wish in app.take(input, now(begun)) {
                match wish {
                    Wish::Quit => return Ok(()),
                    Wish::Suspend => screen.suspend()?,
                    Wish::Redraw => screen.redraw(),
                    Wish::Look => {
                        feed.set_detail(app.wanted());
                        feed.look();
                    }
                    Wish::Command(path) => feed.command(path),
                    Wish::Delay(delay) => feed.set_delay(delay),
                }
            }
            next = if looks_left == 0 { None } else { inbox.try_recv().ok() };
        }
        feed.set_detail(app.wanted());
    }
}

fn now(begun: Instant) -> Now {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { up: begun.elapsed(), unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX) }
}

fn unusable(error: io::Error) -> Failure {
    let next = "`flowctl status --watch` and `flowctl top -b` need no more than a place to write to";
    Failure::new(Exit::Failed, format!("cannot take over the terminal: {error}"), next)
}

/// Reading a key waits in the kernel, so it has a thread of its own. It ends with the process.
fn listen_to_keys(inputs: mpsc::Sender<Input>) -> Result<(), Failure> {
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

/// Signals that ask for an end.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Ends {
    fn new() -> Result<Ends, Failure> {
        Ok(Ends {
            terminate: heard(SignalKind::terminate())?,
            interrupt: heard(SignalKind::interrupt())?,
            hang_up: heard(SignalKind::hangup())?,
        })
    }

    /// Somebody wants an end.
    async fn one(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot hear signals: {error}"), "check `ulimit -n`"))
}
