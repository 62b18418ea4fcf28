//! `flowctl run`: runs a command in its own governed cgroup, shows its output, forwards signals and returns its exit code.

mod detached;
mod logout;
mod manager;
mod registered;
mod relay;
mod signals;
mod threads;
mod write;

use anyhow::Context;
use cgroup::CgroupError;
use gpu::mps::{self, Mps};
use manager::CgroupManager;
use registered::Registered;
use scope::protocol::Registration;
use scope::{Admitted, HandshakeSocket, Output, ScopeError, ScopeName};
use signals::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::message;
use threads::Threads;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Bytes of a command's output kept in memory for the daemon and for `flowctl logs`.
const OUTPUT_KEPT: u64 = 4 << 20;
/// Timeout for showing what the command wrote before its end, if a signal asks us to end.
const LAST_OUTPUT: Duration = Duration::from_millis(200);
/// Timeout for the end of a command's other processes, which often end a little later.
const LAST_PROCESSES: Duration = Duration::from_secs(1);

/// Run a command in its own cgroup, governed like a container.
///
/// Its output is shown and parsed for training progress, signals are forwarded to it, and its exit code is returned (128 + n after
/// signal n; 1 instead of 0 if its output could not be written). PYTHONUNBUFFERED=1 is set, so that Python does not buffer its log, and
/// the variables of `flowctl env`, so that threads wait asleep; what is set already stays as it is.
/// Without a daemon it runs ungoverned until one starts; without a cgroup, which an unprivileged user may need the daemon for, it runs
/// ungoverned with a warning.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    /// Name of the job in `flowctl ps` [default: the program's name and a number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Start it in the background and print its name; `flowctl logs JOB` prints its output while it runs
    ///
    /// The last 4 MiB of the output are kept in memory until it ends, for root, and for its user as a member of the group flowcon; to
    /// keep the output, redirect it to a file in the command. With systemd, the command of an unprivileged user ends at the user's last
    /// logout, unless the user lingers: loginctl enable-linger.
    #[arg(long, short = 'd')]
    detach: bool,
    /// The sweep of which it is a trial: the same as --label flowcon.group=NAME
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Who gets messages about it, names of configured targets or none: the same as --label flowcon.notify=NAMES
    #[arg(long, value_name = "NAMES")]
    notify: Option<String>,
    /// A label, as for a container; flowcon.enable=true is implied
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Share of a GPU's processors that it may use, such as 40%; needs NVIDIA's MPS, and is fixed when it starts
    #[arg(long, value_name = "SHARE", value_parser = gpu_share)]
    gpu_share: Option<GpuShare>,
    /// Number of threads of numerical libraries (OpenMP, BLAS, TensorFlow …), or auto: the cores of its first share
    #[arg(long, value_name = "auto|N", value_parser = threads::parse)]
    threads: Option<Threads>,
    /// Leave the environment as it is: neither PYTHONUNBUFFERED nor the variables of `flowctl env` are set
    #[arg(long)]
    keep_env: bool,
    /// Fail if the command cannot have a cgroup of its own, instead of running it ungoverned
    #[arg(long)]
    require_cgroup: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Arguments of the exec wrapper: the new process of `flowctl run` before it becomes the command.
#[derive(clap::Args, Debug)]
pub(crate) struct EnterArgs {
    /// The handshake socket
    handshake: String,
    /// The command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// The hidden subcommand that [`EnterArgs`] belongs to.
pub(crate) const ENTER: &str = "__enter";

/// Percent of a GPU's processors.
#[derive(Clone, Copy, Debug)]
struct GpuShare(u8);

/// Parses `40%` or `0.4`, rounded to whole percents as MPS requires.
fn gpu_share(text: &str) -> Result<GpuShare, String> {
    let percent = match text.strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().ok(),
        None => text.parse::<f64>().ok().map(|part| part * 100.0),
    };
    let percent = percent.map(f64::round).filter(|percent| (1.0..=100.0).contains(percent));
    percent.map(|percent| GpuShare(percent as u8)).ok_or_else(|| "expected a share from 1% to 100%".to_owned())
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE; for example flowcon.metric=loss")),
    }
}

/// Replaces this process by the command of `flowctl run`; returns an exit code only if that fails.
pub(crate) fn enter(args: &EnterArgs) -> ExitCode {
    ExitCode::from(scope::enter(&args.handshake, &args.command))
}

/// Runs the command as a scope of the daemon at `socket`, which need not be running.
///
/// # Errors
/// The command could not be started in its cgroup; it did not run at all.
pub(crate) fn run(mut args: RunArgs, socket: &Path) -> Result<ExitCode, Failure> {
    let labels = [("flowcon.group", args.group.take()), ("flowcon.notify", args.notify.take())];
    let given = labels.into_iter().filter_map(|(label, value)| Some((label.to_owned(), value?)));
    args.labels.extend(given);
    check(&args)?;
    if args.detach {
        return detached::begin(args, socket);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(run_scope(args, socket));
    // Do not wait for a reader of our output that has stopped reading.
    runtime.shutdown_background();
    code.map(ExitCode::from).map_err(|error| failure(&error))
}

/// Detects mistakes in the arguments before anything is started.
fn check(args: &RunArgs) -> Result<(), Failure> {
    let usage = |message: String, next: &str| Err(Failure::new(Exit::Usage, message, next));
    if let Some(word) = args.command.first().filter(|word| word.as_encoded_bytes().starts_with(b"-")) {
        let message =
            format!("{} is neither an option of `flowctl run -- COMMAND` nor a command", word.to_string_lossy());
        return usage(message, "`flowctl run --help` lists the options; they go before the command");
    }
    if args.gpu_share.is_some() {
        let found = Mps::of_environment();
        if !matches!(found, Mps::Reachable(_)) {
            let next = format!(
                "start it as the user of the jobs with nvidia-cuda-mps-control -d, or set {} to the folder of its pipes",
                mps::PIPES
            );
            return Err(Failure::new(Exit::Failed, format!("--gpu-share needs NVIDIA's MPS: {found}"), next));
        }
    }
    match config::labels::meant(&args.labels.iter().cloned().collect()) {
        Ok(()) => Ok(()),
        Err(problems) => usage(problems.join("\n"), "`flowctl help labels` lists the labels with examples"),
    }
}

/// Chooses the exit code, and splits messages of the host at the semicolon before the next step.
fn failure(error: &anyhow::Error) -> Failure {
    let exit = match (error.downcast_ref::<ScopeError>(), error.downcast_ref::<CgroupError>()) {
        (Some(ScopeError::BadName(_)), _) => Exit::Usage,
        (Some(ScopeError::Refused { .. }), _) => Exit::Refused,
        _ if manager::is_taken(error) => Exit::Refused,
        (_, Some(CgroupError::Denied { reason, .. })) if reason.kind() == io::ErrorKind::PermissionDenied => {
            Exit::Denied
        }
        _ => Exit::Failed,
    };
    let text = format!("{error:#}");
    match text.rsplit_once("; ") {
        Some((message, next)) => Failure::new(exit, message, next),
        None => Failure::new(exit, text, "`flowctl doctor` shows what is missing and how to fix it"),
    }
}

async fn run_scope(args: RunArgs, socket: &Path) -> anyhow::Result<u8> {
    detached::leave();
    let name = match &args.name {
        Some(name) => ScopeName::new(name)?,
        None => ScopeName::of_command(&args.command[0].to_string_lossy(), std::process::id()),
    };
    // From now on, a signal does not end this process, which would leave an empty cgroup behind.
    let signals = Signals::listen()?;
    let mut manager = CgroupManager::for_scope(&name, args.require_cgroup)?;
    let outcome = run_in(&mut manager, &name, &args, signals, socket).await;
    let emptied = async {
        while !manager.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    match timeout(LAST_PROCESSES, emptied).await {
        Ok(()) => manager.remove(),
        Err(_) => {
            message::print(format_args!("processes of {name} are still running; flowcond cleans up when they end"))
        }
    }
    outcome
}

async fn run_in(
    manager: &mut CgroupManager,
    name: &ScopeName,
    args: &RunArgs,
    mut signals: Signals,
    socket: &Path,
) -> anyhow::Result<u8> {
    let output = Output::create(OUTPUT_KEPT).context("cannot allocate memory for the command's output")?;
    let handshake = HandshakeSocket::open()?;
    let threads = threads_of(args, socket).await;
    let mut child = exec_wrapper(&handshake, args, threads, &signals).context("cannot start a process")?;
    let pid = child.id().context("the new process ended at once; try `flowctl doctor`")?;
    let (admitted, registered) = match prepare(manager, (name, args, socket), &output, handshake, pid).await {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = child.kill().await; // it has not become the command yet
            return Err(error);
        }
    };
    let is_to_stay = detached::is_background() || signals::ignores_hangup();
    if is_to_stay && matches!(manager, CgroupManager::Systemd(_)) && logout::ends_scopes() {
        message::print(format_args!("{name} ends at your last logout; next: loginctl enable-linger"));
    }
    if let Err(not_begun) = admitted.begin().await {
        message::print(&not_begun.text);
        child.wait().await?;
        return Ok(not_begun.exit_code);
    }
    detached::has_begun();
    let label = |key: &str| args.labels.iter().find(|(given, _)| given == key).map(|(_, value)| value.as_str());
    let output = match label("flowcon.log") {
        Some(path) => {
            relay::log_of_file(path, pid, output);
            None
        }
        None => Some(output),
    };
    let output = relay::output_of(&mut child, output).context("cannot read the command's output")?;
    let (status, is_output_lost) = wait(&mut child, pid, &mut signals, output).await?;
    let code = exit_code(status);
    registered.end(code).await;
    Ok(if is_output_lost && status.success() { Exit::Failed as u8 } else { code })
}

/// The number of threads that was asked for. A command whose share nobody knows starts with as many as without the option.
async fn threads_of(args: &RunArgs, socket: &Path) -> Option<usize> {
    match threads::number(args.threads?, socket).await {
        Ok(number) => Some(number),
        Err(error) => {
            message::print(format_args!("the number of threads is not limited: {error}; next: --threads N"));
            None
        }
    }
}

/// Starts this program again, as the process that becomes the command once it is in its cgroup.
fn exec_wrapper(
    handshake: &HandshakeSocket,
    args: &RunArgs,
    threads: Option<usize>,
    signals: &Signals,
) -> io::Result<Child> {
    let mut wrapper = std::process::Command::new("/proc/self/exe");
    wrapper
        .arg(ENTER)
        .arg(handshake.name())
        .arg("--")
        .args(&args.command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    wrapper.env_remove(detached::IN_BACKGROUND);
    if !args.keep_env {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        wrapper.envs((!is_set("PYTHONUNBUFFERED")).then_some(("PYTHONUNBUFFERED", "1")));
        wrapper.envs(environment::passive_waiting(is_set));
    }
    if let Some(threads) = threads {
        wrapper.envs(environment::number_of_threads(threads));
    }
    if let Some(GpuShare(percent)) = args.gpu_share {
        // MPS finds its pipes by the inherited environment, or at the default path.
        wrapper.env(mps::SHARE, percent.to_string());
    }
    if signals.own_group() {
        wrapper.process_group(0);
    }
    Command::from(wrapper).spawn()
}

/// Moves the new process into its cgroup and registers the scope, before the command starts.
async fn prepare(
    manager: &mut CgroupManager,
    (name, args, socket): (&ScopeName, &RunArgs, &Path),
    output: &Output,
    handshake: HandshakeSocket,
    pid: u32,
) -> anyhow::Result<(Admitted, Registered)> {
    let admitted = handshake.admit(pid, manager.entrances()).await?;
    manager.place(pid, args.require_cgroup).await?;
    let mut labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    labels.entry("flowcon.enable".to_owned()).or_insert_with(|| "true".to_owned());
    let command = registered::words_sent(&args.command);
    let needs_cgroup = manager.missing().is_some();
    let registration = Registration { name: name.as_str().to_owned(), labels, command, output: 0, needs_cgroup };
    let registered = registered::begin(&scope::socket_of(socket), registration, manager.missing(), pid, output).await?;
    Ok((admitted, registered))
}

/// Waits for the command and the end of its output, and forwards signals meanwhile. Other processes may hold the output open after the
/// command has ended; then a signal ends the wait. The pid may already belong to another process, so nothing is sent to it any more.
/// Returns also whether output was lost, as far as is known.
async fn wait(
    child: &mut Child,
    pid: u32,
    signals: &mut Signals,
    output: impl Future<Output = bool>,
) -> anyhow::Result<(ExitStatus, bool)> {
    tokio::pin!(output);
    let (mut status, mut is_whole) = (None, None);
    loop {
        tokio::select! {
            ended = child.wait(), if status.is_none() => status = Some(ended.context("cannot wait for the command")?),
            shown = &mut output, if is_whole.is_none() => is_whole = Some(shown),
            signal = signals.next() => match status {
                None => signals.pass_on(signal, pid),
                Some(status) if Signals::asks_to_end(signal) => {
                    let is_whole = timeout(LAST_OUTPUT, &mut output).await;
                    return Ok((status, is_whole == Ok(false)));
                }
                Some(_) => {}
            },
        }
        if let (Some(status), Some(is_whole)) = (status, is_whole) {
            return Ok((status, !is_whole));
        }
    }
}

/// The exit code as in shells.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}
