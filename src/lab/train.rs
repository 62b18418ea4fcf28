//! `flowctl train`: one of the built-in trainings, as a command like any other that a governor may find on a machine.
//!
//! Hidden: the demos and the benchmarks start it. Imports: workload, tokio.

use crate::lab::workload::{Amount, Keeper, Kind, Snapshot, train, train_kept};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// How many samples, parameters or characters a training may be made of.
pub const SIZES: std::ops::RangeInclusive<i64> = 64..=10_000_000;

/// What to train and how much of it.
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
    /// Threads that share the work; the result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Seed of the data and of everything drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Go on from the state in this folder; SIGTERM saves it there after the epoch that is under way
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Add a line `HOST EPOCH SECONDS` to this file after each epoch
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

/// Trains to the end, its log on standard output.
///
/// # Errors
/// The output or the state could not be written or read; a reader that went away is not an error.
pub fn run(args: &TrainArgs) -> io::Result<()> {
    let log = &mut io::stdout().lock();
    let ended = match &args.save {
        None => train(args.kind, args.amount(), log),
        Some(_) if !args.kind.resumes() => {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("--save: {} cannot go on from a state", args.kind),
            ));
        }
        Some(folder) => {
            let mut keeper = Kept { folder, heartbeat: args.heartbeat.as_deref(), must_stop: told_to_stop()? };
            train_kept(args.kind, args.amount(), log, &mut keeper)
        }
    };
    match ended {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map(|_last_loss| ()),
    }
}

/// Whether SIGTERM has come, from now on.
fn told_to_stop() -> io::Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut terminate = {
        let _entered = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?
    };
    let tell = Arc::clone(&told);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(terminate.recv());
        tell.store(true, Ordering::Relaxed);
    })?;
    Ok(told)
}

/// The state in a folder.
struct Kept<'a> {
    folder: &'a Path,
    heartbeat: Option<&'a Path>,
    must_stop: Arc<AtomicBool>,
}

impl Kept<'_> {
    fn beat(&self, file: &Path, epoch: u32) -> io::Result<()> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let host = rustix::system::uname();
        let line = format!("{} {epoch} {:.3}\n", host.nodename().to_string_lossy(), since_1970.as_secs_f64());
        OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
    }
}

impl Keeper for Kept<'_> {
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
            "told to stop: its state is saved, the next start goes on from there",
        ))
    }
}
