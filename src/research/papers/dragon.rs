//! The evaluation of weighted DRAGON: a queue with gangs and elastic jobs on three nodes.

use super::cluster::{Column, MAKESPAN, MEAN, Measure, Published, Side, published, rows};
use super::{Evaluation, Pair};
use model::Millis;
use model::cluster::QueueRule;
use sim::compare::Change;

/// A time that does not come in a schedule.
const NEVER: Millis = Millis::from_secs(1_000_000);

/// Evaluates `seeds` schedules.
pub fn evaluate(seeds: u64) -> Result<Evaluation, String> {
    let with = |queue: QueueRule, name: &str| {
        let mut side = Side::named("dragon")?;
        name.clone_into(&mut side.variant.name);
        side.variant.cluster.queue = queue;
        Ok::<Side, String>(side)
    };
    let (dragon, weighted) = (with(QueueRule::Dragon, "dragon")?, with(QueueRule::Weighted, "weighted")?);
    let operator = Side { is_elastic: false, ..with(QueueRule::FirstFit, "operator")? };
    let mut unweighted = with(QueueRule::Dragon, "unweighted")?;
    (unweighted.variant.cluster.dragon_waits, unweighted.variant.cluster.dragon_idles) = (NEVER, Millis(0));
    let default = Side::named("default")?;
    let against = |base: &Side, published: &Published| {
        let columns =
            [Column::assumed(base, &weighted), Column::neutral(base, &weighted), Column::neutral(base, &default)];
        rows(published, &columns, seeds)
    };
    let mut all = Vec::new();
    for (scenario, table, figure) in
        [("dragon-1", "II", "-5.06 %"), ("dragon-2", "III", "-35.05 %"), ("dragon-3", "IV", "-22.38 %")]
    {
        for (base, name) in [(&operator, "the plain operator"), (&dragon, "DRAGON")] {
            let source = format!("table {table}, 3 nodes, against {name}");
            all.extend(against(base, &published(scenario, &source, 1.0, &[(MAKESPAN, figure), (MEAN, "")]))?);
        }
    }
    let figures = [(MAKESPAN, "-6.74 %"), (BEST_RUN, "-23.85 %"), (WORST_RUN, "+4.93 %")];
    let source = "table V, 3 nodes, against no weights";
    all.extend(against(&unweighted, &published("dragon-4", source, 1.0, &figures))?);
    Ok(Evaluation {
        title: "Weighted DRAGON: a queue with gangs and elastic jobs",
        base: "the scheduler named in the row",
        assumed: "weights and scaling at once, on plainly shared nodes; each further competitor costs 3 % of the speed",
        honest: "the same; competitors cost each other nothing",
        default: "the same with least added completion, moves that shorten the mean completion, governed nodes; as honest",
        schedules: seeds,
        rows: all,
        notes: NOTES,
    })
}

const BEST_RUN: Measure = ("makespan, best run", |pairs| extreme(pairs, f64::min));
const WORST_RUN: Measure = ("makespan, worst run", |pairs| extreme(pairs, f64::max));

/// The makespan's change in the schedule where it is greatest or smallest.
fn extreme(pairs: &[Pair], of: fn(f64, f64) -> f64) -> String {
    pairs.iter().map(Pair::makespan).reduce(of).map_or_else(String::new, |change| Change(change).to_string())
}

const NOTES: &[&str] = &[
    "The published gains are \"up to\", without the job, the run or the baseline, so each stands beside both baselines. Table VII has one time for \
     each run, so a figure here is the end of the last job. Apart from these totals no times are published: not those of a training, nor of a \
     restart or of communication. The conclusion has other figures than section IV-E, 26.56 % for scaling and gangs and 6.23 % for weights, \
     without saying of what they are.",
    "Order: published, table III gains most and table II least. Here table III gains most over the plain operator, because its small workers \
     all fit and only scaling makes them more, and table II does worse than DRAGON: its important job takes workers from the others, \
     which then end later. The rest differs: over the plain operator, table II gains more than table IV here, and over DRAGON \
     table IV gains more than table III.",
    "Table II, -5.06 %: the paper says that job 4 most likely could not be scheduled as a gang, because the others used most of the room. Here \
     its workers are spread over nodes then, as section III-B says, and jobs grow when others end.",
    "Table V: larger jobs first costs a little here. The published mean of five runs, -6.74 %, has a standard deviation of 11.92 points, and two of \
     the runs lost. The scheduler without weights is here DRAGON's queue that scales up at once and never down.",
    "flowcon's weighted queue also takes workers beyond the initial number from a job of equal weight for one that waits.",
    "Table VIII, the accuracy of models trained on one to four workers (28.4 % to 53.2 %), is not reproduced: a simulated training has no model.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_gains_most_over_the_plain_operator_where_all_workers_fit_and_least_over_dragon_where_one_job_matters() {
        let rows = evaluate(2).unwrap().rows;
        let makespan = |table: &str, base: &str| -> f64 {
            let source = format!("table {table}, 3 nodes, against {base}");
            let row = rows.iter().find(|row| row.source == source && row.what == "makespan").unwrap();
            row.assumed.split(' ').next().unwrap().parse().unwrap()
        };
        let [second, third, fourth] = ["II", "III", "IV"].map(|table| makespan(table, "the plain operator"));
        assert!(third < second && second < fourth && fourth < -20.0, "{second} {third} {fourth}");
        let [second, third, fourth] = ["II", "III", "IV"].map(|table| makespan(table, "DRAGON"));
        assert!(fourth < third && third < 0.0 && second > 0.0, "{second} {third} {fourth}");
    }
}
