//! Freezes and thaws cgroups in turns within a period, according to the daemon's plan, and reports the results.
//!
//! Guarantees: no freeze is longer than [`Plan::at_most_ms`]; nothing is frozen longer than [`LEASE`] after the last plan; a dropped value
//! is thawed.

use super::{Freezer, Froze, is_gone, leave};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Without a new plan for this long, the daemon is assumed to hang and everything is thawed.
const LEASE: Duration = Duration::from_secs(4);

/// The cgroups to freeze from now on; all others are thawed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Length of the period, in milliseconds; each turn comes once per period.
    pub period_ms: u64,
    /// Maximum length of a freeze, in milliseconds.
    pub at_most_ms: u64,
    /// The turns.
    pub turns: Vec<Turn>,
    /// Cgroups that their engine has paused: they stay frozen until the engine thaws them.
    pub leave: Vec<PathBuf>,
}

/// The turn of one cgroup in each period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its directory with the freezer.
    pub cgroup: PathBuf,
    /// Start of the freeze, as a fraction of the period, 0 .. 1.
    pub from: f64,
    /// Length of the freeze, as a fraction of the period, 0 ..= 1.
    pub share: f64,
}

/// The results of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnResults {
    /// Results per cgroup with a turn.
    pub turned: Vec<TurnResult>,
}

/// The results of the turns of one cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// Directory of the cgroup.
    pub cgroup: PathBuf,
    /// Total time for which it has been frozen since its first turn, in milliseconds.
    pub frozen_ms: u64,
    /// Whether someone else has frozen it.
    pub by_others: bool,
    /// Why it could not be frozen or thawed.
    pub problem: Option<String>,
}

/// The current turns. When dropped, everything is thawed.
#[derive(Debug)]
pub(super) struct Turns {
    period: Duration,
    at_most: Duration,
    began: Instant,
    last_plan: Instant,
    held: BTreeMap<PathBuf, Held>,
}

#[derive(Debug)]
struct Held {
    freezer: Freezer,
    from: f64,
    share: f64,
    frozen_since: Option<Instant>,
    /// This turn has exceeded the maximum: the cgroup stays thawed until its next turn.
    is_over: bool,
    frozen_for: Duration,
    by_others: bool,
    problem: Option<String>,
}

impl Turns {
    pub(crate) fn new(now: Instant) -> Turns {
        let period = Duration::from_millis(500);
        Turns { period, at_most: period, began: now, last_plan: now, held: BTreeMap::new() }
    }

    /// Applies a plan from now on, and returns the results so far.
    pub(crate) fn follow(&mut self, plan: Plan, now: Instant) -> TurnResults {
        self.last_plan = now;
        self.period = Duration::from_millis(plan.period_ms.max(1));
        self.at_most = Duration::from_millis(plan.at_most_ms);
        for path in &plan.leave {
            if let Some(mut held) = self.held.remove(path) {
                held.frozen_since = None; // only the engine may thaw it
            }
            leave(path);
        }
        // Cgroups without a turn are dropped, which thaws them.
        self.held.retain(|path, _| plan.turns.iter().any(|turn| turn.cgroup == *path));
        let mut report = TurnResults::default();
        for Turn { cgroup, from, share } in plan.turns {
            if !self.held.contains_key(&cgroup) {
                match Freezer::open(&cgroup) {
                    Ok(freezer) => drop(self.held.insert(cgroup.clone(), Held::new(freezer))),
                    Err(error) => {
                        let problem = (!is_gone(&error)).then(|| error.to_string());
                        report.turned.push(TurnResult { cgroup, frozen_ms: 0, by_others: false, problem });
                        continue;
                    }
                }
            }
            let Some(held) = self.held.get_mut(&cgroup) else { continue };
            (held.from, held.share) = (from.clamp(0.0, 1.0), share.clamp(0.0, 1.0));
            let frozen_for = held.frozen_for + held.frozen_since.map_or(Duration::ZERO, |since| now - since);
            report.turned.push(TurnResult {
                cgroup,
                frozen_ms: u64::try_from(frozen_for.as_millis()).unwrap_or(u64::MAX),
                by_others: held.by_others,
                problem: held.problem.take(),
            });
        }
        report
    }

    /// Freezes and thaws the cgroups whose time has come; returns the time until the next change.
    pub(crate) fn turn(&mut self, now: Instant) -> Duration {
        let has_plan = now - self.last_plan < LEASE;
        let into = (now - self.began).as_secs_f64() / self.period.as_secs_f64();
        let phase = into.fract();
        let mut next = if has_plan { LEASE - (now - self.last_plan) } else { LEASE };
        for held in self.held.values_mut() {
            let since_from = (phase - held.from).rem_euclid(1.0);
            let is_turn = has_plan && held.share > 0.0 && since_from < held.share;
            held.is_over &= is_turn;
            let is_too_long = held.frozen_since.is_some_and(|since| now - since >= self.at_most);
            if is_too_long {
                held.is_over = true;
            }
            match (held.frozen_since, is_turn && !held.is_over && !self.at_most.is_zero()) {
                (None, true) => held.freeze(now),
                (Some(_), false) => held.thaw(now),
                _ => {}
            }
            let until_change = if is_turn { held.share - since_from } else { 1.0 - since_from };
            next = next.min(self.period.mul_f64(until_change.clamp(0.0, 1.0)));
            if let Some(since) = held.frozen_since {
                next = next.min((since + self.at_most).saturating_duration_since(now));
            }
        }
        next.max(Duration::from_millis(1))
    }
}

impl Held {
    fn new(freezer: Freezer) -> Held {
        let (frozen_since, frozen_for) = (None, Duration::ZERO);
        Held {
            freezer,
            from: 0.0,
            share: 0.0,
            frozen_since,
            is_over: false,
            frozen_for,
            by_others: false,
            problem: None,
        }
    }

    fn freeze(&mut self, now: Instant) {
        match self.freezer.freeze() {
            Ok(froze) => {
                self.by_others = froze == Froze::SomebodyElse;
                self.frozen_since = (froze == Froze::Now).then_some(now);
            }
            Err(error) => self.record(&error),
        }
    }

    fn thaw(&mut self, now: Instant) {
        match self.freezer.thaw() {
            // Retried at the next turn of the loop.
            Err(error) if !is_gone(&error) => return self.record(&error),
            _ => {}
        }
        if let Some(since) = self.frozen_since.take() {
            self.frozen_for += now - since;
        }
    }

    fn record(&mut self, error: &std::io::Error) {
        if !is_gone(error) {
            self.problem = Some(format!("{}: {error}", self.freezer.path().display()));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.frozen_since.is_some() {
            // If this fails, the journal still lists it as frozen.
            let _ = self.freezer.thaw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    struct Cgroup(tempfile::TempDir);

    impl Cgroup {
        fn new() -> Cgroup {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("cgroup.freeze"), "0").unwrap();
            Cgroup(dir)
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn is_frozen(&self) -> bool {
            Freezer::open(self.path()).unwrap().is_frozen().unwrap()
        }

        fn set(&self, text: &str) {
            fs::write(self.path().join("cgroup.freeze"), text).unwrap();
        }
    }

    fn plan(turns: &[(&Cgroup, f64, f64)]) -> Plan {
        let turn = |(cgroup, from, share): &(&Cgroup, f64, f64)| Turn {
            cgroup: cgroup.path().to_owned(),
            from: *from,
            share: *share,
        };
        Plan { period_ms: 1000, at_most_ms: 1000, turns: turns.iter().map(turn).collect(), leave: Vec::new() }
    }

    /// Runs until `end` ms with a new plan every second, and calls `look` with each millisecond of the clock.
    fn run(turns: &mut Turns, plan: &Plan, began: Instant, end: u64, mut look: impl FnMut(u64)) -> TurnResults {
        let mut report = TurnResults::default();
        let mut at = 0;
        let mut next_plan = 0;
        while at < end {
            let now = began + Duration::from_millis(at);
            if at >= next_plan {
                report = turns.follow(plan.clone(), now);
                next_plan = at + 1000;
            }
            let wait = turns.turn(now).min(Duration::from_millis(10)).as_millis() as u64;
            look(at);
            at += wait.max(1);
        }
        report
    }

    #[test]
    fn each_cgroup_is_frozen_for_its_share_of_the_period_at_its_offset() {
        let (first, second) = (Cgroup::new(), Cgroup::new());
        let began = Instant::now();
        let mut turns = Turns::new(began);
        let plan = plan(&[(&first, 0.0, 0.4), (&second, 0.7, 0.6)]);
        let report = run(&mut turns, &plan, began, 10_001, |at| {
            let into = at % 1000;
            // At the boundaries the result depends on rounding.
            if into % 100 > 20 && into % 100 < 80 {
                assert_eq!(first.is_frozen(), into < 400, "first at {at}");
                assert_eq!(second.is_frozen(), !(300..700).contains(&into), "second at {at}");
            }
        });
        let frozen: Vec<u64> = report.turned.iter().map(|turned| turned.frozen_ms).collect();
        assert!((3_900..=4_100).contains(&frozen[0]) && (5_800..=6_200).contains(&frozen[1]), "{frozen:?}");
        drop(turns);
        assert!(!first.is_frozen() && !second.is_frozen());
    }

    #[test]
    fn no_freeze_is_longer_than_the_maximum_even_if_the_plan_asks_for_more() {
        let cgroup = Cgroup::new();
        let began = Instant::now();
        let mut turns = Turns::new(began);
        let plan = Plan { at_most_ms: 200, ..plan(&[(&cgroup, 0.0, 0.9)]) };
        let (mut since, mut longest) = (None, 0);
        run(&mut turns, &plan, began, 5_000, |at| match (cgroup.is_frozen(), since) {
            (true, None) => since = Some(at),
            (true, Some(since)) => longest = longest.max(at - since),
            (false, _) => since = None,
        });
        assert!((180..=210).contains(&longest), "{longest} ms");
    }

    #[test]
    fn without_a_new_plan_everything_is_thawed() {
        let cgroup = Cgroup::new();
        let began = Instant::now();
        let mut turns = Turns::new(began);
        turns.follow(Plan { at_most_ms: 60_000, period_ms: 60_000, ..plan(&[(&cgroup, 0.0, 0.9)]) }, began);
        turns.turn(began);
        assert!(cgroup.is_frozen());
        turns.turn(began + LEASE);
        assert!(!cgroup.is_frozen());
    }

    #[test]
    fn a_cgroup_that_leaves_the_plan_is_thawed_at_once() {
        let cgroup = Cgroup::new();
        let began = Instant::now();
        let mut turns = Turns::new(began);
        turns.follow(plan(&[(&cgroup, 0.0, 0.9)]), began);
        turns.turn(began);
        assert!(cgroup.is_frozen());
        turns.follow(plan(&[]), began);
        assert!(!cgroup.is_frozen());
    }

    #[test]
    fn a_cgroup_frozen_by_someone_else_is_never_thawed() {
        let cgroup = Cgroup::new();
        cgroup.set("1");
        let began = Instant::now();
        let mut turns = Turns::new(began);
        let report = run(&mut turns, &plan(&[(&cgroup, 0.2, 0.5)]), began, 3_000, |at| {
            assert!(cgroup.is_frozen(), "at {at}");
        });
        assert!(report.turned[0].by_others && report.turned[0].frozen_ms == 0, "{report:?}");
        drop(turns);
        assert!(cgroup.is_frozen());
    }

    #[test]
    fn a_cgroup_paused_by_the_engine_stays_frozen_in_either_half_of_the_period() {
        for at in [100, 700] {
            let cgroup = Cgroup::new();
            let began = Instant::now();
            let mut turns = Turns::new(began);
            let plan = plan(&[(&cgroup, 0.0, 0.5)]);
            turns.follow(plan.clone(), began);
            turns.turn(began);
            turns.turn(began + Duration::from_millis(at));
            let paused = Plan { turns: Vec::new(), leave: vec![cgroup.path().to_owned()], ..plan };
            turns.follow(paused, began + Duration::from_millis(at));
            turns.turn(began + Duration::from_millis(at + 900));
            drop(turns);
            assert!(cgroup.is_frozen(), "at {at} ms");
        }
    }
}
