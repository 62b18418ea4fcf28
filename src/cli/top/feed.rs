//! Requests data from the daemon in the background and forwards the replies; neither the feed nor the screen waits for the other.
//!
//! The daemon publishes a snapshot every few seconds, or at once when something changes. A reply that equals the previous one is
//! not parsed again.

use super::input::Input;
use super::log_tail;
use api::client::{Client, ClientError, EventStream, StreamMessage, segment};
use api::wire::{ContainerDetail, Samples, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use term::exit::Failure;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Query for the recent events on the first connection.
const RECENT_EVENTS: &str = "recent=500";

/// Time between two attempts to open the event stream.
const RETRY: Duration = Duration::from_secs(1);

/// Approximate number of samples requested from a job's history: as many as a chart can show.
const SAMPLES: f64 = 480.0;

/// Minimum time between two reads of a log.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of commands in flight.
const MAX_COMMANDS: usize = 16;

/// Handle of the background tasks.
pub(super) struct Feed {
    client: Client,
    inputs: mpsc::Sender<Input>,
    /// The update interval and the job on the detail page.
    wanted: watch::Sender<Wanted>,
    now: Arc<Notify>,
    commands: Arc<tokio::sync::Semaphore>,
}

#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    delay: Duration,
    detail: Option<String>,
    /// Counts the openings of the detail page.
    opened: u64,
}

impl Feed {
    /// Starts the background tasks.
    pub(super) fn start(client: Client, delay: Duration, inputs: mpsc::Sender<Input>) -> Feed {
        let wanted = watch::Sender::new(Wanted { delay, detail: None, opened: 0 });
        let now = Arc::new(Notify::new());
        tokio::spawn(poll(client.clone(), wanted.subscribe(), now.clone(), inputs.clone()));
        tokio::spawn(listen(client.clone(), inputs.clone()));
        let commands = Arc::new(tokio::sync::Semaphore::new(MAX_COMMANDS));
        Feed { client, inputs, wanted, now, commands }
    }

    /// Requests the status immediately.
    pub(super) fn refresh(&self) {
        self.now.notify_one();
    }

    /// Changes the update interval.
    pub(super) fn set_delay(&self, delay: Duration) {
        self.wanted.send_modify(|wanted| wanted.delay = delay);
        self.refresh();
    }

    /// Sets the job whose detail is requested with each update.
    pub(super) fn set_detail(&self, id: Option<&str>) {
        self.wanted.send_if_modified(|wanted| {
            let changed = wanted.detail.as_deref() != id;
            if changed {
                wanted.detail = id.map(str::to_owned);
                wanted.opened += 1;
            }
            changed
        });
    }

    /// Sends a command; its result arrives as an input.
    pub(super) fn command(&self, path: String) {
        let (client, inputs) = (self.client.clone(), self.inputs.clone());
        let place = self.commands.clone().try_acquire_owned();
        tokio::spawn(async move {
            let reply = match place {
                Ok(_place) => client.post(&path).await.map(|done| done.done).map_err(describe),
                Err(_) => Err("too many commands are waiting for a reply".to_owned()),
            };
            let _ = inputs.send(Input::CommandDone(reply)).await; // the screen is gone
        });
    }
}

/// Formats an error with the next step.
fn describe(error: ClientError) -> String {
    let Failure { message, next, .. } = error.into();
    format!("{message}; {next}")
}

async fn poll(client: Client, mut wanted: watch::Receiver<Wanted>, now: Arc<Notify>, inputs: mpsc::Sender<Input>) {
    let mut before = String::new();
    let mut history_of = 0;
    let mut last_read = None;
    let reading = Arc::new(AtomicBool::new(false));
    loop {
        let started = Instant::now();
        let Wanted { delay, detail, opened } = wanted.borrow_and_update().clone();
        let mut replies = vec![status(&client, &mut before).await];
        if let Some(id) = detail.filter(|_| !matches!(replies[0], Input::NoReply(_))) {
            let detail = request_detail(&client, &id).await;
            if let Some(detail) = detail.as_ref().filter(|_| history_of != opened) {
                tokio::spawn(request_history(client.clone(), id, detail.container.uptime_s, inputs.clone()));
                history_of = opened;
            }
            if let Some(detail) = detail
                .as_deref()
                .filter(|_| last_read.is_none_or(|(of, at)| of != opened || at + READ_EVERY <= started))
            {
                last_read = Some((opened, started));
                read_log(detail, &reading, &inputs);
            }
            replies.extend(detail.map(Input::Detail));
        }
        for reply in replies {
            if inputs.send(reply).await.is_err() {
                return; // the screen is gone
            }
        }
        tokio::select! {
            () = sleep_until(started + delay) => {}
            () = now.notified() => {}
        }
    }
}

async fn status(client: &Client, before: &mut String) -> Input {
    match client.text("/v1/status").await {
        Ok(text) if text == *before => Input::Unchanged,
        Ok(text) => match serde_json::from_str::<Status>(&text) {
            Ok(status) => {
                *before = text;
                Input::Status(Box::new(status))
            }
            Err(error) => Input::NoReply(format!("the daemon's reply is invalid: {error}")),
        },
        Err(error) => {
            before.clear();
            Input::NoReply(error.to_string())
        }
    }
}

/// Requests the detail of a job; `None` if the job has ended, which the list shows.
async fn request_detail(client: &Client, id: &str) -> Option<Box<ContainerDetail>> {
    client.get(&format!("/v1/containers/{}", segment(id))).await.ok().map(Box::new)
}

/// Requests the history of a job; without history in the daemon, the charts start empty.
async fn request_history(client: Client, id: String, uptime_s: f64, inputs: mpsc::Sender<Input>) {
    let every_s = (uptime_s / SAMPLES).max(1.0);
    let path = format!("/v1/history/samples?job={}&every_s={every_s}&limit=5000", segment(&id));
    if let Ok(past) = client.get::<Samples>(&path).await {
        let _ = inputs.send(Input::History(id, past.samples)).await; // the screen is gone
    }
}

/// Reads the end of the log on a separate thread, one at a time, so that a hanging log blocks only one thread.
fn read_log(detail: &ContainerDetail, reading: &Arc<AtomicBool>, inputs: &mpsc::Sender<Input>) {
    if reading.swap(true, Ordering::AcqRel) {
        return;
    }
    let (detail, done, inputs) = (detail.clone(), reading.clone(), inputs.clone());
    let started = thread::Builder::new().name("log".to_owned()).spawn(move || {
        let lines = log_tail::parsed_lines(&detail);
        let _ = inputs.blocking_send(Input::Lines(detail.container.id, lines)); // the screen is gone
        done.store(false, Ordering::Release);
    });
    // Without a thread, the latest line still arrives with the detail.
    if started.is_err() {
        reading.store(false, Ordering::Release);
    }
}

/// Follows the event stream and reconnects when it ends.
async fn listen(client: Client, inputs: mpsc::Sender<Input>) {
    let mut last_id: Option<String> = None;
    loop {
        let opened = match &last_id {
            None => client.events(RECENT_EVENTS, None).await,
            Some(id) => client.events("", Some(id)).await,
        };
        if let Ok(mut stream) = opened {
            if forward(&mut stream, &inputs).await.is_err() {
                return; // the screen is gone
            }
            last_id = stream.last_id().map(str::to_owned).or(last_id);
        }
        sleep(RETRY).await;
    }
}

async fn forward(stream: &mut EventStream, inputs: &mpsc::Sender<Input>) -> Result<(), mpsc::error::SendError<Input>> {
    while let Ok(Some(item)) = stream.next().await {
        if let StreamMessage::Event(event) = item {
            inputs.send(Input::Event(event)).await?;
        }
    }
    Ok(())
}
