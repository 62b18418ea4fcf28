//! Trainings that save after each unit: whatever is done to them, no unit may be done twice or by two at once.

use super::swarm::{IMAGE, NODES, RARE_IMAGE, Swarm};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

/// What is special about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Saves and ends when told.
    Polite,
    /// Ignores SIGTERM.
    Deaf,
    /// Its state is 12 MiB.
    Heavy,
    /// Ends with code 1 on the third node.
    CrashesOnThree,
    /// Its image is missing on the second node.
    RareImage,
    /// Saves nothing, and may be moved all the same.
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

/// The jobs that live now. A person may delete one: a new one takes its place under a name of its own.
pub struct Trials {
    beats: PathBuf,
    live: Mutex<BTreeMap<String, Habit>>,
    /// Whose heartbeats count; a stateless job begins again each time.
    judged: Mutex<BTreeSet<String>>,
}

impl Trials {
    pub fn submit(swarm: &Swarm) -> Trials {
        let beats = swarm.dir.join("beats");
        std::fs::create_dir_all(&beats).unwrap();
        let trials = Trials { beats, live: Mutex::default(), judged: Mutex::default() };
        for (name, habit) in FLEET {
            trials.create(swarm, name.to_owned(), habit);
        }
        trials
    }

    fn create(&self, swarm: &Swarm, name: String, habit: Habit) {
        let on_term = if habit == Habit::Deaf { "trap '' TERM" } else { "trap 'exit 143' TERM" };
        let before = match habit {
            Habit::CrashesOnThree => "[ $NODE != node-3 ] || exit 1;",
            Habit::Heavy => "[ -f /saved/ballast ] || dd if=/dev/zero of=/saved/ballast bs=1M count=12 2>/dev/null;",
            _ => "",
        };
        // Saved first, then told: what is told was saved, also on a full disk.
        let script = format!(
            "{on_term}; {before} i=$(cat /saved/i 2>/dev/null || echo 0); \
             while :; do sleep 0.3; i=$((i+1)); echo $i >/saved/new && mv /saved/new /saved/i && \
             echo \"$(hostname) $i\" >>/beats/{name}; echo \"epoch $i/100000 loss $((100000-i))\"; done"
        );
        let image = if habit == Habit::RareImage { RARE_IMAGE } else { IMAGE };
        let (saved, shared) = (
            format!("type=volume,source={name},target=/saved"),
            format!("type=bind,source={},target=/beats", self.beats.display()),
        );
        let checkpoint = match habit {
            Habit::Stateless => "flowcon.movable=true".to_owned(),
            _ => format!("flowcon.checkpoint={name}"),
        };
        let arguments = [
            "service",
            "create",
            "--detach",
            "--no-resolve-image",
            "--name",
            &name,
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
        // A person's Swarm may have no leader just now.
        let is_created = (0..60).any(|_| {
            let is_created =
                swarm.docker(&arguments).is_some() || swarm.docker(&["service", "inspect", &name]).is_some();
            if !is_created {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
            is_created
        });
        assert!(is_created, "no manager creates {name}");
        if habit != Habit::Stateless {
            self.judged.lock().unwrap().insert(name.clone());
        }
        self.live.lock().unwrap().insert(name, habit);
    }

    pub fn names(&self) -> Vec<String> {
        self.live.lock().unwrap().keys().cloned().collect()
    }

    /// A person deletes a job, and submits another like it.
    pub fn replace(&self, swarm: &Swarm, name: &str) {
        let Some(habit) = self.live.lock().unwrap().get(name).copied() else { return };
        if swarm.docker(&["service", "rm", name]).is_none() {
            return;
        }
        self.live.lock().unwrap().remove(name);
        self.create(swarm, format!("{name}x"), habit);
    }

    /// What is neither running in one place nor waiting with a reason.
    pub fn restless(&self, swarm: &Swarm) -> Vec<String> {
        swarm.revive();
        let jobs = swarm.jobs();
        let units = |name: &str| std::fs::read_to_string(self.beats.join(name)).unwrap_or_default().lines().count();
        let before: BTreeMap<String, usize> =
            self.names().into_iter().map(|name| (name.clone(), units(&name))).collect();
        std::thread::sleep(std::time::Duration::from_secs(4));
        let mut restless = Vec::new();
        for (name, before) in before {
            let Some(job) = jobs.get(&name) else {
                restless.push(format!("{name} is not told"));
                continue;
            };
            let grows = units(&name) > before;
            let has_reason = job["why"]["text"].as_str().is_some_and(|why| !why.is_empty());
            let containers = NODES.iter().filter_map(|&node| {
                swarm.docker_on(node, &["ps", "-q", "--filter", &format!("label=com.docker.swarm.service.name={name}")])
            });
            let running = containers.map(|listed| listed.lines().count()).sum::<usize>();
            let is_well = match job["state"].as_str() {
                Some("running") => grows && running == 1,
                // Begun where it cannot run, it has failed for good, as it would have without us.
                Some("failed") => self.live.lock().unwrap().get(&name) == Some(&Habit::CrashesOnThree) && running == 0,
                Some("waiting" | "paused") => has_reason && running == 0 && !grows,
                _ => false,
            };
            if !is_well {
                restless.push(format!("{name}: {running} containers, grows: {grows}, {job}"));
            }
        }
        restless
    }

    /// How often a writer came back after another, and how many units were done again.
    pub fn judge(&self) -> (usize, usize) {
        let (mut two_writers, mut lost) = (0, 0);
        for name in self.judged.lock().unwrap().iter() {
            let text = std::fs::read_to_string(self.beats.join(name)).unwrap_or_default();
            let lines: Vec<(&str, u64)> = text
                .lines()
                .filter_map(|line| line.split_once(' '))
                .filter_map(|(who, n)| Some((who, n.parse().ok()?)))
                .collect();
            let mut ended = BTreeSet::new();
            for pair in lines.windows(2) {
                let ((who, unit), (next, after)) = (pair[0], pair[1]);
                if who != next {
                    ended.insert(who);
                    if ended.contains(next) {
                        two_writers += 1;
                        println!("{name}: {next} writes {after} after {who}");
                    }
                }
                // A kill between saving and telling leaves a unit untold, which is not lost.
                if after <= unit {
                    lost += usize::try_from(unit + 1 - after).unwrap();
                    println!("{name}: {next} does {after} after {unit} was done by {who}");
                }
            }
        }
        (two_writers, lost)
    }
}

/// The hostname of the node where a job is.
pub fn node_of(job: &Value) -> Option<usize> {
    job["node"].as_str()?.strip_prefix("node-")?.parse().ok()
}
