//! Tests of labels: what each sets, what is refused, and to whom.

use super::*;

fn parse(labels: &[(&str, &str)]) -> (Directives, Vec<String>) {
    directives(&labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}

#[test]
fn labels_set_bounds_weight_and_reader() {
    let (parsed, problems) = parse(&[
        ("flowcon.enable", "true"),
        ("flowcon.min-share", "10%"),
        ("flowcon.max-share", "0.5"),
        ("flowcon.weight", "2"),
        ("flowcon.metric", "val_loss"),
        ("flowcon.direction", "down"),
        ("flowcon.pattern", r"loss=(?P<value>\S+)"),
        ("flowcon.unit", "Epochs"),
        ("flowcon.memory-floor", "2g"),
        ("flowcon.turns", "false"),
        ("com.example", "not ours"),
    ]);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((parsed.bounds.min.fraction(), parsed.bounds.max.fraction(), parsed.weight), (0.1, 0.5, 2.0));
    let hints = &parsed.hints;
    assert_eq!((hints.metric.as_deref(), hints.direction), (Some("val_loss"), Some(Direction::Down)));
    assert_eq!(hints.unit, Some(ProgressUnit::Epoch));
    assert!(hints.pattern.is_some() && parsed.memory_floor.is_some() && !parsed.takes_turns);
}

#[test]
fn every_listed_label_is_supported_and_its_example_is_valid() {
    let examples: Vec<(String, &str)> =
        LABELS.iter().map(|label| (format!("{LABEL_PREFIX}{}", label.name), label.example)).collect();
    let examples: Vec<(&str, &str)> = examples.iter().map(|(label, example)| (label.as_str(), *example)).collect();
    assert_eq!(parse(&examples).1, Vec::<String>::new());
    let readme = include_str!("../../README.md");
    assert!(examples.iter().all(|(label, _)| readme.contains(label)), "the README lists every label");
}

#[test]
fn invalid_labels_are_reported_and_ignored() {
    let (parsed, problems) = parse(&[
        ("flowcon.weight", "NaN"),
        ("flowcon.max-share", "0"),
        ("flowcon.min-share", "-3"),
        ("flowcon.total", "-10"),
        ("flowcon.pattern", "(unclosed"),
        ("flowcon.log", "relative/path"),
        ("flowcon.direction", "sideways"),
        ("flowcon.wieght", "2"),
        ("flowcon.user", "-"),
        ("flowcon.notify", "https://ntfy.example/x"),
    ]);
    assert_eq!(parsed, Directives::default());
    assert_eq!(problems.len(), 8, "{problems:#?}");
    assert!(problems.iter().any(|p| p.contains("flowcon.pattern") && p.contains("unclosed group")), "{problems:#?}");
}

#[test]
fn invalid_labels_of_an_operator_are_rejected_with_what_is_expected() {
    let refused = |label: &str, value: &str| {
        check_labels(&[(label.to_owned(), value.to_owned())].into()).expect_err("refused").join("; ")
    };
    assert_eq!(refused("flowcon.weight", "much"), "label flowcon.weight: expected a number from 0.01 to 100");
    let bomb = refused("flowcon.pattern", "(?P<value>(?:(?:x?){50}){50})");
    assert!(bomb.ends_with("use smaller repetition counts, or name the metric with flowcon.metric instead"), "{bomb}");
    assert!(refused("flowcon.unit", "furlong").starts_with("label flowcon.unit: expected epoch, step"));
    assert_eq!(refused("weight", "2"), "label weight: expected one that begins with flowcon.");
    assert!(refused("flowcon.wieght", "2").contains("did you mean flowcon.weight? see `flowctl help labels`"));
    assert!(!refused("flowcon.swordfish", "2").contains("did you mean"));
    assert_eq!(check_labels(&[("flowcon.weight".to_owned(), "2".to_owned())].into()), Ok(()));
}

#[test]
fn labels_of_a_command_are_checked() {
    let refused = |label: &str, value: &str| meant(&[(label.to_owned(), value.to_owned())].into());
    assert_eq!(refused("weight", "2"), Err(vec!["label weight: did you mean flowcon.weight?".to_owned()]));
    assert!(refused("flowcon.weihgt", "2").is_err_and(|why| why[0].contains("did you mean flowcon.weight?")));
    assert!(refused("flowcon.total", "many").is_err());
    assert_eq!(refused("com.example.weight", "2"), Ok(()));
    let stop = refused("flowcon.group-stop", "rung 1").expect_err("no engine runs a command");
    assert_eq!(
        stop,
        ["label flowcon.group-stop: only for containers, which an engine can stop; end a command yourself, with kill"]
    );
}

#[test]
fn labels_that_could_take_resources_from_others_are_reserved_for_admins() {
    let given = |label: &str, value: &str| for_everybody(&[(label.to_owned(), value.to_owned())].into(), "bob");
    assert!(given("flowcon.weight", "1.01").is_err() && given("flowcon.min-share", "1%").is_err());
    assert_eq!((given("flowcon.weight", "0.5"), given("flowcon.max-share", "50%")), (Ok(()), Ok(())));
    let refused = "label flowcon.user: it is bob; only root and api.admins may name alice";
    assert_eq!(given("flowcon.user", "alice"), Err(refused.to_owned()));
    assert_eq!(given("flowcon.user", "bob"), Ok(()));
}

#[test]
fn a_deadline_is_a_time_after_the_start() {
    assert_eq!(parse(&[("flowcon.deadline", "90m")]).0.deadline, Some(Millis::from_secs(5400)));
    for wrong in ["tomorrow", "0s", "-3h", "1e9h", "NaN"] {
        let (parsed, problems) = parse(&[("flowcon.deadline", wrong)]);
        assert_eq!((parsed.deadline, problems.len()), (None, 1), "{wrong}");
    }
}

#[test]
fn a_minimum_above_the_maximum_has_no_effect() {
    let (parsed, problems) = parse(&[("flowcon.min-share", "0.6"), ("flowcon.max-share", "0.4")]);
    assert_eq!(parsed.bounds, Bounds::default());
    assert_eq!(problems.len(), 1);
}

#[test]
fn messages_about_a_flood_of_labels_are_limited() {
    let bomb = (0..10_000).map(|n| (format!("flowcon.x{n}\u{1b}[31m"), "y".repeat(500)));
    let (_, problems) = directives(&bomb.collect());
    assert!(problems.len() <= PROBLEMS_AT_MOST);
    assert!(problems.iter().all(|text| text.len() < 300 && !text.contains('\u{1b}')));
}

#[test]
fn a_group_stop_names_one_of_three_rungs() {
    assert_eq!(parse(&[("flowcon.group-stop", " rung  2 ")]).0.group_stop, Some(2));
    for wrong in ["", "true", "2", "rung", "rung 0", "rung 4", "rung -1", "rung 1.5", "rung 1 2", "Rung NaN"] {
        let (parsed, problems) = parse(&[("flowcon.group-stop", wrong)]);
        assert_eq!(parsed.group_stop, None, "{wrong}");
        assert_eq!(problems, ["label flowcon.group-stop ignored: expected rung 1, rung 2 or rung 3"], "{wrong}");
    }
}
