//! Messages that wait for their targets, and what comes of attempts to deliver them.

use crate::backend::SendError;
use crate::message::{Delivery, Message};
use crate::schedule::{Pace, Step, step};
use crate::spool::Spool;
use config::TargetSettings;
use std::collections::BTreeMap;
use std::io;

/// Messages that wait for one target; beyond, new ones are only counted.
const WAITING_AT_MOST: usize = 1000;
/// After this time without success a message is given up.
const KEPT_MS: u64 = 72 * 3_600_000;

/// Messages and the paces of the targets.
pub(crate) struct Outbox {
    spool: Spool,
    waiting: BTreeMap<String, Vec<(String, Message)>>,
    /// Names of the messages in the delivery that is under way to a target.
    under_way: BTreeMap<String, Vec<String>>,
}

pub(crate) type Paces = BTreeMap<String, Pace>;

impl Outbox {
    /// Reads what waits for these targets.
    pub(crate) fn open<'a>(spool: Spool, targets: impl Iterator<Item = &'a String>) -> io::Result<Outbox> {
        let mut outbox = Outbox { spool, waiting: BTreeMap::new(), under_way: BTreeMap::new() };
        targets.into_iter().try_for_each(|target| outbox.add_target(target))?;
        Ok(outbox)
    }

    /// Reads what waits for a target, unless that was done.
    pub(crate) fn add_target(&mut self, target: &str) -> io::Result<()> {
        if !self.waiting.contains_key(target) {
            self.waiting.insert(target.to_owned(), self.spool.read(target)?);
        }
        Ok(())
    }

    /// The disk.
    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Accepts a message for a target. One that cannot be written to the disk is delivered all the same, if this process lives so long.
    pub(crate) fn put(&mut self, target: &str, message: Message, paces: &mut Paces) {
        let name = Spool::name(&message);
        let waiting = self.waiting.entry(target.to_owned()).or_default();
        if waiting.iter().any(|(known, _)| *known == name) {
            return;
        }
        if waiting.len() >= WAITING_AT_MOST {
            paces.entry(target.to_owned()).or_default().left_out += 1;
            return tracing::warn!(target = target, "a message was left out: {WAITING_AT_MOST} wait already");
        }
        if let Err(error) = self.spool.put(target, &name, &message) {
            tracing::warn!(
                target = target,
                "a message is kept in memory only, because the spool cannot be written: {error}"
            );
        }
        waiting.push((name, message));
        waiting.sort_by(|(one, _), (other, _)| one.cmp(other));
    }

    /// Takes the deliveries that are due, one for each target at most, and returns when the next may be.
    pub(crate) fn take_due(
        &mut self,
        targets: &BTreeMap<String, TargetSettings>,
        paces: &Paces,
        now_ms: u64,
    ) -> (Vec<(String, Delivery)>, Option<u64>) {
        let (mut due, mut next) = (Vec::new(), None::<u64>);
        for (name, target) in targets {
            let Some(waiting) = self.waiting.get(name).filter(|_| !self.under_way.contains_key(name)) else { continue };
            let pace = paces.get(name).cloned().unwrap_or_default();
            let messages: Vec<Message> = waiting.iter().map(|(_, message)| message.clone()).collect();
            match step(&messages, &pace, target.per_hour, now_ms) {
                Step::Wait(until) => next = [next, until].into_iter().flatten().min(),
                Step::Send(which) => {
                    let names = which.iter().map(|at| waiting[*at].0.clone()).collect();
                    let messages = which.into_iter().map(|at| messages[at].clone()).collect();
                    due.push((name.clone(), Delivery::of(messages, pace.left_out)));
                    self.under_way.insert(name.clone(), names);
                }
            }
        }
        (due, next)
    }

    /// Whether a delivery is under way.
    pub(crate) fn is_sending(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Notes what came of a delivery. Returns the messages that are to be removed from the disk once the paces are stored there.
    pub(crate) fn done(
        &mut self,
        target: &str,
        result: Result<(), SendError>,
        paces: &mut Paces,
        now_ms: u64,
    ) -> Vec<String> {
        let names = self.under_way.remove(target).unwrap_or_default();
        let pace = paces.entry(target.to_owned()).or_default();
        let error = match result {
            Ok(()) => {
                tracing::info!(target = target, messages = names.len(), "delivered");
                pace.sent(now_ms);
                self.forget(target, &names);
                return names;
            }
            Err(error) => error,
        };
        let is_old = |message: &Message| now_ms.saturating_sub(message.queued_ms) > KEPT_MS;
        let waiting = self.waiting.get(target).map(Vec::as_slice).unwrap_or_default();
        let of_delivery = waiting.iter().filter(|(name, _)| names.contains(name));
        let given_up: Vec<String> = of_delivery
            .filter(|(_, message)| error.is_permanent || is_old(message))
            .map(|(name, _)| name.clone())
            .collect();
        if error.is_permanent {
            pace.gave_up();
        } else {
            let wait = pace.failed(now_ms, rand::random(), error.retry_after_ms);
            let (seconds, failures) = (wait / 1000, pace.failures);
            tracing::warn!(target = target, failures, "not delivered, next attempt in {seconds} s: {error}");
        }
        if !given_up.is_empty() {
            tracing::error!(
                target = target,
                messages = given_up.len(),
                "given up and moved to the folder `failed`: {error}"
            );
        }
        for name in &given_up {
            if let Err(why) = self.spool.set_aside(target, name) {
                tracing::warn!(target = target, "a failed message cannot be set aside: {why}");
            }
        }
        self.forget(target, &given_up);
        Vec::new()
    }

    fn forget(&mut self, target: &str, names: &[String]) {
        if let Some(waiting) = self.waiting.get_mut(target) {
            waiting.retain(|(name, _)| !names.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::message;
    use model::AlertKind;

    fn error(is_permanent: bool) -> Result<(), SendError> {
        Err(SendError { is_permanent, retry_after_ms: None, text: "no".to_owned() })
    }

    fn targets() -> BTreeMap<String, TargetSettings> {
        BTreeMap::from([("ops".to_owned(), TargetSettings::default())])
    }

    fn reopened(directory: &std::path::Path) -> Outbox {
        Outbox::open(Spool::open(directory).unwrap(), targets().keys()).unwrap()
    }

    #[test]
    fn a_message_leaves_the_disk_only_when_it_was_delivered_or_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut paces = Paces::new();
        reopened(dir.path()).put("ops", message("a", AlertKind::Nan, 0), &mut paces);
        for (result, after, left) in
            [(error(false), 10_000, 1), (error(false), 60_000, 1), (error(false), KEPT_MS + 120_000, 0)]
        {
            // Each time as after a crash.
            let mut outbox = reopened(dir.path());
            let (due, _) = outbox.take_due(&targets(), &paces, after);
            assert_eq!(due.len(), 1, "at {after}");
            assert!(outbox.is_sending() && outbox.take_due(&targets(), &paces, after).0.is_empty());
            assert!(outbox.done("ops", result, &mut paces, after).is_empty());
            assert_eq!(reopened(dir.path()).waiting["ops"].len(), left);
        }
        assert_eq!(std::fs::read_dir(dir.path().join("failed/to-ops")).unwrap().count(), 1);

        let mut outbox = reopened(dir.path());
        let now = 2 * KEPT_MS;
        outbox.put("ops", message("b", AlertKind::Nan, now), &mut paces);
        assert_eq!(outbox.take_due(&targets(), &paces, now + 10_000).0.len(), 1);
        let delivered = outbox.done("ops", Ok(()), &mut paces, now + 10_000);
        delivered.iter().for_each(|name| outbox.spool().remove("ops", name).unwrap());
        assert_eq!((delivered.len(), reopened(dir.path()).waiting["ops"].len()), (1, 0));

        outbox.put("ops", message("c", AlertKind::Nan, now), &mut paces);
        outbox.take_due(&targets(), &paces, now + 10_000);
        outbox.done("ops", error(true), &mut paces, now + 10_000);
        assert_eq!(reopened(dir.path()).waiting["ops"].len(), 0, "a permanent error is not repeated");
    }

    #[test]
    fn a_full_spool_counts_what_it_leaves_out() {
        let dir = tempfile::tempdir().unwrap();
        let (mut outbox, mut paces) = (reopened(dir.path()), Paces::new());
        let full = (0..WAITING_AT_MOST).map(|n| (n.to_string(), message("a", AlertKind::Nan, 0)));
        outbox.waiting.insert("ops".to_owned(), full.collect());
        outbox.put("ops", message("b", AlertKind::Nan, 1), &mut paces);
        let (due, _) = outbox.take_due(&targets(), &paces, 10_000);
        assert!(due[0].1.body.contains("1 more had no room"), "{}", due[0].1.body);
    }
}
