//! `flowctl train`: runs one of the built-in trainings as an ordinary command.
//!
//! The command is hidden: the demos and the benchmarks start it.

use crate::workload::{Amount, Keeper, Kind, Snapshot, train, train_kept};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Allowed numbers of examples, table rows or ratings of a training.
pub const SIZES: std::ops::RangeInclusive<i64> = 64..=10_000_000;

/// Arguments of `flowctl train`.
#[derive(Args, Clone, Debug)]
pub struct TrainArgs {
    /// mlp, vae, boosting, gru, softmax or factors
    pub kind: Kind,
    /// Epochs, boosting rounds or iterations [default: the kind's usual number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: Option<u32>,
    /// Examples, table rows or ratings [default: the kind's usual number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(SIZES))]
    pub size: Option<u32>,
    /// Number of threads; the result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(Amount::THREADS_AT_MOST)))]
    pub threads: u16,
    /// Seed of the data and all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Resume from the state in DIR; on SIGTERM, save the state there after the current epoch
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Append a line `HOST EPOCH SECONDS` to FILE after each epoch
    #[arg(long, value_name = "FILE", requires = "save")]
    pub heartbeat: Option<PathBuf>,
}

impl TrainArgs {
    fn amount(&self) -> Amount {
        let usual = Amount::usual(self.kind);
        Amount {
            epochs: self.epochs.map_or(usual.epochs, |epochs| epochs as usize),
            size: self.size.map_or(usual.size, |size| size as usize),
            threads: usize::from(self.threads),
            seed: self.seed,
        }
    }
}

/// Runs the training to the end; its log goes to standard output.
///
/// # Errors
/// The output or the state cannot be written or read. A closed pipe on the output is not an error.
pub fn run(args: &TrainArgs) -> io::Result<()> {
    let log = &mut io::stdout().lock();
    let ended = match &args.save {
        None => train(args.kind, args.amount(), log),
        Some(_) if !args.kind.resumes() => {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("--save: {} cannot resume from a saved state", args.kind),
            ));
        }
        Some(folder) => {
            let mut keeper =
                StateFolder { folder, heartbeat: args.heartbeat.as_deref(), must_stop: stop_on_sigterm()? };
            train_kept(args.kind, args.amount(), log, &mut keeper)
        }
    };
    match ended {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map(|_last_loss| ()),
    }
}

/// Returns a flag that is set by SIGTERM.
fn stop_on_sigterm() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut terminate = {
        let _entered = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
    };
    let set_stop = Arc::clone(&stop);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(terminate.recv());
        set_stop.store(true, Ordering::Relaxed);
    })?;
    Ok(stop)
}

/// Keeps the state in a folder.
struct StateFolder<'a> {
    folder: &'a Path,
    heartbeat: Option<&'a Path>,
    must_stop: Arc<AtomicBool>,
}

impl StateFolder<'_> {
    fn beat(&self, file: &Path, epoch: u32) -> io::Result<()> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let host = rustix::system::uname();
        let line = format!("{} {epoch} {:.3}\n", host.nodename().to_string_lossy(), since_1970.as_secs_f64());
        OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
    }
}

impl Keeper for StateFolder<'_> {
    fn resume(&mut self) -> io::Result<Option<Snapshot>> {
        match fs::read(self.folder.join("state")) {
            Ok(bytes) => Snapshot::of_bytes(&bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn epoch_done(&mut self, epoch: u32, snapshot: &dyn Fn() -> Snapshot) -> io::Result<()> {
        if let Some(file) = self.heartbeat {
            self.beat(file, epoch)?;
        }
        if !self.must_stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (new, state) = (self.folder.join("state.new"), self.folder.join("state"));
        let mut file = File::create(&new)?;
        file.write_all(&snapshot().to_bytes())?;
        file.sync_all()?;
        fs::rename(new, state)?;
        Err(io::Error::new(
            ErrorKind::Interrupted,
            "stopped by SIGTERM: the state is saved and the next start resumes from it",
        ))
    }
}
