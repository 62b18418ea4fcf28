//! CPU time of each job in each holdback block, from its wash-out to its end. Does not access the disk.
//!
//! All CPU time used while the block was observed counts, including that of jobs that started or ended within it: leaving out jobs that
//! ended would leave out those that governing helped to finish. A job that was paused, frozen or held at any look is left out. A block in
//! which the policy's settings changed does not count; one in which no job ran does.

use model::{
    BlockRecord, BlockWork, ContainerId, CpuTime, HoldbackBlock, Millis, NodeStatus, PolicySettings, RunState,
};
use std::collections::BTreeMap;

/// A block counts if at least this part after its wash-out was observed: a daemon that was away for longer has seen too little.
const SEEN_AT_LEAST: f64 = 0.5;
/// The decision at a block's end still reads the block's state, because limits are written after it. A later one does not.
const LATE_AT_MOST_MS: u64 = 500;

/// The current block, as far as it was observed.
#[derive(Debug, Default)]
pub(super) struct Windows {
    now: Option<Window>,
}

#[derive(Debug)]
struct Window {
    block: HoldbackBlock,
    settings: PolicySettings,
    /// The settings changed within it.
    is_spoilt: bool,
    /// First and last look, Unix milliseconds.
    looks: Option<(u64, u64)>,
    jobs: BTreeMap<u64, Seen>,
}

#[derive(Debug)]
struct Seen {
    first: CpuTime,
    last: CpuTime,
    /// It was not simply running at some look.
    is_spoilt: bool,
}

impl Windows {
    /// Records a snapshot, whose jobs have these numbers. Returns the block that it ends.
    pub(super) fn observe(
        &mut self,
        status: &NodeStatus,
        number: impl Fn(&ContainerId) -> Option<u64>,
    ) -> Option<BlockRecord> {
        let is_same = |window: &Window| status.holdback.is_some_and(|now| is_same(&window.block, &now));
        let mut over = None;
        if !self.now.as_ref().is_some_and(is_same) {
            over = self.now.take().and_then(|window| window.over(status, &number));
            self.now = status.holdback.map(|block| Window::new(block, status.settings));
        }
        if let Some(window) = &mut self.now {
            window.is_spoilt |= window.settings != status.settings;
            if status.unix_ms >= window.block.washed_unix_ms {
                window.look(status, &number);
            }
        }
        over
    }
}

/// Whether the blocks are the same; their end on the daemon's clock differs by rounding from look to look.
fn is_same(a: &HoldbackBlock, b: &HoldbackBlock) -> bool {
    (a.from_unix_ms, a.until_unix_ms, a.plain) == (b.from_unix_ms, b.until_unix_ms, b.plain)
}

impl Window {
    fn new(block: HoldbackBlock, settings: PolicySettings) -> Window {
        Window { block, settings, is_spoilt: false, looks: None, jobs: BTreeMap::new() }
    }

    fn look(&mut self, status: &NodeStatus, number: &impl Fn(&ContainerId) -> Option<u64>) {
        let at = status.unix_ms;
        let first_look = self.looks.map_or(at, |(first, _)| first);
        self.looks = Some((first_look, at));
        for job in &status.jobs {
            let observed = &job.observed;
            let Some((number, cpu)) = number(&observed.id).zip(observed.usage.cpu) else { continue };
            let age = status.now.since(observed.started).0;
            let began_here = at.saturating_sub(age) > first_look;
            let first = if began_here { CpuTime(0) } else { cpu };
            let seen = self.jobs.entry(number).or_insert(Seen { first, last: cpu, is_spoilt: false });
            seen.last = cpu;
            seen.is_spoilt |= observed.hold.is_some() || observed.state != RunState::Running;
        }
    }

    fn over(mut self, next: &NodeStatus, number: &impl Fn(&ContainerId) -> Option<u64>) -> Option<BlockRecord> {
        let until = self.block.until_unix_ms;
        if (until..=until + LATE_AT_MOST_MS).contains(&next.unix_ms) {
            self.look(next, number);
        }
        let (first, last) = self.looks?;
        let whole = until.saturating_sub(self.block.washed_unix_ms) as f64;
        let is_cut = next.unix_ms < until || ((last - first) as f64) < SEEN_AT_LEAST * whole;
        if self.is_spoilt || is_cut {
            return None;
        }
        let jobs = self.jobs.into_iter().filter(|(_, seen)| !seen.is_spoilt);
        let work = jobs.map(|(job, seen)| BlockWork { job, cpu: seen.last.since(seen.first) }).collect();
        let HoldbackBlock { plain, from_unix_ms, .. } = self.block;
        Some(BlockRecord { from_unix_ms, until_unix_ms: until, plain, span: Millis(last - first), work })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::recorder_tests::job;
    use model::Hold;

    const START: u64 = 1_700_000_000_000;

    /// Returns a snapshot at `at_ms`, in blocks of ten seconds of which every second one is a control period.
    fn status(at_ms: u64, jobs: &[(&str, f64)]) -> NodeStatus {
        let from_unix_ms = START + at_ms / 10_000 * 10_000;
        let block = HoldbackBlock {
            plain: at_ms / 10_000 % 2 == 1,
            from_unix_ms,
            washed_unix_ms: from_unix_ms + 2_000,
            until_unix_ms: from_unix_ms + 10_000,
            until: Millis(at_ms + 1),
        };
        let jobs = jobs.iter().map(|(id, cpu_s)| {
            let mut job = job(id, at_ms, 1.0, 0.5, 1);
            job.observed.usage.cpu = Some(CpuTime((cpu_s * 1e6) as u64));
            job
        });
        NodeStatus {
            now: Millis(at_ms),
            unix_ms: START + at_ms,
            holdback: Some(block),
            jobs: jobs.collect(),
            ..NodeStatus::default()
        }
    }

    fn number(id: &ContainerId) -> Option<u64> {
        id.as_str().strip_prefix("job").and_then(|number| number.parse().ok())
    }

    /// Returns the blocks that end during these snapshots.
    fn over(snapshots: impl IntoIterator<Item = NodeStatus>) -> Vec<BlockRecord> {
        let mut windows = Windows::default();
        snapshots.into_iter().filter_map(|status| windows.observe(&status, number)).collect()
    }

    /// Returns looks every second from `from_s` to `to_s`: the job uses two cores in governed blocks and one in control periods.
    fn looks(from_s: u64, to_s: u64) -> impl Iterator<Item = NodeStatus> {
        let used = |at_s: u64| (0..at_s).map(|s| if s / 10 % 2 == 1 { 1.0 } else { 2.0 }).sum::<f64>();
        (from_s..=to_s).map(move |at_s| status(at_s * 1000 + 30, &[("job1", used(at_s) + 0.03)]))
    }

    #[test]
    fn a_block_is_measured_from_its_wash_out_to_the_decision_at_its_end() {
        let blocks = over(looks(0, 20));
        let measured: Vec<_> =
            blocks.iter().map(|b| (b.from_unix_ms - START, b.plain, b.span, b.work[0].cpu)).collect();
        let (eight, cores) = (Millis(8_000), |cores: u64| CpuTime(cores * 8_000_000));
        assert_eq!(measured, [(0, false, eight, cores(2)), (10_000, true, eight, cores(1))]);
    }

    #[test]
    fn a_wash_out_does_not_count() {
        // A job that used nine cores while the limits of the block before were still in force.
        let burst = |mut status: NodeStatus| {
            let into = (status.unix_ms - START) % 10_000;
            if into < 2_000 {
                status.jobs[0].observed.usage.cpu = Some(CpuTime(9_000_000_000));
            }
            status
        };
        let blocks = over(looks(10, 20).map(burst));
        assert_eq!(blocks.len(), 1);
        // The decision 30 ms after the block's end is its last reading; here that was a wrong one too.
        let blocks = over(looks(10, 19).map(burst).chain([status(20_800, &[("job1", 0.0)])]));
        assert_eq!((blocks[0].span, blocks[0].work[0].cpu), (Millis(7_000), CpuTime(7_000_000)));
    }

    #[test]
    fn jobs_that_start_or_end_within_a_block_count_with_their_use_and_held_jobs_do_not() {
        let all = |at_s: u64| {
            let cpu = at_s as f64;
            let mut jobs = vec![("job1", cpu), ("job2", cpu)];
            jobs.extend((at_s >= 5).then_some(("job3", cpu - 4.0)));
            jobs.extend((at_s < 8).then_some(("job4", cpu)));
            let mut status = status(at_s * 1000, &jobs);
            status.jobs[1].observed.hold = (at_s == 6).then_some(Hold::Released);
            if at_s >= 5 {
                status.jobs[2].observed.started = Millis(4_000);
            }
            status
        };
        let blocks = over((0..=10).map(all));
        let measured: Vec<(u64, u64)> = blocks[0].work.iter().map(|work| (work.job, work.cpu.0 / 1_000_000)).collect();
        assert_eq!(measured, [(1, 8), (3, 6), (4, 5)]);
    }

    #[test]
    fn a_block_that_was_barely_observed_or_in_which_settings_changed_does_not_count() {
        assert_eq!(over(looks(7, 10)), [], "from 7 to 10 of 2 to 10");
        assert_eq!(over(looks(5, 10)).len(), 1);
        let changed = |mut status: NodeStatus| {
            status.settings.objective.0 = if status.unix_ms < START + 5_000 { 0.5 } else { 1.0 };
            status
        };
        assert_eq!(over(looks(0, 10).map(changed)), []);
        // The length of the blocks changes within one.
        let cut = |mut status: NodeStatus| {
            if let Some(block) = status.holdback.as_mut().filter(|_| status.unix_ms > START + 7_000) {
                block.until_unix_ms += 60_000;
            }
            status
        };
        assert_eq!(over(looks(0, 9).map(cut)), []);
    }

    #[test]
    fn a_daemon_that_restarts_within_a_block_observes_the_rest_of_it() {
        let mut windows = Windows::default();
        assert!(looks(10, 13).all(|status| windows.observe(&status, number).is_none()));
        let blocks = over(looks(14, 20));
        assert_eq!((blocks.len(), blocks[0].plain, blocks[0].span), (1, true, Millis(6_000)));
    }
}
