//! Asks the daemon in the background and hands on what it says; nothing here waits for the screen, and the screen for nothing here.
//!
//! The daemon publishes a snapshot every few seconds, or at once when something changes. An answer of the same bytes as the one
//! before is not read again. Imports: the API's client.

use super::input::Input;
use super::log_tail;
use crate::api::client::{Client, ClientError, EventStream, Told, segment};
use crate::api::wire::{ContainerDetail, Samples, Status};
use crate::term::exit::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Events of the past to begin with.
const PAST: &str = "recent=500";

/// Between two attempts to find the event stream again.
const RETRY: Duration = Duration::from_secs(1);

/// Samples of a job's past, about: what a chart can show.
const SAMPLES: f64 = 480.0;

/// A log is read on so often, at most.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Commands that may wait for their answers at a time.
const COMMANDS_AT_MOST: usize = 16;

/// What the screen asks of the feed.
pub struct Feed {
    client: Client,
    inputs: mpsc::Sender<Input>,
    /// How often to ask, and about which job.
    wanted: watch::Sender<Wanted>,
    now: Arc<Notify>,
    commands: Arc<tokio::sync::Semaphore>,
}

#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    delay: Duration,
    detail: Option<String>,
    /// Tells one look at a job from the next.
    opened: u64,
}

impl Feed {
    /// Begins to ask.
    pub fn start(client: Client, delay: Duration, inputs: mpsc::Sender<Input>) -> Feed {
        let wanted = watch::Sender::new(Wanted { delay, detail: None, opened: 0 });
        let now = Arc::new(Notify::new());
        tokio::spawn(ask(client.clone(), wanted.subscribe(), now.clone(), inputs.clone()));
        tokio::spawn(listen(client.clone(), inputs.clone()));
        let commands = Arc::new(tokio::sync::Semaphore::new(COMMANDS_AT_MOST));
        Feed { client, inputs, wanted, now, commands }
    }

    /// Asks at once.
    pub fn look(&self) {
        self.now.notify_one();
    }

    /// Asks this often from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.wanted.send_modify(|wanted| wanted.delay = delay);
        self.look();
    }

    /// Asks about this job too.
    pub fn set_detail(&self, id: Option<&str>) {
        self.wanted.send_if_modified(|wanted| {
            let changed = wanted.detail.as_deref() != id;
            if changed {
                wanted.detail = id.map(str::to_owned);
                wanted.opened += 1;
            }
            changed
        });
    }

    /// Gives a command; its answer comes as an input.
    pub fn command(&self, path: String) {
        let (client, inputs) = (self.client.clone(), self.inputs.clone());
        let place = self.commands.clone().try_acquire_owned();
        tokio::spawn(async move {
            let answer = match place {
                Ok(_place) => client.post(&path).await.map(|done| done.done).map_err(told),
                Err(_) => Err("too many commands wait for an answer".to_owned()),
            };
            let _ = inputs.send(Input::Answered(answer)).await; // the screen is gone
        });
    }
}

/// Why, and what to do.
fn told(error: ClientError) -> String {
    let Failure { message, next, .. } = error.into();
    format!("{message}; {next}")
}

async fn ask(client: Client, mut wanted: watch::Receiver<Wanted>, now: Arc<Notify>, inputs: mpsc::Sender<Input>) {
    let mut before = String::new();
    let mut looked_back = 0;
    let mut last_read = None;
    let reading = Arc::new(AtomicBool::new(false));
    loop {
        let asked = Instant::now();
        let Wanted { delay, detail, opened } = wanted.borrow_and_update().clone();
        let mut answers = vec![status(&client, &mut before).await];
        if let Some(id) = detail.filter(|_| !matches!(answers[0], Input::Silence(_))) {
            let told = look_closer(&client, &id).await;
            if let Some(told) = told.as_ref().filter(|_| looked_back != opened) {
                tokio::spawn(look_back(client.clone(), id, told.container.uptime_s, inputs.clone()));
                looked_back = opened;
            }
            if let Some(told) =
                told.as_deref().filter(|_| last_read.is_none_or(|(of, at)| of != opened || at + READ_EVERY <= asked))
            {
                last_read = Some((opened, asked));
                read_on(told, &reading, &inputs);
            }
            answers.extend(told.map(Input::Detail));
        }
        for answer in answers {
            if inputs.send(answer).await.is_err() {
                return; // the screen is gone
            }
        }
        tokio::select! {
            () = sleep_until(asked + delay) => {}
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
            Err(error) => Input::Silence(format!("the daemon's answer is not understood: {error}")),
        },
        Err(error) => {
            before.clear();
            Input::Silence(error.to_string())
        }
    }
}

/// A job that ended meanwhile has no detail, which the list shows.
async fn look_closer(client: &Client, id: &str) -> Option<Box<ContainerDetail>> {
    client.get(&format!("/v1/containers/{}", segment(id))).await.ok().map(Box::new)
}

/// What the daemon's history knows of the job. A daemon that keeps none leaves the job without a past.
async fn look_back(client: Client, id: String, uptime_s: f64, inputs: mpsc::Sender<Input>) {
    let every_s = (uptime_s / SAMPLES).max(1.0);
    let path = format!("/v1/history/samples?job={}&every_s={every_s}&limit=5000", segment(&id));
    if let Ok(past) = client.get::<Samples>(&path).await {
        let _ = inputs.send(Input::Past(id, past.samples)).await; // the screen is gone
    }
}

/// Reads the end of the log on a thread of its own; one at a time, so that a log that hangs costs one thread.
fn read_on(told: &ContainerDetail, reading: &Arc<AtomicBool>, inputs: &mpsc::Sender<Input>) {
    if reading.swap(true, Ordering::AcqRel) {
        return;
    }
    let (told, done, inputs) = (told.clone(), reading.clone(), inputs.clone());
    let started = thread::Builder::new().name("log".to_owned()).spawn(move || {
        let lines = log_tail::understood(&told);
        let _ = inputs.blocking_send(Input::Lines(told.container.id, lines)); // the screen is gone
        done.store(false, Ordering::Release);
    });
    // Without a thread the latest line is still told.
    if started.is_err() {
        reading.store(false, Ordering::Release);
    }
}

/// Follows the events, again and again.
async fn listen(client: Client, inputs: mpsc::Sender<Input>) {
    let mut last_id: Option<String> = None;
    loop {
        let opened = match &last_id {
            None => client.events(PAST, None).await,
            Some(id) => client.events("", Some(id)).await,
        };
        if let Ok(mut stream) = opened {
            if hand_on(&mut stream, &inputs).await.is_err() {
                return; // the screen is gone
            }
            last_id = stream.last_id().map(str::to_owned).or(last_id);
        }
        sleep(RETRY).await;
    }
}

async fn hand_on(stream: &mut EventStream, inputs: &mpsc::Sender<Input>) -> Result<(), mpsc::error::SendError<Input>> {
    while let Ok(Some(told)) = stream.next().await {
        if let Told::Event(event) = told {
            inputs.send(Input::Event(event)).await?;
        }
    }
    Ok(())
}
