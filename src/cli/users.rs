//! `flowctl users`: one line per user.

use super::repeat::{Repeat, repeat};
use api::client::Client;
use api::wire::{User, UserList};
use model::NOBODY;
use term::exit::Failure;
use term::screen::{Look, Screen};
use term::table::{Cell, Column, table};
use term::text;

const HOUR_S: f64 = 3600.0;

/// `flowctl users`.
pub(crate) async fn users(client: &Client, every: Repeat, screen: &Screen) -> Result<(), Failure> {
    repeat(every.watch, screen, async || {
        let list: UserList = client.get("/v1/users").await?;
        screen.rendered(&list, &list.users, |look| page(&list, look))
    })
    .await
}

/// Formats the page.
fn page(list: &UserList, look: &Look) -> String {
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
    ];
    let rows: Vec<Vec<Cell>> = list.users.iter().map(row).collect();
    format!("{rule}\n{}", table(&columns, &rows, look))
}

fn row(user: &User) -> Vec<Cell> {
    vec![
        Cell::plain(&text::clean(&name(user))),
        Cell::plain(&user.jobs.to_string()),
        Cell::plain(&text::number_text(user.weight)),
        Cell::or_dash(user.part.map(text::percent)),
        Cell::or_dash(user.cpu_used.map(text::percent)),
        Cell::plain(&format!("{} CPU-h", text::number_text((10.0 * user.used_cpu_s / HOUR_S).round() / 10.0))),
    ]
}

fn name(user: &User) -> String {
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
        let page = page(&list, &Look { columns: Some(100), color: false });
        let lines: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["USER", "JOBS", "WEIGHT", "PART", "CPU", "USED"], "{page}");
        assert_eq!(lines[3], ["-", "(nobody)", "2", "1", "50%", "48%", "1.5", "CPU-h"], "{page}");
        assert_eq!(lines[4][..2], ["alice", "10"], "{page}");
    }

    #[test]
    fn a_page_without_users_and_one_between_jobs_say_so() {
        let list = UserList { fair_between: "jobs".to_owned(), users: Vec::new() };
        let page = page(&list, &Look { columns: Some(100), color: false });
        assert!(page.contains("divided between jobs") && page.contains("No user has a job"), "{page}");
    }

    #[test]
    fn a_job_shares_the_part_of_its_user() {
        assert_eq!(shared_part(&user("alice", 10)), "alice's part, 50% of the node, with 9 other jobs");
        assert_eq!(shared_part(&user("bob", 1)), "bob's part, 50% of the node, with no other job");
        let undecided = User { part: None, ..user("-", 2) };
        assert_eq!(shared_part(&undecided), "the part of all jobs that belong to nobody with 1 other job");
    }
}
