//! A pool of threads that process the shards of repeated work during a training.
//!
//! Shards are taken one by one, so that a preempted thread delays only one shard and not a fixed part of the work. Each shard has
//! its own result, so the result does not depend on the thread.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Runs `lead` with a function that calls `work(shard)` once for each shard in `0..shards`, on `threads` threads in total.
pub(super) fn with_workers<R>(
    threads: usize,
    shards: usize,
    work: impl Fn(usize) + Sync,
    lead: impl FnOnce(&dyn Fn()) -> R,
) -> R {
    if threads <= 1 {
        return lead(&|| (0..shards).for_each(&work));
    }
    let round = Round {
        begin: Barrier::new(threads),
        end: Barrier::new(threads),
        next: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let take_shards = || {
        loop {
            let shard = round.next.fetch_add(1, Ordering::Relaxed);
            if shard >= shards {
                return;
            }
            work(shard);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                loop {
                    round.begin.wait();
                    if round.over.load(Ordering::Acquire) {
                        return;
                    }
                    take_shards();
                    round.end.wait();
                }
            });
        }
        let _stop = StopOnDrop(&round);
        lead(&|| {
            round.next.store(0, Ordering::Relaxed);
            round.begin.wait();
            take_shards();
            round.end.wait();
        })
    })
}

struct Round {
    begin: Barrier,
    end: Barrier,
    next: AtomicUsize,
    over: AtomicBool,
}

/// Stops the threads when `lead` returns or panics.
struct StopOnDrop<'a>(&'a Round);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.begin.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_is_processed_once_per_round_with_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let done: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
            let answer = with_workers(
                threads,
                done.len(),
                |shard| {
                    done[shard].fetch_add(1, Ordering::Relaxed);
                },
                |round| {
                    for _ in 0..50 {
                        round();
                    }
                    "done"
                },
            );
            assert_eq!(answer, "done");
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 50), "{threads} threads");
        }
    }
}
