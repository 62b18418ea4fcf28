//! How much CPU each user has used lately.
//!
//! Use decays with the half-life of the configuration, also while no daemon runs. A job is charged for what it uses from its first reading
//! on, so its use is never counted twice by two daemons.

use super::job::Jobs;
use config::UserSettings;
use model::{Millis, UserObservation};
use std::collections::{BTreeMap, BTreeSet};
use store::{USERS_KEPT, UserUse};

/// How often use is saved, if any was charged.
const SAVE_EVERY: Millis = Millis::from_secs(60);

/// A user without jobs is forgotten below this use.
const FORGOTTEN_BELOW_CPU_S: f64 = 1.0;

/// What users have used.
#[derive(Default)]
pub(super) struct Uses {
    /// CPU-seconds by user, as of a time.
    used: BTreeMap<String, f64>,
    at_unix_ms: u64,
    saved_at: Millis,
    is_unsaved: bool,
}

impl Uses {
    /// Continues from what an earlier daemon saved.
    pub(crate) fn of(saved: Vec<UserUse>) -> Uses {
        let at_unix_ms = saved.iter().map(|used| used.unix_ms).max().unwrap_or(0);
        let used = saved.into_iter().map(|used| (used.user, used.cpu_s)).collect();
        Uses { used, at_unix_ms, ..Uses::default() }
    }

    /// Charges each user with what their jobs used since the last call, as last read; earlier use decays.
    pub(crate) fn charge(&mut self, jobs: &mut Jobs, settings: &UserSettings, unix_ms: u64) {
        let passed = Millis(unix_ms.saturating_sub(self.at_unix_ms));
        self.at_unix_ms = unix_ms;
        let Some(half_life) = settings.half_life else {
            self.is_unsaved |= !self.used.is_empty();
            return self.used.clear();
        };
        let kept = (-passed.as_secs_f64() / half_life.as_secs_f64()).exp2();
        self.used.values_mut().for_each(|used| *used *= kept);
        for job in jobs.values_mut() {
            let Some(cpu) = job.usage.cpu else { continue };
            let used = job.owner.charge(cpu).as_secs_f64();
            if used > 0.0 {
                *self.used.entry(job.owner.name().to_owned()).or_default() += used;
                self.is_unsaved = true;
            }
        }
        let present: BTreeSet<&str> = jobs.values().map(|job| job.owner.name()).collect();
        self.used.retain(|user, used| *used >= FORGOTTEN_BELOW_CPU_S || present.contains(user.as_str()));
        while self.used.len() > USERS_KEPT {
            let least = self.used.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(user, _)| user.clone());
            least.map(|user| self.used.remove(&user));
        }
    }

    /// The users who have jobs or have used anything, ordered by name.
    pub(crate) fn observed(&self, jobs: &Jobs, settings: &UserSettings) -> Vec<UserObservation> {
        let present = jobs.values().map(|job| job.owner.name());
        let names: BTreeSet<&str> = self.used.keys().map(String::as_str).chain(present).collect();
        let observed = |name: &str| UserObservation {
            name: name.to_owned(),
            weight: settings.weight_of(name),
            used: self.used.get(name).copied().unwrap_or(0.0),
        };
        names.into_iter().map(observed).collect()
    }

    /// Returns what is to be saved, if it is time.
    pub(crate) fn due(&mut self, now: Millis) -> Option<Vec<UserUse>> {
        let is_due = self.is_unsaved && now.since(self.saved_at) >= SAVE_EVERY;
        is_due.then(|| {
            self.saved_at = now;
            self.is_unsaved = false;
            self.all()
        })
    }

    /// Returns what is to be saved.
    pub(crate) fn all(&self) -> Vec<UserUse> {
        let (used, unix_ms) = (&self.used, self.at_unix_ms);
        used.iter().map(|(user, cpu_s)| UserUse { user: user.clone(), cpu_s: *cpu_s, unix_ms }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeCgroup, TestDaemon, id};
    use super::*;
    use model::{CpuTime, NOBODY, Runtime};
    use std::sync::Arc;

    const HOUR_MS: u64 = 3_600_000;

    #[tokio::test(flavor = "multi_thread")]
    async fn each_user_is_charged_for_what_their_jobs_use_and_earlier_use_decays() {
        let mut daemon = TestDaemon::new(None);
        for (number, user) in [(1, Some("alice")), (2, Some("alice")), (3, None)] {
            daemon.add(&id(number), "job", &FakeCgroup::new(), Runtime::Docker);
            let job = daemon.governing.jobs.get_mut(&id(number)).expect("it was added");
            job.owner.user = user.map(Arc::from);
        }
        let jobs = &mut daemon.governing.jobs;
        let settings = UserSettings {
            half_life: Some(Millis(HOUR_MS)),
            weights: [("alice".to_owned(), 2.0)].into(),
            ..UserSettings::default()
        };
        let use_cpu = |jobs: &mut Jobs, seconds: u64| {
            jobs.values_mut().for_each(|job| job.usage.cpu = Some(CpuTime(seconds * 1_000_000)));
        };
        let mut users = Uses::default();
        use_cpu(jobs, 1000);
        users.charge(jobs, &settings, 0);
        let seen = |users: &Uses, jobs: &Jobs| -> Vec<(String, f64, f64)> {
            users
                .observed(jobs, &settings)
                .into_iter()
                .map(|user| (user.name, user.weight, user.used.round()))
                .collect()
        };
        let (alice, nobody) = ("alice".to_owned(), NOBODY.to_owned());
        assert_eq!(
            seen(&users, jobs),
            [(nobody.clone(), 1.0, 0.0), (alice.clone(), 2.0, 0.0)],
            "what was used before the first reading is not known to be recent"
        );
        assert_eq!(users.due(Millis(HOUR_MS)), None, "nothing was charged");
        use_cpu(jobs, 1100);
        users.charge(jobs, &settings, HOUR_MS);
        assert_eq!(seen(&users, jobs), [(nobody.clone(), 1.0, 100.0), (alice.clone(), 2.0, 200.0)]);

        let saved = users.due(Millis(HOUR_MS)).expect("something was charged");
        assert_eq!(users.due(Millis(2 * HOUR_MS)), None, "it is saved");
        let mut users = Uses::of(saved);
        jobs.clear();
        users.charge(jobs, &settings, 2 * HOUR_MS);
        assert_eq!(seen(&users, jobs), [(nobody, 1.0, 50.0), (alice.clone(), 2.0, 100.0)], "also while no daemon ran");
        users.charge(jobs, &settings, HOUR_MS);
        assert_eq!(seen(&users, jobs).last(), Some(&(alice.clone(), 2.0, 100.0)), "a clock set back adds nothing");
        users.charge(jobs, &settings, 8 * HOUR_MS);
        assert_eq!(seen(&users, jobs), [], "who used next to nothing is forgotten");
        let mut users = Uses::of(vec![UserUse { user: alice, cpu_s: 100.0, unix_ms: 0 }]);
        users.charge(jobs, &UserSettings { half_life: None, ..settings.clone() }, 0);
        assert_eq!((seen(&users, jobs), users.due(Millis(HOUR_MS))), (vec![], Some(vec![])));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn more_users_than_are_kept_forget_those_who_used_least() {
        let mut daemon = TestDaemon::new(None);
        let used = |n: usize| UserUse { user: format!("u{n:04}"), cpu_s: 10.0 + n as f64, unix_ms: 0 };
        let mut users = Uses::of((0..USERS_KEPT + 5).map(used).collect());
        users.charge(&mut daemon.governing.jobs, &UserSettings::default(), 0);
        let kept = users.all();
        assert_eq!((kept.len(), kept[0].user.as_str()), (USERS_KEPT, "u0005"));
    }
}
