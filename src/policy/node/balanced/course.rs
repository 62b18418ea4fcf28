//! How ranks develop while jobs work towards their milestones: the policy's division of the cores at later times.

use super::candidate::{Candidate, take_turns};
use super::milestone::Prospect;
use super::users::leave_the_floor;
use super::{critical, pool, sweep};

/// A ranked job, and what its rank depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::node) struct Course {
    pub(super) candidate: Candidate,
    pub(super) prospect: Prospect,
}

impl Course {
    /// CPU-seconds to its good model, while it is ahead.
    pub(in crate::node) fn work_to_quality(&self) -> Option<f64> {
        self.prospect.work_to_quality()
    }

    /// Takes the work of some seconds, in which it used `cpu` CPU-seconds and was due `due` cores.
    pub(in crate::node) fn pass(&mut self, seconds: f64, cpu: f64, due: f64) {
        self.prospect.pass(seconds, cpu, due);
        if let Some(milestone) = self.prospect.best() {
            self.candidate.milestone = milestone;
        }
    }
}

/// Returns the cores of each job as the policy divides them: those to which it is entitled, and those that it is given. Each job has a
/// weight, and a course if it is ranked; one that is broken has none.
pub(in crate::node) fn divide(
    cores: f64,
    floor: f64,
    weights: &[f64],
    is_broken: impl Fn(usize) -> bool,
    courses: &[Option<Course>],
) -> (Vec<f64>, Vec<f64>) {
    let all: f64 = weights.iter().sum();
    let mut entitled: Vec<f64> = weights.iter().map(|weight| cores * weight / all.max(f64::MIN_POSITIVE)).collect();
    leave_the_floor(&mut entitled, floor, |at| weights[at] <= 0.0 || is_broken(at));
    let mut candidates: Vec<Option<Candidate>> =
        courses.iter().map(|course| course.as_ref().map(|course| course.candidate)).collect();
    critical::mark(&mut candidates, &entitled, weights.len().max(1) as f64, cores);
    let sharpness = if take_turns(&candidates) { pool::SHARPNESS_AGAINST_WASTE } else { pool::SHARPNESS };
    sweep::hand_out(candidates.iter_mut().flatten(), sharpness);
    let ranked: Vec<Option<&Candidate>> = candidates.iter().map(Option::as_ref).collect();
    let usable: Vec<f64> = candidates.iter().map(|ranked| ranked.as_ref().map_or(0.0, |c| c.usable)).collect();
    let given = pool::divide_among(&ranked, &entitled, (floor, sharpness), &usable);
    (entitled, given)
}

#[cfg(test)]
impl Course {
    /// A job with only its end ahead.
    pub(in crate::node) fn to_an_end(work: f64, usable: f64) -> Course {
        let prospect = Prospect::to_an_end(work);
        let milestone = prospect.best().expect("it has an end");
        Course { candidate: Candidate::new(milestone, 1.0, usable), prospect }
    }

    /// The same with a good model after so many CPU-seconds.
    pub(in crate::node) fn good_after(self, work: f64) -> Course {
        Course { prospect: self.prospect.good_after(work), ..self }
    }

    /// The same as a trial at this place in its sweep.
    pub(in crate::node) fn at_place(self, at: u16) -> Course {
        let place = Some(super::standing::Place { sweep: 0, at });
        Course { candidate: Candidate { place, ..self.candidate }, ..self }
    }
}
