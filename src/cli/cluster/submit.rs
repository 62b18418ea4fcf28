//! `flowctl cluster submit`: creates a service with 0 replicas, which the coordinator starts when resources are available.

use crate::commands::print;
use api::client::Client;
use api::wire::{GangSubmission, Submission};
use clap::Args;
use config::{bytes as size, check_labels};
use hyper::Method;
use model::time::{duration, utc};
use std::collections::BTreeMap;
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::when;

/// Maximum number of workers of a gang.
const WORKERS_MOST: u32 = 1000;

/// Arguments of `flowctl cluster submit`.
#[derive(Args, Debug)]
pub(super) struct SubmitArgs {
    /// The service's name, unique in the cluster
    #[arg(long, short)]
    name: String,
    /// The image
    #[arg(long, short)]
    image: String,
    /// GPUs that it reserves
    #[arg(long, default_value_t = 0)]
    gpus: u32,
    /// Cores that it reserves
    #[arg(long, default_value_t = 0.0)]
    cpus: f64,
    /// Memory that it reserves, such as 8GiB
    #[arg(long, value_parser = bytes, default_value = "0")]
    memory: u64,
    /// Priority, 1 to 100; optionally with a decay from 0 to 1 that lowers it, by 46 % at most, such as 50/0.5
    #[arg(long)]
    priority: Option<String>,
    /// When it should end: 2h from now, or a local time such as 2026-01-31T18:00; used with queue = "deadlines"
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    deadline: Option<String>,
    /// Your estimate of its duration on the resources that it reserves, such as 90m
    #[arg(long, value_name = "DURATION", value_parser = estimate)]
    duration: Option<String>,
    /// A way to run it, instead of --cpus and --gpus, such as "gpus=1 node.labels.type==a100 duration=20m"; may be given
    /// several times, and queue = "deadlines" chooses the cheapest
    #[arg(long, value_name = "ALTERNATIVE", conflicts_with_all = ["cpus", "gpus", "workers"])]
    alternative: Vec<String>,
    /// What each hour after the deadline costs, in the currency of flowcon.price [default: by priority]
    #[arg(long, value_name = "COST")]
    late_cost: Option<f64>,
    /// Its kind in the table of run times [default: its name]
    #[arg(long)]
    kind: Option<String>,
    /// The path of its saved state in the container, and the volume for it [default volume: NAME-checkpoint]
    #[arg(long, value_name = "[VOLUME:]PATH", value_parser = checkpoint)]
    checkpoint: Option<Checkpoint>,
    /// Continue from the saved state of this job, which has ended or was removed, in the volume of the checkpoint
    #[arg(long, value_name = "JOB", requires = "checkpoint")]
    take_over: Option<String>,
    /// Another volume, or a directory of every node, and its path in the container; read-only with :ro
    #[arg(long, value_name = "VOLUME:PATH[:ro]", value_parser = mount)]
    volume: Vec<Mount>,
    /// Wait until this job has ended with exit code 0; may be given several times
    #[arg(long, value_name = "JOB")]
    after: Vec<String>,
    /// Submit a gang of this many workers, NAME-1, NAME-2, …, which start together or not at all; as 2..4 at least and at most
    #[arg(long, value_name = "N|MIN..MAX", value_parser = workers)]
    workers: Option<Workers>,
    /// Number of workers to start with, from MIN to MAX [default: MIN]
    #[arg(long, value_name = "N", requires = "workers")]
    workers_initial: Option<u32>,
    /// Number of parameter servers, NAME-ps-1, …, which run as long as the workers and are not scaled
    #[arg(long, value_name = "N", requires = "workers", conflicts_with = "gang", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=i64::from(WORKERS_MOST)))]
    parameter_servers: u32,
    /// Submit one worker of this gang, whose size --workers says; the gang starts when enough of its workers are submitted
    #[arg(long, requires = "workers")]
    gang: Option<String>,
    /// Whether it may be moved [default: whether it has a checkpoint]
    #[arg(long, value_name = "true|false")]
    movable: Option<bool>,
    /// How long it may take to save and stop [default: 2m with a checkpoint, else 10s]
    #[arg(long, value_parser = grace, value_name = "DURATION")]
    stop_grace: Option<Duration>,
    /// What happens to it when its node is lost
    #[arg(long, value_parser = ["wait", "restart"])]
    on_node_loss: Option<String>,
    /// A placement constraint of Swarm, such as node.labels.gpu==a100
    #[arg(long, value_name = "CONSTRAINT")]
    constraint: Vec<String>,
    /// Name of a network
    #[arg(long)]
    network: Vec<String>,
    /// An environment variable of its process
    #[arg(long, short, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A label of its container, for flowcond, such as flowcon.weight=2
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = crate::run::label)]
    label: Vec<(String, String)>,
    /// Maximum number of restarts after a failure
    #[arg(long, value_name = "NUMBER")]
    restarts: Option<u64>,
    /// The command [default: the command of the image]
    #[arg(last = true)]
    command: Vec<String>,
}

fn bytes(text: &str) -> Result<u64, String> {
    size(text).map(|size| size.0).ok_or_else(|| "expected a size, such as 512MiB or 8GiB".to_owned())
}

fn grace(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::ZERO, Duration::from_secs(86_400))
}

fn estimate(text: &str) -> Result<String, String> {
    let longest = Duration::from_secs(31_536_000);
    when::duration_within(text, Duration::from_secs(1), longest).map(|_| text.trim().to_owned())
}

/// The value of the label: durations are unchanged, local times are converted to UTC.
fn deadline(text: &str) -> Result<String, String> {
    if duration(text).is_some() {
        return estimate(text);
    }
    match when::instant(text)? {
        at if at > when::now_unix_ms() => Ok(utc(at)),
        _ => Err(format!(
            "`{text}` is in the past: use a duration such as 2h, or a future time such as 2026-01-31T18:00"
        )),
    }
}

/// Where a job saves its state.
#[derive(Clone, Debug, PartialEq)]
struct Checkpoint {
    /// `None` = a volume that is named after the job, so that no two jobs share one by accident.
    volume: Option<String>,
    path: String,
}

impl Checkpoint {
    fn volume_of(&self, job: &str) -> String {
        self.volume.clone().unwrap_or_else(|| format!("{job}-checkpoint"))
    }
}

fn checkpoint(text: &str) -> Result<Checkpoint, String> {
    if text.starts_with('/') && !text.contains(':') {
        return Ok(Checkpoint { volume: None, path: text.to_owned() });
    }
    match mount(text) {
        Ok(Mount { volume, path, is_read_only: false }) if !volume.starts_with('/') => {
            Ok(Checkpoint { volume: Some(volume), path })
        }
        _ => {
            Err("expected a path in the container, such as /saved, or VOLUME:PATH, such as resnet-2:/saved".to_owned())
        }
    }
}

/// A volume in the container.
#[derive(Clone, Debug, PartialEq)]
struct Mount {
    volume: String,
    path: String,
    is_read_only: bool,
}

/// A volume, or a directory of the node.
fn mount(text: &str) -> Result<Mount, String> {
    let (mounted, is_read_only) = text.strip_suffix(":ro").map_or((text, false), |mounted| (mounted, true));
    let is_name = |name: &str| !name.is_empty() && (name.starts_with('/') || !name.contains('/'));
    match mounted.split_once(':') {
        Some((name, path)) if is_name(name) && path.starts_with('/') => {
            Ok(Mount { volume: name.to_owned(), path: path.to_owned(), is_read_only })
        }
        _ => Err(
            "expected VOLUME:PATH, a volume's name (or a directory) and its path in the container, such as data:/data or data:/data:ro"
                .to_owned(),
        ),
    }
}

/// Number of workers of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Workers {
    min: u32,
    max: u32,
}

fn workers(text: &str) -> Result<Workers, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    match (min.trim().parse(), max.trim().parse()) {
        (Ok(min), Ok(max)) if 1 <= min && min <= max && max <= WORKERS_MOST => Ok(Workers { min, max }),
        _ => Err(format!("expected a number from 1 to {WORKERS_MOST}, or a range such as 2..4")),
    }
}

/// A member of a gang, with its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Worker(u32),
    ParameterServer(u32),
}

/// Submits the training.
pub(super) async fn submit(client: &Client, args: &SubmitArgs, screen: &Screen) -> Result<(), Failure> {
    let container_labels: BTreeMap<String, String> = args.label.iter().cloned().collect();
    if let Err(problems) = check_labels(&container_labels) {
        return Err(Failure::new(Exit::Usage, problems.join("\n"), "`flowctl help labels` lists the labels"));
    }
    let done = match args.workers.filter(|_| args.gang.is_none()) {
        Some(Workers { max, .. }) => {
            let servers = (1..=args.parameter_servers).map(Member::ParameterServer);
            let members = (1..=max).map(Member::Worker).chain(servers);
            let workers = members.map(|member| args.submission(Some(member), &container_labels)).collect();
            client.send_json(Method::POST, "/v1/cluster/gangs", &GangSubmission { workers }).await?
        }
        None => client.send_json(Method::POST, "/v1/cluster/jobs", &args.submission(None, &container_labels)).await?,
    };
    let is_gang = args.workers.is_some() && args.gang.is_none();
    let service = if is_gang { format!("{}-N", args.name) } else { args.name.clone() };
    let hint = registry(&args.image).map(|registry| credentials_hint(registry, &service));
    let words: Vec<&str> = std::iter::once(done.done.as_str()).chain(hint.as_deref()).collect();
    print(screen, &done, &words.join("\n"))
}

impl SubmitArgs {
    /// The service of a job, or of a member of a gang.
    fn submission(&self, member: Option<Member>, container_labels: &BTreeMap<String, String>) -> Submission {
        let (name, role) = match member {
            None => (self.name.clone(), None),
            Some(Member::Worker(number)) => (format!("{}-{number}", self.name), None),
            Some(Member::ParameterServer(number)) => (format!("{}-ps-{number}", self.name), Some("parameter-server")),
        };
        let checkpoint = self.checkpoint.as_ref().map(|checkpoint| (checkpoint.volume_of(&name), &checkpoint.path));
        let texts = [
            ("priority", self.priority.clone()),
            ("deadline", self.deadline.clone()),
            ("duration", self.duration.clone()),
            ("alternatives", (!self.alternative.is_empty()).then(|| self.alternative.join(" | "))),
            ("late-cost", self.late_cost.map(|cost| cost.to_string())),
            ("kind", self.kind.clone()),
            ("gang", self.gang.clone().or_else(|| member.map(|_| self.name.clone()))),
            ("role", role.map(str::to_owned)),
            ("workers-min", self.workers.map(|workers| workers.min.to_string())),
            ("workers-max", self.workers.map(|workers| workers.max.to_string())),
            ("workers-initial", self.workers_initial.map(|workers| workers.to_string())),
            ("movable", self.movable.map(|movable| movable.to_string())),
            ("on-node-loss", self.on_node_loss.clone()),
            ("checkpoint", checkpoint.as_ref().map(|(volume, _)| volume.clone())),
            ("take-over", self.take_over.clone()),
            ("stop-grace", self.stop_grace.map(|grace| format!("{}s", grace.as_secs()))),
            ("after", (!self.after.is_empty()).then(|| self.after.join(","))),
        ];
        let labels = texts.into_iter().filter_map(|(label, text)| Some((format!("flowcon.{label}"), text?)));
        let volumes = self.volume.iter().map(|mount| (mount.volume.clone(), mount.path.clone()));
        let read_only = self.volume.iter().filter(|mount| mount.is_read_only);
        Submission {
            name,
            image: self.image.clone(),
            command: self.command.clone(),
            environment: self.env.clone(),
            cores: self.cpus,
            memory_bytes: self.memory,
            gpus: self.gpus,
            labels: labels.collect(),
            container_labels: container_labels.clone(),
            constraints: self.constraint.clone(),
            volumes: checkpoint.into_iter().map(|(volume, path)| (volume, path.clone())).chain(volumes).collect(),
            read_only: read_only.map(|mount| mount.volume.clone()).collect(),
            networks: self.network.clone(),
            stop_grace_s: self.stop_grace.map(|grace| grace.as_secs_f64()),
            restarts: self.restarts,
        }
    }
}

/// Returns the registry that an image names: a host with a dot or a port before the first slash.
fn registry(image: &str) -> Option<&str> {
    image.split_once('/').map(|(host, _)| host).filter(|host| host.contains(['.', ':']))
}

/// A submission passes no credentials: the coordinator must not have them.
fn credentials_hint(registry: &str, name: &str) -> String {
    format!(
        "if {registry} needs a login: on a manager, `docker login {registry}`, then `docker service update --with-registry-auth {name}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_volume_the_checkpoint_is_in_one_that_is_named_after_the_job() {
        for (text, expected) in [
            ("/saved", Some(("resnet-checkpoint", "/saved"))),
            ("mine:/saved", Some(("mine", "/saved"))),
            ("mine:/saved:ro", None),
            (":/saved", None),
            ("mine", None),
            ("/host/path:/saved", None),
        ] {
            let found = checkpoint(text).ok().map(|found| (found.volume_of("resnet"), found.path));
            assert_eq!(found, expected.map(|(volume, path)| (volume.to_owned(), path.to_owned())), "{text}");
        }
        let read_only = |text| mount(text).map(|mount| (mount.path, mount.is_read_only));
        assert_eq!(read_only("data:/in:ro"), Ok(("/in".to_owned(), true)));
        assert_eq!(read_only("data:/in"), Ok(("/in".to_owned(), false)));
        assert_eq!(mount("/srv/data:/in").map(|mount| mount.volume), Ok("/srv/data".to_owned()));
        assert!(mount("srv/data:/in").is_err());
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: SubmitArgs,
    }

    fn parsed(line: &str) -> Result<SubmitArgs, clap::Error> {
        let words = format!("submit --name bert --image train {line}");
        <Line as clap::Parser>::try_parse_from(words.split_whitespace()).map(|line| line.args)
    }

    #[test]
    fn a_gang_is_submitted_as_workers_with_names_checkpoints_and_numbers_of_their_own() {
        let args = parsed("--workers 2..4 --workers-initial 3 --checkpoint /saved --env A=b").unwrap();
        let worker = args.submission(Some(Member::Worker(4)), &BTreeMap::new());
        assert_eq!((worker.name.as_str(), worker.environment), ("bert-4", vec!["A=b".to_owned()]));
        let label = |name: &str| worker.labels.get(&format!("flowcon.{name}")).map(String::as_str);
        let names = ["gang", "workers-min", "workers-max", "workers-initial", "checkpoint", "movable"];
        let expected = [Some("bert"), Some("2"), Some("4"), Some("3"), Some("bert-4-checkpoint"), None];
        assert_eq!(names.map(label), expected);
        let server = args.submission(Some(Member::ParameterServer(1)), &BTreeMap::new());
        assert_eq!((server.name.as_str(), server.labels["flowcon.role"].as_str()), ("bert-ps-1", "parameter-server"));
    }

    #[test]
    fn a_worker_of_a_gang_needs_its_size_and_a_range_is_checked() {
        assert!(parsed("--gang g").is_err());
        let worker = parsed("--gang g --workers 2 --movable false").unwrap().submission(None, &BTreeMap::new());
        assert_eq!((worker.name.as_str(), worker.labels["flowcon.gang"].as_str()), ("bert", "g"));
        assert_eq!(
            (worker.labels["flowcon.workers-min"].as_str(), worker.labels["flowcon.movable"].as_str()),
            ("2", "false")
        );
        for (text, expected) in
            [("3", Some((3, 3))), ("2..4", Some((2, 4))), ("4..2", None), ("0", None), ("2..", None)]
        {
            assert_eq!(workers(text).ok().map(|workers| (workers.min, workers.max)), expected, "{text}");
        }
    }

    #[test]
    fn alternatives_are_one_label() {
        let words = [
            "submit",
            "--name",
            "a",
            "--image",
            "i",
            "--alternative",
            "cpus=2",
            "--alternative",
            "gpus=1 duration=20m",
        ];
        let args =
            <Line as clap::Parser>::try_parse_from(words.into_iter().chain(["--late-cost", "2.5"])).unwrap().args;
        let labels = args.submission(None, &BTreeMap::new()).labels;
        assert_eq!(labels["flowcon.alternatives"], "cpus=2 | gpus=1 duration=20m");
        assert_eq!((labels["flowcon.late-cost"].as_str(), labels.get("flowcon.kind")), ("2.5", None));
        assert!(parsed("--alternative cpus=2 --cpus 2").is_err());
    }

    #[test]
    fn only_an_image_of_a_named_registry_gets_the_hint_about_credentials() {
        for (image, expected) in [
            ("ghcr.io/team/train:1", Some("ghcr.io")),
            ("localhost:5000/train@sha256:0123", Some("localhost:5000")),
            ("train:1.0", None),
            ("team/train:1.0", None),
        ] {
            assert_eq!(registry(image), expected, "{image}");
        }
        assert!(credentials_hint("ghcr.io", "job").ends_with("`docker service update --with-registry-auth job`"));
    }
}
