//! One simulated node: containers, volumes, and the agent that tells of them.
//!
//! A container writes from its first instant to its last. It saves now and then, and when it is told to stop, unless it is of the kind that
//! does not. Imports: the jobs, model.

use super::job::Kind;
use std::collections::BTreeMap;

/// A node.
#[derive(Default)]
pub struct Node {
    /// Nobody outside reaches it, and it reaches nobody.
    pub cut: bool,
    /// How long it has been cut off, in milliseconds.
    pub cut_for: u64,
    pub drained: bool,
    pub version: u64,
    pub disk_full: bool,
    pub no_image: bool,
    /// Its agent is dead until then.
    pub agent_back: u64,
    pub containers: Vec<Container>,
    /// Saved states by service.
    pub volumes: BTreeMap<usize, Volume>,
    /// When the lease of each service was last renewed; outlives the agent.
    pub leases: BTreeMap<usize, u64>,
    /// The last carriage of each job from here, and the state that it took; lost with the agent.
    pub sent: BTreeMap<usize, (u64, u64)>,
    /// What became of tasks, not told to Swarm yet.
    pub untold: Vec<(u64, Ended)>,
}

/// A saved state.
#[derive(Clone, Copy, Default)]
pub struct Volume {
    pub saved: u64,
    /// Number of the last carriage that brought it.
    pub number: u64,
}

/// A container.
pub struct Container {
    pub task: u64,
    pub service: usize,
    pub by_person: bool,
    /// Made by Swarm in place of another one on the same node.
    pub is_again: bool,
    pub is: Is,
    /// When it began, in order.
    pub since: u64,
    /// What Swarm wants of it is told no earlier.
    pub told_from: u64,
    /// Units in thousandths.
    pub units: u64,
}

/// What a container is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Is {
    /// Its image is pulled; it writes nothing yet.
    Preparing {
        until: u64,
    },
    Running,
    /// It was told to stop, and still writes.
    Stopping {
        saves: u64,
        killed: u64,
    },
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Complete,
    Failed(Option<i64>),
    Stopped,
}

impl Container {
    pub fn writes(&self) -> bool {
        !matches!(self.is, Is::Preparing { .. })
    }

    /// SIGTERM; once it is told, it is told.
    pub fn stop(&mut self, now: u64, grace: u64) {
        if self.is == Is::Running {
            self.is = Is::Stopping { saves: now + 3000, killed: now + grace };
        }
    }
}

impl Node {
    /// Whether a newer state than this one was saved there, by carriage.
    pub fn carry(&mut self, service: usize, saved: u64, number: u64, twice: bool) -> Result<(), String> {
        let volume = self.volumes.entry(service).or_default();
        if volume.number > number && !twice {
            return Err("a later carriage was here".to_owned());
        }
        if volume.number < number || twice {
            *volume = Volume { saved, number };
        }
        Ok(())
    }

    /// The state that a carriage takes.
    pub fn send(&mut self, service: usize, number: u64) -> u64 {
        let saved = self.saved(service);
        self.sent.insert(service, (number, saved));
        saved
    }

    /// Whether the state is certainly the one that a carriage took.
    pub fn still_has(&self, service: usize, number: u64) -> bool {
        self.sent.get(&service) == Some(&(number, self.saved(service)))
    }

    fn saved(&self, service: usize) -> u64 {
        self.volumes.get(&service).map_or(0, |volume| volume.saved)
    }

    /// All containers die at once.
    pub fn kill_all(&mut self) {
        let died = self.containers.drain(..).map(|container| (container.task, Ended::Failed(Some(137))));
        self.untold.extend(died);
    }

    pub fn agent_answers(&self, now: u64) -> bool {
        now >= self.agent_back
    }

    /// Containers of a service that live or are on their way.
    pub fn alive(&self, service: usize) -> usize {
        self.containers.iter().filter(|container| container.service == service).count()
    }

    /// Time passes for what runs here. What was saved is handed to `save`, what a new container finds is read with `load`.
    pub fn tick(
        &mut self,
        now: u64,
        passed: u64,
        kinds: &[Kind],
        mut save: impl FnMut(&mut BTreeMap<usize, Volume>, &Container),
        mut load: impl FnMut(&BTreeMap<usize, Volume>, &Container) -> u64,
    ) {
        let containers = std::mem::take(&mut self.containers);
        for mut container in containers {
            let kind = kinds[container.service];
            match container.is {
                Is::Preparing { until } if now < until => self.containers.push(container),
                Is::Preparing { .. } if kind.crashes => self.untold.push((container.task, Ended::Failed(Some(1)))),
                Is::Preparing { .. } => {
                    container.units = load(&self.volumes, &container);
                    container.is = Is::Running;
                    self.containers.push(container);
                }
                Is::Running => {
                    let before = container.units;
                    container.units += passed;
                    if kind.saves && before / 10_000 != container.units / 10_000 {
                        save(&mut self.volumes, &container);
                    }
                    if container.units >= kind.total {
                        if kind.saves {
                            save(&mut self.volumes, &container);
                        }
                        self.untold.push((container.task, Ended::Complete));
                    } else {
                        self.containers.push(container);
                    }
                }
                Is::Stopping { saves, killed } => {
                    container.units += passed;
                    if now >= killed || now >= saves && !kind.ignores_term {
                        if kind.saves && !kind.ignores_term {
                            save(&mut self.volumes, &container);
                        }
                        self.untold.push((container.task, Ended::Stopped));
                    } else {
                        self.containers.push(container);
                    }
                }
            }
        }
    }
}
