//! Recordings for `flowctl record`: every tick as a line, from the request on.
//!
//! The header holds the whole state of the governor, so a recording may begin at any time. The loop never waits for a reader: each has a
//! short queue, and a reader whose queue fills up is dropped; its recording then ends after a whole line. Ticks are serialised only
//! while a recording is open.

use api::RecordingRequest;
use hyper::body::Bytes;
use model::{NodeObservation, NodePlan, PolicySettings, RECORDING_VERSION};
use model::{RecordedTick, RecordingHeader, RecordingLine};
use policy::Governor;
use serde::Serialize;
use tokio::sync::mpsc;

/// Recordings at the same time.
const RECORDERS_AT_MOST: usize = 4;

/// Clients that receive each tick.
#[derive(Default)]
pub(super) struct Recorders {
    open: Vec<mpsc::Sender<Bytes>>,
}

impl Recorders {
    /// Begins a recording with the governor's current state. A recording beyond the limit is closed without a line.
    pub(crate) fn begin(&mut self, request: RecordingRequest, governor: &Governor) {
        self.open.retain(|reader| !reader.is_closed());
        if self.open.len() >= RECORDERS_AT_MOST {
            return;
        }
        let header =
            RecordingHeader { version: RECORDING_VERSION, settings: *governor.settings(), governor: Some(governor) };
        let was_sent =
            line(&RecordingLine::Header(header)).is_some_and(|header| request.lines.try_send(header).is_ok());
        if was_sent {
            self.open.push(request.lines);
        }
    }

    /// Records the settings that apply from the next tick on.
    pub(crate) fn reconfigured(&mut self, settings: &PolicySettings) {
        self.send(|| RecordingLine::Settings(*settings));
    }

    /// Records an observation and the plan that was made from it.
    pub(crate) fn ticked(&mut self, observation: &NodeObservation, plan: &NodePlan) {
        let tick = || Box::new(RecordedTick { observation: observation.clone(), plan: plan.clone() });
        self.send(|| RecordingLine::Tick(tick()));
    }

    fn send(&mut self, what: impl FnOnce() -> RecordingLine<&'static Governor>) {
        self.open.retain(|reader| !reader.is_closed());
        if self.open.is_empty() {
            return;
        }
        match line(&what()) {
            Some(line) => self.open.retain(|reader| reader.try_send(line.clone()).is_ok()),
            // A recording with a gap could not be replayed.
            None => self.open.clear(),
        }
    }
}

fn line<G: Serialize>(what: &RecordingLine<G>) -> Option<Bytes> {
    match serde_json::to_vec(what) {
        Ok(mut line) => {
            line.push(b'\n');
            Some(line.into())
        }
        Err(error) => {
            tracing::error!(%error, "a tick cannot be written as JSON; recordings end here");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn governor() -> Governor {
        Governor::new(PolicySettings::default())
    }

    fn begun(recorders: &mut Recorders, ahead: usize) -> mpsc::Receiver<Bytes> {
        let (lines, queue) = mpsc::channel(ahead);
        recorders.begin(RecordingRequest { lines }, &governor());
        queue
    }

    #[test]
    fn each_reader_gets_a_header_and_then_whole_lines() {
        let mut recorders = Recorders::default();
        let mut queue = begun(&mut recorders, 8);
        recorders.reconfigured(&PolicySettings::default());
        let lines: Vec<Bytes> = std::iter::from_fn(|| queue.try_recv().ok()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with(b"{\"header\":{\"version\":2,") && lines[1].starts_with(b"{\"settings\":{"));
        assert!(lines.iter().all(|line| line.ends_with(b"}\n") && line.iter().filter(|b| **b == b'\n').count() == 1));
    }

    #[test]
    fn a_reader_that_falls_behind_and_one_that_disconnected_are_dropped() {
        let mut recorders = Recorders::default();
        let (mut slow, gone, _attentive) =
            (begun(&mut recorders, 2), begun(&mut recorders, 8), begun(&mut recorders, 8));
        drop(gone);
        for _ in 0..3 {
            recorders.reconfigured(&PolicySettings::default());
        }
        assert_eq!(recorders.open.len(), 1);
        let kept = std::iter::from_fn(|| slow.try_recv().ok()).count();
        assert_eq!((kept, slow.try_recv()), (2, Err(mpsc::error::TryRecvError::Disconnected)));
    }

    #[test]
    fn a_recording_beyond_the_limit_gets_no_line() {
        let mut recorders = Recorders::default();
        let mut queues: Vec<_> = (0..=RECORDERS_AT_MOST).map(|_| begun(&mut recorders, 8)).collect();
        let headers = queues.iter_mut().filter_map(|queue| queue.try_recv().ok()).count();
        assert_eq!(headers, RECORDERS_AT_MOST);
    }
}
