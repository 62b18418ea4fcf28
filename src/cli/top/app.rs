//! The state of `flowctl top`: what came in, and what follows from it.
//!
//! Pure: inputs and the time are arguments, wishes are answers; whoever calls does the asking and the drawing. What each key does
//! is in `keys`. Imports: wire types.

use super::decisions::Decisions;
use super::input::{Input, Now, Overlay, Wish};
use super::jobs::{self, Order};
use super::trace::{Curve, Point, Trace};
use crate::api::wire::{Container, ContainerDetail, Event, Sample, Status};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Events that are kept for the detail view.
const EVENTS_AT_MOST: usize = 1000;

/// Nobody scrolls further.
pub(super) const BACK_AT_MOST: usize = 1000;

/// How long an answer to a command stays on the screen.
const SAID_FOR: Duration = Duration::from_secs(6);

/// Silence that is not worth a word, besides twice the delay.
const PATIENCE: Duration = Duration::from_secs(2);

/// The job that is looked at.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    /// Its id.
    pub id: String,
    /// What the daemon last told of it.
    pub latest: Option<Box<ContainerDetail>>,
    /// Its evaluations.
    pub curve: Curve,
    /// What was decided about it.
    pub decisions: Decisions,
    /// Lines that the lists are scrolled back by.
    pub back: usize,
}

/// A message that goes away by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// In words.
    pub text: String,
    /// Whether something was not done.
    pub is_refusal: bool,
    until: Duration,
}

/// Everything that is shown.
#[derive(Debug)]
pub struct App {
    /// Time between two looks.
    pub delay: Duration,
    /// What is shown; the daemon's latest answer unless frozen.
    pub status: Option<Box<Status>>,
    /// The screen stands still, and this came in meanwhile.
    pub frozen: bool,
    latest: Option<Box<Status>>,
    answered: Option<Duration>,
    /// Why the daemon did not answer, since its last answer.
    pub problem: Option<String>,
    /// The order of the rows.
    pub order: Order,
    /// Words that each row must have.
    pub filter: String,
    /// The containers that are shown, as indices, in order.
    pub rows: Vec<usize>,
    selected: Option<String>,
    cursor: usize,
    /// The first row on the screen.
    pub offset: usize,
    /// Rows that fit on the screen.
    pub page: usize,
    /// The job that is looked at.
    pub detail: Option<Detail>,
    /// What lies over the page.
    pub overlay: Option<Overlay>,
    said: Option<Said>,
    traces: BTreeMap<String, Trace>,
    events: VecDeque<Event>,
}

impl App {
    /// Nothing seen yet.
    pub fn new(delay: Duration, order: Order, filter: &str) -> App {
        App {
            delay,
            status: None,
            frozen: false,
            latest: None,
            answered: None,
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
            said: None,
            traces: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes one input; the wishes that follow from it.
    pub fn take(&mut self, input: Input, now: Now) -> Vec<Wish> {
        match input {
            Input::Key(key) => return self.press(key, now),
            Input::Resized => return vec![Wish::Redraw],
            Input::Status(status) => self.learn(status, now),
            Input::Unchanged => self.hear(now),
            Input::Detail(detail) => self.look_closer(detail),
            Input::Lines(id, lines) => self.read_on(&id, lines),
            Input::Past(id, samples) => self.look_back(&id, &samples),
            Input::Silence(why) => self.problem = Some(why),
            Input::Event(event) => self.remember(event),
            Input::Answered(Ok(done)) => {
                self.say(&done, false, now);
                return vec![Wish::Look];
            }
            Input::Answered(Err(why)) => self.say(&why, true, now),
        }
        Vec::new()
    }

    fn hear(&mut self, now: Now) {
        self.answered = Some(now.up);
        self.problem = None;
    }

    fn learn(&mut self, status: Box<Status>, now: Now) {
        self.hear(now);
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
        // The job that is looked at keeps its past when it ends.
        if let Some((id, trace)) = self.detail.as_ref().and_then(|detail| traces.remove_entry(&detail.id)) {
            self.traces.insert(id, trace);
        }
    }

    /// Puts the rows in order again and finds the selected job among them; where it is gone, its place stays selected.
    pub(super) fn arrange(&mut self) {
        let Some(status) = &self.status else { return };
        self.rows = jobs::rows(&status.containers, self.order, &self.filter);
        let at = |id: &String| self.rows.iter().position(|row| status.containers[*row].id == *id);
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

    fn look_closer(&mut self, told: Box<ContainerDetail>) {
        let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == told.container.id) else { return };
        let unix_ms = self.status.as_ref().map_or(0, |status| status.node.unix_ms);
        detail.curve.take(&told, unix_ms);
        detail.decisions.take(&told, unix_ms);
        if !self.frozen {
            detail.latest = Some(told);
        }
    }

    fn look_back(&mut self, id: &str, past: &[Sample]) {
        let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == id) else { return };
        detail.curve.precede(past);
        detail.decisions.precede(past);
        let cores = self.status.as_ref().map_or(1.0, |status| status.node.cores);
        self.traces.entry(id.to_owned()).or_default().precede(&Point::of_past(past, cores));
    }

    fn read_on(&mut self, id: &str, lines: Vec<String>) {
        if let Some(detail) = self.detail.as_mut().filter(|detail| detail.id == id) {
            detail.curve.read(lines);
        }
    }

    fn remember(&mut self, event: Event) {
        if self.events.len() == EVENTS_AT_MOST {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn say(&mut self, text: &str, is_refusal: bool, now: Now) {
        self.said = Some(Said { text: text.to_owned(), is_refusal, until: now.up + SAID_FOR });
    }

    /// What was said lately.
    pub fn said(&self, now: Now) -> Option<&Said> {
        self.said.as_ref().filter(|said| now.up < said.until)
    }

    /// How long the daemon has been silent, where that is worth a word.
    pub fn silence(&self, now: Now) -> Option<Duration> {
        let silent = now.up.saturating_sub(self.answered.unwrap_or_default());
        let patience = if self.problem.is_some() { self.delay } else { self.delay * 2 }.max(PATIENCE);
        (silent >= patience).then_some(silent)
    }

    /// The job under the cursor.
    pub fn selection(&self) -> Option<&Container> {
        self.status.as_ref()?.containers.get(*self.rows.get(self.cursor)?)
    }

    /// The row under the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Moves the cursor, as far as there are rows.
    pub(super) fn select(&mut self, row: usize) {
        self.cursor = row.min(self.rows.len().saturating_sub(1));
        self.selected = self.selection().map(|container| container.id.clone());
    }

    /// Takes note of how many rows fit, and scrolls so that the cursor is among them.
    pub fn settle(&mut self, page: usize) {
        self.page = page.max(1);
        let last_offset = self.rows.len().saturating_sub(self.page);
        let lowest = (self.cursor + 1).saturating_sub(self.page);
        self.offset = self.offset.clamp(lowest, self.cursor.max(lowest)).min(last_offset);
    }

    /// The job whose detail is wanted.
    pub fn wanted(&self) -> Option<&str> {
        self.detail.as_ref().map(|detail| detail.id.as_str())
    }

    /// The job that is looked at, as the list knows it; `None` once it ended.
    pub fn looked_at(&self) -> Option<&Container> {
        let id = self.wanted()?;
        self.status.as_ref()?.containers.iter().find(|container| container.id == id)
    }

    /// The shares of a job over time.
    pub fn trace_of(&self, id: &str) -> Option<&Trace> {
        self.traces.get(id)
    }

    /// What happened to a job, newest first.
    pub fn events_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Event> {
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
    fn the_selected_job_stays_selected_wherever_it_is_sorted_to() {
        let mut app = watching();
        assert_eq!(app.selection().map(|job| job.name.as_str()), Some("vae"));
        shares(&mut app, &[0.01, 0.5, 0.3, 0.19], at(1));
        assert_eq!(app.selection().map(|job| job.name.as_str()), Some("vae"));
        assert_eq!(app.cursor(), 3);
    }

    #[test]
    fn where_the_selected_job_ended_its_place_stays_selected() {
        let mut app = watching();
        app.select(3);
        app.take(Input::Status(Box::new(status(vec![container("a"), container("b")]))), at(1));
        assert_eq!(app.cursor(), 1);
        app.take(Input::Status(Box::new(status(Vec::new()))), at(2));
        assert!(app.selection().is_none());
    }

    #[test]
    fn silence_is_told_after_a_while_and_ends_with_the_next_answer() {
        let mut app = watching();
        assert_eq!(app.silence(at(1)), None);
        app.take(Input::Silence("no daemon answers".to_owned()), at(2));
        assert_eq!(app.silence(at(4)), Some(Duration::from_secs(4)));
        app.take(Input::Unchanged, at(5));
        assert_eq!((app.silence(at(6)), app.problem.as_deref()), (None, None));
        app.delay = Duration::from_secs(30);
        assert_eq!(app.silence(at(50)), None, "nobody asked meanwhile");
    }

    #[test]
    fn a_frozen_screen_stands_still_and_then_shows_the_latest() {
        let mut app = watching();
        app.freeze(true);
        shares(&mut app, &[0.01, 0.9], at(1));
        assert_eq!(app.selection().and_then(|job| job.share), Some(0.63));
        app.freeze(false);
        assert_eq!(app.selection().and_then(|job| job.share), Some(0.01));
    }

    #[test]
    fn an_answer_to_a_command_is_shown_for_a_while_and_the_node_is_looked_at() {
        let mut app = watching();
        assert_eq!(app.take(Input::Answered(Ok("vae is paused".to_owned())), at(10)), [Wish::Look]);
        assert!(app.said(at(12)).is_some_and(|said| said.text == "vae is paused" && !said.is_refusal));
        assert!(app.said(at(17)).is_none());
        app.take(Input::Answered(Err("denied".to_owned())), at(20));
        assert!(app.said(at(21)).is_some_and(|said| said.is_refusal));
    }

    #[test]
    fn a_detail_that_comes_late_for_another_job_is_dropped() {
        let mut app = watching();
        app.detail = Some(Detail { id: container("vae").id, ..Detail::default() });
        app.take(Input::Detail(Box::new(detail("lstm", &[1.0], 1, "x"))), at(1));
        assert!(app.detail.as_ref().is_some_and(|detail| detail.latest.is_none()));
        app.take(Input::Detail(Box::new(detail("vae", &[1.0], 1, "x"))), at(1));
        assert!(app.detail.as_ref().is_some_and(|detail| detail.latest.is_some()));
    }

    #[test]
    fn a_job_has_its_own_events_newest_first_and_memory_is_bounded() {
        let mut app = watching();
        for number in 0..2000 {
            let name = if number % 2 == 0 { "vae" } else { "lstm" };
            app.take(Input::Event(event(number, name, &format!("moved {number}"))), at(1));
        }
        let id = container("vae").id;
        assert_eq!(app.events_of(&id).next().map(|event| event.text.as_str()), Some("moved 1998"));
        assert_eq!(app.events_of(&id).count(), EVENTS_AT_MOST / 2);
    }

    #[test]
    fn what_ended_is_forgotten_unless_it_is_looked_at() {
        let mut app = watching();
        app.detail = Some(Detail { id: container("vae").id, ..Detail::default() });
        app.take(Input::Status(Box::new(status(Vec::new()))), at(1));
        assert!(app.trace_of(&container("vae").id).is_some());
        assert!(app.trace_of(&container("lstm").id).is_none());
    }
}
