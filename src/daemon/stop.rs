//! The end of the daemon: what was read is saved, and limits are restored, as configured. Imports: the loop, the actuator, host's systemd,
//! limits, model.

use super::actuator::Order;
use super::event::Event;
use super::governing::{Governing, moment};
use super::positions;
use crate::config::OnExit;
use crate::host::systemd;
use crate::limits::machine::{self, Effect};
use crate::model::Millis;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, sleep_until};

/// Restoring at the end must fit in the time that systemd gives a service to stop.
const STOP_WITHIN: Duration = Duration::from_secs(60);

impl Governing {
    /// Saves what was read and restores, as configured. Whoever has something to tell is heard meanwhile.
    pub(super) async fn stop(&mut self, inbox: &mut mpsc::Receiver<Event>, alive: &mut Interval) {
        systemd::notify(&systemd::Notice::Stopping);
        self.duty.end();
        self.learn_from_departed(Millis(u64::MAX));
        let mut orders: Vec<Order> = vec![Order::Thaw];
        orders.extend(positions::unsaved(&self.jobs).into_iter().map(Order::Positions));
        let mut stopped = false;
        let restore = self.settings.on_exit == OnExit::Restore;
        for effect in self.limits.handle(machine::Event::Stop { restore }, moment()) {
            match effect {
                Effect::Do(work) => orders.push(self.order_of(work)),
                Effect::Stopped => stopped = true,
                effect => self.carry_out(effect),
            }
        }
        let room = self.actuator.orders();
        let asking = async move {
            for order in orders {
                let _ = room.send(order).await; // the task ends after its handle
            }
        };
        tokio::pin!(asking);
        let (mut asked, deadline) = (false, Instant::now() + STOP_WITHIN);
        while !(asked && stopped) {
            tokio::select! {
                () = &mut asking, if !asked => asked = true,
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
                    return tracing::error!("not everything was restored in time; run `flowcond restore`");
                }
            }
        }
    }
}
