//! How the workers of a gang find each other: a network of their own, where each worker is reached by the name of its service, and the
//! variables that PyTorch, torchrun, TensorFlow and JAX read. A variable that the user or the image has set stays.
//!
//! Worker 1 is the meeting point: of an elastic gang it starts first and stops last. A number of workers that may change is told to nobody:
//! torchrun counts them when they meet, and gives rank and world size to the processes that it starts.

use super::machine::labels::{GANG, PARAMETER_SERVER, ROLE, Role, WORKERS_MAX, WORKERS_MIN};
use model::cluster::Submission;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The default of `torchrun`. The workers have addresses of their own, so all gangs and frameworks can have the same port.
const PORT: u16 = 29500;
/// Restarts of the processes of an elastic gang: each worker that leaves costs one.
const RESTARTS: &str = "100";

/// Names of the variables that an image sets, by image.
pub(super) type ImageVariables = BTreeMap<Arc<str>, BTreeSet<String>>;

/// The members of a gang that is submitted as a whole.
struct Gang {
    name: Arc<str>,
    min: usize,
    max: usize,
    workers: Vec<Arc<str>>,
    servers: Vec<Arc<str>>,
}

impl Gang {
    /// Returns `None` for a job that is no gang, and for a worker whose gang is submitted one by one.
    fn of(submissions: &[Submission]) -> Option<Gang> {
        let name = submissions.first()?.labels.get(GANG)?.clone();
        let number = |label: &str| submissions[0].labels.get(label)?.parse().ok();
        let (min, max) = (number(WORKERS_MIN)?, number(WORKERS_MAX)?);
        let is_server =
            |submission: &&Submission| submission.labels.get(ROLE).is_some_and(|role| &**role == PARAMETER_SERVER);
        let (servers, workers): (Vec<&Submission>, Vec<&Submission>) = submissions.iter().partition(is_server);
        let names = |members: Vec<&Submission>| members.iter().map(|member| member.name.clone()).collect();
        let is_whole = workers.len() == max && submissions.iter().all(|other| other.labels.get(GANG) == Some(&name));
        is_whole.then(|| Gang { name, min, max, workers: names(workers), servers: names(servers) })
    }

    /// Returns the variables of worker or parameter server `number`, from 0.
    fn variables(&self, role: Role, number: usize, gpus: u32) -> Vec<(&'static str, String)> {
        let all = self.workers.len();
        let is_fixed = self.min == self.max;
        let first = &self.workers[0];
        let address = |name: &Arc<str>| format!("{name}:{PORT}");
        let addresses = |names: &[Arc<str>]| names.iter().map(address).collect::<Vec<_>>();
        let mut cluster = json!({"worker": addresses(&self.workers)});
        if !self.servers.is_empty() {
            cluster["ps"] = json!(addresses(&self.servers));
        }
        let task = |kind: &str| json!({"cluster": cluster, "task": {"type": kind, "index": number}}).to_string();
        let mut variables = vec![("MASTER_ADDR", first.to_string()), ("MASTER_PORT", PORT.to_string())];
        if role == Role::ParameterServer {
            variables.push(("TF_CONFIG", task("ps")));
            return variables;
        }
        variables.extend([
            ("FLOWCON_WORKER", (number + 1).to_string()),
            ("FLOWCON_WORKERS", all.to_string()),
            ("TF_CONFIG", task("worker")),
            ("JAX_COORDINATOR_ADDRESS", address(first)),
            ("PET_NNODES", if is_fixed { all.to_string() } else { format!("{}:{}", self.min, self.max) }),
            ("PET_NPROC_PER_NODE", gpus.max(1).to_string()),
            ("PET_RDZV_BACKEND", "c10d".to_owned()),
            ("PET_RDZV_ENDPOINT", address(first)),
            ("PET_RDZV_ID", self.name.to_string()),
        ]);
        if is_fixed {
            let (rank, size) = (number.to_string(), all.to_string());
            variables.extend([("RANK", rank.clone()), ("WORLD_SIZE", size.clone()), ("LOCAL_RANK", "0".to_owned())]);
            variables.extend([("JAX_PROCESS_ID", rank), ("JAX_NUM_PROCESSES", size)]);
        } else {
            variables.push(("PET_MAX_RESTARTS", RESTARTS.to_owned()));
        }
        variables
    }
}

/// Completes the workers of a gang. Returns the name of its gang and of the network to create; `None` if it needs none.
pub(super) fn connect(submissions: &mut [Submission], images: &ImageVariables) -> Option<(Arc<str>, String)> {
    let gang = Gang::of(submissions)?;
    let own_network = format!("flowcon-{}", gang.name);
    let needs_network = submissions.iter().all(|submission| submission.networks.is_empty());
    for submission in submissions {
        let (role, number) = match gang.workers.iter().position(|name| *name == submission.name) {
            Some(number) => (Role::Worker, number),
            None => (Role::ParameterServer, gang.servers.iter().position(|name| *name == submission.name)?),
        };
        let set = submission.environment.iter().filter_map(|variable| variable.split('=').next().map(str::to_owned));
        let set: BTreeSet<String> = set.chain(images.get(&submission.image).cloned().unwrap_or_default()).collect();
        let variables = gang.variables(role, number, submission.request.gpus);
        let missing = variables.into_iter().filter(|(name, _)| !set.contains(*name));
        submission.environment.extend(missing.map(|(name, value)| format!("{name}={value}")));
        if needs_network {
            submission.networks.push(own_network.clone());
        }
    }
    needs_network.then_some((gang.name, own_network))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members of a gang as `flowctl cluster submit` makes them.
    fn gang(min: u32, max: u32, servers: u32) -> Vec<Submission> {
        let member = |name: String, role: &str| {
            let (min, max) = (min.to_string(), max.to_string());
            let labels = [("gang", "bert"), ("workers-min", &min), ("workers-max", &max), ("role", role)];
            let labels = labels.map(|(label, value)| (format!("flowcon.{label}").into(), value.into()));
            Submission { name: name.into(), image: "train".into(), labels: labels.into(), ..Submission::default() }
        };
        let workers = (1..=max).map(|number| member(format!("bert-{number}"), "worker"));
        workers.chain((1..=servers).map(|number| member(format!("bert-ps-{number}"), "parameter-server"))).collect()
    }

    fn value<'a>(submission: &'a Submission, name: &str) -> Option<&'a str> {
        let of = |variable: &'a String| variable.strip_prefix(name)?.strip_prefix('=');
        submission.environment.iter().find_map(of)
    }

    #[test]
    fn the_workers_of_a_gang_get_rank_world_size_and_a_meeting_point_on_a_network_of_their_own() {
        let mut gang = gang(2, 2, 0);
        gang[1].request.gpus = 4;
        let network = connect(&mut gang, &ImageVariables::new());
        assert_eq!(network, Some(("bert".into(), "flowcon-bert".to_owned())));
        assert!(gang.iter().all(|worker| worker.networks == ["flowcon-bert"]));
        for (name, expected) in [
            ("MASTER_ADDR", "bert-1"),
            ("MASTER_PORT", "29500"),
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("LOCAL_RANK", "0"),
            ("FLOWCON_WORKER", "2"),
            ("JAX_COORDINATOR_ADDRESS", "bert-1:29500"),
            ("JAX_NUM_PROCESSES", "2"),
            ("JAX_PROCESS_ID", "1"),
            ("PET_NNODES", "2"),
            ("PET_NPROC_PER_NODE", "4"),
            ("PET_RDZV_ENDPOINT", "bert-1:29500"),
            ("PET_RDZV_ID", "bert"),
            (
                "TF_CONFIG",
                r#"{"cluster":{"worker":["bert-1:29500","bert-2:29500"]},"task":{"index":1,"type":"worker"}}"#,
            ),
        ] {
            assert_eq!(value(&gang[1], name), Some(expected), "{name}");
        }
        assert_eq!(value(&gang[1], "PET_MAX_RESTARTS"), None);
    }

    #[test]
    fn an_elastic_gang_gets_a_range_instead_of_a_world_size_that_may_change() {
        let mut gang = gang(2, 3, 1);
        connect(&mut gang, &ImageVariables::new()).unwrap();
        assert_eq!(["PET_NNODES", "RANK", "WORLD_SIZE"].map(|name| value(&gang[0], name)), [Some("2:3"), None, None]);
        assert_eq!(value(&gang[0], "PET_MAX_RESTARTS"), Some(RESTARTS));
        let server = &gang[3];
        assert!(value(server, "TF_CONFIG").unwrap().ends_with(r#""task":{"index":0,"type":"ps"}}"#));
        assert_eq!((value(server, "FLOWCON_WORKER"), value(server, "MASTER_ADDR")), (None, Some("bert-1")));
    }

    #[test]
    fn a_variable_that_the_user_or_the_image_has_set_stays_and_so_does_a_network() {
        let mut gang = gang(2, 2, 0);
        gang[0].environment = vec!["MASTER_PORT=1".to_owned(), "RANK".to_owned()];
        gang.iter_mut().for_each(|worker| worker.networks = vec!["theirs".to_owned()]);
        let images = ImageVariables::from([("train".into(), BTreeSet::from(["WORLD_SIZE".to_owned()]))]);
        assert_eq!(connect(&mut gang, &images), None);
        assert_eq!(gang[0].networks, ["theirs"]);
        assert_eq!(["MASTER_PORT", "RANK", "WORLD_SIZE"].map(|name| value(&gang[0], name)), [Some("1"), None, None]);
        assert_eq!(["MASTER_PORT", "RANK"].map(|name| value(&gang[1], name)), [Some("29500"), Some("1")]);
    }

    #[test]
    fn a_job_that_is_no_gang_and_a_worker_that_is_submitted_alone_are_left_as_they_are() {
        let alone = &mut gang(2, 2, 0)[..1];
        let job = &mut [Submission { name: "job".into(), ..Submission::default() }];
        for submissions in [alone, job] {
            assert_eq!(connect(submissions, &ImageVariables::new()), None);
            assert!(submissions[0].environment.is_empty() && submissions[0].networks.is_empty());
        }
    }
}
