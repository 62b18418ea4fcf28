//! Snapshots from which a stopped training resumes: everything that its next epoch depends on.
//!
//! A resumed training computes the same numbers as one that was not stopped.

use std::io;

/// State of a descent after a whole epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Finished epochs.
    pub epoch: u32,
    /// Number of updates by Adam.
    pub(super) steps: i32,
    /// Parameters, and Adam's two moments: three vectors of one length.
    pub(super) vectors: [Vec<f32>; 3],
}

/// Storage of the snapshots of a training.
pub trait Keeper {
    /// Returns the snapshot to resume from; `None` at the first start.
    ///
    /// # Errors
    /// The snapshot cannot be read.
    fn resume(&mut self) -> io::Result<Option<Snapshot>>;

    /// Called after each epoch.
    ///
    /// # Errors
    /// The snapshot cannot be stored; or [`io::ErrorKind::Interrupted`] after it was stored, to stop the training.
    fn epoch_done(&mut self, epoch: u32, snapshot: &dyn Fn() -> Snapshot) -> io::Result<()>;
}

/// Stores nothing.
pub(super) struct NoKeeper;

impl Keeper for NoKeeper {
    fn resume(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(None)
    }

    fn epoch_done(&mut self, _epoch: u32, _snapshot: &dyn Fn() -> Snapshot) -> io::Result<()> {
        Ok(())
    }
}

impl Snapshot {
    /// Encodes epoch, steps, length of the vectors, then the vectors, all little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + 12 * self.vectors[0].len());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.steps.to_le_bytes());
        bytes.extend((self.vectors[0].len() as u64).to_le_bytes());
        bytes.extend(self.vectors.iter().flatten().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    /// Decodes the result of [`Snapshot::to_bytes`].
    ///
    /// # Errors
    /// The bytes are not a complete snapshot.
    pub fn of_bytes(bytes: &[u8]) -> io::Result<Snapshot> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a complete snapshot of a training");
        let (head, values) = bytes.split_at_checked(16).ok_or_else(damaged)?;
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let (epoch, steps, length) = (u32::from_le_bytes(word(0)), i32::from_le_bytes(word(4)), word(8));
        let length = u32::from_le_bytes(length) as usize;
        let values: Vec<f32> = values.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
        if word(12) != [0; 4] || bytes.len() != 16 + 12 * length {
            return Err(damaged());
        }
        let vector = |number: usize| values[number * length..][..length].to_vec();
        Ok(Snapshot { epoch, steps, vectors: [vector(0), vector(1), vector(2)] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Amount, Kind, train, train_kept};

    /// Stops after some epochs, as SIGTERM does.
    struct StopAfter(u32, Option<Snapshot>);

    impl Keeper for StopAfter {
        fn resume(&mut self) -> io::Result<Option<Snapshot>> {
            self.1.as_ref().map(|kept| Snapshot::of_bytes(&kept.to_bytes())).transpose()
        }

        fn epoch_done(&mut self, epoch: u32, snapshot: &dyn Fn() -> Snapshot) -> io::Result<()> {
            if epoch < self.0 {
                return Ok(());
            }
            self.1 = Some(snapshot());
            Err(io::ErrorKind::Interrupted.into())
        }
    }

    #[test]
    fn a_stopped_and_resumed_training_gives_the_same_result() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.resumes()) {
            let amount = Amount { epochs: 3, size: 64, threads: 1, seed: 3 };
            let whole = train(kind, amount, &mut io::sink()).unwrap();
            let mut keeper = StopAfter(2, None);
            let stopped = train_kept(kind, amount, &mut io::sink(), &mut keeper).unwrap_err();
            assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
            keeper.0 = 9;
            let resumed = train_kept(kind, amount, &mut io::sink(), &mut keeper).unwrap();
            assert_eq!(resumed.to_bits(), whole.to_bits(), "{kind}");
        }
    }

    #[test]
    fn truncated_or_foreign_bytes_are_rejected() {
        let bytes = Snapshot { epoch: 2, steps: 7, vectors: [vec![1.0, 2.0], vec![0.5; 2], vec![0.0; 2]] }.to_bytes();
        assert!(Snapshot::of_bytes(&bytes[..bytes.len() - 1]).is_err() && Snapshot::of_bytes(b"hello").is_err());
        assert_eq!(Snapshot::of_bytes(&bytes).unwrap().to_bytes(), bytes);
    }
}
