//! The results of the check: a table for people and lines of JSON for programs.

use serde_json::{Value, json};

/// Results of one run of several trainings on one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// End of each training, in seconds after the start of the first.
    pub ended: Vec<f64>,
    /// Number of trainings that failed.
    pub lost: usize,
    /// Speed of the training that ended first, since another was frozen for it, as a fraction of the speed alone.
    pub favoured_speed: Option<f64>,
    /// Fraction of the time in which the GPU was idle although trainings computed.
    pub idle: Option<f64>,
    /// Mean absolute difference between GPU time shares of flowcon and of nvidia-smi, in percentage points.
    pub accounting_error: Option<f64>,
    /// Mean fraction of the time in which the GPU was busy for none of the trainings.
    pub unattributed: Option<f64>,
    /// Largest `frozen_share` of a training.
    pub frozen: f64,
}

impl Run {
    /// Returns the mean completion time, in seconds.
    pub fn mean(&self) -> f64 {
        self.ended.iter().sum::<f64>() / self.ended.len().max(1) as f64
    }

    fn makespan(&self) -> f64 {
        self.ended.iter().copied().fold(0.0, f64::max)
    }
}

/// Results of the same trainings, plain and governed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// With `policy.name=fair`.
    pub plain: Run,
    /// With `gpu.control=duty-cycle`.
    pub governed: Run,
}

impl Pair {
    /// Returns the relative change of the mean completion time by governing: −0.2 is 20 % less.
    pub fn change(&self) -> f64 {
        self.governed.mean() / self.plain.mean() - 1.0
    }

    /// Formats the results as one line of JSON.
    pub fn json(&self, gpu: &str, frozen_afterwards: Option<usize>) -> Value {
        let Pair { plain, governed } = self;
        json!({
            "gpu": gpu,
            "jobs": plain.ended.len(),
            "plain": { "mean_completion_s": rounded(plain.mean()), "makespan_s": rounded(plain.makespan()), "lost": plain.lost },
            "governed": {
                "mean_completion_s": rounded(governed.mean()), "makespan_s": rounded(governed.makespan()), "lost": governed.lost,
                "frozen": rounded(governed.frozen),
            },
            "change": rounded(self.change()),
            "accounting_error_points": plain.accounting_error.map(rounded),
            "unattributed": plain.unattributed.map(rounded),
            "favoured_speed": governed.favoured_speed.map(rounded),
            "idle": governed.idle.map(rounded),
            "frozen_afterwards": frozen_afterwards,
        })
    }
}

/// Formats the table, one line per pair.
pub fn table(pairs: &[Pair]) -> String {
    let mut text = format!(
        "{:>4}  {:>9}  {:>9}  {:>7}  {:>8}  {:>5}  {:>6}  {:>10}  {:>4}\n",
        "JOBS", "PLAIN", "GOVERNED", "CHANGE", "FAVOURED", "IDLE", "FROZEN", "ACCOUNTING", "LOST"
    );
    for pair in pairs {
        let percent = |part: Option<f64>| part.map_or("-".to_owned(), |part| format!("{:.0}%", part * 100.0));
        let points = pair.plain.accounting_error.map_or("-".to_owned(), |points| format!("{points:.1} pt"));
        text.push_str(&format!(
            "{:>4}  {:>7.1} s  {:>7.1} s  {:>+6.1}%  {:>8}  {:>5}  {:>6}  {:>10}  {:>4}\n",
            pair.plain.ended.len(),
            pair.plain.mean(),
            pair.governed.mean(),
            pair.change() * 100.0,
            percent(pair.governed.favoured_speed),
            percent(pair.governed.idle),
            percent(Some(pair.governed.frozen)),
            points,
            pair.plain.lost + pair.governed.lost,
        ));
    }
    text
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::{Pair, Run, table};

    fn pair() -> Pair {
        let plain = Run { ended: vec![40.0, 40.0], accounting_error: Some(1.25), ..Run::default() };
        let governed = Run {
            ended: vec![20.0, 40.0],
            favoured_speed: Some(0.96),
            idle: Some(0.02),
            frozen: 0.9,
            ..Run::default()
        };
        Pair { plain, governed }
    }

    #[test]
    fn the_change_compares_means_and_table_and_json_have_all_figures() {
        let text = table(&[pair()]);
        let last: Vec<&str> = text.lines().last().map(|line| line.split_whitespace().collect()).unwrap_or_default();
        let expected = "2 40.0 s 30.0 s -25.0% 96% 2% 90% 1.2 pt 0";
        assert_eq!(last.join(" "), expected);
        let json = pair().json("NVIDIA T4", Some(0));
        assert_eq!(
            (&json["change"], &json["jobs"], &json["frozen_afterwards"]),
            (&(-0.25).into(), &2.into(), &0.into())
        );
        assert_eq!((&json["favoured_speed"], &json["accounting_error_points"]), (&0.96.into(), &1.25.into()));
    }

    #[test]
    fn a_missing_measurement_is_a_dash_in_the_table_and_null_in_json() {
        let run = Run { ended: vec![1.0], ..Run::default() };
        let pair = Pair { plain: run.clone(), governed: run };
        assert!(table(std::slice::from_ref(&pair)).contains(" -  "));
        assert!(pair.json("x", None)["accounting_error_points"].is_null());
    }
}
