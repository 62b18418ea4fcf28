//! Whose turn it is to be frozen: what the daemon asks for, carried out over a period, and what came of it.
//!
//! Guarantees: no freeze is longer than [`Plan::at_most_ms`]; nothing is frozen longer than [`LEASE`] after the last plan; whatever is
//! dropped is thawed. Imports: the freezer.

use super::{Freezer, Froze, is_gone, leave};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A daemon that has asked for nothing for so long hangs.
const LEASE: Duration = Duration::from_secs(4);

/// What is to be frozen from now on: nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Each turn comes once in so many milliseconds.
    pub period_ms: u64,
    /// No freeze is longer.
    pub at_most_ms: u64,
    /// Whose turns there are.
    pub turns: Vec<Turn>,
    /// Paused by their engine: they are frozen, and the engine's to thaw.
    pub leave: Vec<PathBuf>,
}

/// One cgroup's part of each period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its directory that has the freezer.
    pub cgroup: PathBuf,
    /// When in the period it freezes, 0 .. 1.
    pub from: f64,
    /// For which part of the period, 0 ..= 1.
    pub share: f64,
}

/// What has come of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Of each that has turns.
    pub turned: Vec<Turned>,
}

/// What has come of the turns of one cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turned {
    /// Which.
    pub cgroup: PathBuf,
    /// How long it has been frozen since it had its first turn, in milliseconds.
    pub frozen_ms: u64,
    /// Somebody else has it frozen.
    pub by_others: bool,
    /// Why it could not be frozen or thawed.
    pub problem: Option<String>,
}

/// All turns now. Whoever drops it thaws everything.
#[derive(Debug)]
pub(super) struct Turns {
    period: Duration,
    at_most: Duration,
    began: Instant,
    asked: Instant,
    held: BTreeMap<PathBuf, Held>,
}

#[derive(Debug)]
struct Held {
    freezer: Freezer,
    from: f64,
    share: f64,
    frozen_since: Option<Instant>,
    /// This turn was longer than allowed: it waits for the next one.
    is_over: bool,
    frozen_for: Duration,
    by_others: bool,
    problem: Option<String>,
}

impl Turns {
    pub fn new(now: Instant) -> Turns {
        let period = Duration::from_millis(500);
        Turns { period, at_most: period, began: now, asked: now, held: BTreeMap::new() }
    }

    /// Follows a plan from now on; the answer is what has come so far.
    pub fn follow(&mut self, plan: Plan, now: Instant) -> Report {
        self.asked = now;
        self.period = Duration::from_millis(plan.period_ms.max(1));
        self.at_most = Duration::from_millis(plan.at_most_ms);
        for path in &plan.leave {
            if let Some(mut held) = self.held.remove(path) {
                held.frozen_since = None; // it is not ours to thaw
            }
            leave(path);
        }
        // Those without a turn are dropped, and thawed by that.
        self.held.retain(|path, _| plan.turns.iter().any(|turn| turn.cgroup == *path));
        let mut report = Report::default();
        for Turn { cgroup, from, share } in plan.turns {
            if !self.held.contains_key(&cgroup) {
                match Freezer::open(&cgroup) {
                    Ok(freezer) => drop(self.held.insert(cgroup.clone(), Held::new(freezer))),
                    Err(error) => {
                        let problem = (!is_gone(&error)).then(|| error.to_string());
                        report.turned.push(Turned { cgroup, frozen_ms: 0, by_others: false, problem });
                        continue;
                    }
                }
            }
            let Some(held) = self.held.get_mut(&cgroup) else { continue };
            (held.from, held.share) = (from.clamp(0.0, 1.0), share.clamp(0.0, 1.0));
            let frozen_for = held.frozen_for + held.frozen_since.map_or(Duration::ZERO, |since| now - since);
            report.turned.push(Turned {
                cgroup,
                frozen_ms: u64::try_from(frozen_for.as_millis()).unwrap_or(u64::MAX),
                by_others: held.by_others,
                problem: held.problem.take(),
            });
        }
        report
    }

    /// Freezes and thaws what it is time for; how long until there is something to do again.
    pub fn turn(&mut self, now: Instant) -> Duration {
        let is_asked = now - self.asked < LEASE;
        let into = (now - self.began).as_secs_f64() / self.period.as_secs_f64();
        let phase = into.fract();
        let mut next = if is_asked { LEASE - (now - self.asked) } else { LEASE };
        for held in self.held.values_mut() {
            let since_from = (phase - held.from).rem_euclid(1.0);
            let is_turn = is_asked && held.share > 0.0 && since_from < held.share;
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
            Err(error) => self.note(&error),
        }
    }

    fn thaw(&mut self, now: Instant) {
        match self.freezer.thaw() {
            // Tried again at the next turn of the loop.
            Err(error) if !is_gone(&error) => return self.note(&error),
            _ => {}
        }
        if let Some(since) = self.frozen_since.take() {
            self.frozen_for += now - since;
        }
    }

    fn note(&mut self, error: &std::io::Error) {
        if !is_gone(error) {
            self.problem = Some(format!("{}: {error}", self.freezer.path().display()));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.frozen_since.is_some() {
            // Whoever sees it frozen still has the journal.
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

        fn put(&self, text: &str) {
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

    /// Runs until `end` ms, asking every second; the milliseconds in which each was frozen, by `look`.
    fn run(turns: &mut Turns, plan: &Plan, began: Instant, end: u64, mut look: impl FnMut(u64)) -> Report {
        let mut report = Report::default();
        let mut at = 0;
        let mut asked_until = 0;
        while at < end {
            let now = began + Duration::from_millis(at);
            if at >= asked_until {
                report = turns.follow(plan.clone(), now);
                asked_until = at + 1000;
            }
            let wait = turns.turn(now).min(Duration::from_millis(10)).as_millis() as u64;
            look(at);
            at += wait.max(1);
        }
        report
    }

    #[test]
    fn each_is_frozen_for_its_part_of_the_period_at_its_place() {
        let (first, second) = (Cgroup::new(), Cgroup::new());
        let began = Instant::now();
        let mut turns = Turns::new(began);
        let plan = plan(&[(&first, 0.0, 0.4), (&second, 0.7, 0.6)]);
        let report = run(&mut turns, &plan, began, 10_001, |at| {
            let into = at % 1000;
            // At the very edge a rounding decides.
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
    fn no_freeze_is_longer_than_allowed_even_where_the_plan_asks_for_all_of_the_time() {
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
    fn a_daemon_that_asks_for_nothing_any_more_has_nothing_frozen() {
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
    fn who_leaves_the_plan_goes_on_at_once() {
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
    fn what_somebody_else_froze_is_never_thawed() {
        let cgroup = Cgroup::new();
        cgroup.put("1");
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
    fn what_the_engine_paused_meanwhile_stays_frozen_in_either_half_of_the_period() {
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
