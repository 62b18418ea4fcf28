//! Tests of records.

use super::super::labels::QUEUE;
use super::*;

fn full() -> Record {
    let nodes = |names: &[&str]| names.iter().map(|name| NodeId((*name).into())).collect::<BTreeSet<_>>();
    Record {
        phase: JobPhase::Carrying,
        number: 7,
        home: Some(NodeId("a".into())),
        from: Some(NodeId("a".into())),
        to: Some(NodeId("b".into())),
        goal: Some(Goal::Move),
        why: Some("the node is being drained".into()),
        placed: nodes(&["a", "b"]),
        past: BTreeSet::from(["t1".into(), "t2".into()]),
        saved: Some(12.5),
        moves: 3,
        tries: 1,
        retry_at: Some(Millis(1_700_000_000_000)),
        avoid: nodes(&["c"]),
        mark: Some("no such image on c".into()),
        suspended: true,
        leased: Some(NodeId("a".into())),
        grace: Some(Millis::from_secs(120)),
        exit: Some(-1),
        pin: Some(NodeId("b".into())),
        total: Some(60.0),
        alternative: Some(1),
        since: Some(Millis(1_700_000_000_000)),
        cost: Some(0.25),
        work: Some(7.5),
        log: vec![(Millis(7), "starting on b: it fits".into()), (Millis(9), "running".into())],
    }
}

fn applied(labels: &mut Labels, record: &Record) {
    for (label, value) in record.changes(labels) {
        match value {
            Some(value) => drop(labels.insert(label, value)),
            None => drop(labels.remove(&label)),
        }
    }
}

#[test]
fn a_written_record_is_parsed_unchanged() {
    let mut labels = Labels::new();
    assert_eq!(Record::parse(&labels), Ok(Record::default()));
    for record in [full(), Record { phase: JobPhase::Done, exit: Some(0), ..Record::default() }] {
        applied(&mut labels, &record);
        assert_eq!(Record::parse(&labels), Ok(record.clone()));
        assert!(record.changes(&labels).is_empty());
    }
}

#[test]
fn a_record_that_an_update_removed_is_read_from_the_labels_before_it() {
    let queued = || Labels::from([(QUEUE.into(), "true".into())]);
    let mut previous = queued();
    applied(&mut previous, &full());
    assert_eq!(Record::lost(&queued(), &previous), Some(full()));
    assert_eq!(Record::lost(&previous, &previous), None, "the labels are there");
    assert_eq!(Record::lost(&queued(), &queued()), None, "it never had any");
    let mut no_job = previous.clone();
    no_job.remove(QUEUE);
    assert_eq!(Record::lost(&queued(), &no_job), None, "it was no job before");
    previous.insert(format!("{INTERNAL_PREFIX}number").into(), "many".into());
    assert_eq!(Record::lost(&queued(), &previous), None, "invalid labels are removed on purpose");
}

#[test]
fn a_damaged_record_label_is_reported() {
    for (name, value, expected) in [
        ("phase", "flying", "expected waiting, starting"),
        ("number", "many", "expected a number"),
        ("placed", "a,,b", "expected at most 64 ids"),
        ("colour", "red", "another version"),
    ] {
        let mut labels = Labels::new();
        applied(&mut labels, &full());
        labels.insert(format!("{INTERNAL_PREFIX}{name}").into(), value.into());
        let why = Record::parse(&labels).unwrap_err();
        assert!(why.contains(expected) && why.contains(name), "{why}");
    }
    for gone in ["home", "to"] {
        let mut labels = Labels::new();
        applied(&mut labels, &full());
        labels.remove(format!("{INTERNAL_PREFIX}{gone}").as_str());
        assert!(Record::parse(&labels).unwrap_err().contains(gone));
    }
}

#[test]
fn the_log_keeps_the_latest_events_of_limited_length() {
    let mut record = Record::default();
    (0..20).for_each(|number| record.note(Millis(number), &format!("event {number}\n{}", "x".repeat(1000))));
    let mut labels = Labels::new();
    applied(&mut labels, &record);
    assert_eq!(Record::parse(&labels).as_ref(), Ok(&record));
    let texts: Vec<&str> = record.log.iter().filter_map(|(_, text)| text.get(..8)).collect();
    assert_eq!((texts[0], texts.last(), texts.len()), ("event 12", Some(&"event 19"), 8));
    assert!(labels["flowcon.cluster.log"].len() < 1600);
    labels.insert("flowcon.cluster.log".into(), "soon it starts\n7 it starts".into());
    assert_eq!(Record::parse(&labels).map(|record| record.log), Ok(vec![(Millis(7), "it starts".into())]));
}
