//! The simulated jobs: their services, and the behaviour of their programs.

use crate::machine::labels::{AFTER, CHECKPOINT, GANG, Labels, MOVABLE, ON_NODE_LOSS, QUEUE, STOP_GRACE};
use model::Millis;
use model::cluster::Resources;
use model::swarm::{MountedVolume, RestartCondition, RestartRule, ServiceId, ServiceMode, SwarmService};
use std::collections::BTreeMap;

/// Number of jobs: three independent ones, a gang of two, one that depends on the first, and the twin.
pub(super) const JOBS: usize = 7;
/// Number of independent jobs.
pub(super) const ALONE: usize = 3;
/// A job whose owner sometimes gives it the checkpoint volume of the first.
pub(super) const TWIN: usize = 6;

/// Behaviour of a job's program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behaviour {
    /// Whether it saves its state in a volume.
    pub saves: bool,
    /// Whether that volume is shared by all nodes.
    pub is_shared: bool,
    pub ignores_term: bool,
    /// Whether it exits with code 0 on SIGTERM.
    pub exits_with_0: bool,
    /// Whether it exits with code 1 as soon as it starts.
    pub crashes: bool,
    /// Total units, in thousandths.
    pub total: u64,
    pub grace: u64,
}

pub(super) fn behaviours() -> [Behaviour; JOBS] {
    let usual = Behaviour {
        saves: true,
        is_shared: false,
        ignores_term: false,
        exits_with_0: false,
        crashes: false,
        total: u64::MAX,
        grace: 10_000,
    };
    let shared = Behaviour { is_shared: true, ..usual };
    let polite = Behaviour { exits_with_0: true, ..shared };
    [usual, polite, Behaviour { saves: false, ignores_term: true, grace: 30_000, ..usual }, usual, shared, usual, usual]
}

/// Returns the name of the volume that is usually that of this job.
pub(super) fn volume_name(job: usize) -> String {
    format!("saved-{job}")
}

pub(super) fn service(number: usize, version: u64) -> SwarmService {
    let behaviour = behaviours()[number];
    let mut labels: Labels = [(QUEUE.into(), "true".into())].into();
    if behaviour.saves {
        labels.insert(CHECKPOINT.into(), volume_name(number).into());
    } else {
        labels.insert(MOVABLE.into(), "true".into());
    }
    labels.insert(STOP_GRACE.into(), format!("{}s", behaviour.grace / 1000).into());
    if behaviour.is_shared {
        labels.insert(ON_NODE_LOSS.into(), "restart".into());
    }
    match number {
        3 | 4 => drop(labels.insert(GANG.into(), "gang".into())),
        5 => drop(labels.insert(AFTER.into(), "job-0".into())),
        _ => {}
    }
    let is_local = !behaviour.is_shared;
    let (name, target) = (volume_name(number).into(), "/saved".into());
    let volume = MountedVolume { name, target, is_local, is_read_only: false, labels: BTreeMap::new() };
    SwarmService {
        id: ServiceId(format!("s{number}").into()),
        name: format!("job-{number}").into(),
        version,
        created: Millis(1_700_000_000_000 + number as u64),
        labels,
        previous_labels: Labels::new(),
        container_labels: BTreeMap::new(),
        mode: ServiceMode::Replicated(0),
        pin: None,
        constraints: Vec::new(),
        other_constraints: Vec::new(),
        request: Resources { cores: 1.0, ..Resources::default() },
        restart: RestartRule { condition: RestartCondition::OnFailure, attempts: Some(2) },
        stop_grace: Some(Millis(behaviour.grace)),
        volumes: behaviour.saves.then_some(volume).into_iter().collect(),
        command: vec!["train".into()],
    }
}
