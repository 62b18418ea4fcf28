//! a pool of threads that share the shards of one piece of work, again and again, for as long as a training lasts.
//!
//! Shards are taken one by one, so that a thread which the kernel leaves waiting holds up one shard and not a fixed part of the
//! work. Results go to a place of the shard's own: who computed it changes nothing. Imports: std only.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Runs `lead` with a function that does `work(shard)` once for each shard in `0..shards`, on `threads` threads in all.
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
        let _dismissal = Dismissal(&round);
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

/// Ends the threads when the lead is done, also when it leaves by an error or a panic.
struct Dismissal<'a>(&'a Round);

impl Drop for Dismissal<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.begin.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_is_done_once_a_round_whatever_the_number_of_threads() {
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
