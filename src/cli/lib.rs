//! The command line of `flowctl`: parses arguments, prints tables or JSON, returns a documented exit code.
//!
//! Pages are pure functions of wire documents; only `screen` prints.

mod check_log;
mod cluster;
mod commands;
mod completion;
mod config;
mod cost;
mod doctor;
mod ended;
mod env;
mod event_line;
mod events;
mod explain;
pub mod flowcond;
pub mod flowcoord;
mod health;
mod help;
mod history;
mod job_log;
mod json;
mod logs;
mod metrics;
pub mod notify;
mod own;
mod ps;
mod record;
mod repeat;
mod report;
mod run;
mod service;
mod status;
mod sweep;
mod time_left;
mod top;
mod usage;
mod users;

use api::client::{Client, segment};
use clap::{FromArgMatches, Parser, Subcommand};
use commands::{PolicyArgs, Target};
use lab::{bench, demo, train};
use repeat::{Repeat, seconds};
use std::ffi::OsString;
use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::exit::{self, Exit, Failure};
use term::screen::{self, ColorChoice, Format, Output, Screen, Tone};
use term::{hint, text, when};

/// Control flowcon, the governor of the training jobs on this machine
#[derive(Parser, Debug)]
#[command(name = "flowctl", version, max_term_width = 100, arg_required_else_help = true, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Exit codes: 0 ok, 1 failed, 2 usage, 3 daemon unreachable, 4 not found, 5 denied, 6 refused, 7 timeout.
Start with `flowctl status`; `flowctl doctor` finds problems and says how to fix them.
How it works: `flowctl help labels`, `policy`, `limits`, `operations`, `users`, `notify`, `threads`, `cluster`, `gpu` and `security`.";

#[derive(clap::Args, Debug)]
struct Common {
    /// The daemon's socket [env: FLOWCON_SOCKET] [default: /run/flowcon/flowcond.sock]
    // Not clap's `env`: usage lines would then show the option as required.
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = Output::forms(), default_value = "table", value_name = "FORMAT", global = true)]
    output: Output,
    /// The same as `-o json`
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours; NO_COLOR is respected
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true)]
    color: ColorChoice,
    /// How long to wait for the daemon's reply
    #[arg(long, default_value = "15", value_parser = seconds, value_name = "SECONDS", global = true)]
    timeout: Duration,
}

impl Common {
    fn socket(&self) -> PathBuf {
        let named = self.socket.clone().or_else(|| std::env::var_os("FLOWCON_SOCKET").map(PathBuf::from));
        named.unwrap_or_else(own::socket)
    }

    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output.form() }
    }
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show the node and its jobs: list, metric, progress, share and the reason
    #[command(visible_alias = "ls")]
    Status(commands::StatusArgs),
    /// Watch and control the jobs live
    Top(top::TopArgs),
    /// List the jobs
    Ps(commands::PsArgs),
    /// List the users: their jobs, part of the node, and CPU used lately
    Users(Repeat),
    /// Show every number behind the decision about a job, or how a job ended
    #[command(visible_aliases = ["describe", "inspect"])]
    Explain {
        /// Name, id, or the beginning of an id
        #[arg(value_hint = completion::JOB)]
        job: String,
        /// Show the decision in force at TIME, also for a job that ended: 10m or 2h (ago), 14:05, or RFC 3339
        #[arg(long, value_parser = when::instant, value_name = "TIME", conflicts_with = "watch")]
        at: Option<u64>,
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Show past jobs, or the progress and resources of one job over time
    History(history::HistoryArgs),
    Sweep(sweep::SweepArgs),
    /// Write an HTML report of the gain from governing
    Report(report::ReportArgs),
    /// Restore the original limits of jobs and leave them alone; they keep running
    Release(Target),
    /// Govern released jobs again; also ends a hold after an external change
    Govern(Target),
    /// Fix the share of a job until it is unpinned or ends, or the daemon restarts
    Pin(commands::PinArgs),
    /// Let the policy set the share of a job again
    Unpin {
        /// Name, id, or the beginning of an id
        #[arg(value_hint = completion::JOB)]
        job: String,
    },
    /// Govern a running container that was started without the label
    Adopt(commands::AdoptArgs),
    /// Restore the original limits of adopted containers and forget them
    Disown {
        /// Name, id, or the beginning of an id; several may be given
        #[arg(required = true, value_name = "CONTAINER", value_hint = completion::JOB)]
        containers: Vec<String>,
    },
    /// Restore every original limit and release all jobs
    Restore,
    /// Show the policy, or set another one until the next reload
    Policy(PolicyArgs),
    /// Reload the configuration; if it has errors, the current one is kept
    Reload,
    /// Follow events: starts, ends, decisions, holds, notices
    #[command(alias = "watch")]
    Events(events::EventsArgs),
    /// Print the daemon's metrics, or serve them to Prometheus
    Metrics(metrics::MetricsArgs),
    /// Test the targets of messages about jobs
    Notify(notify::NotifyArgs),
    /// Record what the daemon sees and decides, for `flowsim replay FILE`
    Record(record::RecordArgs),
    Run(run::RunArgs),
    #[command(name = run::ENTER, hide = true)]
    Enter(run::EnterArgs),
    Env(env::EnvArgs),
    /// Print the log of a job
    Logs(logs::LogsArgs),
    /// Show how a training log is parsed: metric, values and progress
    CheckLog(check_log::CheckLogArgs),
    /// Check this machine for problems and say how to fix them
    Doctor(doctor::DoctorArgs),
    /// Check or show the daemon's configuration
    Config(config::ConfigArgs),
    /// Manage jobs on a Docker Swarm: submit, move and drain
    Cluster(cluster::ClusterArgs),
    /// Run real trainings, first with plain sharing, then governed, and compare; needs no daemon
    Demo(demo::DemoArgs),
    /// Compare policies on a list of real jobs
    Bench(bench::BenchArgs),
    /// Run one of the built-in trainings
    #[command(hide = true)]
    Train(train::TrainArgs),
    /// Print a completion script: `source <(flowctl completion bash)`
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the names of governed jobs, or of the cluster's jobs or nodes, for completion scripts
    #[command(name = completion::JOBS, hide = true)]
    Jobs {
        #[arg(default_value = "jobs")]
        of: completion::Names,
    },
    /// Show help for a command or a topic: labels, policy, limits, operations, users, notify, threads, cluster, gpu,
    /// security
    Help(help::HelpArgs),
    Man(help::man::ManArgs),
    /// Write the manual pages into a folder, for packages and the documentation site
    #[command(name = "__manual", hide = true)]
    Manual(help::ManualArgs),
}

/// Runs one command line and returns its exit code; `flowsim` is the command line of the simulator, for the manual.
pub fn run(args: impl IntoIterator<Item = OsString>, flowsim: fn() -> clap::Command) -> ExitCode {
    when::use_local_time();
    let parsed = usage::command().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(rejection) => return usage_error(&rejection),
    };
    let color = cli.common.color;
    execute(cli, flowsim).unwrap_or_else(|failure| report(&failure, color).into())
}

/// Prints help, version, or a usage error.
fn usage_error(rejection: &clap::Error) -> ExitCode {
    if let Some(words) = usage::docker_hint(rejection) {
        let _ = writeln!(io::stderr(), "flowctl: {words}");
        return Exit::Usage.into();
    }
    exit::rejected("flowctl", rejection)
}

fn report(failure: &Failure, color: ColorChoice) -> Exit {
    if !failure.is_closed_pipe() {
        let look = screen::error_look(color);
        let text = format!(
            "{} {}\n{} {}\n",
            look.paint(Tone::Bad, "flowctl:"),
            hint::fitting(&failure.message).lines().map(text::clean).collect::<Vec<_>>().join("\n  "),
            look.paint(Tone::Dim, "next:"),
            text::clean(&hint::fitting(&failure.next))
        );
        // If standard error is closed, the exit code still reports the failure.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    failure.exit
}

/// Executes the subcommand. `flowctl run` returns the exit code of its command.
fn execute(cli: Cli, flowsim: fn() -> clap::Command) -> Result<ExitCode, Failure> {
    let screen = Screen::new(cli.common.format(), cli.common.color);
    json::check(&cli.verb, &screen)?;
    let socket = cli.common.socket();
    let client = Client::new(&socket, cli.common.timeout);
    let done = match cli.verb {
        Verb::Run(args) => return run::run(args, &socket),
        Verb::Notify(args) => return notify::notify(&args),
        Verb::Enter(args) => return Ok(run::enter(&args)),
        Verb::Doctor(args) => return block_on(doctor::doctor(&client, &args, &screen))?.map(ExitCode::from),
        Verb::Env(args) => env::env(&args, &screen),
        Verb::Config(args) => config::run(&args, &client, &screen),
        Verb::Completion { shell } => completion::script(shell, usage::command(), &screen),
        Verb::Jobs { of } => {
            let socket = if of.is_of_the_cluster() { cluster::socket(&cli.common) } else { socket };
            block_on(completion::names(&Client::new(&socket, cli.common.timeout), of, &screen))?
        }
        Verb::Help(args) => help::run(&args, usage::command(), &screen),
        Verb::Man(args) => help::man::run(&args, usage::command(), flowsim(), &screen),
        Verb::Manual(args) => help::write_manual(&args, usage::command(), flowsim()),
        Verb::Logs(args) => logs::run(&args, &client, screen.format),
        Verb::CheckLog(args) => check_log::run(&args, &client, screen.format),
        Verb::Cluster(args) => {
            let client = Client::new(&cluster::socket(&cli.common), cli.common.timeout);
            return block_on(cluster::cluster(&client, &args, &screen))?.map(ExitCode::from);
        }
        Verb::Demo(args) => demo::run(&args, &screen),
        Verb::Bench(args) => bench::run(&args, &screen),
        Verb::Train(args) => train::run(&args).map_err(Failure::from),
        Verb::Status(args) => block_on(commands::status(&client, &args, &screen))?,
        Verb::Top(args) => block_on(top::top(&client, &args, &screen))?,
        Verb::Sweep(args) => block_on(sweep::sweep(&client, &args, &screen))?,
        Verb::Ps(args) => block_on(commands::ps(&client, &args, &screen))?,
        Verb::Users(every) => block_on(users::users(&client, every, &screen))?,
        Verb::Explain { job, at: Some(at), .. } => block_on(explain::at_time::explain(&client, &job, at, &screen))?,
        Verb::Report(args) => block_on(report::report(&client, &args))?,
        Verb::History(args) => block_on(history::history(&client, &args, &screen))?,
        Verb::Explain { job, repeat, .. } => block_on(commands::explain(&client, &job, repeat.watch, &screen))?,
        Verb::Release(target) => block_on(commands::target(&client, "release", &target, &screen))?,
        Verb::Govern(target) => block_on(commands::target(&client, "govern", &target, &screen))?,
        Verb::Pin(args) => block_on(commands::pin(&client, &args, &screen))?,
        Verb::Unpin { job } => {
            let path = format!("/v1/containers/{}/unpin", segment(&job));
            block_on(commands::post(&client, &path, &screen))?
        }
        Verb::Adopt(args) => block_on(commands::adopt(&client, &args, &screen))?,
        Verb::Disown { containers } => block_on(commands::post_each(&client, "disown", &containers, &screen))?,
        Verb::Restore => block_on(commands::post(&client, "/v1/restore", &screen))?,
        Verb::Reload => block_on(commands::post(&client, "/v1/reload", &screen))?,
        Verb::Policy(args) => block_on(commands::policy(&client, &args, &screen))?,
        Verb::Events(args) => block_on(events::events(&client, &args, &screen))?,
        Verb::Metrics(args) => block_on(metrics::metrics(&client, &args, &screen))?,
        Verb::Record(args) => block_on(record::record(&client, &args))?,
    };
    done.map(|()| Exit::Ok.into())
}

/// Runs one request on a single-threaded runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot start the runtime: {error}"), "check `ulimit -n` and free memory")
    })?;
    Ok(runtime.block_on(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
