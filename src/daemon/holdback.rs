//! Control periods on this node: the current holdback block, and notices about the begin and end of control periods.
//!
//! Wall-clock time determines the block ([`Holdback`]), so no state is kept: a daemon that was killed within a control period resumes it.
//! A clock that is set selects another block, which the next look notices. A reload or a change of policy takes effect at once, even
//! within a block. While everything is released, blocks continue without effect: held containers are left alone.

use super::journal::unix_ms;
use model::{HoldbackBlock, Millis, PolicySettings, time};
use policy::Holdback;

/// The loop's state of holdback blocks.
pub(super) struct Blocks {
    /// Node name, which determines the control blocks.
    node: String,
    /// Whether the begin of a control period was reported, and its end was not.
    is_reported: bool,
}

impl Blocks {
    pub(crate) fn of_host() -> Blocks {
        Blocks { node: rustix::system::uname().nodename().to_string_lossy().into_owned(), is_reported: false }
    }

    /// Returns the current block, if there are any.
    pub(crate) fn now(&self, settings: &PolicySettings, now: Millis) -> Option<HoldbackBlock> {
        Some(Holdback::new(settings, &self.node)?.block_at(unix_ms(), now))
    }

    /// Returns a text if a control period begins or ends. `matters`: whether it affects any job.
    pub(crate) fn transition(&mut self, block: Option<HoldbackBlock>, matters: bool) -> Option<String> {
        let plain = block.filter(|block| block.plain && matters);
        if plain.is_some() == self.is_reported {
            return None;
        }
        self.is_reported = plain.is_some();
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
