//! Keeps the daemon's list of pods correct, by listing them every two seconds.
//!
//! CRI's events came with containerd 1.7 and are optional in CRI-O; a list of a node's pods costs a millisecond. A container is described
//! once, when it is first listed as running. The watcher runs until the receiver is dropped.

use super::pod::{Pod, PodContainer, PodEnd};
use super::{Cri, CriError, RuntimeVersion};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

const LIST_EVERY: Duration = Duration::from_secs(2);
/// An unchanged list is reported again after so many lists.
const REPORT_EVERY: u32 = 15;
const BACK_OFF: Duration = Duration::from_secs(5);

/// Events from the watcher of pods to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEvent {
    /// Connected or reconnected. A [`PodEvent::Listed`] follows.
    Connected(RuntimeVersion),
    /// The connection was lost or could not be established; sent once until the next `Connected`. The message includes the next step.
    Lost(String),
    /// All wanted pods in which a container runs. A pod that is missing has ended.
    Listed(Vec<Pod>),
    /// The container of a pod has ended, as far as the runtime knows how.
    Ended(String, Option<PodEnd>),
}

/// The receiver was dropped.
struct ReceiverDropped;

/// Watches the pods with `label`, given as `key=value`, until the receiver of `sender` is dropped.
pub async fn watch(cri: Cri, label: String, sender: mpsc::Sender<PodEvent>) {
    let mut watcher = Watcher { cri, label, sender, known: BTreeMap::new() };
    let mut loss_reported = false;
    loop {
        let mut connected = false;
        let Err(error) = watcher.follow(&mut connected).await else { return };
        if connected || !loss_reported {
            loss_reported = true;
            if watcher.send(PodEvent::Lost(error.to_string())).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = sleep(BACK_OFF) => {}
            () = watcher.sender.closed() => return,
        }
    }
}

struct Watcher {
    cri: Cri,
    label: String,
    sender: mpsc::Sender<PodEvent>,
    /// Pods as last listed, by UID.
    known: BTreeMap<String, Pod>,
}

impl Watcher {
    /// Lists pods until a call fails; `Ok` if the receiver was dropped.
    async fn follow(&mut self, connected: &mut bool) -> Result<(), CriError> {
        let version = self.cri.version().await?;
        *connected = true;
        if self.send(PodEvent::Connected(version)).await.is_err() {
            return Ok(());
        }
        let mut report_in = 0;
        loop {
            let listed = self.list().await?;
            if listed != self.known || report_in == 0 {
                report_in = REPORT_EVERY;
                if self.report(listed).await.is_err() {
                    return Ok(());
                }
            }
            report_in -= 1;
            tokio::select! {
                () = sleep(LIST_EVERY) => {}
                () = self.sender.closed() => return Ok(()),
            }
        }
    }

    async fn list(&self) -> Result<BTreeMap<String, Pod>, CriError> {
        let mut listed = BTreeMap::new();
        for candidate in self.cri.candidates(&self.label).await? {
            let known = self.known.get(&candidate.metadata.uid).filter(|pod| pod.container.id == candidate.container);
            let container: Option<PodContainer> = match known {
                Some(pod) => Some(pod.container.clone()),
                // It may have ended since the list.
                None => match self.cri.container(&candidate.container).await {
                    Err(CriError::Refused { .. }) => None,
                    described => described?,
                },
            };
            if let Some(container) = container {
                let pod = candidate.with(container);
                listed.insert(pod.uid.clone(), pod);
            }
        }
        Ok(listed)
    }

    async fn report(&mut self, listed: BTreeMap<String, Pod>) -> Result<(), ReceiverDropped> {
        let runs_on = |uid: &String, pod: &Pod| listed.get(uid).is_some_and(|now| now.container.id == pod.container.id);
        for (uid, pod) in self.known.iter().filter(|(uid, pod)| !runs_on(uid, pod)) {
            let end = self.cri.end(&pod.container.id).await;
            self.send(PodEvent::Ended(uid.clone(), end)).await?;
        }
        self.known = listed;
        self.send(PodEvent::Listed(self.known.values().cloned().collect())).await
    }

    async fn send(&self, event: PodEvent) -> Result<(), ReceiverDropped> {
        self.sender.send(event).await.map_err(|_| ReceiverDropped)
    }
}
