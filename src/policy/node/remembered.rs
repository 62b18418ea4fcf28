//! What the governor remembers of one container between ticks.

use super::balanced;
use super::capacity::CapacityMemory;
use super::flowcon;
use super::flowcon_2019::LetterMeter;
use super::gpu_time::GpuTime;
use super::growth::{GrowthMeter, Measurement};
use super::memory::PlannedMemory;
use super::quota::QuotaMemory;
use super::situation::Situation;
use model::{ContainerObservation, CpuTime, NodeObservation, Place, PolicyName, PolicySettings, RunState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// State of one container, kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) meter: GrowthMeter,
    /// Under `flowcon-2019`.
    #[serde(default)]
    pub(super) letter: LetterMeter,
    #[serde(default)]
    pub(super) gpu_time: GpuTime,
    pub(super) standing: flowcon::Standing,
    pub(super) state: Option<RunState>,
    #[serde(default)]
    pub(super) place: Arc<Place>,
    #[serde(default)]
    pub(super) situation: Situation,
    #[serde(default)]
    pub(super) capacity: CapacityMemory,
    pub(super) quota: QuotaMemory,
    pub(super) planned: PlannedMemory,
    pub(super) balanced: balanced::Memory,
}

impl Remembered {
    /// Measures its growth as the policy does.
    pub(super) fn measure(
        &mut self,
        node: &NodeObservation,
        container: &ContainerObservation,
        gpu: Option<CpuTime>,
        settings: &PolicySettings,
    ) -> Measurement {
        let measured = self.meter.measure(node, container, gpu, settings.interval);
        if settings.policy == PolicyName::Flowcon2019 {
            return self.letter.measure(node, container, gpu);
        }
        self.letter = LetterMeter::default();
        measured
    }

    /// Records what the governor compares at the next tick.
    pub(super) fn note(&mut self, container: &ContainerObservation) {
        (self.state, self.situation) = (Some(container.state), Situation::of(container));
        self.place = Arc::clone(&container.place);
    }
}
