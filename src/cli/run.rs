//! `flowctl run`: a command in a governed cgroup of its own, with its output shown, signals passed on and its exit code returned.
//!
//! Imports: config's labels, host (cgroup, GPU, scope, systemd, node).

mod detached;
mod registered;
mod relay;
mod signals;

use crate::config;
use crate::host::cgroup::{self, CgroupError, Home};
use crate::host::gpu::mps::{self, Mps};
use crate::host::scope::protocol::Registration;
use crate::host::scope::{self, Admitted, HandshakeSocket, Output, ScopeError, ScopeName};
use crate::host::{node, systemd::Systemd};
use crate::term::exit::{Exit, Failure};
use anyhow::{Context, bail};
use registered::Registered;
use signals::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use tokio::process::{Child, Command};

/// Of a command's output, so much is kept in memory for the daemon and for `flowctl logs`.
const OUTPUT_KEPT: u64 = 4 << 20;

/// Run a command in a cgroup of its own, governed like a container.
///
/// Its output is shown and read for its learning; signals go to it; its exit code is returned (128 + n after signal n). Python
/// programs get PYTHONUNBUFFERED=1, or their log would come in blocks. Without a daemon it runs ungoverned until one starts.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// Name of the job in `flowctl ps`; the program's own and a number by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Begin it in the background and print its name; `flowctl logs JOB` prints its output
    #[arg(long, short = 'd')]
    detach: bool,
    /// A label, as a container has them; flowcon.enable=true goes without saying
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Part of a GPU's processors that it may use, 40%, where NVIDIA's MPS divides the GPU; set at its start and for good
    #[arg(long, value_name = "SHARE", value_parser = gpu_share)]
    gpu_share: Option<GpuShare>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The new process of `flowctl run`, on its way to becoming the command.
#[derive(clap::Args, Debug)]
pub struct EnterArgs {
    /// The socket to report at
    handshake: String,
    /// The command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// The hidden subcommand that [`EnterArgs`] belongs to.
pub const ENTER: &str = "__enter";

/// Percent of a GPU's processors.
#[derive(Clone, Copy, Debug)]
struct GpuShare(u8);

/// `40%` or `0.4`, as MPS takes it: whole percents.
fn gpu_share(text: &str) -> Result<GpuShare, String> {
    let percent = match text.strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().ok(),
        None => text.parse::<f64>().ok().map(|part| part * 100.0),
    };
    let percent = percent.map(f64::round).filter(|percent| (1.0..=100.0).contains(percent));
    percent.map(|percent| GpuShare(percent as u8)).ok_or_else(|| "expected a part from 1% to 100%".to_owned())
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE; for example flowcon.metric=loss")),
    }
}

/// Becomes the command of `flowctl run`, or says with its exit code why not.
pub fn enter(args: &EnterArgs) -> ExitCode {
    ExitCode::from(scope::enter(&args.handshake, &args.command))
}

/// Runs the command as a scope of the daemon at `socket`, running or not.
///
/// # Errors
/// When the command could not be given a cgroup and started; then it did not run at all.
pub fn run(args: RunArgs, socket: &Path) -> Result<ExitCode, Failure> {
    check(&args)?;
    if args.detach {
        return detached::begin(args, socket);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(run_scope(args, socket));
    // A reader of our output that has stopped reading must not keep us.
    runtime.shutdown_background();
    code.map(ExitCode::from).map_err(|error| failure(&error))
}

/// Finds what was meant otherwise, before anything begins.
fn check(args: &RunArgs) -> Result<(), Failure> {
    let usage = |message: String, next: &str| Err(Failure::new(Exit::Usage, message, next));
    if let Some(word) = args.command.first().filter(|word| word.as_encoded_bytes().starts_with(b"-")) {
        let message = format!("{} is no option of `flowctl run -- COMMAND`, and no command", word.to_string_lossy());
        return usage(message, "`flowctl run --help` lists the options; they stand before the command");
    }
    if args.gpu_share.is_some() {
        let found = Mps::of_environment();
        if !matches!(found, Mps::Reachable(_)) {
            let next = format!(
                "start it as the user of the jobs, nvidia-cuda-mps-control -d, or name its pipes with {}",
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

/// The exit code that says what kind of failure it was. The messages of the host end with what to do, after a semicolon.
fn failure(error: &anyhow::Error) -> Failure {
    let exit = match (error.downcast_ref::<ScopeError>(), error.downcast_ref::<CgroupError>()) {
        (Some(ScopeError::BadName(_)), _) => Exit::Usage,
        (Some(ScopeError::Refused { .. }), _) | (_, Some(CgroupError::Exists { .. })) => Exit::Refused,
        (_, Some(CgroupError::Denied { source, .. })) if source.kind() == io::ErrorKind::PermissionDenied => {
            Exit::Denied
        }
        _ => Exit::Failed,
    };
    let text = format!("{error:#}");
    match text.rsplit_once("; ") {
        Some((message, next)) => Failure::new(exit, message, next),
        None => Failure::new(exit, text, "`flowctl doctor` says what is missing and how to mend it"),
    }
}

async fn run_scope(args: RunArgs, socket: &Path) -> anyhow::Result<u8> {
    detached::leave();
    let name = match &args.name {
        Some(name) => ScopeName::new(name)?,
        None => ScopeName::of_command(&args.command[0].to_string_lossy(), std::process::id()),
    };
    let place = Place::for_scope(&name)?;
    let outcome = run_in(&place, &name, &args, socket).await;
    if place.is_empty() {
        place.remove();
    } else {
        eprintln!("flowctl: processes of {name} still run; flowcond clears up when they end");
    }
    outcome
}

async fn run_in(place: &Place, name: &ScopeName, args: &RunArgs, socket: &Path) -> anyhow::Result<u8> {
    let output = Output::create(OUTPUT_KEPT).context("making room for the command's output")?;
    let handshake = HandshakeSocket::open()?;
    let mut signals = Signals::listen()?;
    let mut child = exec_wrapper(&handshake, args, &signals).context("starting a process")?;
    let pid = child.id().context("the new process ended at once; try `flowctl doctor`")?;
    let (admitted, registered) = match prepare(place, (name, args, socket), &output, handshake, pid).await {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = child.kill().await; // it is not the command yet
            return Err(error);
        }
    };
    if let Err(not_begun) = admitted.begin().await {
        eprintln!("flowctl: {}", not_begun.text);
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
    let output = relay::output_of(&mut child, output);
    let code = exit_code(wait(&mut child, pid, &mut signals, output).await?);
    registered.end(code).await;
    Ok(code)
}

/// This program again, to become the command once it is in its cgroup.
fn exec_wrapper(handshake: &HandshakeSocket, args: &RunArgs, signals: &Signals) -> io::Result<Child> {
    let mut wrapper = std::process::Command::new("/proc/self/exe");
    wrapper
        .arg(ENTER)
        .arg(handshake.name())
        .arg("--")
        .args(&args.command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    wrapper.env_remove(detached::IN_BACKGROUND);
    if std::env::var_os("PYTHONUNBUFFERED").is_none() {
        wrapper.env("PYTHONUNBUFFERED", "1");
    }
    if let Some(GpuShare(percent)) = args.gpu_share {
        // The pipes are found by the environment that it has from us, or in the usual place.
        wrapper.env(mps::SHARE, percent.to_string());
    }
    if signals.own_group() {
        wrapper.process_group(0);
    }
    Command::from(wrapper).spawn()
}

/// Puts the new process into its cgroup and makes the scope known, before the command begins.
async fn prepare(
    place: &Place,
    (name, args, socket): (&ScopeName, &RunArgs, &Path),
    output: &Output,
    handshake: HandshakeSocket,
    pid: u32,
) -> anyhow::Result<(Admitted, Registered)> {
    let admitted = match place {
        Place::Cgroupfs(home) => handshake.admit(pid, home.entrances()).await?,
        Place::Systemd(unit) => {
            let admitted = handshake.admit(pid, Vec::new()).await?;
            Systemd::connect().await?.start_scope(unit, pid, "A job governed by flowcon").await?;
            admitted
        }
    };
    let mut labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    labels.entry("flowcon.enable".to_owned()).or_insert_with(|| "true".to_owned());
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let registration = Registration { name: name.as_str().to_owned(), labels, command, output: 0 };
    let registered = registered::begin(&scope::socket_of(socket), registration, pid, output).await?;
    Ok((admitted, registered))
}

/// Waits for the command and for the last of its output, and passes signals on meanwhile.
async fn wait(
    child: &mut Child,
    pid: u32,
    signals: &mut Signals,
    output: impl Future<Output = ()>,
) -> anyhow::Result<ExitStatus> {
    tokio::pin!(output);
    let (mut status, mut shown) = (None, false);
    loop {
        tokio::select! {
            ended = child.wait(), if status.is_none() => status = Some(ended.context("waiting for the command")?),
            () = &mut output, if !shown => shown = true,
            signal = signals.next() => signals.pass_on(signal, pid),
        }
        if let (Some(status), true) = (status, shown) {
            return Ok(status);
        }
    }
}

/// As shells say it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Where the command's cgroup is.
enum Place {
    Cgroupfs(Home),
    Systemd(String),
}

impl Place {
    fn for_scope(name: &ScopeName) -> anyhow::Result<Place> {
        if node::systemd_is_init() {
            return Ok(Place::Systemd(name.unit()));
        }
        if cgroup::Version::of_host() == cgroup::Version::None {
            bail!("no cgroups are mounted; mount them below /sys/fs/cgroup, or use a container engine");
        }
        Ok(Place::Cgroupfs(Home::create(&name.cgroup())?))
    }

    fn is_empty(&self) -> bool {
        match self {
            Place::Cgroupfs(home) => home.is_empty(),
            // systemd looks after its own.
            Place::Systemd(_) => true,
        }
    }

    fn remove(&self) {
        if let Place::Cgroupfs(home) = self {
            home.remove();
        }
    }
}
