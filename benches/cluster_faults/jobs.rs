//! Training jobs that save their state after each unit: whatever happens, no unit may be done twice or by two containers at once.

use super::swarm::{IMAGE, NODES, RARE_IMAGE, Swarm, persist};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

/// The behaviour of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Saves and ends on SIGTERM.
    Polite,
    /// Ignores SIGTERM.
    Deaf,
    /// Has 12 MiB of state.
    Heavy,
    /// Exits with code 1 on the third node.
    CrashesOnThree,
    /// Its image is missing on the second node.
    RareImage,
    /// Saves nothing, but may be moved.
    Stateless,
}

const FLEET: [(&str, Habit); 8] = [
    ("polite-1", Habit::Polite),
    ("polite-2", Habit::Polite),
    ("polite-3", Habit::Polite),
    ("deaf", Habit::Deaf),
    ("heavy", Habit::Heavy),
    ("crashes", Habit::CrashesOnThree),
    ("rare", Habit::RareImage),
    ("stateless", Habit::Stateless),
];

/// The current jobs. When a user deletes one, a new one with a new name replaces it.
pub struct Trials {
    heartbeats: PathBuf,
    live: Mutex<BTreeMap<String, Habit>>,
    /// The jobs whose heartbeats are checked: all but the stateless ones, which start again from the beginning.
    judged: Mutex<BTreeSet<String>>,
}

impl Trials {
    pub fn submit(swarm: &Swarm) -> Trials {
        let heartbeats = swarm.dir.join("beats");
        std::fs::create_dir_all(&heartbeats).unwrap();
        let trials = Trials { heartbeats, live: Mutex::default(), judged: Mutex::default() };
        for (name, habit) in FLEET {
            trials.create(swarm, name.to_owned(), habit);
        }
        trials
    }

    fn create(&self, swarm: &Swarm, name: String, habit: Habit) {
        self.create_service(swarm, &name, &name, habit);
        if habit != Habit::Stateless {
            self.judged.lock().unwrap().insert(name.clone());
        }
        self.live.lock().unwrap().insert(name, habit);
    }

    /// Creates a service that continues the training `of`, with its volume and heartbeats.
    fn create_service(&self, swarm: &Swarm, name: &str, of: &str, habit: Habit) {
        let on_term = if habit == Habit::Deaf { "trap '' TERM" } else { "trap 'exit 143' TERM" };
        let setup = match habit {
            Habit::CrashesOnThree => "[ $NODE != node-3 ] || exit 1;",
            Habit::Heavy => "[ -f /saved/ballast ] || dd if=/dev/zero of=/saved/ballast bs=1M count=12 2>/dev/null;",
            _ => "",
        };
        // The unit is saved before the heartbeat is written, so that every heartbeat stands for a saved unit, also on a full disk.
        let script = format!(
            "{on_term}; {setup} i=$(cat /saved/i 2>/dev/null || echo 0); \
             while :; do sleep 0.3; i=$((i+1)); echo $i >/saved/new && mv /saved/new /saved/i && \
             echo \"$(hostname) $i\" >>/beats/{of}; echo \"epoch $i/100000 loss $((100000-i))\"; done"
        );
        let image = if habit == Habit::RareImage { RARE_IMAGE } else { IMAGE };
        let (saved, shared) = (
            format!("type=volume,source={of},target=/saved"),
            format!("type=bind,source={},target=/beats", self.heartbeats.display()),
        );
        let checkpoint = match habit {
            Habit::Stateless => "flowcon.movable=true".to_owned(),
            _ => format!("flowcon.checkpoint={of}"),
        };
        let arguments = [
            "service",
            "create",
            "--detach",
            "--no-resolve-image",
            "--name",
            name,
            "--replicas",
            "0",
            "--restart-condition",
            "on-failure",
            "--restart-max-attempts",
            "3",
            "--restart-delay",
            "1s",
            "--stop-grace-period",
            "3s",
            "--label",
            "flowcon.queue=true",
            "--label",
            "flowcon.stop-grace=3s",
            "--label",
            &checkpoint,
            "--container-label",
            "flowcon.enable=true",
            "--env",
            "NODE={{.Node.Hostname}}",
            "--mount",
            &saved,
            "--mount",
            &shared,
            image,
            "sh",
            "-c",
            &script,
        ];
        let is_created =
            persist(|| swarm.docker(&arguments).is_some() || swarm.docker(&["service", "inspect", name]).is_some());
        assert!(is_created, "no manager created {name}");
    }

    pub fn names(&self) -> Vec<String> {
        self.live.lock().unwrap().keys().cloned().collect()
    }

    /// Deletes a job and submits another of the same kind, as a user would.
    pub fn replace(&self, swarm: &Swarm, name: &str) {
        let Some(habit) = self.live.lock().unwrap().get(name).copied() else { return };
        if swarm.docker(&["service", "rm", name]).is_none() {
            return;
        }
        self.live.lock().unwrap().remove(name);
        self.create(swarm, format!("{name}x"), habit);
    }

    /// Submits a second job with the checkpoint volume of a running one; returns its name. It must never start.
    pub fn share_volume(&self, swarm: &Swarm, name: &str) -> Option<String> {
        let habit = self.habit_of_saving(name)?;
        let guest = format!("{name}-guest");
        self.create_service(swarm, &guest, name, habit);
        Some(guest)
    }

    /// Deletes a job and submits it again with the volume that is left; returns its name. It must not start before it is told to take over
    /// that state.
    pub fn reuse_volume(&self, swarm: &Swarm, name: &str) -> Option<String> {
        let habit = self.habit_of_saving(name)?;
        swarm.docker(&["service", "rm", name])?;
        self.create_service(swarm, name, name, habit);
        Some(name.to_owned())
    }

    fn habit_of_saving(&self, name: &str) -> Option<Habit> {
        self.live.lock().unwrap().get(name).copied().filter(|habit| *habit != Habit::Stateless)
    }

    /// The jobs that neither run in exactly one container nor wait with a reason.
    pub fn unsettled(&self, swarm: &Swarm) -> Vec<String> {
        swarm.restart_ended();
        let jobs = swarm.jobs();
        let units =
            |name: &str| std::fs::read_to_string(self.heartbeats.join(name)).unwrap_or_default().lines().count();
        let before: BTreeMap<String, usize> =
            self.names().into_iter().map(|name| (name.clone(), units(&name))).collect();
        std::thread::sleep(std::time::Duration::from_secs(4));
        let mut unsettled = Vec::new();
        for (name, before) in before {
            let Some(job) = jobs.get(&name) else {
                unsettled.push(format!("{name} is missing from the status"));
                continue;
            };
            let grows = units(&name) > before;
            let has_reason = job["why"]["text"].as_str().is_some_and(|why| !why.is_empty());
            let containers = NODES.iter().filter_map(|&node| {
                swarm.docker_on(node, &["ps", "-q", "--filter", &format!("label=com.docker.swarm.service.name={name}")])
            });
            let running = containers.map(|listed| listed.lines().count()).sum::<usize>();
            let is_settled = match job["state"].as_str() {
                Some("running") => grows && running == 1,
                // It was started where it cannot run, so it failed permanently, as it would have without FlowCon.
                Some("failed") => self.live.lock().unwrap().get(&name) == Some(&Habit::CrashesOnThree) && running == 0,
                Some("waiting" | "suspended") => has_reason && running == 0 && !grows,
                _ => false,
            };
            if !is_settled {
                unsettled.push(format!("{name}: {running} containers, grows: {grows}, {job}"));
            }
        }
        unsettled
    }

    /// How often a container wrote again after another had taken over, and how many units were repeated.
    pub fn judge(&self) -> (usize, usize) {
        let (mut two_writers, mut lost) = (0, 0);
        for name in self.judged.lock().unwrap().iter() {
            let text = std::fs::read_to_string(self.heartbeats.join(name)).unwrap_or_default();
            let lines: Vec<(&str, u64)> = text
                .lines()
                .filter_map(|line| line.split_once(' '))
                .filter_map(|(who, n)| Some((who, n.parse().ok()?)))
                .collect();
            let mut replaced = BTreeSet::new();
            for pair in lines.windows(2) {
                let ((who, unit), (next, after)) = (pair[0], pair[1]);
                if who != next {
                    replaced.insert(who);
                    if replaced.contains(next) {
                        two_writers += 1;
                        println!("{name}: {next} writes {after} after {who}");
                    }
                }
                // A kill between the save and the heartbeat leaves out a heartbeat; the unit is not lost.
                if after <= unit {
                    lost += usize::try_from(unit + 1 - after).unwrap();
                    println!("{name}: {next} repeats {after} after {who} has done {unit}");
                }
            }
        }
        (two_writers, lost)
    }
}

/// The number of the node on which a job is, from the node's host name.
pub fn node_of(job: &Value) -> Option<usize> {
    job["node"].as_str()?.strip_prefix("node-")?.parse().ok()
}
