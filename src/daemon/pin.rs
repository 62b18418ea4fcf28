//! Pins: an operator fixes a job's share, and the policy divides the rest.
//!
//! A pin sets both bounds to one share, so the policy treats it as it treats an owner's bounds: it lies within them, pins that add up to
//! more than the node are scaled down together, and it is as soft as every share. It lasts until it is removed, or until the run or the
//! daemon ends, as a release does.

use super::job::Job;
use model::{Bounds, PolicyName, Refusal, Share};

/// The smallest share that can be pinned: a weight of 1 among 100 containers.
const LEAST: f64 = 0.0001;

impl Job {
    /// Pins the share to `share`, or to its current value. `held`: the job is left alone now.
    pub(super) fn pin(&mut self, share: Option<f64>, policy: PolicyName, held: bool) -> Result<String, Refusal> {
        if policy == PolicyName::Fair {
            let text = "the policy `fair` changes no shares, so none can be pinned; \
                        to use another policy, run `flowctl policy balanced`";
            return Err(Refusal::Refused(text.to_owned()));
        }
        let name = &self.target.name;
        let Some(wanted) = share.or_else(|| self.plan.as_ref().map(|plan| plan.share.fraction())) else {
            let text = format!("no share was decided for {name} yet; give one: `flowctl pin {name} --share 40%`");
            return Err(Refusal::Refused(text));
        };
        let pin = self.allowed(wanted);
        let bounded = if (pin.fraction() - wanted).abs() > 0.0005 {
            format!(" (its owner's bounds do not allow {})", Share::clamped(wanted))
        } else {
            String::new()
        };
        let later = if held { "; it takes effect once its limits are no longer left alone" } else { "" };
        let done = format!("{name} is pinned to {pin} of the node{bounded} until `flowctl unpin {name}`{later}");
        self.pinned = Some(pin);
        Ok(done)
    }

    /// Removes the pin.
    pub(super) fn unpin(&mut self) -> Result<String, Refusal> {
        let name = &self.target.name;
        match self.pinned.take() {
            Some(_) => Ok(format!("{name} is no longer pinned")),
            None => Err(Refusal::Refused(format!("{name} is not pinned"))),
        }
    }

    /// Returns the bounds that the policy must keep.
    pub(super) fn bounds(&self) -> Bounds {
        self.pinned.map_or(self.directives.bounds, |pin| Bounds { min: pin, max: pin })
    }

    /// Returns the allowed share nearest to this one. A lower bound above the upper one wins, as in the policy.
    fn allowed(&self, share: f64) -> Share {
        let Bounds { min, max } = self.directives.bounds;
        Share::clamped(share.min(max.fraction()).max(min.fraction()).max(LEAST))
    }
}
