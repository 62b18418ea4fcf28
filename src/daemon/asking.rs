//! When the command of a job is read. Imports: model.

use crate::model::Millis;

/// When a job's command is read, counted from when the job was found: a shell may run something else first.
const EARLY: [Millis; 3] = [Millis(0), Millis::from_secs(2), Millis::from_secs(10)];
/// How often later: another stage of the job may run by then.
const LATER: Millis = Millis::from_secs(300);

/// When a job's command is read again.
#[derive(Debug, Default)]
pub(super) struct Asking {
    since: Option<Millis>,
    early: usize,
    last: Millis,
    /// Its log had counted something by then.
    counted: bool,
    pub in_flight: bool,
}

impl Asking {
    /// Whether it is time. `counts`: the log counts something and does not say how much there will be.
    pub fn is_due(&self, now: Millis, counts: bool) -> bool {
        let since = now.since(self.since.unwrap_or(now));
        let due = match EARLY.get(self.early) {
            Some(early) => since >= *early,
            None => now.since(self.last) >= LATER,
        };
        !self.in_flight && (due || counts && !self.counted)
    }

    pub fn begin(&mut self, now: Millis, counts: bool) {
        let since = now.since(*self.since.get_or_insert(now));
        self.early = EARLY.iter().filter(|early| **early <= since).count();
        (self.last, self.counted, self.in_flight) = (now, self.counted || counts, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which a job is asked within a quarter of an hour.
    fn asked(counts_from: u64) -> Vec<u64> {
        let mut asking = Asking::default();
        (0..900u64)
            .filter(|second| {
                let (now, counts) = (Millis::from_secs(1000 + second), *second >= counts_from);
                let due = asking.is_due(now, counts);
                if due {
                    asking.begin(now, counts);
                    asking.in_flight = false;
                }
                due
            })
            .collect()
    }

    #[test]
    fn a_command_is_read_a_few_times_early_when_its_log_begins_to_count_and_then_rarely() {
        assert_eq!(asked(u64::MAX), [0, 2, 10, 310, 610]);
        assert_eq!(asked(30), [0, 2, 10, 30, 330, 630]);
        assert_eq!(asked(0), [0, 2, 10, 310, 610]);
    }

    #[test]
    fn a_reading_that_does_not_end_is_not_followed_by_another() {
        let mut asking = Asking::default();
        asking.begin(Millis(0), false);
        assert!(!asking.is_due(Millis::from_secs(5000), true));
    }
}
