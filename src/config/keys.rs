//! The registry of configuration keys: name, help, parser and formatter of each.

use super::notify;
use super::settings::{EngineChoice, GpuControl, OnExit, Settings};
use super::users::{rules, weights};
use super::value::{Value, days, megabytes, seconds};
use model::{Bytes, Enforcement, FairBetween, GrowthThreshold, Millis, Objective, Quota, Share};

/// One key of the configuration.
pub struct Key {
    /// `section.name`, or only `name` at the top level.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Parses a value into the settings; the error says what is expected.
    pub(super) set: fn(&mut Settings, &Value) -> Result<(), String>,
    /// Returns the current value as TOML.
    pub show: fn(&Settings) -> String,
}

/// The standard socket of containerd.
const CONTAINERD: &str = "/run/containerd/containerd.sock";

const ENFORCEMENTS: &[(&str, Enforcement)] = &[("weight", Enforcement::Weight), ("quota", Enforcement::Quota)];
const PARTS: &[(&str, FairBetween)] = &[("jobs", FairBetween::Jobs), ("users", FairBetween::Users)];
const EXITS: &[(&str, OnExit)] = &[("restore", OnExit::Restore), ("keep", OnExit::Keep)];
const GPU_CONTROLS: &[(&str, GpuControl)] =
    &[("off", GpuControl::Off), ("duty-cycle", GpuControl::DutyCycle), ("mps", GpuControl::Mps)];
const OBJECTIVES: &[(&str, f64)] =
    &[("quality", Objective::QUALITY.0), ("balanced", Objective::BALANCED.0), ("completion", Objective::COMPLETION.0)];

/// Every key, in the order of `config/flowcond.toml`.
pub const KEYS: &[Key] = &[
    Key {
        name: "socket",
        help: "path of the API socket; `flowctl run -- COMMAND` registers on a socket beside it",
        set: |s, v| v.text().map(|path| s.socket = path.into()),
        show: |s| quoted(&s.socket.to_string_lossy()),
    },
    Key {
        name: "state-dir",
        help: "directory for the journal of original limits",
        set: |s, v| v.text().map(|path| s.state_dir = path.into()),
        show: |s| quoted(&s.state_dir.to_string_lossy()),
    },
    Key {
        name: "on-exit",
        help: "\"restore\": restore the original limits when the daemon stops; \"keep\": leave the planned limits to the next daemon",
        set: |s, v| v.word(EXITS).map(|word| s.on_exit = word),
        show: |s| quoted(word_of(EXITS, s.on_exit)),
    },
    Key {
        name: "policy.name",
        help: "\"balanced\" (credit per CPU-second), \"flowcon\" (the paper's Algorithms 1 and 2), \"flowcon-2019\" \
               (the same to the letter), or \"fair\" (observes, changes nothing)",
        set: |s, v| v.text()?.parse().map(|policy| s.policy.policy = policy),
        show: |s| quoted(s.policy.policy.name()),
    },
    Key {
        name: "policy.objective",
        help: "objective of \"balanced\": \"quality\", \"balanced\", \"completion\", or a number from 0 (quality) to 1 (completion)",
        set: |s, v| {
            let word = v.word(OBJECTIVES);
            let expected = "expected quality, balanced, completion, or a number from 0 to 1";
            let objective = word.or_else(|_| v.number(0.0, 1.0)).map_err(|_| expected.to_owned())?;
            s.policy.objective = Objective(objective);
            Ok(())
        },
        show: |s| match OBJECTIVES.iter().find(|(_, value)| *value == s.policy.objective.0) {
            Some((word, _)) => quoted(word),
            None => s.policy.objective.0.to_string(),
        },
    },
    Key {
        name: "policy.fair-between",
        help: "under \"balanced\", between whom the node is divided first: \"jobs\", or \"users\" (each user's jobs have one part together)",
        set: |s, v| v.word(PARTS).map(|word| s.policy.fair_between = word),
        show: |s| quoted(word_of(PARTS, s.policy.fair_between)),
    },
    Key {
        name: "policy.interval",
        help: "time between two decisions [itval]",
        set: |s, v| v.duration(Millis(500), Millis::from_secs(3600)).map(|time| s.policy.interval = time),
        show: |s| quoted(&seconds(s.policy.interval)),
    },
    Key {
        name: "policy.max-interval",
        help: "maximum time between two decisions under exponential back-off",
        set: |s, v| v.duration(Millis(500), Millis::from_secs(86_400)).map(|time| s.policy.max_interval = time),
        show: |s| quoted(&seconds(s.policy.max_interval)),
    },
    Key {
        name: "policy.growth-threshold",
        help: "[α] growth efficiency below which a job moves towards Completing: fraction of its evaluation's range \
               gained per node-CPU-second, or in the paper's form, such as \"5 % per interval\"",
        set: |s, v| v.parsed().map(|threshold| s.policy.flowcon.growth_threshold = threshold),
        show: |s| match s.policy.flowcon.growth_threshold {
            rate @ GrowthThreshold::PerSecond(_) => rate.to_string(),
            part @ GrowthThreshold::PerInterval(_) => quoted(&part.to_string()),
        },
    },
    Key {
        name: "policy.share-floor",
        help: "[β] a converged job keeps at least 1/(share-floor × jobs) of the node; under \"flowcon-2019\", 1/(jobs + 1)",
        set: |s, v| v.number(1.0, 100.0).map(|number| s.policy.flowcon.share_floor = number),
        show: |s| toml_float(s.policy.flowcon.share_floor),
    },
    Key {
        name: "policy.floor",
        help: "under \"balanced\", every job keeps at least this part of an equal share",
        set: |s, v| v.number(0.01, 1.0).map(|number| s.policy.floor = Share::clamped(number)),
        show: |s| s.policy.floor.fraction().to_string(),
    },
    Key {
        name: "policy.sweeps",
        help: "under \"balanced\", trials of the same training compete by their results: the best come first",
        set: |s, v| v.switch().map(|on| s.policy.sweeps = on),
        show: |s| s.policy.sweeps.to_string(),
    },
    Key {
        name: "policy.turns",
        help: "under \"balanced\", jobs whose threads wait for each other, spinning, come in turns where the policy would give them like shares",
        set: |s, v| v.switch().map(|on| s.policy.turns = on),
        show: |s| s.policy.turns.to_string(),
    },
    Key {
        name: "policy.enforcement",
        help: "\"weight\": CPU time that a job leaves idle goes to the others; \"quota\": a hard cap as well, the paper's --cpus",
        set: |s, v| v.word(ENFORCEMENTS).map(|word| s.policy.enforcement = word),
        show: |s| quoted(word_of(ENFORCEMENTS, s.policy.enforcement)),
    },
    Key {
        name: "policy.quota-floor",
        help: "under \"quota\", the smallest cap, in cores",
        set: |s, v| v.number(0.01, 1024.0).map(|cores| s.policy.quota_floor = Quota((cores * 1000.0) as u64)),
        show: |s| toml_float(s.policy.quota_floor.0 as f64 / 1000.0),
    },
    Key {
        name: "policy.memory",
        help: "whether the memory of growing jobs is protected and, under policy flowcon, that of converged jobs gently squeezed",
        set: |s, v| v.switch().map(|on| s.policy.govern_memory = on),
        show: |s| s.policy.govern_memory.to_string(),
    },
    Key {
        name: "policy.memory-pressure-limit",
        help: "memory pressure (PSI, fraction of time) above which all squeezing ends",
        set: |s, v| v.number(0.0, 1.0).map(|number| s.policy.memory_pressure_limit = number),
        show: |s| s.policy.memory_pressure_limit.to_string(),
    },
    Key {
        name: "policy.io",
        help: "whether the block I/O weight follows the CPU share",
        set: |s, v| v.switch().map(|on| s.policy.govern_io = on),
        show: |s| s.policy.govern_io.to_string(),
    },
    Key {
        name: "policy.holdback",
        help: "fraction of time, 0 to 0.5, in which every job has its original limits, so that `flowctl report` can measure the effect of governing",
        set: |s, v| v.number(0.0, 0.5).map(|part| s.policy.holdback = Share::clamped(part)),
        show: |s| toml_float(s.policy.holdback.fraction()),
    },
    Key {
        name: "policy.holdback-block",
        help: "length of a holdback block: long compared to the interval, short compared to the jobs",
        set: |s, v| v.duration(Millis(1000), Millis::from_secs(86_400)).map(|time| s.policy.holdback_block = time),
        show: |s| quoted(&seconds(s.policy.holdback_block)),
    },
    Key {
        name: "users.weights",
        help: "weights of users, such as \"alice = 2\"; the weight of all others is 1, and \"- = 0.5\" is that of jobs without a user",
        set: |s, v| weights(&v.list()?).map(|weights| s.users.weights = weights),
        show: |s| listed(s.users.weights.iter().map(|(user, weight)| format!("{user} = {weight}"))),
    },
    Key {
        name: "users.rules",
        help: "whose containers without the label flowcon.user are, by image or Compose project: \"image vision/* = alice\", \
               \"project nlp = bob\"; the first that fits decides",
        set: |s, v| rules(&v.list()?).map(|rules| s.users.rules = rules),
        show: |s| listed(s.users.rules.iter().map(ToString::to_string)),
    },
    Key {
        name: "users.half-life",
        help: "time after which CPU that a user used counts half; \"off\" = use is not remembered",
        set: |s, v| {
            let expected = "expected \"off\", or a time from 60s to 31622400s, such as \"1d\"";
            let (least, most) = (Millis::from_secs(60), Millis::from_secs(366 * 86_400));
            let is_off = matches!(v, Value::Text(text) if text == "off");
            let half_life = if is_off { Ok(None) } else { v.duration(least, most).map(Some) };
            half_life.map(|time| s.users.half_life = time).map_err(|_| expected.to_owned())
        },
        show: |s| quoted(&s.users.half_life.map_or("off".to_owned(), days)),
    },
    Key {
        name: "engine.address",
        help: "\"auto\" (DOCKER_HOST, or the standard sockets), \"off\", unix:///PATH, or \"containerd\" or cri:///PATH, also for pods",
        set: |s, v| {
            s.engine = match v.text()? {
                "auto" => EngineChoice::Auto,
                "off" => EngineChoice::Off,
                "containerd" => EngineChoice::Pods(CONTAINERD.into()),
                address if address.starts_with("cri:///") => EngineChoice::Pods(address["cri://".len()..].into()),
                address if address.starts_with('/') || address.starts_with("unix:///") => {
                    EngineChoice::At(address.to_owned())
                }
                _ => return Err(
                    "expected \"auto\", \"off\", \"containerd\", or a socket of this machine such as unix:///run/podman/podman.sock"
                        .to_owned(),
                ),
            };
            Ok(())
        },
        show: |s| match &s.engine {
            EngineChoice::Auto => quoted("auto"),
            EngineChoice::Off => quoted("off"),
            EngineChoice::At(address) => quoted(address),
            EngineChoice::Pods(socket) => quoted(&format!("cri://{}", socket.display())),
        },
    },
    Key {
        name: "engine.label",
        help: "containers with this label are governed; give each of several daemons its own",
        set: |s, v| {
            let text = v.text()?;
            let has_key = text.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty());
            if !has_key {
                return Err("expected KEY=VALUE".to_owned());
            }
            s.label = text.to_owned();
            Ok(())
        },
        show: |s| quoted(&s.label),
    },
    Key {
        name: "scopes.enabled",
        help: "whether commands started by `flowctl run -- COMMAND` are governed",
        set: |s, v| v.switch().map(|on| s.scopes = on),
        show: |s| s.scopes.to_string(),
    },
    Key {
        name: "scopes.per-user",
        help: "maximum number of governed commands per user, except for root and api.admins",
        set: |s, v| v.number(0.0, 4096.0).map(|number| s.scopes_per_user = number as usize),
        show: |s| s.scopes_per_user.to_string(),
    },
    Key {
        name: "scopes.label-bytes",
        help: "maximum size of all labels of the commands of such a user, in bytes",
        set: |s, v| v.number(0.0, 1e9).map(|number| s.scope_label_bytes = Bytes(number as u64)),
        show: |s| s.scope_label_bytes.0.to_string(),
    },
    Key {
        name: "api.group",
        help: "members of this group may read the API; \"\" = root and admins only",
        set: |s, v| match v {
            Value::Text(text) => {
                s.group = Some(text.clone()).filter(|name| !name.is_empty());
                Ok(())
            }
            _ => Err("expected the name of a group".to_owned()),
        },
        show: |s| quoted(s.group.as_deref().unwrap_or("")),
    },
    Key {
        name: "api.admins",
        help: "users other than root that may pause, resume, restore, reload and change the policy",
        set: |s, v| v.list().map(|users| s.admins = users),
        show: |s| listed(s.admins.iter().cloned()),
    },
    Key {
        name: "gpu.library",
        help: "name or path of the NVIDIA driver library used to observe GPUs; \"off\" = GPUs are not observed",
        set: |s, v| v.text().map(|name| s.gpu_library = (name != "off").then(|| name.into())),
        show: |s| quoted(&s.gpu_library.as_ref().map_or("off".into(), |name| name.to_string_lossy())),
    },
    Key {
        name: "gpu.control",
        help: "control of jobs that share a GPU: \"off\" (observed only), \"duty-cycle\" (all but the preferred job are frozen for part of the time), \"mps\" (divided by NVIDIA MPS, according to --gpu-share of flowctl run)",
        set: |s, v| v.word(GPU_CONTROLS).map(|word| s.gpu_control = word),
        show: |s| quoted(word_of(GPU_CONTROLS, s.gpu_control)),
    },
    Key {
        name: "gpu.freeze-at-most",
        help: "under \"duty-cycle\", the longest time that a job is frozen without a break, and the period of its freezes",
        set: |s, v| v.duration(Millis(20), Millis::from_secs(60)).map(|time| s.freeze_at_most = time),
        show: |s| quoted(&seconds(s.freeze_at_most)),
    },
    Key {
        name: "history.enabled",
        help: "whether observations, decisions and changes are recorded for `flowctl history` and `flowctl report`",
        set: |s, v| v.switch().map(|on| s.history.enabled = on),
        show: |s| s.history.enabled.to_string(),
    },
    Key {
        name: "history.max-age",
        help: "maximum age of history records; older records are deleted",
        set: |s, v| {
            v.duration(Millis::from_secs(3600), Millis::from_secs(10 * 366 * 86_400)).map(|age| s.history.max_age = age)
        },
        show: |s| quoted(&days(s.history.max_age)),
    },
    Key {
        name: "history.max-size",
        help: "maximum size of the history on disk; the oldest records are deleted first",
        set: |s, v| v.size(Bytes(1 << 20), Bytes(1 << 40)).map(|size| s.history.max_size = size),
        show: |s| quoted(&megabytes(s.history.max_size)),
    },
];

/// Formats all settings as a TOML file that sets exactly these values.
pub fn shown(settings: &Settings) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        let (of, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if of != section {
            section = of;
            text.push_str(&format!("\n[{section}]\n"));
        }
        text.push_str(&format!("{name} = {}\n", (key.show)(settings)));
    }
    text + &notify::shown(&settings.notify)
}

fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("?", |(word, _)| word)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn listed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.map(|item| quoted(&item)).collect::<Vec<_>>().join(", "))
}

fn toml_float(number: f64) -> String {
    toml::Value::Float(number).to_string()
}
