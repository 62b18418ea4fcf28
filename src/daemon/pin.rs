//! A share that an operator holds where it is: the policy then divides the rest.
//!
//! A pin is both bounds at once, so that the policy keeps it as it keeps an owner's: it lies within the owner's bounds, pins that add
//! up to more than there is are scaled down together, and it is as soft as every share. It lasts until it is taken off, and no longer
//! than the job's run or the daemon's, as a pause does.

use super::commands::gone;
use super::governing::Governing;
use super::job::Job;
use crate::api::Refusal;
use crate::model::{Bounds, PolicyName, Share};

/// Less is no share: a weight of 1 among 100 containers.
const LEAST: f64 = 0.0001;

impl Governing {
    /// Holds the share of a job at `share`, or where it is.
    pub(super) fn pin(&mut self, name: &str, share: Option<f64>) -> Result<String, Refusal> {
        if self.settings.policy.policy == PolicyName::Fair {
            let text =
                "the policy fair changes no share, so none can be pinned; `flowctl policy balanced` uses another";
            return Err(Refusal::Refused(text.to_owned()));
        }
        let id = self.find(name)?;
        let Some(job) = self.jobs.get_mut(&id) else { return Err(gone(name)) };
        let name = job.target.name.clone();
        let Some(wanted) = share.or_else(|| job.plan.as_ref().map(|plan| plan.share.fraction())) else {
            let text = format!("no share was decided for {name} yet; give one: `flowctl pin {name} --share 40%`");
            return Err(Refusal::Refused(text));
        };
        let pin = job.allowed(wanted);
        job.pinned = Some(pin);
        let held = job.ledger.hold(crate::host::node::now(), self.paused).is_some();
        self.tick_now();
        let bounded = if (pin.fraction() - wanted).abs() > 0.0005 {
            format!(" (its owner's bounds do not allow {})", Share::clamped(wanted))
        } else {
            String::new()
        };
        let later = if held { "; it counts once its limits are no longer left alone" } else { "" };
        Ok(format!("{name} is pinned to {pin} of the node{bounded} until `flowctl unpin {name}`{later}"))
    }

    /// Lets the policy decide again.
    pub(super) fn unpin(&mut self, name: &str) -> Result<String, Refusal> {
        let id = self.find(name)?;
        let Some(job) = self.jobs.get_mut(&id) else { return Err(gone(name)) };
        let name = job.target.name.clone();
        if job.pinned.take().is_none() {
            return Err(Refusal::Refused(format!("{name} is not pinned")));
        }
        self.tick_now();
        Ok(format!("{name} is no longer pinned"))
    }
}

impl Job {
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
