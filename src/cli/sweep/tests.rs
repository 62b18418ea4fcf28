//! Tests of `flowctl sweep`.

use super::*;
use api::wire::{Ended, Estimate, Metric, Parameter, Trend, Trial};
use term::screen::Look;

fn trial(name: &str, value: f64, expected: Option<f64>, lr: &str) -> Container {
    let parameter = |name: &str, value: &str| Parameter { name: name.to_owned(), value: value.to_owned() };
    Container {
        name: name.to_owned(),
        id: format!("scope:{name}"),
        metric: Some(Metric {
            name: Some("val_loss".to_owned()),
            direction: Some("down".to_owned()),
            value: Some(value),
            trend: Trend::Improving,
            confidence: 1.0,
            recent: Vec::new(),
        }),
        cpu_time_s: Some(60.0),
        trial: Some(Trial {
            group: "g".to_owned(),
            parameters: vec![parameter("epochs", "40"), parameter("lr", lr)],
            expected: expected.map(|likely| Estimate { low: likely - 0.01, likely, high: Some(likely + 0.01) }),
            ..Trial::default()
        }),
        why: "trial promoted at unit 5 (1/3)".to_owned(),
        ..Container::default()
    }
}

#[test]
fn trials_come_in_the_order_of_what_is_expected_of_them() {
    let gone = Container {
        ended: Some(Ended { text: "done".to_owned(), ..Ended::default() }),
        ..trial("lr-3", 0.3, Some(0.1), "0.3")
    };
    let running = [trial("lr-1", 0.5, Some(0.2), "0.1"), trial("lr-2", 0.4, Some(0.35), "0.2")];
    let ended = [gone];
    let sweeps = sweeps(&running, &ended);
    let names = |sweep: &Sweep<'_>| sweep.trials.iter().map(|trial| trial.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&sweeps[0]), ["lr-1", "lr-3", "lr-2"], "what ended has its value, not what was expected");
    let page = page::page(&sweeps, &Look { columns: None, color: false });
    assert!(page.starts_with("sweep lr: 3 trials (2 run, 1 ended) · val_loss, smaller is better\n"), "{page}");
    assert!(page.contains("likely best: lr-1 with 0.2"), "{page}");
    assert!(page.contains("CPU time so far: 3m"), "{page}");
    assert!(page.contains("lr=0.1") && !page.contains("epochs"), "only what differs: {page}");
    assert!(page.contains("0.19 to 0.21"), "{page}");
    let narrow = page::page(&sweeps, &Look { columns: Some(80), color: false });
    assert!(narrow.lines().all(|line| term::text::width(line) <= 80), "{narrow}");
}

#[test]
fn a_group_is_one_row_with_what_its_trials_have_together() {
    let with_share = |trial: Container| Container { share: Some(0.25), ..trial };
    let single = Container { name: "vae".to_owned(), ..Container::default() };
    let all =
        [with_share(trial("lr-1", 0.5, Some(0.4), "0.1")), single, with_share(trial("lr-2", 0.4, Some(0.2), "0.2"))];
    let rows = collapsed(&all);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["lr (2 trials)", "vae"]);
    assert_eq!((rows[0].share, rows[0].metric.as_ref().and_then(|metric| metric.value)), (Some(0.5), Some(0.4)));
    assert_eq!(rows[0].why, "best is lr-2: `flowctl sweep lr`");
}

#[test]
fn larger_may_be_better_and_trials_without_a_value_come_last() {
    let up = |name: &str, value: Option<f64>| {
        let mut trial = trial(name, 0.0, None, "1");
        let metric = trial.metric.as_mut().expect("set above");
        (metric.direction, metric.value) = (Some("up".to_owned()), value);
        trial
    };
    let silent = Container { metric: None, ..trial("a-0", 0.0, None, "1") };
    let all = [silent, up("a-1", None), up("a-2", Some(0.8)), up("a-3", Some(0.9))];
    let sweeps = sweeps(&all, &[]);
    let names: Vec<&str> = sweeps[0].trials.iter().map(|trial| trial.name.as_str()).collect();
    assert_eq!(names[..2], ["a-3", "a-2"]);
}

#[test]
fn a_sweep_is_called_by_its_label_or_by_what_its_jobs_names_share() {
    let name = |names: &[&str]| {
        let all: Vec<Container> = names.iter().map(|name| trial(name, 0.5, None, "1")).collect();
        sweeps(&all, &[])[0].name.clone()
    };
    assert_eq!(name(&["resnet-1", "resnet-12"]), "resnet");
    assert_eq!(name(&["brave_curie", "sad_bell"]), "brave_curie", "nothing in common");
    let mut labelled = trial("x-1", 0.5, None, "1");
    labelled.trial.as_mut().expect("set above").group_name = Some("depth".to_owned());
    let all = [labelled, trial("x-2", 0.4, None, "1")];
    let sweeps = sweeps(&all, &[]);
    assert_eq!(sweeps[0].name, "depth");
    assert!(["depth", "x-2", "scope:x-1"].iter().all(|name| sweeps[0].is_called(name)) && !sweeps[0].is_called("x"));
}
