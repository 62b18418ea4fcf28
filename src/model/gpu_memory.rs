//! Finds jobs that would not fit on one GPU together, before they are placed there.
//!
//! A job is assumed to need the GPU memory that it holds now, because frameworks keep memory that they have once allocated. Two jobs that
//! together hold more memory than a GPU has cannot share it. On a GPU that is nearly full, the next job that needs more memory fails.

use super::{Bytes, Gpu, GpuUse};

/// A GPU with less than this fraction of its memory free is nearly full.
const NEARLY_FULL: f64 = 0.05;

/// A job that does not fit on a GPU beside another one.
#[derive(Clone, Debug, PartialEq)]
pub struct NoRoom {
    /// Name of the other job.
    pub beside: String,
    /// Index of the other job's GPU.
    pub gpu: u32,
    /// Memory that both jobs hold together.
    pub together: Bytes,
    /// Memory of the GPU, or of the MIG instance.
    pub total: Bytes,
}

/// Returns those of the `others` beside which, on their GPUs, a job that holds `mine` would not fit. Jobs that share a GPU now fit there.
pub fn no_room<'a>(
    mine: &[GpuUse],
    others: impl Iterator<Item = (&'a str, &'a [GpuUse])>,
    gpus: &[Gpu],
) -> Vec<NoRoom> {
    let Some(needed) = mine.iter().filter_map(|part| part.memory).max() else { return Vec::new() };
    let place = |part: &GpuUse| (part.gpu, part.instance);
    let against = |(name, parts): (&'a str, &'a [GpuUse])| {
        let apart = parts.iter().filter(|part| !mine.iter().any(|own| place(own) == place(part)));
        let too_much = apart.filter_map(|part| {
            let (total, together) = (total(part, gpus)?, Bytes(needed.0.saturating_add(part.memory?.0)));
            (together > total).then(|| NoRoom { beside: name.to_owned(), gpu: part.gpu, together, total })
        });
        too_much.max_by_key(|no_room| no_room.together)
    };
    others.filter_map(against).collect()
}

/// Describes the GPUs that a job shares with one of the `others` and that are nearly full; `None` = there are none.
pub fn nearly_full<'a>(mine: &[GpuUse], others: impl Iterator<Item = &'a [GpuUse]>, gpus: &[Gpu]) -> Option<String> {
    let others: Vec<&[GpuUse]> = others.collect();
    let is_shared = |part: &GpuUse| {
        others.iter().flat_map(|parts| parts.iter()).any(|o| (o.gpu, o.instance) == (part.gpu, part.instance))
    };
    let full = mine.iter().filter(|part| is_shared(part) && is_nearly_full(part, gpus));
    let places: Vec<String> = full.map(|part| part.gpu.to_string()).collect();
    (!places.is_empty()).then(|| {
        format!(
            "GPU {} is nearly full and shared: the next job that needs more memory there fails; `flowctl status -o wide` shows which jobs hold it",
            places.join(", ")
        )
    })
}

fn is_nearly_full(part: &GpuUse, gpus: &[Gpu]) -> bool {
    let memory = free(part, gpus).zip(total(part, gpus));
    memory.is_some_and(|(free, total)| free.0 as f64 <= NEARLY_FULL * total.0 as f64)
}

fn total(part: &GpuUse, gpus: &[Gpu]) -> Option<Bytes> {
    let gpu = gpus.iter().find(|gpu| gpu.index == part.gpu)?;
    match part.instance {
        Some(index) => gpu.instances.iter().find(|instance| instance.index == index)?.memory_total,
        None => gpu.memory_total,
    }
}

fn free(part: &GpuUse, gpus: &[Gpu]) -> Option<Bytes> {
    let gpu = gpus.iter().find(|gpu| gpu.index == part.gpu)?;
    match part.instance {
        Some(index) => gpu.instances.iter().find(|instance| instance.index == index)?.memory_free,
        None => gpu.memory_free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Two GPUs with this much memory in use, and 2 GiB reserved by the driver.
    fn gpus(used: [u64; 2]) -> Vec<Gpu> {
        let gpu = |(index, used): (u32, u64)| Gpu {
            index,
            memory_used: Some(Bytes(used * GIB)),
            memory_free: Some(Bytes(38_u64.saturating_sub(used) * GIB)),
            memory_total: Some(Bytes(40 * GIB)),
            ..Gpu::default()
        };
        (0..).zip(used).map(gpu).collect()
    }

    fn held(gpu: u32, gib: u64) -> Vec<GpuUse> {
        vec![GpuUse { gpu, memory: Some(Bytes(gib * GIB)), ..GpuUse::default() }]
    }

    #[test]
    fn jobs_that_do_not_fit_together_are_found_and_jobs_that_share_a_gpu_fit() {
        let (mine, large, small, neighbour) = (held(0, 24), held(1, 20), held(1, 8), held(0, 30));
        let others = [("large", &large[..]), ("small", &small[..]), ("neighbour", &neighbour[..])];
        let found = no_room(&mine, others.into_iter(), &gpus([39, 28]));
        let expected = NoRoom { beside: "large".to_owned(), gpu: 1, together: Bytes(44 * GIB), total: Bytes(40 * GIB) };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn unknown_memory_never_counts_as_too_much() {
        let unknown = vec![GpuUse { gpu: 1, ..GpuUse::default() }];
        assert_eq!(no_room(&held(0, 40), [("b", &unknown[..])].into_iter(), &gpus([40, 40])), []);
        assert_eq!(no_room(&unknown, [("b", &held(0, 40)[..])].into_iter(), &gpus([40, 40])), []);
        assert_eq!(no_room(&held(0, 40), [("b", &held(1, 40)[..])].into_iter(), &[]), []);
    }

    #[test]
    fn a_nearly_full_gpu_is_reported_to_the_jobs_that_share_it() {
        let words = |used, other| nearly_full(&held(0, 20), [&held(other, 18)[..]].into_iter(), &gpus([used, 0]));
        assert!(words(39, 0).is_some_and(|words| words.starts_with("GPU 0 is nearly full")));
        assert!(words(37, 0).is_some(), "the memory that the driver reserves is not free");
        assert_eq!(words(30, 0), None);
        assert_eq!(words(39, 1), None, "alone on it");
    }
}
