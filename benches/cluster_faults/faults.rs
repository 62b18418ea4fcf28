//! What breaks while jobs move, and how each is mended.

use super::jobs::Trials;
use super::swarm::{NODES, Part, RIGHT, SMALL, Swarm};
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
}

use Fault::*;

/// How often each is drawn: what is quick more often.
const WEIGHTS: [(Fault, u32); 13] = [
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
];

/// How far a node's clock jumps.
const JUMPS: [&str; 4] = ["-1d", "-10m", "+10m", "+1d"];

/// A fault that stands, and what it hit.
pub struct Broken {
    fault: Fault,
    node: usize,
    job: Option<String>,
}

impl Fault {
    pub fn drawn(rng: &mut ChaCha8Rng) -> Fault {
        let mut place = rng.random_range(0..WEIGHTS.iter().map(|(_, weight)| weight).sum::<u32>());
        for (fault, weight) in WEIGHTS {
            if place < weight {
                return fault;
            }
            place -= weight;
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
        }
    }

    pub fn begin(self, swarm: &Swarm, trials: &Trials, rng: &mut ChaCha8Rng) -> Broken {
        let mut node = NODES[rng.random_range(0..NODES.len())];
        // Whoever is on its way, so that faults meet moves.
        let jobs = swarm.jobs();
        let moving = |name: &String| {
            jobs.get(name)
                .is_some_and(|job| ["stopping", "carrying", "starting"].iter().any(|state| job["state"] == *state))
        };
        let names = trials.names();
        let chosen: Vec<&String> = names.iter().filter(|name| moving(name)).collect();
        let job = match chosen.as_slice() {
            [] => names.get(rng.random_range(0..names.len().max(1))),
            chosen => Some(chosen[rng.random_range(0..chosen.len())]),
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
            NodeCutOff => swarm.cut(node, true),
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
        }
        Broken { fault: self, node, job }
    }
}

impl Broken {
    pub fn mend(self, swarm: &Swarm, trials: &Trials) {
        match self.fault {
            CoordinatorKilled => swarm.begin(Part::Coordinator, self.node),
            AgentKilled => swarm.begin(Part::Agent, self.node),
            FlowcondKilled => swarm.begin(Part::Flowcond, self.node),
            EngineKilled | EngineRestarted => swarm.begin_engine(self.node),
            NodeCutOff => swarm.cut(self.node, false),
            LeaderChanged => {
                // Until it has heard of its demotion, a promotion is refused.
                let promote = || swarm.docker(&["node", "promote", &format!("node-{}", self.node)]);
                let is_manager = || {
                    promote();
                    let format = "{{.Spec.Role}} {{if .ManagerStatus}}{{.ManagerStatus.Reachability}}{{end}}";
                    swarm.docker(&["node", "inspect", "--format", format, &format!("node-{}", self.node)])
                };
                for _ in 0..60 {
                    if is_manager().is_some_and(|role| role == "manager reachable") {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_secs(1));
                }
            }
            DiskFull => drop(fs::remove_file(swarm.folder(SMALL).join("data/ballast"))),
            ServiceDeleted | ServiceUpdated => {}
            // Whoever scaled it by hand gives it back to the coordinator.
            ScaledToOne | ScaledToZero => {
                let name = self.job.filter(|name| trials.names().contains(name)).unwrap_or_default();
                swarm.stdout_of(&["resume", &name]);
            }
            ClockJumped => swarm.set_clock(self.node, RIGHT),
        }
        swarm.revive();
    }
}
