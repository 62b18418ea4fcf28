//! The faults that are injected while jobs move, and how each is repaired.

use super::jobs::Trials;
use super::swarm::{NO_OFFSET, NODES, Part, SMALL, Swarm, persist};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::fs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    CoordinatorKilled,
    AgentKilled,
    FlowcondKilled,
    EngineKilled,
    EngineRestarted,
    NodeCutOff,
    LeaderChanged,
    DiskFull,
    ServiceDeleted,
    ServiceUpdated,
    ScaledToOne,
    ScaledToZero,
    ClockJumped,
    DrainedByDocker,
    VolumeShared,
    VolumeReused,
}

use Fault::*;

/// The relative frequency of each fault: quick faults are drawn more often.
const WEIGHTS: [(Fault, u32); 16] = [
    (CoordinatorKilled, 6),
    (AgentKilled, 6),
    (FlowcondKilled, 2),
    (EngineKilled, 1),
    (EngineRestarted, 1),
    (NodeCutOff, 3),
    (LeaderChanged, 2),
    (DiskFull, 3),
    (ServiceDeleted, 1),
    (ServiceUpdated, 4),
    (ScaledToOne, 3),
    (ScaledToZero, 1),
    (ClockJumped, 4),
    (DrainedByDocker, 4),
    (VolumeShared, 4),
    (VolumeReused, 4),
];

/// The offsets to which a node's clock jumps.
const JUMPS: [&str; 4] = ["-1d", "-10m", "+10m", "+1d"];

/// A fault in progress, with the node and the job that it affects.
pub struct ActiveFault {
    fault: Fault,
    node: usize,
    job: Option<String>,
}

impl Fault {
    pub fn random(rng: &mut ChaCha8Rng) -> Fault {
        let mut rest = rng.random_range(0..WEIGHTS.iter().map(|(_, weight)| weight).sum::<u32>());
        for (fault, weight) in WEIGHTS {
            if rest < weight {
                return fault;
            }
            rest -= weight;
        }
        CoordinatorKilled
    }

    pub fn name(self) -> &'static str {
        match self {
            CoordinatorKilled => "coordinator killed",
            AgentKilled => "agent killed",
            FlowcondKilled => "flowcond killed",
            EngineKilled => "engine killed",
            EngineRestarted => "engine restarted",
            NodeCutOff => "node cut off",
            LeaderChanged => "leader changed",
            DiskFull => "disk full",
            ServiceDeleted => "service deleted",
            ServiceUpdated => "service updated",
            ScaledToOne => "scaled to 1 by hand",
            ScaledToZero => "scaled to 0 by hand",
            ClockJumped => "clock jumped",
            DrainedByDocker => "drained by docker",
            VolumeShared => "volume shared",
            VolumeReused => "volume reused",
        }
    }

    pub fn inject(self, swarm: &Swarm, trials: &Trials, rng: &mut ChaCha8Rng) -> ActiveFault {
        let mut node = NODES[rng.random_range(0..NODES.len())];
        // Prefers a job that is being moved, so that faults coincide with moves.
        let jobs = swarm.jobs();
        let is_moving = |name: &String| {
            jobs.get(name)
                .is_some_and(|job| ["stopping", "carrying", "starting"].iter().any(|state| job["state"] == *state))
        };
        let names = trials.names();
        let moving: Vec<&String> = names.iter().filter(|name| is_moving(name)).collect();
        let job = match moving.as_slice() {
            [] => names.get(rng.random_range(0..names.len().max(1))),
            moving => Some(moving[rng.random_range(0..moving.len())]),
        };
        let job = job.cloned();
        let name = job.as_deref().unwrap_or_default();
        match self {
            CoordinatorKilled => {
                node = swarm.leader().unwrap_or(node);
                swarm.kill(Part::Coordinator, node);
            }
            AgentKilled => swarm.kill(Part::Agent, node),
            FlowcondKilled => swarm.kill(Part::Flowcond, node),
            EngineKilled => swarm.end_engine(node, "KILL"),
            EngineRestarted => swarm.end_engine(node, "TERM"),
            NodeCutOff => swarm.set_cut_off(node, true),
            LeaderChanged => {
                node = swarm.leader().unwrap_or(node);
                let other = NODES.into_iter().find(|&other| other != node).unwrap_or(node);
                swarm.docker_on(other, &["node", "demote", &format!("node-{node}")]);
            }
            DiskFull => {
                let file = fs::File::create(swarm.folder(SMALL).join("data/ballast")).unwrap();
                let zeros = vec![0; 1 << 20];
                while std::io::Write::write_all(&mut &file, &zeros).is_ok() {}
            }
            ServiceDeleted => trials.replace(swarm, name),
            ServiceUpdated => {
                for number in 0..5 {
                    swarm.docker(&["service", "update", "--detach", "--label-add", &format!("note={number}"), name]);
                }
            }
            ScaledToOne => drop(swarm.docker(&["service", "scale", "--detach", &format!("{name}=1")])),
            ScaledToZero => drop(swarm.docker(&["service", "scale", "--detach", &format!("{name}=0")])),
            ClockJumped => swarm.set_clock(node, JUMPS[rng.random_range(0..JUMPS.len())]),
            DrainedByDocker => swarm.set_availability(node, "drain"),
            VolumeShared => {
                // Until it runs, the volume is no more its own than the other's.
                let running = |name: &&String| jobs.get(*name).is_some_and(|job| job["state"] == "running");
                let running: Vec<&String> = names.iter().filter(running).collect();
                let victim = running.get(rng.random_range(0..running.len().max(1)));
                let job = victim.and_then(|name| trials.share_volume(swarm, name));
                return ActiveFault { fault: self, node, job };
            }
            VolumeReused => {
                let job = trials.reuse_volume(swarm, name);
                return ActiveFault { fault: self, node, job };
            }
        }
        ActiveFault { fault: self, node, job }
    }
}

impl ActiveFault {
    pub fn repair(self, swarm: &Swarm, trials: &Trials) {
        match self.fault {
            CoordinatorKilled => swarm.start_part(Part::Coordinator, self.node),
            AgentKilled => swarm.start_part(Part::Agent, self.node),
            FlowcondKilled => swarm.start_part(Part::Flowcond, self.node),
            EngineKilled | EngineRestarted => swarm.start_engine(self.node),
            NodeCutOff => swarm.set_cut_off(self.node, false),
            LeaderChanged => {
                // Docker refuses a promotion until the node has learnt of its demotion.
                let promote = || swarm.docker(&["node", "promote", &format!("node-{}", self.node)]);
                let role_after_promotion = || {
                    promote();
                    let format = "{{.Spec.Role}} {{if .ManagerStatus}}{{.ManagerStatus.Reachability}}{{end}}";
                    swarm.docker(&["node", "inspect", "--format", format, &format!("node-{}", self.node)])
                };
                persist(|| role_after_promotion().is_some_and(|role| role == "manager reachable"));
            }
            DiskFull => drop(fs::remove_file(swarm.folder(SMALL).join("data/ballast"))),
            ServiceDeleted | ServiceUpdated => {}
            // The user who scaled it by hand resumes it, which returns it to the coordinator.
            ScaledToOne | ScaledToZero => {
                let name = self.job.filter(|name| trials.names().contains(name)).unwrap_or_default();
                swarm.succeeds(&["resume", &name]);
            }
            ClockJumped => swarm.set_clock(self.node, NO_OFFSET),
            DrainedByDocker => swarm.set_availability(self.node, "active"),
            VolumeShared => {
                if let Some(guest) = self.job {
                    let seen = swarm.jobs().remove(&guest);
                    assert!(seen.as_ref().is_none_or(|job| job["state"] == "waiting"), "{seen:?}");
                    persist(|| swarm.docker(&["service", "rm", &guest]).is_some());
                }
            }
            VolumeReused => {
                if let Some(name) = self.job {
                    let label = format!("flowcon.take-over={name}");
                    let arguments = ["service", "update", "--detach", "--label-add", &label, &name];
                    persist(|| swarm.docker(&arguments).is_some());
                }
            }
        }
        swarm.restart_ended();
    }
}
