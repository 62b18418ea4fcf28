//! The end of the daemon: log positions are saved, and limits are restored if so configured.

use super::actuator::Request;
use super::event::Event;
use super::governing::{Governing, moment};
use super::positions;
use config::OnExit;
use limits::machine::{self, Effect};
use model::Millis;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, sleep_until};

/// Time limit of a stop; it must fit in systemd's stop timeout.
const STOP_WITHIN: Duration = Duration::from_secs(60);

impl Governing {
    /// Saves log positions and restores limits, as configured. Events are still received meanwhile.
    pub(super) async fn stop(&mut self, inbox: &mut mpsc::Receiver<Event>, alive: &mut Interval) {
        systemd::notify(&systemd::Notice::Stopping);
        self.duty.end();
        self.learn_from_drained(Millis(u64::MAX));
        let mut requests: Vec<Request> = vec![Request::Thaw];
        requests.extend(positions::unsaved(&self.jobs).into_iter().map(Request::SavePositions));
        requests.push(Request::SaveUses(self.uses.all()));
        let mut stopped = false;
        let restore = self.settings.on_exit == OnExit::Restore;
        for effect in self.limits.handle(machine::Event::Stop { restore }, moment()) {
            match effect {
                Effect::Do(work) => requests.push(self.limits_request(work)),
                Effect::Stopped => stopped = true,
                effect => self.carry_out(effect),
            }
        }
        let sender = self.actuator.requests();
        let sending = async move {
            for request in requests {
                let _ = sender.send(request).await; // the task ends after its handle
            }
        };
        tokio::pin!(sending);
        let (mut sent, deadline) = (false, Instant::now() + STOP_WITHIN);
        while !(sent && stopped) {
            tokio::select! {
                () = &mut sending, if !sent => sent = true,
                Some(event) = inbox.recv() => if let Event::Restored(restored) = event {
                    let machine::Restored { back, left, failed, .. } = &restored;
                    tracing::info!(back = back.len(), ?left, ?failed, "restored");
                    let event = machine::Event::Restored(restored, Vec::new());
                    let effects = self.limits.handle(event, moment());
                    stopped |= effects.contains(&Effect::Stopped);
                    effects.into_iter().filter(|effect| *effect != Effect::Stopped).for_each(|e| self.carry_out(e));
                },
                _ = alive.tick() => systemd::notify(&systemd::Notice::Alive),
                () = sleep_until(deadline) => {
                    return tracing::error!("not everything was restored before the time limit; run `flowcond restore`");
                }
            }
        }
    }
}
