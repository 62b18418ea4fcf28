//! What is known of jobs that move between nodes: of those that ended here a while ago, for the node to which they go, and of those that are
//! to come, until their containers begin. Bounded in number and in time, and kept in memory only: without it a job begins anew.
//! Imports: progress, model.

use crate::model::Millis;
use crate::progress::LearningRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records; each is some KiB.
const AT_MOST: usize = 64;
/// Carrying a large volume takes its time.
const KEPT_FOR: Millis = Millis::from_secs(3600);

/// Records by the id of their service.
#[derive(Default)]
pub(super) struct Carried {
    records: BTreeMap<Arc<str>, Kept>,
}

struct Kept {
    record: Box<LearningRecord>,
    since: Millis,
    /// It came from another node, for a container that will begin here.
    is_awaited: bool,
}

impl Carried {
    /// Keeps what another node knew of a service, for its next container.
    pub fn expect(&mut self, service: &str, record: LearningRecord, now: Millis) {
        self.keep(service, Kept { record: Box::new(record), since: now, is_awaited: true });
    }

    /// Keeps what is known of a service whose container has ended.
    pub fn left(&mut self, service: &str, record: LearningRecord, now: Millis) {
        self.keep(service, Kept { record: Box::new(record), since: now, is_awaited: false });
    }

    fn keep(&mut self, service: &str, kept: Kept) {
        self.forget_old(kept.since);
        self.records.insert(service.into(), kept);
        if self.records.len() > AT_MOST {
            // However many jobs end here, what was sent for one that comes stays for longer.
            let oldest = self.records.iter().min_by_key(|(_, kept)| (kept.is_awaited, kept.since));
            let oldest = oldest.map(|(service, _)| service.clone());
            oldest.and_then(|service| self.records.remove(&service));
        }
    }

    /// What is kept of a service.
    pub fn of(&self, service: &str) -> Option<&LearningRecord> {
        self.records.get(service).map(|kept| kept.record.as_ref())
    }

    /// What another node knew of a service whose container begins; once.
    pub fn take(&mut self, service: &str) -> Option<LearningRecord> {
        let is_awaited = self.records.get(service).is_some_and(|kept| kept.is_awaited);
        is_awaited.then(|| self.records.remove(service)).flatten().map(|kept| *kept.record)
    }

    /// Forgets what nobody came for.
    pub fn forget_old(&mut self, now: Millis) {
        self.records.retain(|_, kept| now.since(kept.since) < KEPT_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Directives;
    use crate::progress::Tracker;

    fn record(epochs: u32) -> LearningRecord {
        let mut tracker = Tracker::new(&Directives::default());
        (1..=epochs)
            .for_each(|n| tracker.push(format!("epoch {n}/99 loss {}\n", 1.0 / f64::from(n)).as_bytes(), Millis(0)));
        LearningRecord::of(&tracker, &Directives::default(), Some(1.0), Millis(0)).expect("something was read")
    }

    #[test]
    fn what_came_from_another_node_is_used_once_and_the_own_is_only_told() {
        let (mut carried, now) = (Carried::default(), Millis(0));
        carried.left("a", record(5), now);
        assert_eq!((carried.take("a"), carried.of("a")), (None, Some(&record(5))));
        carried.expect("a", record(7), now);
        assert_eq!((carried.of("a"), carried.of("b")), (Some(&record(7)), None));
        assert_eq!((carried.take("a"), carried.take("a")), (Some(record(7)), None));
    }

    #[test]
    fn there_are_never_too_many_and_those_that_are_awaited_stay_longest() {
        let mut carried = Carried::default();
        carried.expect("awaited", record(5), Millis(0));
        (1..=200u64).for_each(|n| carried.left(&format!("ended-{n}"), record(5), Millis(n)));
        assert_eq!(carried.records.len(), AT_MOST);
        assert!(
            carried.of("awaited").is_some() && carried.of("ended-200").is_some() && carried.of("ended-1").is_none()
        );
        (201..=400u64).for_each(|n| carried.expect(&format!("coming-{n}"), record(5), Millis(n)));
        assert_eq!((carried.records.len(), carried.take("awaited")), (AT_MOST, None), "the oldest of many");
    }

    #[test]
    fn what_nobody_came_for_is_forgotten() {
        let mut carried = Carried::default();
        carried.expect("a", record(5), Millis(1000));
        carried.forget_old(Millis(1000).after(KEPT_FOR).since(Millis(1)));
        assert!(carried.of("a").is_some());
        carried.forget_old(Millis(1000).after(KEPT_FOR));
        assert!(carried.of("a").is_none());
    }
}
