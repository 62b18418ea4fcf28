//! Curves of trainings that completed, for later runs of the same training.
//!
//! Limited in number, and saved without waiting for the disk: data lost in a power failure is learned again.

use super::{Store, StoreError, number, rows};
use model::TrainingId;
use rusqlite::params;

/// Number of runs kept per training: the latest ones.
pub const RUNS_KEPT: usize = 4;

/// Total number of runs kept.
pub const PRIOR_RUNS_KEPT: usize = 512;

/// Maximum size of a curve in bytes; larger ones are not saved.
const CURVE_LONGEST: usize = 16 << 10;

impl Store {
    /// Saves the curve, as JSON, of a run that has just ended, and deletes the oldest runs beyond the limits.
    pub fn save_prior_run(&mut self, training: TrainingId, unix_ms: u64, curve: &str) -> Result<(), StoreError> {
        if curve.len() > CURVE_LONGEST {
            return Ok(());
        }
        let training = training.to_string();
        self.lazily("save a training's curve", |connection| {
            let transaction = connection.transaction()?;
            transaction.execute(
                "INSERT INTO precedent (training, unix_ms, curve) VALUES (?1, ?2, ?3)",
                params![training, number(unix_ms), curve],
            )?;
            transaction.execute(
                "DELETE FROM precedent WHERE training = ?1 AND number NOT IN
                 (SELECT number FROM precedent WHERE training = ?1 ORDER BY number DESC LIMIT ?2)",
                params![training, RUNS_KEPT as i64],
            )?;
            transaction.execute(
                "DELETE FROM precedent WHERE number NOT IN
                 (SELECT number FROM precedent ORDER BY number DESC LIMIT ?1)",
                [PRIOR_RUNS_KEPT as i64],
            )?;
            transaction.commit()
        })
    }

    /// Returns all saved runs, the oldest first; damaged rows are left out. Curves are untrusted: they must be validated.
    pub fn prior_runs(&self) -> Result<Vec<(TrainingId, String)>, StoreError> {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?.parse().ok(), row.get::<_, String>(1)?));
        let read = rows(&self.connection, "SELECT training, curve FROM precedent ORDER BY number", row);
        let read = read.map_err(|error| self.error("read the trainings' curves", error))?;
        let valid = |(training, curve): (Option<TrainingId>, String)| Some((training?, curve));
        Ok(read.into_iter().filter_map(valid).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(number: usize) -> TrainingId {
        format!("{number:032x}").parse().expect("hexadecimal")
    }

    #[test]
    fn the_latest_curves_are_kept_within_the_limits() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Store::open(directory.path()).expect("it opens").store;
        let mut store = open();
        (0..7).for_each(|n| store.save_prior_run(training(1), n, &format!("[{n}]")).expect("saved"));
        store.save_prior_run(training(2), 7, &"x".repeat(CURVE_LONGEST + 1)).expect("too long: not saved");
        store.connection.execute("INSERT INTO precedent VALUES (99, 'no digest', 0, '')", []).expect("damaged");
        drop(store);
        let mut store = open();
        let kept: Vec<(TrainingId, String)> = (3..7).map(|n| (training(1), format!("[{n}]"))).collect();
        assert_eq!(store.prior_runs().expect("read"), kept);

        (0..PRIOR_RUNS_KEPT).for_each(|n| store.save_prior_run(training(10 + n), 0, "[]").expect("saved"));
        let kept = store.prior_runs().expect("read");
        assert!(
            kept.len() == PRIOR_RUNS_KEPT && kept.iter().all(|(of, _)| *of != training(1)),
            "the oldest are deleted first"
        );
    }
}
