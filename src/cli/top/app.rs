//! The state of `flowctl top` and its reaction to inputs.
//!
//! Pure: inputs and the time are arguments, effects are results; the caller sends requests and draws. `keys` handles the keys.

use super::decisions::Decisions;
use super::input::{Effect, Input, Now, Overlay};
use super::jobs::{self, Order};
use super::trace::{Curve, Point, Trace};
use api::wire::{Container, ContainerDetail, Event, Sample, Status};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Maximum number of events kept for the detail page.
const MAX_EVENTS: usize = 1000;

/// Maximum number of lines to scroll.
pub(super) const MAX_BACK: usize = 1000;

/// How long the result of a command stays on the screen.
const MESSAGE_TIME: Duration = Duration::from_secs(6);

/// Shortest silence of the daemon that is reported; at least twice the delay.
const MIN_SILENCE: Duration = Duration::from_secs(2);

/// The job on the detail page.
#[derive(Clone, Debug, Default)]
pub(super) struct Detail {
    /// Its id.
    pub id: String,
    /// The daemon's latest data about it.
    pub latest: Option<Box<ContainerDetail>>,
    /// Its evaluations.
    pub curve: Curve,
    /// The decisions about it.
    pub decisions: Decisions,
    /// Number of lines that its lists are scrolled back.
    pub back: usize,
}

/// A message that is shown for a short time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// The text.
    pub text: String,
    /// Whether the command failed.
    pub is_error: bool,
    until: Duration,
}

/// The whole state of the screen.
#[derive(Debug)]
pub(super) struct App {
    /// Time between two updates.
    pub delay: Duration,
    /// The status shown: the daemon's latest reply unless the screen is frozen.
    pub status: Option<Box<Status>>,
    /// Whether the screen is frozen.
    pub frozen: bool,
    /// The latest status received while the screen is frozen.
    latest: Option<Box<Status>>,
    last_reply: Option<Duration>,
    /// Why the daemon has not replied since its last reply.
    pub problem: Option<String>,
    /// The order of the rows.
    pub order: Order,
    /// Words that each row must contain.
    pub filter: String,
    /// Indices of the jobs shown, in display order; see [`App::job`].
    pub rows: Vec<usize>,
    selected: Option<String>,
    cursor: usize,
    /// The first row on the screen.
    pub offset: usize,
    /// Number of rows that fit on the screen.
    pub page: usize,
    /// The job on the detail page, if it is open.
    pub detail: Option<Detail>,
    /// The overlay on top of the page.
    pub overlay: Option<Overlay>,
    message: Option<Message>,
    traces: BTreeMap<String, Trace>,
    events: VecDeque<Event>,
}

impl App {
    /// Creates a state without data.
    pub(super) fn new(delay: Duration, order: Order, filter: &str) -> App {
        App {
            delay,
            status: None,
            frozen: false,
            latest: None,
            last_reply: None,
            problem: None,
            order,
            filter: filter.to_owned(),
            rows: Vec::new(),
            selected: None,
            cursor: 0,
            offset: 0,
            page: 1,
            detail: None,
            overlay: None,
            message: None,
            traces: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Handles one input; returns the effects to carry out.
    pub(super) fn take(&mut self, input: Input, now: Now) -> Vec<Effect> {
        match input {
            Input::Key(key) => return self.press(key, now),
            Input::Resized => return vec![Effect::Redraw],
            Input::Status(status) => self.update_status(status, now),
            Input::Unchanged => self.mark_reply(now),
            Input::Detail(detail) => self.update_detail(detail),
            Input::Lines(id, lines) => self.set_lines(&id, lines),
            Input::History(id, samples) => self.add_history(&id, &samples),
            Input::NoReply(why) => self.problem = Some(why),
            Input::Event(event) => self.add_event(event),
            Input::CommandDone(Ok(done)) => {
                self.show_message(&done, false, now);
                return vec![Effect::Refresh];
            }
            Input::CommandDone(Err(why)) => self.show_message(&why, true, now),
        }
        Vec::new()
    }

    fn mark_reply(&mut self, now: Now) {
        self.last_reply = Some(now.up);
        self.problem = None;
    }

    fn update_status(&mut self, status: Box<Status>, now: Now) {
        self.mark_reply(now);
        self.trace(&status);
        if self.frozen {
            self.latest = Some(status);
        } else {
            self.status = Some(status);
            self.arrange();
        }
    }

    fn trace(&mut self, status: &Status) {
        let mut traces = std::mem::take(&mut self.traces);
        for container in &status.containers {
            let mut trace = traces.remove(&container.id).unwrap_or_default();
            trace.push(Point::of(container, status.node.unix_ms));
            self.traces.insert(container.id.clone(), trace);
        }
        // The job on the detail page keeps its trace when it ends.
        if let Some((id, trace)) = self.detail.as_ref().and_then(|detail| traces.remove_entry(&detail.id)) {
            self.traces.insert(id, trace);
        }
    }

    /// Filters and sorts the rows. The selected job stays selected; if it is gone, its row number stays selected.
    pub(super) fn arrange(&mut self) {
        let Some(status) = &self.status else { return };
        let running = status.containers.len();
        let ended = jobs::matching(&status.ended, &self.filter).into_iter().map(|at| running + at);
        self.rows = jobs::rows(&status.containers, self.order, &self.filter).into_iter().chain(ended).collect();
        let at = |id: &String| self.rows.iter().position(|row| self.job(*row).is_some_and(|job| job.id == *id));
        self.cursor = self.selected.as_ref().and_then(at).unwrap_or(self.cursor).min(self.rows.len().saturating_sub(1));
        self.selected = self.selection().map(|container| container.id.clone());
    }

    pub(super) fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
        if let Some(latest) = self.latest.take().filter(|_| !frozen) {
            self.status = Some(latest);
            self.arrange();
        }
    }

    fn update_detail(&mut self, latest: Box<ContainerDetail>) {
        let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == latest.container.id) else { return };
        let unix_ms = self.status.as_ref().map_or(0, |status| status.node.unix_ms);
        detail.curve.take(&latest, unix_ms);
        detail.decisions.push_detail(&latest, unix_ms);
        if !self.frozen {
            detail.latest = Some(latest);
        }
    }

    fn add_history(&mut self, id: &str, past: &[Sample]) {
        let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == id) else { return };
        detail.curve.prepend(past);
        detail.decisions.prepend(past);
        let cores = self.status.as_ref().map_or(1.0, |status| status.node.cores);
        self.traces.entry(id.to_owned()).or_default().prepend(&Point::of_history(past, cores));
    }

    fn set_lines(&mut self, id: &str, lines: Vec<String>) {
        if let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == id) {
            detail.curve.set_lines(lines);
        }
    }

    fn add_event(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn show_message(&mut self, text: &str, is_error: bool, now: Now) {
        self.message = Some(Message { text: text.to_owned(), is_error, until: now.up + MESSAGE_TIME });
    }

    /// The current message.
    pub(super) fn message(&self, now: Now) -> Option<&Message> {
        self.message.as_ref().filter(|message| now.up < message.until)
    }

    /// How long the daemon has been silent, if long enough to be reported.
    pub(super) fn silence(&self, now: Now) -> Option<Duration> {
        let silent = now.up.saturating_sub(self.last_reply.unwrap_or_default());
        let patience = if self.problem.is_some() { self.delay } else { self.delay * 2 }.max(MIN_SILENCE);
        (silent >= patience).then_some(silent)
    }

    /// The job under the cursor.
    pub(super) fn selection(&self) -> Option<&Container> {
        self.job(*self.rows.get(self.cursor)?)
    }

    /// The job with this index: first come those that run, then those that ended.
    pub(super) fn job(&self, index: usize) -> Option<&Container> {
        let status = self.status.as_ref()?;
        let ended = || status.ended.get(index.checked_sub(status.containers.len())?);
        status.containers.get(index).or_else(ended)
    }

    /// The row under the cursor.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Moves the cursor to a row, at most to the last.
    pub(super) fn select(&mut self, row: usize) {
        self.cursor = row.min(self.rows.len().saturating_sub(1));
        self.selected = self.selection().map(|container| container.id.clone());
    }

    /// Sets the number of rows that fit, and scrolls so that the cursor is visible.
    pub(super) fn set_page(&mut self, page: usize) {
        self.page = page.max(1);
        let last_offset = self.rows.len().saturating_sub(self.page);
        let lowest = (self.cursor + 1).saturating_sub(self.page);
        self.offset = self.offset.clamp(lowest, self.cursor.max(lowest)).min(last_offset);
    }

    /// Id of the job on the detail page.
    pub(super) fn detail_id(&self) -> Option<&str> {
        self.detail.as_ref().map(|detail| detail.id.as_str())
    }

    /// The job on the detail page, from the list; `None` once it has ended long ago.
    pub(super) fn detail_job(&self) -> Option<&Container> {
        let id = self.detail_id()?;
        let status = self.status.as_ref()?;
        status.containers.iter().chain(&status.ended).find(|container| container.id == id)
    }

    /// The shares of a job over time.
    pub(super) fn trace_of(&self, id: &str) -> Option<&Trace> {
        self.traces.get(id)
    }

    /// Events of a job, newest first.
    pub(super) fn events_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Event> {
        let about = move |event: &&Event| event.container.as_deref().is_some_and(|about| id.starts_with(about));
        self.events.iter().rev().filter(about)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{container, containers, detail, event, status};
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { up: Duration::from_secs(seconds), unix_ms: 1_700_000_000_000 + seconds * 1000 }
    }

    fn watching() -> App {
        let mut app = App::new(Duration::from_secs(1), Order::default(), "");
        app.take(Input::Status(Box::new(status(containers()))), at(0));
        app
    }

    fn shares(app: &mut App, shares: &[f64], now: Now) {
        let mut jobs = containers();
        jobs.iter_mut().zip(shares).for_each(|(job, share)| job.share = Some(*share));
        app.take(Input::Status(Box::new(status(jobs))), now);
    }

    #[test]
    fn the_selected_job_stays_selected_after_sorting() {
        let mut app = watching();
        assert_eq!(app.selection().map(|job| job.name.as_str()), Some("vae"));
        shares(&mut app, &[0.01, 0.5, 0.3, 0.19], at(1));
        assert_eq!(app.selection().map(|job| job.name.as_str()), Some("vae"));
        assert_eq!(app.cursor(), 3);
    }

    #[test]
    fn if_the_selected_job_ended_its_row_stays_selected() {
        let mut app = watching();
        app.select(3);
        app.take(Input::Status(Box::new(status(vec![container("a"), container("b")]))), at(1));
        assert_eq!(app.cursor(), 1);
        app.take(Input::Status(Box::new(status(Vec::new()))), at(2));
        assert!(app.selection().is_none());
    }

    #[test]
    fn silence_is_reported_after_a_while_and_ends_with_the_next_reply() {
        let mut app = watching();
        assert_eq!(app.silence(at(1)), None);
        app.take(Input::NoReply("no daemon answers".to_owned()), at(2));
        assert_eq!(app.silence(at(4)), Some(Duration::from_secs(4)));
        app.take(Input::Unchanged, at(5));
        assert_eq!((app.silence(at(6)), app.problem.as_deref()), (None, None));
        app.delay = Duration::from_secs(30);
        assert_eq!(app.silence(at(50)), None, "no request was sent in between");
    }

    #[test]
    fn a_frozen_screen_does_not_change_and_then_shows_the_latest_status() {
        let mut app = watching();
        app.freeze(true);
        shares(&mut app, &[0.01, 0.9], at(1));
        assert_eq!(app.selection().and_then(|job| job.share), Some(0.63));
        app.freeze(false);
        assert_eq!(app.selection().and_then(|job| job.share), Some(0.01));
    }

    #[test]
    fn the_result_of_a_command_is_shown_for_a_while_and_the_status_is_refreshed() {
        let mut app = watching();
        assert_eq!(app.take(Input::CommandDone(Ok("vae is released".to_owned())), at(10)), [Effect::Refresh]);
        assert!(app.message(at(12)).is_some_and(|message| message.text == "vae is released" && !message.is_error));
        assert!(app.message(at(17)).is_none());
        app.take(Input::CommandDone(Err("denied".to_owned())), at(20));
        assert!(app.message(at(21)).is_some_and(|message| message.is_error));
    }

    #[test]
    fn a_late_detail_of_another_job_is_dropped() {
        let mut app = watching();
        app.detail = Some(Detail { id: container("vae").id, ..Detail::default() });
        app.take(Input::Detail(Box::new(detail("lstm", &[1.0], 1, "x"))), at(1));
        assert!(app.detail.as_ref().is_some_and(|detail| detail.latest.is_none()));
        app.take(Input::Detail(Box::new(detail("vae", &[1.0], 1, "x"))), at(1));
        assert!(app.detail.as_ref().is_some_and(|detail| detail.latest.is_some()));
    }

    #[test]
    fn events_of_a_job_are_newest_first_and_their_number_is_bounded() {
        let mut app = watching();
        for number in 0..2000 {
            let name = if number % 2 == 0 { "vae" } else { "lstm" };
            app.take(Input::Event(event(number, name, &format!("moved {number}"))), at(1));
        }
        let id = container("vae").id;
        assert_eq!(app.events_of(&id).next().map(|event| event.text.as_str()), Some("moved 1998"));
        assert_eq!(app.events_of(&id).count(), MAX_EVENTS / 2);
    }

    #[test]
    fn the_trace_of_an_ended_job_is_dropped_unless_its_detail_is_open() {
        let mut app = watching();
        app.detail = Some(Detail { id: container("vae").id, ..Detail::default() });
        app.take(Input::Status(Box::new(status(Vec::new()))), at(1));
        assert!(app.trace_of(&container("vae").id).is_some());
        assert!(app.trace_of(&container("lstm").id).is_none());
    }
}
