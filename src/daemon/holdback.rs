//! Plain blocks of time on this node: which block is now, and that one begins or ends.
//!
//! Wall time says which block it is ([`Holdback`]), so nothing of it is kept: a daemon that was killed within a plain block finds itself in
//! it again. A clock that is set jumps to another block, which the next look notices. A reload or another policy takes effect at once, also
//! within a block. While everything is paused blocks go on and mean nothing: what is held is left alone.

use super::governing::Governing;
use super::observe::observe;
use crate::model::{EventKind, HoldbackBlock, Millis, NodeObservation, time};
use crate::policy::Holdback;

/// What the loop remembers of blocks.
pub(super) struct Blocks {
    /// The name that says which blocks are plain.
    node: String,
    /// It was told that a plain block began, and not yet that it ended.
    told: bool,
}

impl Blocks {
    pub fn of_host() -> Blocks {
        Blocks { node: rustix::system::uname().nodename().to_string_lossy().into_owned(), told: false }
    }
}

impl Governing {
    /// Everything that the governor may know at `now`, with the block of time. `close` is for a tick, which also tells of the block.
    pub(super) fn observed(&mut self, now: Millis, close: bool) -> NodeObservation {
        let blocks = Holdback::new(&self.settings.policy, &self.blocks.node);
        let holdback = blocks.map(|blocks| blocks.block_at(super::journal::unix_ms(), now));
        if close {
            self.tell_block(holdback);
        }
        NodeObservation { holdback, ..observe(self.node, &mut self.jobs, now, self.paused, close) }
    }

    /// Says that a plain block begins or ends, where that is anything to a job.
    fn tell_block(&mut self, now: Option<HoldbackBlock>) {
        let plain = now.filter(|block| block.plain && !self.paused && !self.jobs.is_empty());
        if plain.is_some() == self.blocks.told {
            return;
        }
        self.blocks.told = plain.is_some();
        let text = match plain {
            Some(block) => {
                let until = time::utc(block.until_unix_ms);
                format!("plain block until {until}: every job has its original limits, to measure what governing gains")
            }
            None => "the plain block is over".to_owned(),
        };
        self.publisher.tell(EventKind::Holdback, None, text);
    }
}
