//! A job that moves from one daemon to another, as far as the two daemons go: what the one tells the other goes on with.

use super::job::Job;
use super::testing::{FakeEngine, Folder, House, id};
use crate::api::{Command, Refusal};
use crate::host::node;
use crate::model::{ContainerId, Learning, Millis, Runtime};
use std::collections::BTreeMap;

const SERVICE: &str = "wp9p2yqmszq0v7ctx4kc3jmrv";

/// A container of the service, in a folder that has used so much CPU.
fn begin(house: &mut House, number: u8, folder: &Folder, cpu_s: u64, labels: &[(&str, &str)]) -> ContainerId {
    folder.put("cpu.stat", &format!("usage_usec {}\n", cpu_s * 1_000_000));
    let mut target = folder.target(id(number), "train.1", Runtime::Docker);
    target.started_unix_ms = u64::MAX; // after the daemon
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut job = Job::new(target, None, &labels);
    job.service = Some(SERVICE.into());
    house.governing.begin(Ok((job, None)), &id(number));
    id(number)
}

fn print(house: &mut House, id: &ContainerId, epochs: std::ops::RangeInclusive<u32>) {
    let job = house.governing.jobs.get_mut(id).expect("it is governed");
    for epoch in epochs {
        let line = format!("epoch {epoch}/100 loss {:.4}\n", 1.0 / f64::from(epoch));
        job.tracker.push(line.as_bytes(), node::now());
    }
}

/// As at a tick: what is known of it, and its CPU-seconds to the end with those of a unit.
fn ticked(house: &mut House, id: &ContainerId) -> (Learning, Option<(f64, f64)>) {
    let observed = house.governing.observed(node::now(), true);
    house.governing.governor.tick(&observed);
    house.governing.publish();
    let seen = observed.containers.into_iter().find(|seen| seen.id == *id).expect("it is governed");
    let forecast = house.governing.governor.forecast(id);
    (seen.learning, forecast.map(|forecast| (forecast.to_end.likely, forecast.per_unit)))
}

async fn told(house: &mut House) -> Result<String, Refusal> {
    house.ask(Command::Record { service: SERVICE.to_owned() }).await
}

async fn expect(house: &mut House, record: &str) -> Result<String, Refusal> {
    house.ask(Command::Expect { service: SERVICE.to_owned(), record: record.to_owned() }).await
}

/// What a node tells of a job that has done 40 of 100 units, each for 2 CPU-seconds, and has ended there.
async fn left(source: &mut House, folder: &Folder) -> String {
    let job = begin(source, 1, folder, 10, &[]);
    assert!(matches!(told(source).await, Err(Refusal::NotFound(_))), "it has printed nothing");
    for ten in 0..4 {
        // Counters of this very moment are not read again.
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        folder.put("cpu.stat", &format!("usage_usec {}\n", (10 + 20 * ten) * 1_000_000));
        print(source, &job, 10 * ten + 1..=10 * ten + 10);
        ticked(source, &job);
    }
    let running = told(source).await.expect("it runs");
    source.governing.end(&job, Some(143));
    assert!(told(source).await.is_ok(), "its log is read to the end");
    source.governing.learn_from_departed(node::now().after(Millis::from_secs(60)));
    let ended = told(source).await.expect("it has ended a moment ago");
    assert!(running.contains("\"evaluations\":40") && ended.contains("\"evaluations\":40"), "{ended}");
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_is_ranked_by_what_the_other_node_knew_before_it_prints_anything() {
    let engine = FakeEngine::start(|_, _| Some((200, "{}".to_owned())));
    let (mut source, mut target, folders) =
        (House::new(Some(&engine)), House::new(Some(&engine)), [Folder::new(), Folder::new(), Folder::new()]);
    let record = left(&mut source, &folders[0]).await;
    let kept = expect(&mut target, &record).await.expect("it fits");
    assert!(kept.contains(SERVICE), "{kept}");
    assert_eq!(told(&mut target).await.as_ref(), Ok(&record), "it may go on to yet another node");

    let job = begin(&mut target, 2, &folders[1], 1, &[]);
    let (learning, forecast) = ticked(&mut target, &job);
    assert!(learning.is_carried && learning.curve.is_some());
    assert_eq!((learning.evaluations, learning.metric.as_deref()), (40, Some("loss")));
    let (to_end, per_unit) = forecast.expect("it is ranked");
    assert!(
        (1.5..2.5).contains(&per_unit) && (55.0 * per_unit..65.0 * per_unit).contains(&to_end),
        "{to_end} {per_unit}"
    );
    let again = told(&mut target).await.expect("it may go on before it prints anything");
    assert!(again.contains("\"evaluations\":40") && again.contains("\"is_carried\":true"), "{again}");

    print(&mut target, &job, 41..=41);
    let (learning, forecast) = ticked(&mut target, &job);
    assert_eq!((learning.evaluations, learning.is_carried), (41, false));
    assert!(
        forecast.is_some_and(|(_, per_unit)| (1.5..2.5).contains(&per_unit)),
        "the first line has no price of its own"
    );
    assert!(matches!(expect(&mut target, &record).await, Err(Refusal::Refused(_))), "it runs here");

    target.governing.end(&job, None);
    let other = begin(&mut target, 3, &folders[2], 1, &[]);
    assert_eq!(ticked(&mut target, &other).0.evaluations, 0, "a record is used once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_does_not_fit_leaves_the_job_to_begin_anew() {
    let engine = FakeEngine::start(|_, _| Some((200, "{}".to_owned())));
    let (mut source, mut target, folders) =
        (House::new(Some(&engine)), House::new(Some(&engine)), [Folder::new(), Folder::new()]);
    let record = left(&mut source, &folders[0]).await;
    for nonsense in ["{}", "", &record.replacen("\"version\":1", "\"version\":7", 1), &record[..record.len() / 2]] {
        assert!(matches!(expect(&mut target, nonsense).await, Err(Refusal::Invalid(_))), "{nonsense}");
    }
    expect(&mut target, &record).await.expect("it may fit");
    let job = begin(&mut target, 2, &folders[1], 1, &[("flowcon.metric", "accuracy")]);
    let (learning, _) = ticked(&mut target, &job);
    assert_eq!((learning.evaluations, learning.progress, learning.is_carried), (0, None, false));
}
