//! Finds CPU weights that look like flowcon's in containers that the journal does not know: the journal may be that of another daemon, or a
//! new one after the right one was lost.
//!
//! A weight looks like flowcon's if the container was not started with it, it is not the default, and either the engine does not know of
//! it, or its shares are what flowcon requests for a whole weight, which round shares of people hardly ever are. So an owner's own limit is
//! not taken for flowcon's, and a weight of flowcon that survived a restart of its container is not found.

use super::writer::Writer;
use cgroup::Cgroup;
use docker::{Conversion, EngineContainer, EngineError, EngineInfo, EngineName, shares_at_start};
use futures_util::{StreamExt, stream};
use model::{ContainerId, CpuWeight};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// Shares and weights that are multiples of these are chosen by people.
const ROUND_SHARES: [u64; 2] = [100, 256];
const ROUND_WEIGHT: u32 = 25;
/// Time limit, short next to systemd's stop timeout.
const LOOKS_WITHIN: Duration = Duration::from_secs(20);
/// Containers that are inspected at the same time.
const INSPECTED_AT_ONCE: usize = 4;

/// Returns the running labelled containers with such weights, apart from `known` ones, each with the command that undoes it.
pub(super) async fn unknown_limits(
    writer: &Writer,
    label: &str,
    known: &BTreeSet<ContainerId>,
) -> Result<Vec<String>, String> {
    match timeout(LOOKS_WITHIN, look(writer, label, known)).await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("the engine did not answer within {} s", LOOKS_WITHIN.as_secs())),
    }
}

async fn look(writer: &Writer, label: &str, known: &BTreeSet<ContainerId>) -> Result<Vec<String>, EngineError> {
    let Some(engine) = &writer.engine else { return Ok(Vec::new()) };
    let info = match writer.info() {
        Some(info) => info,
        None => engine.info().await?,
    };
    let unknown = engine.list(label).await?.into_iter().map(|listed| listed.id).filter(|id| !known.contains(id));
    let inspected = stream::iter(unknown).map(|id| async move { engine.inspect(&id, info.name).await });
    let (mut found, mut lost) = (Vec::new(), None);
    for inspected in inspected.buffered(INSPECTED_AT_ONCE).collect::<Vec<_>>().await {
        match inspected {
            Ok(container) => found.extend(unknown_limit(&container, &info)),
            Err(error) if error.is_engine_lost() => lost = Some(error),
            Err(_) => {} // it has ended
        }
    }
    // A container that hangs hides none of those that were found.
    lost.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

fn unknown_limit(container: &EngineContainer, info: &EngineInfo) -> Option<String> {
    let now = Cgroup::of_container(container.pid, container.id.as_str()).ok()?.limits().cpu_weight?;
    let at_start = shares_at_start(container.pid, &container.id);
    if !looks_like_ours(now, container.limits.cpu_shares, at_start, info.conversion) {
        return None;
    }
    let program = if info.name == EngineName::Podman { "podman" } else { "docker" };
    // A container that was restarted while it was governed was started with shares of flowcon.
    let (shares, origin) = match at_start.and_then(|shares| u64::try_from(shares).ok()) {
        Some(shares) if shares > 0 && !is_requested(shares, info.conversion.possible().iter()) => {
            (shares, "what it was started with")
        }
        _ => (info.conversion.shares(CpuWeight::DEFAULT), "the default"),
    };
    let name = &container.name;
    Some(format!(
        "{name}: its CPU weight {} looks like flowcon's, but the journal does not know it; \
         `{program} update --cpu-shares {shares} {name}` sets {origin}",
        now.number()
    ))
}

/// `recorded`: the engine's shares, 0 for the default; `at_start`: those with which this run began, if known.
fn looks_like_ours(now: CpuWeight, recorded: i64, at_start: Option<i64>, conversion: Conversion) -> bool {
    let gives_now = |shares: i64| match u64::try_from(shares) {
        Ok(shares) if shares > 0 => conversion.possible().iter().any(|one| one.weight(shares) == now.number()),
        _ => now == CpuWeight::DEFAULT,
    };
    if now == CpuWeight::DEFAULT || at_start.is_some_and(gives_now) {
        return false;
    }
    if !gives_now(recorded) {
        return !now.number().is_multiple_of(ROUND_WEIGHT); // written to the cgroup, as where the engine cannot update
    }
    u64::try_from(recorded).is_ok_and(|shares| {
        // Asked for with the expected conversion, which may be wrong, or with the one that gave this weight.
        let asked_with = |one: &Conversion| *one == conversion || one.weight(shares) == now.number();
        is_requested(shares, conversion.possible().iter().filter(|one| asked_with(one)))
    })
}

/// Whether these are the shares that flowcon requests for a weight with one of these conversions, and not such as people choose.
fn is_requested<'a>(shares: u64, mut conversions: impl Iterator<Item = &'a Conversion>) -> bool {
    let requests = |one: &Conversion| one.shares(CpuWeight::clamped(f64::from(one.weight(shares)))) == shares;
    let is_round = ROUND_SHARES.iter().any(|round| shares.is_multiple_of(*round));
    !is_round && conversions.any(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_version_1(shares: i64, recorded: i64, at_start: Option<i64>) -> bool {
        looks_like_ours(CpuWeight::clamped(shares as f64 * 100.0 / 1024.0), recorded, at_start, Conversion::Shares)
    }

    #[test]
    fn weights_that_flowcon_requested_are_found() {
        for shares in [4157, 51, 10] {
            assert!(on_version_1(shares, shares, Some(0)), "{shares}");
            assert!(on_version_1(shares, shares, None), "{shares}: its bundle cannot be read");
            assert!(on_version_1(shares, 0, Some(0)), "{shares}: written to the cgroup");
        }
        for (conversion, weight) in [(Conversion::Linear, 406), (Conversion::Quadratic, 5)] {
            let now = CpuWeight::clamped(f64::from(weight));
            let recorded = i64::try_from(conversion.shares(now)).unwrap();
            assert!(looks_like_ours(now, recorded, Some(0), conversion), "{conversion:?}");
        }
    }

    #[test]
    fn an_owners_limit_is_not_taken_for_one_of_flowcon() {
        for shares in [2, 512, 1024, 2048, 3000, 700, 100, 1000] {
            assert!(!on_version_1(shares, shares, Some(0)), "{shares}: updated by its owner");
            assert!(!on_version_1(shares, shares, None), "{shares}");
        }
        for shares in [10, 51, 4157] {
            assert!(!on_version_1(shares, shares, Some(shares)), "{shares}: started with it");
        }
        assert!(!on_version_1(1024, 0, Some(0)) && !on_version_1(1024, 0, None), "the default");
        // Restored after the container was restarted while it was governed.
        let restored = i64::try_from(Conversion::Linear.shares(CpuWeight::DEFAULT)).unwrap();
        assert!(!looks_like_ours(CpuWeight::DEFAULT, restored, Some(1168), Conversion::Linear));
        for (weight, recorded) in [(100, 0), (39, 1024), (100, 1024), (59, 512)] {
            let now = CpuWeight::clamped(f64::from(weight));
            assert!(!looks_like_ours(now, recorded, Some(recorded), Conversion::Linear), "{recorded}");
        }
        // Updated by its owner: the other conversion would ask for 620, but for another weight.
        assert!(!looks_like_ours(CpuWeight::clamped(24.0), 620, Some(3000), Conversion::Linear));
    }

    #[test]
    fn a_weight_that_was_requested_with_the_wrong_conversion_is_found() {
        for (guessed, actual) in
            [(Conversion::Linear, Conversion::Quadratic), (Conversion::Quadratic, Conversion::Linear)]
        {
            let shares = guessed.shares(CpuWeight::clamped(37.0));
            let now = CpuWeight::clamped(f64::from(actual.weight(shares)));
            assert!(looks_like_ours(now, i64::try_from(shares).unwrap(), Some(0), guessed), "{guessed:?}");
        }
    }
}
