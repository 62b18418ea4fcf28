//! One tick: observation in, plan out.

use crate::model::{ContainerPlan, GrowthEfficiency, NodeObservation, NodePlan, PolicySettings, Reason, Share};

/// Decides for one node. Remembers lists and measurements between ticks, and nothing else.
pub struct Governor {
    settings: PolicySettings,
}

impl Governor {
    /// A governor that has seen nothing yet.
    pub fn new(settings: PolicySettings) -> Self {
        Governor { settings }
    }

    /// The settings in force.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// Takes other settings from the next tick on; what is known about the containers is kept.
    pub fn reconfigure(&mut self, settings: PolicySettings) {
        self.settings = settings;
    }

    /// Decides for every observed container. A container that is no longer observed is forgotten.
    pub fn tick(&mut self, observation: &NodeObservation) -> NodePlan {
        let containers = observation
            .containers
            .iter()
            .map(|container| ContainerPlan {
                id: container.id.clone(),
                list: None,
                growth: GrowthEfficiency::default(),
                limit: Share::ALL,
                share: Share::clamped(1.0 / observation.containers.len() as f64),
                limits: None,
                reason: Reason::ObserveOnly,
            })
            .collect();
        NodePlan {
            at: observation.now,
            containers,
            next_tick: observation.now.after(self.settings.interval),
            interval: self.settings.interval,
        }
    }
}
