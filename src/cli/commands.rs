//! The commands that query or control the daemon.

use super::repeat::{Repeat, repeat};
use super::top::jobs::{self, Order, SortKey};
use super::{explain, history, ps, status, sweep};
use api::client::{Client, ClientError, segment};
use api::wire::{AdoptionRequest, Container, ContainerDetail, ContainerList, JobRecord, Policy, PolicyChange, Status};
use clap::{Args, ValueEnum};
use hyper::Method;
use model::Objective;
use scope::{Session, socket_of};
use serde::Serialize;
use std::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::hint::{self, OTHERS_JOBS};
use term::message;
use term::screen::Screen;
use term::{text, when};

const DAY_MS: u64 = 86_400_000;

/// The jobs that a command applies to.
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// Name, id, or the beginning of an id; several may be given
    #[arg(required_unless_present = "all", conflicts_with = "all", value_hint = super::completion::JOB)]
    jobs: Vec<String>,
    /// All jobs, including those started later
    #[arg(long)]
    all: bool,
}

/// Arguments of `flowctl pin`.
#[derive(Args, Debug)]
pub(crate) struct PinArgs {
    /// Name, id, or the beginning of an id
    #[arg(value_hint = super::completion::JOB)]
    job: String,
    /// Share of the node, `40%` or `0.4` [default: the current share]
    #[arg(value_parser = share, value_name = "SHARE")]
    share: Option<f64>,
    /// The same as SHARE
    #[arg(long = "share", short, value_parser = share, value_name = "SHARE", conflicts_with = "share", hide = true)]
    by_option: Option<f64>,
}

/// Arguments of `flowctl adopt`.
#[derive(Args, Debug)]
pub(crate) struct AdoptArgs {
    /// Name, id, or the beginning of an id of a running container; several may be given
    #[arg(required = true, value_name = "CONTAINER")]
    containers: Vec<String>,
    /// A label to govern it with; flowcon.enable=true is implied
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = super::run::label)]
    labels: Vec<(String, String)>,
}

/// Parses a share: `40%` or `0.4`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a share must be above 0% and at most 100%, such as `40%` or `0.4`".to_owned()),
    }
}

/// The policies that can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyChoice {
    /// Algorithms 1 and 2 of the FlowCon paper
    Flowcon,
    /// FlowCon to the letter
    #[value(name = "flowcon-2019")]
    Flowcon2019,
    /// Observe only, change no limits
    Fair,
    /// Most CPU to the job with the best credit per CPU-second
    Balanced,
    /// Balanced, favouring early quality: --objective 0
    Quality,
    /// Balanced, favouring early completion: --objective 1
    Completion,
}

/// Arguments of `flowctl policy`.
#[derive(Args, Debug)]
pub(crate) struct PolicyArgs {
    /// Use this policy until the next reload; without it, show the current one
    #[arg(value_enum)]
    policy: Option<PolicyChoice>,
    /// Objective of `balanced`: 0 = quality only … 1 = completion only
    #[arg(long, requires = "policy", value_name = "0…1")]
    objective: Option<f64>,
}

/// Arguments of `flowctl status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Sort the jobs by KEY [default: in the order of their starts]
    #[arg(long, short, value_enum, value_name = "KEY")]
    sort: Option<SortKey>,
    /// Reverse the sort order
    #[arg(long, short, requires = "sort")]
    reverse: bool,
    /// Show one row for each sweep instead of its trials
    #[arg(long)]
    group: bool,
    #[command(flatten)]
    repeat: Repeat,
}

/// `flowctl status`.
pub(crate) async fn status(client: &Client, args: &StatusArgs, screen: &Screen) -> Result<(), Failure> {
    repeat(args.repeat.watch, screen, async || {
        let mut status: Status = client.get("/v1/status").await?;
        if let Some(key) = args.sort {
            let order = Order { key, reversed: args.reverse };
            let rows = jobs::rows(&status.containers, order, "");
            status.containers = rows.into_iter().map(|row| status.containers[row].clone()).collect();
        }
        let now = when::now_unix_ms();
        screen.rendered(&status, &status.containers, |look| {
            if args.group {
                let containers = sweep::collapsed(&status.containers);
                return status::page(&Status { containers, ..status.clone() }, look, now);
            }
            status::page(&status, look, now)
        })
    })
    .await
}

/// Arguments of `flowctl ps`.
#[derive(Args, Debug)]
pub(crate) struct PsArgs {
    /// Include jobs that ended within the last day, if the daemon keeps a history
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    repeat: Repeat,
}

/// `flowctl ps`.
pub(crate) async fn ps(client: &Client, args: &PsArgs, screen: &Screen) -> Result<(), Failure> {
    let is_noted = Cell::new(false);
    repeat(args.repeat.watch, screen, async || {
        let list = match client.get::<ContainerList>("/v1/containers").await {
            // Users without read access can list their own jobs.
            Err(error) if is_denied(&error) => {
                let Some(own) = own_jobs(client.socket()).await else { return Err(error.into()) };
                if !is_noted.replace(true) {
                    let denied = text::clean(&error.to_string());
                    message::print(format_args!("only your own commands are listed: {denied}\nnext: {OTHERS_JOBS}"));
                }
                if own.containers.is_empty() {
                    let words = "You have no governed command; you may not see the jobs of others.\n";
                    return screen.rendered(&own, &own.containers, |_| words.to_owned());
                }
                own
            }
            list => list?,
        };
        if !args.all {
            return screen.rendered(&list, &list.containers, |look| ps::page(&list.containers, &[], look));
        }
        let all = AllJobs { containers: list.containers, ended: ended_within_a_day(client).await? };
        let running = all.containers.iter().map(Row::Running);
        let rows: Vec<Row<'_>> = running.chain(all.ended.iter().map(Row::Ended)).collect();
        screen.rendered(&all, &rows, |look| ps::page(&all.containers, &all.ended, look))
    })
    .await
}

/// The jobs that ended within the last day; none, with a warning, if no history is kept or this user may not read it.
async fn ended_within_a_day(client: &Client) -> Result<Vec<JobRecord>, Failure> {
    let now = when::now_unix_ms();
    match history::jobs(client, &history::span(now.saturating_sub(DAY_MS), now), None).await {
        Ok(jobs) => Ok(jobs.into_iter().filter(|job| job.ended_unix_ms.is_some()).collect()),
        Err(failure) if matches!(failure.exit, Exit::Refused | Exit::Denied) => {
            let (message, next) = (text::clean(&failure.message), text::clean(&hint::fitting(&failure.next)));
            message::print(format_args!("jobs that ended are not shown: {message}\nnext: {next}"));
            Ok(Vec::new())
        }
        Err(failure) => Err(failure),
    }
}

/// JSON document of `flowctl ps -a`.
#[derive(Serialize)]
struct AllJobs {
    containers: Vec<Container>,
    ended: Vec<JobRecord>,
}

/// A line of `flowctl ps -a -o jsonl`.
#[derive(Serialize)]
#[serde(untagged)]
enum Row<'a> {
    Running(&'a Container),
    Ended(&'a JobRecord),
}

fn is_denied(error: &ClientError) -> bool {
    matches!(error, ClientError::PermissionDenied { .. } | ClientError::Refused { status: 403, .. })
}

/// This user's `flowctl run` commands, from the registration socket that every user may open.
async fn own_jobs(socket: &Path) -> Option<ContainerList> {
    let mut session = Session::open(&socket_of(socket)).await.ok()?;
    serde_json::from_value(session.jobs().await.ok()?).ok()
}

/// `flowctl explain`.
pub(crate) async fn explain(
    client: &Client,
    job: &str,
    every: Option<Duration>,
    screen: &Screen,
) -> Result<(), Failure> {
    let path = format!("/v1/containers/{}", segment(job));
    repeat(every, screen, async || {
        let detail: ContainerDetail = client.get(&path).await?;
        screen.rendered(&detail, std::slice::from_ref(&detail), |look| explain::page(&detail, look))
    })
    .await
}

/// `flowctl release` and `flowctl govern`: tries every job, and returns the first failure.
pub(crate) async fn target(client: &Client, verb: &str, target: &Target, screen: &Screen) -> Result<(), Failure> {
    if target.all {
        return post(client, &format!("/v1/{verb}"), screen).await;
    }
    post_each(client, verb, &target.jobs, screen).await
}

/// Sends a command for every container, and returns the first failure.
pub(crate) async fn post_each(
    client: &Client,
    verb: &str,
    containers: &[String],
    screen: &Screen,
) -> Result<(), Failure> {
    let mut first_failure = None;
    for name in containers {
        if let Err(failure) = post(client, &format!("/v1/containers/{}/{verb}", segment(name)), screen).await {
            first_failure = first_failure.or(Some(failure));
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// `flowctl pin`.
pub(crate) async fn pin(client: &Client, args: &PinArgs, screen: &Screen) -> Result<(), Failure> {
    let share = args.share.or(args.by_option).map_or_else(String::new, |share| format!("?share={share}"));
    post(client, &format!("/v1/containers/{}/pin{share}", segment(&args.job)), screen).await
}

/// `flowctl adopt`: tries every container, and returns the first failure.
pub(crate) async fn adopt(client: &Client, args: &AdoptArgs, screen: &Screen) -> Result<(), Failure> {
    let request = AdoptionRequest { labels: args.labels.iter().cloned().collect() };
    let mut first_failure = None;
    for name in &args.containers {
        let path = format!("/v1/containers/{}/adopt", segment(name));
        match client.send_json(Method::POST, &path, &request).await {
            Ok(done) => print(screen, &done, &done.done)?,
            Err(error) => first_failure = first_failure.or(Some(error.into())),
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// Sends a command and prints the daemon's reply.
pub(crate) async fn post(client: &Client, path: &str, screen: &Screen) -> Result<(), Failure> {
    let done = client.post(path).await?;
    print(screen, &done, &done.done)
}

/// `flowctl policy`.
pub(crate) async fn policy(client: &Client, args: &PolicyArgs, screen: &Screen) -> Result<(), Failure> {
    let Some(choice) = args.policy else {
        let policy: Policy = client.get("/v1/policy").await?;
        return print(screen, &policy, policy_page(&policy).trim_end());
    };
    let (policy, objective) = match choice {
        PolicyChoice::Flowcon => ("flowcon", args.objective),
        PolicyChoice::Flowcon2019 => ("flowcon-2019", args.objective),
        PolicyChoice::Fair => ("fair", args.objective),
        PolicyChoice::Balanced => ("balanced", args.objective),
        PolicyChoice::Quality => ("balanced", args.objective.or(Some(Objective::QUALITY.0))),
        PolicyChoice::Completion => ("balanced", args.objective.or(Some(Objective::COMPLETION.0))),
    };
    let change = PolicyChange { policy: policy.to_owned(), objective };
    let done = client.send_json(Method::PUT, "/v1/policy", &change).await?;
    print(screen, &done, &done.done)
}

fn policy_page(policy: &Policy) -> String {
    let mut page = format!("policy            {}\n", text::clean(&policy.policy));
    let numbers = [
        ("interval", text::duration(policy.interval_s)),
        ("max interval", text::duration(policy.max_interval_s)),
        (
            "growth threshold",
            format!("{} of the range per node-CPU-second", text::number_text(policy.growth_threshold)),
        ),
        ("share floor", format!("1/({}·n) of the node for a converged job", text::number_text(policy.share_floor))),
        ("objective", format!("{} (0 quality … 1 completion; balanced only)", policy.objective)),
        ("floor", format!("{} of an equal share (balanced only)", text::percent(policy.floor))),
        ("fair between", format!("{} (balanced only)", text::clean(&policy.fair_between))),
        ("enforcement", text::clean(&policy.enforcement)),
        ("governs memory", yes_or_no(policy.govern_memory)),
        ("governs block I/O", yes_or_no(policy.govern_io)),
    ];
    for (name, words) in numbers {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{name:<17} {words}");
    }
    page
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// Prints `words`, or the document as JSON.
pub(super) fn print<T: Serialize>(screen: &Screen, document: &T, words: &str) -> Result<(), Failure> {
    screen.show(document, std::slice::from_ref(document), |_| {
        let lines: Vec<String> = words.lines().map(text::clean).collect();
        format!("{}\n", lines.join("\n"))
    })
}
