//! CPU time that each user has used, of which earlier time counts less.
//!
//! Saved without waiting for the disk: at worst, the last minute before a power failure is not counted.

use super::{Store, StoreError, number, rows};
use rusqlite::params;

/// Users whose use is kept: those who used most.
pub const USERS_KEPT: usize = 256;

/// What a user had used at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct UserUse {
    /// Name of the user.
    pub user: String,
    /// CPU-seconds; those of the past count less.
    pub cpu_s: f64,
    /// When this was so, Unix milliseconds.
    pub unix_ms: u64,
}

impl Store {
    /// Replaces what is saved about all users.
    pub fn save_uses(&mut self, uses: &[UserUse]) -> Result<(), StoreError> {
        self.lazily("save the users' use", |connection| {
            let transaction = connection.transaction()?;
            transaction.execute("DELETE FROM used", [])?;
            for UserUse { user, cpu_s, unix_ms } in uses.iter().take(USERS_KEPT) {
                let values = params![user, cpu_s, number(*unix_ms)];
                transaction.execute("INSERT OR REPLACE INTO used VALUES (?1, ?2, ?3)", values)?;
            }
            transaction.commit()
        })
    }

    /// Returns what is saved, ordered by name; damaged rows are left out.
    pub fn uses(&self) -> Result<Vec<UserUse>, StoreError> {
        let row =
            |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?, row.get::<_, i64>(2)?));
        let read = rows(&self.connection, "SELECT user, cpu_s, unix_ms FROM used ORDER BY user", row);
        let read = read.map_err(|error| self.error("read the users' use", error))?;
        let valid = |(user, cpu_s, unix_ms): (String, f64, i64)| {
            let unix_ms = u64::try_from(unix_ms).ok()?;
            (cpu_s.is_finite() && cpu_s >= 0.0).then_some(UserUse { user, cpu_s, unix_ms })
        };
        Ok(read.into_iter().filter_map(valid).take(USERS_KEPT).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_used_is_replaced_as_a_whole_and_damaged_rows_are_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Store::open(directory.path()).expect("it opens").store;
        let used = |user: &str, cpu_s| UserUse { user: user.to_owned(), cpu_s, unix_ms: 7 };
        let mut store = open();
        store.save_uses(&[used("carol", 3.0)]).expect("saved");
        store.save_uses(&[used("bob", 2.5), used("alice", 1e9)]).expect("saved");
        store
            .connection
            .execute("INSERT INTO used VALUES ('eve', -1.0, 7), ('mallory', 1.0, -7)", [])
            .expect("damaged");
        drop(store);
        assert_eq!(open().uses().expect("read"), [used("alice", 1e9), used("bob", 2.5)]);
    }
}
