//! The simulated jobs: services as people write them, and how their programs behave. Imports: labels, model.

use crate::coordinator::machine::labels::{AFTER, CHECKPOINT, GANG, Labels, MOVABLE, ON_NODE_LOSS, QUEUE, STOP_GRACE};
use crate::model::Millis;
use crate::model::cluster::Resources;
use crate::model::swarm::{MountedVolume, RestartCondition, RestartRule, ServiceId, ServiceMode, SwarmService};
use std::collections::BTreeMap;

/// Three of their own, two of one gang, and one that comes after the first.
pub const JOBS: usize = 6;
pub const ALONE: usize = 3;

/// How a job's program behaves.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// It saves its state in a volume: its node's own, or shared.
    pub saves: bool,
    pub is_shared: bool,
    pub ignores_term: bool,
    /// It exits with code 1 as soon as it starts.
    pub crashes: bool,
    /// Thousandths of units in all.
    pub total: u64,
    pub grace: u64,
}

pub fn kinds() -> [Kind; JOBS] {
    let usual =
        Kind { saves: true, is_shared: false, ignores_term: false, crashes: false, total: u64::MAX, grace: 10_000 };
    let shared = Kind { is_shared: true, ..usual };
    [usual, shared, Kind { saves: false, ignores_term: true, grace: 30_000, ..usual }, usual, shared, usual]
}

pub fn service(number: usize, version: u64) -> SwarmService {
    let kind = kinds()[number];
    let mut labels: Labels = [(QUEUE.into(), "true".into())].into();
    if kind.saves {
        labels.insert(CHECKPOINT.into(), "saved".into());
    } else {
        labels.insert(MOVABLE.into(), "true".into());
    }
    labels.insert(STOP_GRACE.into(), format!("{}s", kind.grace / 1000).into());
    if kind.is_shared {
        labels.insert(ON_NODE_LOSS.into(), "restart".into());
    }
    match number {
        3 | 4 => drop(labels.insert(GANG.into(), "gang".into())),
        5 => drop(labels.insert(AFTER.into(), "job-0".into())),
        _ => {}
    }
    let volume = MountedVolume { name: "saved".into(), target: "/saved".into(), is_local: !kind.is_shared };
    SwarmService {
        id: ServiceId(format!("s{number}").into()),
        name: format!("job-{number}").into(),
        version,
        created: Millis(1_700_000_000_000 + number as u64),
        labels,
        container_labels: BTreeMap::new(),
        mode: ServiceMode::Replicated(0),
        pin: None,
        constraints: Vec::new(),
        other_constraints: Vec::new(),
        request: Resources { cores: 1.0, ..Resources::default() },
        restart: RestartRule { condition: RestartCondition::OnFailure, attempts: Some(2) },
        stop_grace: Some(Millis(kind.grace)),
        volumes: kind.saves.then_some(volume).into_iter().collect(),
        image: "train".into(),
    }
}
