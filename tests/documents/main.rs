//! Tests of what is read: the README, help, manual, completion, configuration, licences, and the order of the house.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod architecture;
mod completion;
mod config;
mod docs;
mod examples;
mod licences;
mod manual;
mod readme;
#[path = "../served/mod.rs"]
mod served;
mod site;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
#[path = "../texts/mod.rs"]
mod texts;
