//! Reasons to leave a container alone, and the limits that could not be written.

use model::{Hold, LimitKind, Millis, Setting};

/// First wait after a failed write; it doubles up to the longest interval.
const WRITE_AGAIN: Millis = Millis::from_secs(30);

/// Reasons to leave a container alone, strongest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holds {
    /// An operator released the container.
    pub released: bool,
    /// A limit was changed by another user or program; the text says which.
    pub foreign: Option<String>,
    /// The cgroup into which its processes were moved.
    pub moved: Option<String>,
    /// An operator wants it governed again: its present limits are to be accepted as the originals first.
    pub accepting: bool,
    /// Why the last write failed, and when to try again.
    pub unwritable: Option<(String, Millis)>,
    /// End of the observation of a container that ran before the daemon started.
    pub settling_until: Option<Millis>,
    /// Limits whose last write failed, with the number of failures in a row.
    failing: Vec<(LimitKind, u32)>,
    /// Whether the last change could not be journalled.
    unjournalled: bool,
}

impl Holds {
    /// Ends every reason that an operator can end. Those of a container that was left alone remain until its limits are accepted, as do
    /// those of one that refuses ours, because its owner may have changed how it is limited.
    pub(super) fn govern(&mut self, must_accept: bool) {
        let was_left_alone = self.released || self.foreign.is_some() || self.unwritable.is_some() || self.accepting;
        let accepting = must_accept || was_left_alone;
        *self = Holds { foreign: self.foreign.take(), moved: self.moved.take(), accepting, ..Holds::default() };
    }

    /// Records that the limits were accepted. An operator may have released the container again meanwhile.
    pub(super) fn accepted(&mut self) {
        *self = Holds { released: self.released, moved: self.moved.take(), ..Holds::default() };
    }

    /// Records a successful write: these limits fail no longer; others still may.
    pub(super) fn wrote(&mut self, requested: &[Setting]) {
        self.unjournalled = false;
        self.failing.retain(|(failing, _)| !requested.iter().any(|setting| setting.kind() == *failing));
        if self.failing.is_empty() {
            self.unwritable = None;
        }
    }

    /// Records a successful restore. It needs no journal, so a change that could not be journalled still has to wait.
    pub(super) fn restored(&mut self, requested: &[Setting]) {
        if !self.unjournalled {
            self.wrote(requested);
        }
    }

    /// Records a change that could not be journalled, and so was not written.
    pub(super) fn not_begun(&mut self, why: &str, settings: &[Setting], now: Millis, longest: Millis) {
        self.failed(why, settings, now, longest);
        self.unjournalled = true;
    }

    /// Records a failed write: the wait doubles with each failure in a row.
    pub(super) fn failed(&mut self, why: &str, settings: &[Setting], now: Millis, longest: Millis) {
        let mut times = 1;
        for setting in settings {
            let kind = setting.kind();
            match self.failing.iter_mut().find(|(failing, _)| *failing == kind) {
                Some((_, row)) => {
                    *row += 1;
                    times = times.max(*row);
                }
                None => self.failing.push((kind, 1)),
            }
        }
        let wait = Millis(WRITE_AGAIN.0.saturating_mul(1 << (times - 1).min(10))).min(longest.max(WRITE_AGAIN));
        self.unwritable = Some((why.to_owned(), now.after(wait)));
    }

    /// Forgets failed writes that were not tried again within the longest interval since they could be: they are not wanted any more,
    /// or took effect late. Returns whether there were any.
    pub(super) fn forget_old_failure(&mut self, now: Millis, longest: Millis) -> bool {
        let is_old = self.unwritable.as_ref().is_some_and(|(_, until)| now > until.after(longest));
        if is_old {
            self.unwritable = None;
            self.failing.clear();
            self.unjournalled = false;
        }
        is_old
    }

    /// Returns the strongest reason at `now`.
    pub fn strongest(&self, now: Millis, everything_released: bool) -> Option<Hold> {
        if self.released || everything_released {
            return Some(Hold::Released);
        }
        if let Some(text) = &self.foreign {
            return Some(Hold::Foreign(text.clone()));
        }
        if let Some(cgroup) = &self.moved {
            return Some(Hold::Moved(cgroup.clone()));
        }
        if self.accepting {
            return Some(Hold::Released);
        }
        match &self.unwritable {
            Some((text, until)) if now < *until => return Some(Hold::Unwritable(text.clone())),
            _ => {}
        }
        self.settling_until.filter(|until| now < *until).map(|_| Hold::Settling)
    }
}
