//! Learning records of jobs that move between nodes: of jobs that ended here, for the node to which they move, and of jobs that are
//! expected here, until their containers start. Bounded in number and time, and kept in memory only; without a record a job starts anew.

use model::Millis;
use std::collections::BTreeMap;
use std::sync::Arc;
use traininglog::LearningRecord;

/// Records at most; each takes some KiB.
const AT_MOST: usize = 64;
/// How long a record is kept: moving a large volume may take long.
const KEPT_FOR: Millis = Millis::from_secs(3600);

/// Records by service id.
#[derive(Default)]
pub(super) struct Carried {
    records: BTreeMap<Arc<str>, Kept>,
}

struct Kept {
    record: Box<LearningRecord>,
    since: Millis,
    /// Whether it came from another node, for a container that will start here.
    is_expected: bool,
}

impl Carried {
    /// Stores another node's record of a service, for its next container.
    pub(crate) fn expect(&mut self, service: &str, record: LearningRecord, now: Millis) {
        self.keep(service, Kept { record: Box::new(record), since: now, is_expected: true });
    }

    /// Stores the record of a service whose container has ended.
    pub(crate) fn ended(&mut self, service: &str, record: LearningRecord, now: Millis) {
        self.keep(service, Kept { record: Box::new(record), since: now, is_expected: false });
    }

    fn keep(&mut self, service: &str, kept: Kept) {
        self.forget_old(kept.since);
        self.records.insert(service.into(), kept);
        if self.records.len() > AT_MOST {
            // Records of expected jobs are dropped last, however many jobs end here.
            let oldest = self.records.iter().min_by_key(|(_, kept)| (kept.is_expected, kept.since));
            let oldest = oldest.map(|(service, _)| service.clone());
            oldest.and_then(|service| self.records.remove(&service));
        }
    }

    /// Returns the record of a service.
    pub(crate) fn of(&self, service: &str) -> Option<&LearningRecord> {
        self.records.get(service).map(|kept| kept.record.as_ref())
    }

    /// Removes and returns another node's record of a service whose container starts.
    pub(crate) fn take(&mut self, service: &str) -> Option<LearningRecord> {
        let is_expected = self.records.get(service).is_some_and(|kept| kept.is_expected);
        is_expected.then(|| self.records.remove(service)).flatten().map(|kept| *kept.record)
    }

    /// Drops records that were not used in time.
    pub(crate) fn forget_old(&mut self, now: Millis) {
        self.records.retain(|_, kept| now.since(kept.since) < KEPT_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use traininglog::{Hints, Tracker};

    fn record(epochs: u32) -> LearningRecord {
        let mut tracker = Tracker::new(&Hints::default());
        (1..=epochs)
            .for_each(|n| tracker.push(format!("epoch {n}/99 loss {}\n", 1.0 / f64::from(n)).as_bytes(), Millis(0)));
        LearningRecord::of(&tracker, None, &Hints::default(), Some(1.0), Millis(0)).expect("something was read")
    }

    #[test]
    fn another_nodes_record_is_used_once_and_our_own_never() {
        let (mut carried, now) = (Carried::default(), Millis(0));
        carried.ended("a", record(5), now);
        assert_eq!((carried.take("a"), carried.of("a")), (None, Some(&record(5))));
        carried.expect("a", record(7), now);
        assert_eq!((carried.of("a"), carried.of("b")), (Some(&record(7)), None));
        assert_eq!((carried.take("a"), carried.take("a")), (Some(record(7)), None));
    }

    #[test]
    fn the_number_of_records_is_bounded_and_expected_ones_stay_longest() {
        let mut carried = Carried::default();
        carried.expect("awaited", record(5), Millis(0));
        (1..=200u64).for_each(|n| carried.ended(&format!("ended-{n}"), record(5), Millis(n)));
        assert_eq!(carried.records.len(), AT_MOST);
        assert!(
            carried.of("awaited").is_some() && carried.of("ended-200").is_some() && carried.of("ended-1").is_none()
        );
        (201..=400u64).for_each(|n| carried.expect(&format!("coming-{n}"), record(5), Millis(n)));
        assert_eq!((carried.records.len(), carried.take("awaited")), (AT_MOST, None), "it was the oldest");
    }

    #[test]
    fn unused_records_are_dropped() {
        let mut carried = Carried::default();
        carried.expect("a", record(5), Millis(1000));
        carried.forget_old(Millis(1000).after(KEPT_FOR).since(Millis(1)));
        assert!(carried.of("a").is_some());
        carried.forget_old(Millis(1000).after(KEPT_FOR));
        assert!(carried.of("a").is_none());
    }
}
