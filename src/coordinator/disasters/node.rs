//! One simulated node: containers, volumes and its agent.
//!
//! A running container counts as a writer until it exits. It saves its state periodically and on SIGTERM, if its job does so.

use super::job::Behaviour;
use super::volume::{Volume, Volumes};
use std::collections::BTreeMap;

/// A node.
#[derive(Default)]
pub(super) struct HostNode {
    /// Whether it is cut off from all other nodes.
    pub cut: bool,
    /// How long it has been cut off, in milliseconds.
    pub cut_for: u64,
    pub drained: bool,
    /// Whether its availability is `drain`.
    pub closed: bool,
    pub version: u64,
    pub disk_full: bool,
    pub no_image: bool,
    /// When its agent is back.
    pub agent_back: u64,
    pub containers: Vec<Container>,
    /// Saved states by number of the volume.
    pub volumes: Volumes,
    /// When the lease of each service was last renewed; survives restarts of the agent.
    pub leases: BTreeMap<usize, u64>,
    /// Tasks that the agent stopped because their lease had expired; survives restarts of the agent.
    pub stopped: Vec<u64>,
    /// Number and state of the last transfer of each job from here; lost when the agent dies.
    pub sent: BTreeMap<usize, (u64, u64)>,
    /// Exits of tasks that are not reported to Swarm yet.
    pub unreported: Vec<(u64, Ended)>,
}

/// A container.
pub(super) struct Container {
    pub task: u64,
    pub service: usize,
    /// Number of the volume that it has mounted: that of the service when its task was created.
    pub volume: usize,
    pub is_manual: bool,
    /// Whether it is a replacement by Swarm.
    pub is_replacement: bool,
    pub state: ContainerState,
    /// Creation order.
    pub since: u64,
    /// Earliest time at which it can be stopped by Swarm.
    pub stop_from: u64,
    /// Units in thousandths.
    pub units: u64,
}

/// State of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerState {
    /// Its image is being pulled; it does not write yet.
    Preparing {
        until: u64,
    },
    Running,
    /// SIGTERM was sent; it still writes.
    Stopping {
        saves: u64,
        killed: u64,
    },
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Complete,
    Failed(Option<i64>),
    Stopped,
    /// Stopped with exit code 0, after it saved its state.
    Saved,
}

impl Container {
    pub(super) fn writes(&self) -> bool {
        !matches!(self.state, ContainerState::Preparing { .. })
    }

    /// Sends SIGTERM; repeated signals have no effect.
    pub(super) fn stop(&mut self, now: u64, grace: u64) {
        if self.state == ContainerState::Running {
            self.state = ContainerState::Stopping { saves: now + 3000, killed: now + grace };
        }
    }
}

impl HostNode {
    /// Returns the saved state for a transfer, and records it as sent. Without a volume, because no container was ever created here, that is an
    /// empty state. It replaces an earlier one of the target, which a real target keeps: the simulation is stricter.
    pub(super) fn send(&mut self, volume: usize, job: usize, number: u64) -> Volume {
        let found = self.volumes.0.get(&volume).copied().unwrap_or_default();
        self.sent.insert(job, (number, found.saved));
        Volume { number, owner: Some(job), ..found }
    }

    /// Whether the saved state is certainly the transferred one.
    pub(super) fn still_has(&self, volume: usize, job: usize, number: u64) -> bool {
        let saved = self.volumes.0.get(&volume).map_or(0, |volume| volume.saved);
        self.sent.get(&job) == Some(&(number, saved))
    }

    /// Kills all containers.
    pub(super) fn kill_all(&mut self) {
        let died = self.containers.drain(..).map(|container| (container.task, Ended::Failed(Some(137))));
        self.unreported.extend(died);
    }

    pub(super) fn agent_answers(&self, now: u64) -> bool {
        now >= self.agent_back
    }

    /// Counts the containers of a service, including those that are being prepared.
    pub(super) fn alive(&self, service: usize) -> usize {
        self.containers.iter().filter(|container| container.service == service).count()
    }

    /// Advances the containers by `passed` milliseconds. `save` stores a container's state; `load` returns the state that a new one finds.
    pub(super) fn tick(
        &mut self,
        now: u64,
        passed: u64,
        behaviours: &[Behaviour],
        mut save: impl FnMut(&mut Volumes, &Container),
        mut load: impl FnMut(&Volumes, &Container) -> u64,
    ) {
        let containers = std::mem::take(&mut self.containers);
        for mut container in containers {
            let behaviour = behaviours[container.service];
            match container.state {
                ContainerState::Preparing { until } if now < until => self.containers.push(container),
                ContainerState::Preparing { .. } if behaviour.crashes => {
                    self.unreported.push((container.task, Ended::Failed(Some(1))));
                }
                ContainerState::Preparing { .. } => {
                    container.units = load(&self.volumes, &container);
                    container.state = ContainerState::Running;
                    self.containers.push(container);
                }
                ContainerState::Running => {
                    let before = container.units;
                    container.units += passed;
                    if behaviour.saves && before / 10_000 != container.units / 10_000 {
                        save(&mut self.volumes, &container);
                    }
                    if container.units >= behaviour.total {
                        if behaviour.saves {
                            save(&mut self.volumes, &container);
                        }
                        self.unreported.push((container.task, Ended::Complete));
                    } else {
                        self.containers.push(container);
                    }
                }
                ContainerState::Stopping { saves, killed } => {
                    container.units += passed;
                    if now >= killed || now >= saves && !behaviour.ignores_term {
                        if behaviour.saves && !behaviour.ignores_term {
                            save(&mut self.volumes, &container);
                        }
                        let exits_with_0 = behaviour.exits_with_0 && !behaviour.ignores_term;
                        let ended = if exits_with_0 { Ended::Saved } else { Ended::Stopped };
                        self.unreported.push((container.task, ended));
                    } else {
                        self.containers.push(container);
                    }
                }
            }
        }
    }
}
