//! A share that an operator holds where it is: the policy then divides the rest.
//!
//! A pin is both bounds at once, so that the policy keeps it as it keeps an owner's: it lies within the owner's bounds, pins that add
//! up to more than there is are scaled down together, and it is as soft as every share. It lasts until it is taken off, and no longer
//! than the job's run or the daemon's, as a pause does.

use super::job::Job;
use crate::model::{Bounds, PolicyName, Refusal, Share};

/// Less is no share: a weight of 1 among 100 containers.
const LEAST: f64 = 0.0001;

impl Job {
    /// Holds its share at `share`, or where it is. `held`: it is left alone now.
    pub(super) fn pin(&mut self, share: Option<f64>, policy: PolicyName, held: bool) -> Result<String, Refusal> {
        if policy == PolicyName::Fair {
            let text =
                "the policy fair changes no share, so none can be pinned; `flowctl policy balanced` uses another";
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
        let later = if held { "; it counts once its limits are no longer left alone" } else { "" };
        let done = format!("{name} is pinned to {pin} of the node{bounded} until `flowctl unpin {name}`{later}");
        self.pinned = Some(pin);
        Ok(done)
    }

    /// Lets the policy decide again.
    pub(super) fn unpin(&mut self) -> Result<String, Refusal> {
        let name = &self.target.name;
        match self.pinned.take() {
            Some(_) => Ok(format!("{name} is no longer pinned")),
            None => Err(Refusal::Refused(format!("{name} is not pinned"))),
        }
    }

    /// The bounds that the policy has to keep.
    pub(super) fn bounds(&self) -> Bounds {
        self.pinned.map_or(self.directives.bounds, |pin| Bounds { min: pin, max: pin })
    }

    /// The share nearest to this one that its owner allows. A lower bound above the upper one wins, as in the policy.
    fn allowed(&self, share: f64) -> Share {
        let Bounds { min, max } = self.directives.bounds;
        Share::clamped(share.min(max.fraction()).max(min.fraction()).max(LEAST))
    }
}
