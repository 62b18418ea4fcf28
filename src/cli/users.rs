//! `flowctl users`: one line per user.

use super::history::span;
use super::repeat::{Repeat, repeat};
use api::client::Client;
use api::wire::{User, UserList, UserRecord, UserRecords};
use model::NOBODY;
use serde::Serialize;
use std::collections::BTreeMap;
use term::exit::Failure;
use term::screen::{Look, Screen};
use term::table::{Cell, Column, table};
use term::text;
use term::when;

const HOUR_S: f64 = 3600.0;
const DAY_MS: u64 = 86_400_000;

/// The users, also those of whom only the history knows. This is also the JSON.
#[derive(Serialize)]
struct Users {
    fair_between: String,
    users: Vec<Row>,
}

/// One user.
#[derive(Serialize)]
struct Row {
    name: String,
    /// What the daemon knows of them now; nothing if they have no job and used next to nothing lately.
    #[serde(flatten)]
    now: Option<Now>,
    /// CPU-seconds used in the last 24 hours; null without a history.
    last_24h_cpu_s: Option<f64>,
    /// CPU-seconds used in the last 7 days; null without a history.
    last_7d_cpu_s: Option<f64>,
}

/// A user with jobs, or with recent use.
#[derive(Serialize)]
struct Now {
    jobs: usize,
    weight: f64,
    part: Option<f64>,
    cpu_used: Option<f64>,
    used_cpu_s: f64,
}

/// `flowctl users`.
pub(crate) async fn users(client: &Client, every: Repeat, screen: &Screen) -> Result<(), Failure> {
    repeat(every.watch, screen, async || {
        let list: UserList = client.get("/v1/users").await?;
        let users = Users::of(list, [used(client, 1).await, used(client, 7).await]);
        screen.rendered(&users, &users.users, |look| page(&users, look))
    })
    .await
}

/// What the jobs of each user used in the last days; `None` if no history is kept.
async fn used(client: &Client, days: u64) -> Option<Vec<UserRecord>> {
    let now = when::now_unix_ms();
    let span = span(now.saturating_sub(days * DAY_MS), now);
    let records: Result<UserRecords, _> = client.get(&format!("/v1/history/users?{span}")).await;
    records.ok().map(|records| records.users)
}

impl Users {
    /// `used`: in the last 24 hours, and in the last 7 days.
    fn of(list: UserList, used: [Option<Vec<UserRecord>>; 2]) -> Users {
        let mut now: BTreeMap<String, Option<Now>> = BTreeMap::new();
        for user in list.users {
            let User { name, jobs, weight, part, cpu_used, used_cpu_s } = user;
            now.insert(name, Some(Now { jobs, weight, part, cpu_used, used_cpu_s }));
        }
        for past in used.iter().flatten().flatten() {
            now.entry(past.name.clone()).or_default();
        }
        let in_span = |records: &Option<Vec<UserRecord>>, name: &str| {
            let own = records.as_ref()?.iter().find(|user| user.name == name);
            Some(own.map_or(0.0, |user| user.cpu_s))
        };
        let row = |(name, now): (String, Option<Now>)| Row {
            last_24h_cpu_s: in_span(&used[0], &name),
            last_7d_cpu_s: in_span(&used[1], &name),
            name,
            now,
        };
        Users { fair_between: list.fair_between, users: now.into_iter().map(row).collect() }
    }
}

/// Formats the page.
fn page(list: &Users, look: &Look) -> String {
    let rule = match list.fair_between.as_str() {
        "users" => "The node is divided between users, then between the jobs of each.\n",
        _ => {
            "The node is divided between jobs: a user with more jobs has more. `policy.fair-between = \"users\"` in \
             flowcond.toml changes that.\n"
        }
    };
    if list.users.is_empty() {
        return format!("{rule}No user has a job or used CPU lately.\n");
    }
    let columns = [
        Column::elastic("USER", 8),
        Column::right("JOBS"),
        Column::right("WEIGHT"),
        Column::right("PART"),
        Column::right("CPU"),
        Column::right("USED"),
        Column::right("24 H"),
        Column::right("7 D"),
    ];
    let rows: Vec<Vec<Cell>> = list.users.iter().map(row).collect();
    format!("{rule}\n{}", table(&columns, &rows, look))
}

fn row(user: &Row) -> Vec<Cell> {
    let now = user.now.as_ref();
    vec![
        Cell::plain(&text::clean(&name(user))),
        Cell::plain(&now.map_or(0, |now| now.jobs).to_string()),
        Cell::or_dash(now.map(|now| text::number_text(now.weight))),
        Cell::or_dash(now.and_then(|now| now.part).map(text::percent)),
        Cell::or_dash(now.and_then(|now| now.cpu_used).map(text::percent)),
        Cell::or_dash(now.map(|now| cpu_hours(now.used_cpu_s))),
        Cell::or_dash(user.last_24h_cpu_s.map(cpu_hours)),
        Cell::or_dash(user.last_7d_cpu_s.map(cpu_hours)),
    ]
}

fn cpu_hours(seconds: f64) -> String {
    format!("{} CPU-h", text::number_text((10.0 * seconds / HOUR_S).round() / 10.0))
}

fn name(user: &Row) -> String {
    if user.name == NOBODY { format!("{NOBODY} (nobody)") } else { user.name.clone() }
}

/// Whose part a job shares, and with how many others.
pub(crate) fn shared_part(user: &User) -> String {
    let whose = match user.name.as_str() {
        NOBODY => "the part of all jobs that belong to nobody".to_owned(),
        name => format!("{name}'s part"),
    };
    let part = user.part.map(|part| format!(", {} of the node,", text::percent(part))).unwrap_or_default();
    match user.jobs.saturating_sub(1) {
        0 => format!("{whose}{part} with no other job"),
        others => format!("{whose}{part} with {}", text::count(others, "other job")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, jobs: usize) -> User {
        User { name: name.to_owned(), jobs, weight: 1.0, part: Some(0.5), cpu_used: Some(0.48), used_cpu_s: 5400.0 }
    }

    #[test]
    fn each_user_has_a_line() {
        let list = UserList { fair_between: "users".to_owned(), users: vec![user("-", 2), user("alice", 10)] };
        let used = |name: &str, cpu_s: f64| UserRecord { name: name.to_owned(), jobs: 1, cpu_s };
        let day = vec![used("alice", 7200.0)];
        let week = vec![used("alice", 72_000.0), used("bob", 3600.0)];
        let users = Users::of(list, [Some(day), Some(week)]);
        let page = page(&users, &Look { columns: Some(100), color: false });
        let lines: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["USER", "JOBS", "WEIGHT", "PART", "CPU", "USED", "24", "H", "7", "D"], "{page}");
        assert_eq!(
            lines[3],
            ["-", "(nobody)", "2", "1", "50%", "48%", "1.5", "CPU-h", "0", "CPU-h", "0", "CPU-h"],
            "{page}"
        );
        assert_eq!(lines[4][..2], ["alice", "10"], "{page}");
        assert_eq!(lines[4][7..], ["2", "CPU-h", "20", "CPU-h"], "{page}");
        let only_past = ["bob", "0", "–", "–", "–", "–", "0", "CPU-h", "1", "CPU-h"];
        assert_eq!(lines[5], only_past, "who has no job is listed for what they used: {page}");
        let json = serde_json::to_value(&users).expect("plain data");
        assert_eq!(json["users"][1]["last_24h_cpu_s"], 7200.0, "{json}");
        assert_eq!(
            (&json["users"][1]["jobs"], &json["users"][1]["last_7d_cpu_s"]),
            (&10.into(), &72_000.0.into()),
            "{json}"
        );
        assert!(json["users"][2].get("weight").is_none() && json["fair_between"] == "users", "{json}");
    }

    #[test]
    fn a_page_without_users_and_one_between_jobs_say_so() {
        let list = || UserList { fair_between: "jobs".to_owned(), users: Vec::new() };
        let look = Look { columns: Some(100), color: false };
        let page = page(&Users::of(list(), [None, None]), &look);
        assert!(page.contains("divided between jobs") && page.contains("No user has a job"), "{page}");
        let with_alice = UserList { users: vec![user("alice", 1)], ..list() };
        let without_history = super::page(&Users::of(with_alice, [None, None]), &look);
        assert!(
            without_history.lines().any(|line| line.starts_with("alice") && line.ends_with('–')),
            "{without_history}"
        );
    }

    #[test]
    fn a_job_shares_the_part_of_its_user() {
        assert_eq!(shared_part(&user("alice", 10)), "alice's part, 50% of the node, with 9 other jobs");
        assert_eq!(shared_part(&user("bob", 1)), "bob's part, 50% of the node, with no other job");
        let undecided = User { part: None, ..user("-", 2) };
        assert_eq!(shared_part(&undecided), "the part of all jobs that belong to nobody with 1 other job");
    }
}
