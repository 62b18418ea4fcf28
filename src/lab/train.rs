//! `flowctl train`: one of the built-in trainings, as a command like any other that a governor may find on a machine.
//!
//! Hidden: the demo and the benchmarks start it. Imports: workload.

use crate::lab::workload::{Amount, Kind, train};
use clap::Args;
use std::io::{self, ErrorKind};

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
/// The output could not be written; a reader that went away is not an error.
pub fn run(args: &TrainArgs) -> io::Result<()> {
    match train(args.kind, args.amount(), &mut io::stdout().lock()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map(|_last_loss| ()),
    }
}
