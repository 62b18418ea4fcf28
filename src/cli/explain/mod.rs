//! `flowctl explain JOB`: every number behind the decision about a job.
//!
//! Pure.

pub(super) mod at_time;
mod ended;
mod gpu;
mod health;
mod limits;
mod threads;

use super::{cost, users};
use api::wire::{Claim, Container, ContainerDetail, Domain, Estimate, Explanation, GrowthEfficiency, Trend};
use std::fmt::Write as _;
use term::screen::{Look, Tone};
use term::text::{self, clean};
use term::when;

/// Columns of the labels on the left.
const LABEL: usize = 12;

/// Formats the page.
pub(crate) fn page(detail: &ContainerDetail, look: &Look) -> String {
    let (container, explanation) = (&detail.container, &detail.explanation);
    let mut page = Page { text: title(container, look), look };
    match &container.ended {
        Some(end) => ended::section(&mut page, end),
        None => {
            health::section(&mut page, container, explanation);
            decision(&mut page, container, explanation);
            growth(&mut page, explanation);
        }
    }
    reading(&mut page, container, explanation);
    limits::section(&mut page, explanation);
    limits::drifts(&mut page, explanation);
    used(&mut page, container, explanation);
    notices(&mut page, container);
    page.text
}

struct Page<'a> {
    text: String,
    look: &'a Look,
}

impl Page<'_> {
    fn section(&mut self, title: &str) {
        let _ = writeln!(self.text, "\n{}", self.look.paint(Tone::Bold, title));
    }

    fn line(&mut self, label: &str, words: &str) {
        self.toned(Tone::Plain, label, words);
    }

    fn toned(&mut self, tone: Tone, label: &str, words: &str) {
        let words = self.look.wrapped(&clean(words), LABEL + 2);
        let label = self.look.paint(Tone::Dim, &format!("{label:<LABEL$}"));
        let _ = writeln!(self.text, "  {label}{}", self.look.paint(tone, &words));
    }
}

fn title(container: &Container, look: &Look) -> String {
    let name = text::fit(&clean(&container.name), 40);
    format!(
        "{} · {} · {} · {} for {}\n",
        look.paint(Tone::Bold, &name),
        text::fit(&clean(&container.short_id), 24),
        clean(&container.runtime),
        ended::state(container),
        text::duration(container.uptime_s)
    )
}

fn decision(page: &mut Page<'_>, container: &Container, explanation: &Explanation) {
    page.section("Decision");
    if let Some(hold) = &container.hold {
        page.toned(Tone::Warn, "held", &hold.why);
        page.line("ends", &hold.ends);
    }
    match &explanation.decision {
        Some(decision) => page.line("why", &decision.story),
        None => page.line("why", "not decided yet"),
    }
    if let Some(words) = gpu::limited_by(container, explanation) {
        page.line("limited by", words);
    }
    page.line("policy", &explanation.policy);
    page.line("list", container.list.as_deref().unwrap_or("none"));
    if let (Some(share), Some(limit)) = (container.share, container.limit) {
        let words = format!(
            "{} of the node under full load; limit L = {} ({})",
            text::percent(share),
            text::number_text(limit),
            if limit >= 1.0 { "free competition" } else { "soft: unused CPU of other jobs comes on top" }
        );
        page.line("share", &words);
    }
    if let Some(user) = &explanation.user {
        page.line("shares", &users::shared_part(user));
    }
    if let Some(domain) = explanation.domain.as_ref().filter(|domain| domain.containers > 0) {
        page.line("competes", &competition(domain));
    }
    if let Some(pin) = container.pinned_share {
        let words = format!(
            "to {} of the node by an operator; undo: `flowctl unpin {}`",
            text::percent(pin),
            container.short_id
        );
        page.toned(Tone::Warn, "pinned", &words);
    }
    if let Some(adoption) = &container.adopted {
        let given: Vec<String> = adoption.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let labels = if given.is_empty() { String::new() } else { format!(" with {}", given.join(", ")) };
        let when = when::clock(adoption.unix_ms);
        let words = format!("by an operator at {when}{labels}; undo: `flowctl disown {}`", container.short_id);
        page.line("adopted", &words);
    }
    ended::restarts(page, container);
    page.line("bounds", &bounds(explanation));
    if let Some(decision) = explanation.decision.as_ref().filter(|decision| !decision.numbers.is_empty()) {
        let numbers = decision.numbers.iter().map(|(name, number)| format!("{name} = {}", text::number_text(*number)));
        page.line("numbers", &numbers.collect::<Vec<_>>().join(", "));
    }
    let words = format!(
        "in {}, at {}; the interval is {}",
        text::duration(explanation.next_decision_in_s),
        when::clock(explanation.next_decision_unix_ms),
        text::duration(explanation.interval_s)
    );
    page.line("next", &words);
}

fn competition(domain: &Domain) -> String {
    let cores = text::number_text((domain.cores * 100.0).round() / 100.0);
    let cores = if cores == "1" { "1 core".to_owned() } else { format!("{cores} cores") };
    let mut words = match domain.containers - 1 {
        0 => format!("with no other job; {cores} available"),
        others => format!("with {} for {cores}", text::count(others, "other job")),
    };
    if domain.most_cores + 0.005 < domain.cores {
        let _ = write!(words, ", of which it can use {}", text::number_text(domain.most_cores));
    }
    let details: Vec<String> = [
        domain.processors.as_ref().map(|processors| format!("processors {processors}")),
        domain.memory_nodes.as_ref().map(|nodes| format!("memory nodes {nodes}")),
        domain.parent.as_ref().map(|parent| format!("under {parent}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !details.is_empty() {
        let _ = write!(words, " ({})", details.join(", "));
    }
    words
}

fn bounds(explanation: &Explanation) -> String {
    let mut words = format!(
        "{} to {} of the node (flowcon.min-share, flowcon.max-share), weight {} (flowcon.weight)",
        text::percent(explanation.min_share),
        text::percent(explanation.max_share),
        text::number_text(explanation.weight)
    );
    if let Some(floor) = explanation.memory_floor_bytes {
        let _ = write!(words, ", memory never squeezed below {}", text::bytes(floor));
    }
    match explanation.deadline_in_s {
        Some(left) if left > 0.0 => {
            let _ = write!(words, ", deadline in {} (flowcon.deadline)", text::duration(left));
        }
        Some(_) => words.push_str(", deadline passed (flowcon.deadline)"),
        None => {}
    }
    if let Some(rung) = explanation.group_stop_rung {
        let _ = write!(words, ", stopped at rung {rung} if it is not among the best third there (flowcon.group-stop)");
    }
    words
}

fn growth(page: &mut Page<'_>, explanation: &Explanation) {
    page.section("Growth efficiency (evaluation gained per resource used)");
    let GrowthEfficiency { per_node_cpu_s, per_node_memory_s, per_block_io_gib, per_network_io_gib, per_gpu_s } =
        explanation.growth;
    let cpu = match per_node_cpu_s {
        Some(growth) => {
            let side = if growth < explanation.growth_threshold { "below" } else { "not below" };
            format!(
                "{} of the range per node-CPU-second, {side} the threshold {}",
                text::number_text(growth),
                text::number_text(explanation.growth_threshold)
            )
        }
        None => format!(
            "not measured yet (threshold {} of the range per node-CPU-second)",
            text::number_text(explanation.growth_threshold)
        ),
    };
    page.line("CPU", &cpu);
    let each = [
        ("GPU", per_gpu_s, "per GPU-second"),
        ("memory", per_node_memory_s, "per second with all the node's memory"),
        ("block I/O", per_block_io_gib, "per GiB read or written"),
        ("network", per_network_io_gib, "per GiB received or sent"),
    ];
    for (resource, growth, unit) in each {
        if let Some(growth) = growth {
            page.line(resource, &format!("{} of the range {unit}", text::number_text(growth)));
        }
    }
    let all = format!(
        "{} per node-CPU-second over {} measured",
        text::number_text(explanation.growth_of_all),
        text::count(explanation.containers_measured, "job")
    );
    page.line("all jobs", &all);
}

fn reading(page: &mut Page<'_>, container: &Container, explanation: &Explanation) {
    let reading = &explanation.reading;
    page.section("Log");
    page.line("read from", &reading.source);
    match &container.metric {
        Some(metric) => {
            let words = format!(
                "{} = {}, {} is better, {} · confidence {} · {} evaluations",
                metric.name.as_deref().unwrap_or("value"),
                text::value(metric.value),
                metric.direction.as_deref().unwrap_or("an unknown direction"),
                trend(metric.trend),
                text::percent(metric.confidence),
                reading.evaluations
            );
            page.line("metric", &words);
        }
        None => page.line(
            "metric",
            "none found yet; name it with the labels flowcon.metric and flowcon.direction, or flowcon.pattern",
        ),
    }
    if let Some(line) = &reading.line {
        page.line("line", line);
    }
    if let Some(age) = reading.latest_age_s {
        page.line("latest", &format!("{} ago", text::duration(age)));
    }
    if let (Some(gain), Some(over)) = (reading.gain, reading.gain_over_s) {
        page.line(
            "gain",
            &format!("{} of the range of its values in {}", text::percent_signed(gain), text::duration(over)),
        );
    }
    if let Some(progress) = &container.progress {
        let of = text::of_total(progress.total, progress.claimed_total);
        let rate =
            progress.units_per_s.map_or_else(String::new, |rate| format!(", {} per second", text::number_text(rate)));
        page.line("progress", &format!("{} {}{of}{rate}", progress.unit, text::value(progress.current)));
        if let Some(remaining) = &progress.remaining_s {
            page.line("remaining", &span(remaining));
        }
    }
    if let Some(claim) = &reading.claim {
        page.line("claimed", &claimed(claim));
    }
    if let Some(quality) = reading.quality {
        page.line("curve", &curve(quality, reading.phase.as_deref(), reading.to_quality_s.as_ref()));
    }
    if reading.prior_runs > 0 {
        let runs = if reading.prior_runs == 1 { "run" } else { "runs" };
        page.line("prior runs", &format!("{} {runs} of the same training", reading.prior_runs));
    }
}

/// `50 epochs, from `--epochs` of its command · confidence 95%`.
fn claimed(claim: &Claim) -> String {
    let place = match claim.origin.as_str() {
        "command" => "of its command",
        "environment" => "in its environment",
        "config-file" => "in a configuration file that its command names",
        _ => "outside its log",
    };
    let unit = claim.unit.as_deref().unwrap_or("evaluation");
    let plural = if claim.total == 1.0 { "" } else { "s" };
    let total = text::number_text(claim.total);
    format!("{total} {unit}{plural}, from `{}` {place} · confidence {}", claim.key, text::percent(claim.confidence))
}

fn curve(quality: f64, phase: Option<&str>, to_quality: Option<&Estimate>) -> String {
    let ahead = to_quality.map_or_else(String::new, |estimate| format!(", 95% of it in {}", span(estimate)));
    format!("{}: {} of the expected improvement reached{ahead}", phase.unwrap_or("unknown"), text::percent(quality))
}

fn span(estimate: &Estimate) -> String {
    let low = text::duration(estimate.low);
    let high = estimate.high.map_or_else(|| "unbounded".to_owned(), text::duration);
    // A range whose ends read the same says nothing.
    let range = if low == high { String::new() } else { format!(" ({low} to {high})") };
    format!("~{}{range}", text::duration(estimate.likely))
}

fn trend(trend: Trend) -> &'static str {
    match trend {
        Trend::Improving => "improving",
        Trend::Plateau => "on a plateau",
        Trend::Diverging => "getting worse",
        Trend::Unknown => "trend unknown",
    }
}

fn used(page: &mut Page<'_>, container: &Container, explanation: &Explanation) {
    let used = &explanation.used;
    page.section("Usage");
    let mut cpu: Vec<String> = Vec::new();
    cpu.extend(container.cpu_used.map(|part| format!("{} of the node now", text::percent(part))));
    cpu.extend(used.cpu_s.map(|seconds| format!("{} CPU time in all", text::duration(seconds))));
    cpu.extend(
        used.throttled_s
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| format!("{} lost to a quota", text::duration(seconds))),
    );
    let mut memory: Vec<String> = Vec::new();
    memory.extend(used.memory_bytes.map(|bytes| format!("{} charged", text::bytes(bytes))));
    memory.extend(used.working_set_bytes.map(|bytes| format!("{} working set", text::bytes(bytes))));
    let io = [("block I/O", used.block_io_bytes), ("network", used.network_io_bytes)];
    for (label, words) in [("CPU", cpu), ("memory", memory)] {
        page.line(label, &if words.is_empty() { "unknown".to_owned() } else { words.join(", ") });
    }
    if let Some(joules) = container.energy_j {
        page.line("energy", &format!("{} since flowcond found it", cost::energy(joules)));
    }
    if let Some(factor) = cost::waste(container) {
        page.toned(Tone::Warn, "waste", &threads::waste(container, factor));
    }
    if let (Some(used), Some(domain)) = (&explanation.threads, &explanation.domain) {
        page.line("threads", &threads::used(used, domain.most_cores));
    }
    for (label, bytes) in io {
        if let Some(bytes) = bytes {
            page.line(label, &text::bytes(bytes));
        }
    }
    for part in &container.gpus {
        page.line(&format!("GPU {}", part.place()), &gpu::used(part));
    }
    for no_room in &explanation.no_room {
        page.line("no room", &gpu::no_room(no_room));
    }
    if let Some(frozen) = container.frozen_share {
        page.line(
            "frozen",
            &format!("{} of the time, to keep another job on its GPU at full speed", text::percent(frozen)),
        );
    }
}

fn notices(page: &mut Page<'_>, container: &Container) {
    if container.notices.is_empty() {
        return;
    }
    page.section("Messages");
    for notice in &container.notices {
        let tone = if notice.is_warning() { Tone::Warn } else { Tone::Plain };
        page.toned(tone, &notice.level, &notice.text);
    }
}
