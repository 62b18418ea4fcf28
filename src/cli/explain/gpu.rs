//! The GPU lines of `flowctl explain`. Pure.

use api::wire::{Container, Explanation, GpuUse, NoRoom};
use term::text;

/// The resource that limits a job with a GPU.
pub(super) fn limited_by(container: &Container, explanation: &Explanation) -> Option<&'static str> {
    match explanation.decision.as_ref()?.rule.as_str() {
        "ranked-on-gpu" => Some("the GPU: a unit of progress takes longer there than on its CPU share"),
        "ranked" if !container.gpus.is_empty() => {
            Some("the CPU: a unit of progress takes longer on its CPU share than on its GPU")
        }
        _ => None,
    }
}

/// `45% of its time, 3.2G of its memory, by 2 processes (GPU-5d…)`.
pub(super) fn used(part: &GpuUse) -> String {
    let share = part.share.map_or_else(
        || "an unknown share of its time".to_owned(),
        |share| format!("{} of its time", text::percent(share)),
    );
    let memory = part.memory_bytes.map_or_else(
        || "an unknown share of its memory".to_owned(),
        |bytes| format!("{} of its memory", text::bytes(bytes)),
    );
    let processes = if part.processes == 1 { "1 process".to_owned() } else { format!("{} processes", part.processes) };
    format!("{share}, {memory}, by {processes} ({})", part.uuid)
}

/// `on GPU 1 together with b: both hold 44G, the GPU has 40G`.
pub(super) fn no_room(NoRoom { beside, gpu, together_bytes, total_bytes }: &NoRoom) -> String {
    let (together, total) = (text::bytes(*together_bytes), text::bytes(*total_bytes));
    format!("on GPU {gpu} together with {beside}: both hold {together}, the GPU has {total}")
}
