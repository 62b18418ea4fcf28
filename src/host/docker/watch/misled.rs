//! Reports the containers whose labels do not have them governed, each once while it runs.

use super::{ReceiverDropped, Watcher};
use crate::EngineEvent;

impl Watcher {
    pub(super) async fn report_mislabelled(&mut self) -> Result<(), ReceiverDropped> {
        // Without this list, all else goes on.
        let Ok(found) = self.current.mislabelled(&self.wanted.label).await else { return Ok(()) };
        let adopted = self.adopted();
        self.misled.retain(|id| found.iter().any(|container| container.id == *id));
        for container in found {
            if !adopted.contains(&container.id) && self.misled.insert(container.id.clone()) {
                self.send(EngineEvent::Mislabelled(container)).await?;
            }
        }
        Ok(())
    }
}
