//! Control periods of time on this node: which block is now, and that one begins or ends.
//!
//! Wall time says which block it is ([`Holdback`]), so nothing of it is kept: a daemon that was killed within a control period finds itself in
//! it again. A clock that is set jumps to another block, which the next look notices. A reload or another policy takes effect at once, also
//! within a block. While everything is released blocks go on and mean nothing: what is held is left alone.

use super::journal::unix_ms;
use crate::model::{HoldbackBlock, Millis, PolicySettings, time};
use crate::policy::Holdback;

/// What the loop remembers of blocks.
pub(super) struct Blocks {
    /// The name that says which blocks are plain.
    node: String,
    /// It was told that a control period began, and not yet that it ended.
    told: bool,
}

impl Blocks {
    pub fn of_host() -> Blocks {
        Blocks { node: rustix::system::uname().nodename().to_string_lossy().into_owned(), told: false }
    }

    /// Which block is now, if there are any.
    pub fn now(&self, settings: &PolicySettings, now: Millis) -> Option<HoldbackBlock> {
        Some(Holdback::new(settings, &self.node)?.block_at(unix_ms(), now))
    }

    /// Says that a control period begins or ends. `matters`: it is anything to a job.
    pub fn turned(&mut self, block: Option<HoldbackBlock>, matters: bool) -> Option<String> {
        let plain = block.filter(|block| block.plain && matters);
        if plain.is_some() == self.told {
            return None;
        }
        self.told = plain.is_some();
        Some(match plain {
            Some(block) => {
                let until = time::utc(block.until_unix_ms);
                format!(
                    "control period until {until}: every job has its original limits, to measure what governing gains"
                )
            }
            None => "the control period is over".to_owned(),
        })
    }
}
