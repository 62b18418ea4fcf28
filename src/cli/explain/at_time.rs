//! `flowctl explain JOB --at TIME`: the decision in force at that time, with its numbers and its reason.

use super::LABEL;
use crate::history::{cores_between, value_text};
use api::client::{Client, segment};
use api::wire::{JobRecord, JobSnapshot, Sample};
use std::fmt::Write as _;
use term::exit::Failure;
use term::screen::{Look, Screen, Tone};
use term::text::{self, clean};
use term::when;

/// Fetches and prints the decision in force at `at`, Unix time in milliseconds.
pub(crate) async fn explain(client: &Client, job: &str, at: u64, screen: &Screen) -> Result<(), Failure> {
    let instant: JobSnapshot = client.get(&format!("/v1/history/at?job={}&at={at}", segment(job))).await?;
    screen.show(&instant, std::slice::from_ref(&instant), |look| page(&instant, look))
}

fn page(instant: &JobSnapshot, look: &Look) -> String {
    let JobSnapshot { job, sample, .. } = instant;
    let mut page = format!(
        "{} · {} · {} · at {}\n\n{}\n",
        look.paint(Tone::Bold, &text::fit(&clean(&job.name), 40)),
        text::fit(&clean(&job.short_id), 24),
        clean(&job.runtime),
        when::clock(instant.asked_unix_ms),
        look.paint(Tone::Bold, "Decision in force"),
    );
    lines(&mut page, &decision(instant), look);
    let _ = writeln!(page, "\n{}", look.paint(Tone::Bold, "Observations at that time"));
    lines(&mut page, &known(instant, sample), look);
    page
}

fn lines(page: &mut String, lines: &[(&str, String)], look: &Look) {
    for (label, words) in lines {
        let label = look.paint(Tone::Dim, &format!("{label:<LABEL$}"));
        // Writing to a string cannot fail.
        let _ = writeln!(page, "  {label}{}", look.wrapped(&clean(words), LABEL + 2));
    }
}

fn decision(instant: &JobSnapshot) -> Vec<(&'static str, String)> {
    let sample = &instant.sample;
    let mut lines = Vec::new();
    if let Some(hold) = &sample.hold {
        lines.push(("held", hold.clone()));
    }
    let why = sample.decision.as_ref().map(|decision| decision.story.clone());
    lines.push(("why", why.unwrap_or_else(|| "not decided yet".to_owned())));
    if let Some(node) = &instant.node {
        lines.push(("policy", node.policy.clone() + if node.released { ", released by an operator" } else { "" }));
    }
    lines.extend(sample.list.as_ref().map(|list| ("list", list.clone())));
    if let (Some(share), Some(limit)) = (sample.share, sample.limit) {
        let words =
            format!("{} of the node under full load; limit L = {}", text::percent(share), text::number_text(limit));
        lines.push(("share", words));
    }
    if let Some(decision) = sample.decision.as_ref().filter(|decision| !decision.numbers.is_empty()) {
        let numbers = decision.numbers.iter().map(|(name, number)| format!("{name} = {}", text::number_text(*number)));
        lines.push(("numbers", numbers.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(sample.cpu_weight.map(|weight| ("CPU weight", weight_words(&instant.job, weight))));
    let until = match (&instant.later, instant.job.ended_unix_ms) {
        (Some(later), _) => format!("until {}", when::clock(later.unix_ms)),
        (None, Some(ended)) => format!("until its end at {}", when::clock(ended)),
        (None, None) => "on; this is the latest record".to_owned(),
    };
    lines.push((
        "recorded",
        format!("from {} {until}; changes within noise are not recorded", when::clock(sample.unix_ms)),
    ));
    lines
}

fn weight_words(job: &JobRecord, weight: u32) -> String {
    match job.original_weight {
        Some(original) if original != weight => format!("{weight} (original: {original})"),
        _ => weight.to_string(),
    }
}

fn known(instant: &JobSnapshot, sample: &Sample) -> Vec<(&'static str, String)> {
    let job = &instant.job;
    let mut lines = Vec::new();
    lines.push(match value_text(sample) {
        Some(value) => ("metric", format!("{} = {value}", job.metric.as_deref().unwrap_or("value"))),
        None => ("metric", "none read yet".to_owned()),
    });
    if let Some(growth) = sample.growth {
        let threshold = instant.node.as_ref().map_or(0.0, |node| node.growth_threshold);
        let words = format!(
            "{} of the range per node-CPU-second (threshold {})",
            text::number_text(growth),
            text::number_text(threshold)
        );
        lines.push(("growth", words));
    }
    if let Some(units) = sample.progress {
        let total = job.total.map_or_else(String::new, |total| format!(" of {}", text::number_text(total)));
        lines.push((
            "progress",
            format!("{} {}{total}", job.unit.as_deref().unwrap_or("unit"), text::number_text(units)),
        ));
    }
    lines.extend(
        sample
            .quality
            .map(|quality| ("curve", format!("{} of the expected improvement reached", text::percent(quality)))),
    );
    let cores = match (&instant.earlier, &instant.later) {
        (_, Some(later)) => cores_between(sample, later),
        (Some(earlier), None) => cores_between(earlier, sample),
        (None, None) => None,
    };
    let mut cpu: Vec<String> = Vec::new();
    cpu.extend(cores.map(|cores| format!("{cores:.2} cores around that time")));
    cpu.extend(sample.cpu_s.map(|seconds| format!("{} CPU time in all", text::duration(seconds))));
    lines.push(("CPU", if cpu.is_empty() { "unknown".to_owned() } else { cpu.join(", ") }));
    lines.extend(sample.memory_bytes.map(|bytes| ("memory", format!("{} charged", text::bytes(bytes)))));
    let mut gpu: Vec<String> = Vec::new();
    gpu.extend(sample.gpus.map(|gpus| format!("{gpus:.2} GPUs")));
    gpu.extend(sample.gpu_memory_bytes.map(|bytes| format!("{} GPU memory", text::bytes(bytes))));
    lines.extend((!gpu.is_empty()).then(|| ("GPU", gpu.join(", "))));
    lines.push(("state", sample.state.clone()));
    if let Some(node) = &instant.node {
        let pressure = [("CPU", node.pressure.cpu), ("memory", node.pressure.memory), ("I/O", node.pressure.io)];
        let parts = pressure.iter().filter_map(|(name, part)| Some(format!("{name} {}", text::percent((*part)?))));
        let words = parts.collect::<Vec<_>>().join(", ");
        lines.push((
            "node",
            format!(
                "{} cores, pressure: {}",
                text::number_text(node.cores),
                if words.is_empty() { "unknown" } else { &words }
            ),
        ));
    }
    lines
}
