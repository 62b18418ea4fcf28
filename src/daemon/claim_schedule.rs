//! Schedule for reading the command of a job.

use model::Millis;

/// Times of the first readings, counted from when the job was found: a shell may run something else first.
const EARLY: [Millis; 3] = [Millis(0), Millis::from_secs(2), Millis::from_secs(10)];
/// Interval of later readings: the job may have moved on to another stage.
const LATER: Millis = Millis::from_secs(300);

/// When a job's command is read again.
#[derive(Debug, Default)]
pub(super) struct ClaimSchedule {
    since: Option<Millis>,
    early: usize,
    last: Millis,
    /// Whether its log had counted something at a reading.
    counted: bool,
    pub in_flight: bool,
}

impl ClaimSchedule {
    /// Whether a reading is due. `counts`: the log counts something without saying how much there will be.
    pub(crate) fn is_due(&self, now: Millis, counts: bool) -> bool {
        let since = now.since(self.since.unwrap_or(now));
        let due = match EARLY.get(self.early) {
            Some(early) => since >= *early,
            None => now.since(self.last) >= LATER,
        };
        !self.in_flight && (due || counts && !self.counted)
    }

    pub(crate) fn begin(&mut self, now: Millis, counts: bool) {
        let since = now.since(*self.since.get_or_insert(now));
        self.early = EARLY.iter().filter(|early| **early <= since).count();
        (self.last, self.counted, self.in_flight) = (now, self.counted || counts, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which a job's command is read in a quarter of an hour.
    fn readings(counts_from: u64) -> Vec<u64> {
        let mut schedule = ClaimSchedule::default();
        (0..900u64)
            .filter(|second| {
                let (now, counts) = (Millis::from_secs(1000 + second), *second >= counts_from);
                let due = schedule.is_due(now, counts);
                if due {
                    schedule.begin(now, counts);
                    schedule.in_flight = false;
                }
                due
            })
            .collect()
    }

    #[test]
    fn a_command_is_read_early_when_its_log_begins_to_count_and_then_rarely() {
        assert_eq!(readings(u64::MAX), [0, 2, 10, 310, 610]);
        assert_eq!(readings(30), [0, 2, 10, 30, 330, 630]);
        assert_eq!(readings(0), [0, 2, 10, 310, 610]);
    }

    #[test]
    fn a_reading_in_progress_is_not_followed_by_another() {
        let mut schedule = ClaimSchedule::default();
        schedule.begin(Millis(0), false);
        assert!(!schedule.is_due(Millis::from_secs(5000), true));
    }
}
