//! Writes limits through the engine, systemd or the cgroup, whichever a container needs, and restores the engine's record of it.

use super::exact::{exact, has_ours, in_record, numbers_of};
use super::journal::original_of;
use super::target::Target;
use docker::{Conversion, Engine, EngineError, EngineInfo, EngineName, Recorded, recorded};
use limits::{EngineRecord, Journalled, RecordResult, WriteResult};
use model::{EngineLimits, LimitKind, Runtime, Setting};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Original;
use systemd::{Systemd, SystemdError};
use tokio::task::block_in_place;
use tokio::time::Instant;

/// Time before a bus that did not reply, or cannot be reached, is tried again.
const BUS_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The engine's description at the last connection, with the detected conversion of its weights.
pub(super) type Connected = Arc<Mutex<Option<EngineInfo>>>;

/// Writes limits through the engine, systemd or the cgroup.
pub(super) struct Writer {
    pub engine: Option<Engine>,
    pub connected: Connected,
    systemd: Option<Systemd>,
    /// Whether there ever was a connection, so that systemd may have limits of ours.
    bus_has_worked: bool,
    /// Whether the connection is of no use any more; if so, whether because systemd did not reply in time.
    bus_is_lost: AtomicBool,
    bus_is_silent: AtomicBool,
    bus_again_at: Option<Instant>,
    /// Until then its values are unknown: it may still apply limits that it was asked for.
    silent_until: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(engine: Option<Engine>, connected: Connected) -> Writer {
        Writer {
            engine,
            connected,
            systemd: None,
            bus_has_worked: false,
            bus_is_lost: AtomicBool::new(false),
            bus_is_silent: AtomicBool::new(false),
            bus_again_at: None,
            silent_until: None,
        }
    }

    /// Returns the engine's description, if it is connected.
    pub(crate) fn info(&self) -> Option<EngineInfo> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn connect_systemd(&mut self, targets: impl Iterator<Item = &Target>) {
        if self.bus_is_due() && targets.into_iter().any(|target| target.unit.is_some()) {
            self.bus_tried(Systemd::connect().await);
        }
    }

    /// Drops a connection that is of no use any more. Returns whether to connect now: a closed connection is replaced at once, and a bus
    /// that did not reply is left alone for a while.
    pub(super) fn bus_is_due(&mut self) -> bool {
        if std::mem::take(self.bus_is_lost.get_mut()) {
            self.systemd = None;
        }
        if std::mem::take(self.bus_is_silent.get_mut()) {
            self.bus_again_at = Some(Instant::now() + BUS_AGAIN_AFTER);
            self.silent_until = self.bus_again_at;
        }
        self.systemd.is_none() && self.bus_again_at.is_none_or(|at| Instant::now() >= at)
    }

    /// Records the result of connecting.
    pub(super) fn bus_tried(&mut self, connected: Result<Systemd, SystemdError>) {
        match connected {
            Ok(systemd) => {
                (self.systemd, self.bus_again_at) = (Some(systemd), None);
                self.bus_has_worked = true;
            }
            Err(error) => {
                tracing::warn!(%error, "no connection to D-Bus");
                let is_unknown = error.is_silent() || self.bus_has_worked;
                self.bus_again_at = Some(Instant::now() + BUS_AGAIN_AFTER);
                self.silent_until = self.bus_again_at.filter(|_| is_unknown);
            }
        }
    }

    /// Writes `settings`; `original`: the container's limits in the engine's units; `forgotten`: values of ours that the journal will
    /// forget afterwards, so that only the owner's may stay in the engine's record.
    pub(crate) async fn write(
        &self,
        target: &Target,
        original: &EngineLimits,
        settings: &[Setting],
        forgotten: &[Setting],
    ) -> WriteResult {
        let mut failed = None;
        let by_systemd = settings.iter().copied().find(|setting| self.is_systemds(target, *setting));
        if let Some(restored) = by_systemd {
            match self.correct_record(target, original, restored, forgotten).await {
                Err(error) if error.is_gone() => return WriteResult::Gone,
                corrected => failed = corrected.err().map(|error| error.to_string()),
            }
        }
        // Another write may correct it meanwhile, so this one keeps the conversion with which it began.
        let conversion = self.conversion();
        // The engine cannot update these, so they are written even while it is down: a job must not stay squeezed by `memory.high`.
        let (by_engine, by_cgroup) = self.split(target, original, conversion, settings);
        for setting in by_cgroup {
            failed = self.by_cgroup(target, original, setting).await.err().or(failed);
        }
        let numbers = match self.numbers(target, original, conversion, (&by_engine, forgotten)).await {
            Ok(numbers) => numbers,
            Err(error) if error.is_gone() => return WriteResult::Gone,
            Err(error) => return WriteResult::Failed(error.to_string()),
        };
        match self.write_by_engine(target, &numbers, conversion, &by_engine).await {
            Ok(rest) => {
                for setting in rest {
                    failed = self.by_cgroup(target, &numbers, setting).await.err().or(failed);
                }
            }
            Err(error) if error.is_gone() => return WriteResult::Gone,
            Err(error) => failed = Some(error.to_string()),
        }
        match failed {
            Some(why) => WriteResult::Failed(why),
            None => self.correct_weight(target, &numbers, conversion, settings).await,
        }
    }

    /// Returns the numbers with which the engine is asked: when limits are restored or accepted, a value may be the owner's.
    async fn numbers(
        &self,
        target: &Target,
        original: &EngineLimits,
        conversion: Conversion,
        (settings, forgotten): (&[Setting], &[Setting]),
    ) -> Result<EngineLimits, EngineError> {
        let is_needed = !settings.is_empty() && !forgotten.is_empty();
        let Some(engine) = self.engine_of(target).filter(|_| is_needed) else { return Ok(*original) };
        let (present, _) = engine.record(&target.id).await?;
        let shares = target.cgroup().cpu_shares();
        Ok(exact(settings, forgotten, original, conversion, (&present, shares)))
    }

    /// Splits settings into those that the engine can update and those that are written through systemd or to the cgroup.
    fn split(
        &self,
        target: &Target,
        original: &EngineLimits,
        conversion: Conversion,
        settings: &[Setting],
    ) -> (Vec<Setting>, Vec<Setting>) {
        let has_engine = self.engine_of(target).is_some();
        settings.iter().copied().partition(|setting| {
            let is_updatable = || recorded(*setting, original, conversion, original) != Recorded::Never;
            has_engine && !self.is_systemds(target, *setting) && !target.is_bfqs(*setting) && is_updatable()
        })
    }

    /// Returns the engine, if it may update this container.
    fn engine_of(&self, target: &Target) -> Option<&Engine> {
        self.engine.as_ref().filter(|_| target.runtime == Runtime::Docker && !target.gpu_hook)
    }

    /// Writes through the engine. Returns the settings that must be written to the cgroup after all, because it does not support them.
    async fn write_by_engine(
        &self,
        target: &Target,
        original: &EngineLimits,
        conversion: Conversion,
        settings: &[Setting],
    ) -> Result<Vec<Setting>, EngineError> {
        match self.engine_of(target) {
            Some(engine) if !settings.is_empty() => {
                engine.update(&target.id, self.engine_name(), original, conversion, settings).await
            }
            _ => Ok(settings.to_vec()),
        }
    }

    /// Whether systemd must write this setting: it reverts an I/O weight that the engine wrote at the next change of any property.
    fn is_systemds(&self, target: &Target, setting: Setting) -> bool {
        self.systemd.is_some() && target.unit.is_some() && matches!(setting, Setting::IoWeight(_))
    }

    /// Replaces an I/O weight of ours in the record of a running container's engine, which would start the next run with it. It went
    /// through the engine while systemd did not answer. The engine writes the cgroup too, so systemd restores the weight afterwards.
    pub(super) async fn correct_record(
        &self,
        target: &Target,
        original: &EngineLimits,
        restored: Setting,
        forgotten: &[Setting],
    ) -> Result<(), EngineError> {
        let Some(engine) = self.engine_of(target) else { return Ok(()) };
        let ours: Vec<Setting> =
            forgotten.iter().copied().filter(|setting| setting.kind() == restored.kind()).collect();
        if ours.is_empty() {
            return Ok(());
        }
        let conversion = self.conversion();
        let (record, _) = engine.record(&target.id).await?;
        if ours.into_iter().any(|ours| in_record(ours, original, conversion, &record) == Recorded::Set) {
            engine.update(&target.id, self.engine_name(), original, conversion, &[restored]).await?;
        }
        Ok(())
    }

    /// Returns the engine's conversion of weights, as far as it is known.
    fn conversion(&self) -> Conversion {
        self.info().map_or(Conversion::expected(1, None), |info| info.conversion)
    }

    /// Returns the engine's name. One that is unknown is updated with Podman's care.
    fn engine_name(&self) -> EngineName {
        self.info().map_or(EngineName::Podman, |info| info.name)
    }

    async fn by_cgroup(&self, target: &Target, original: &EngineLimits, setting: Setting) -> Result<(), String> {
        let is_lost = self.bus_is_lost.load(Ordering::Relaxed);
        if let (Some(systemd), Some(unit), false) = (&self.systemd, &target.unit, is_lost) {
            match systemd.set(unit, setting).await {
                Ok(()) => return Ok(()),
                // The next daemon-reload reverts the file; it is written again then.
                Err(error) => {
                    tracing::debug!(%error, "written to the cgroup instead");
                    self.bus_is_lost.fetch_or(error.is_lost(), Ordering::Relaxed);
                    self.bus_is_silent.fetch_or(error.is_silent(), Ordering::Relaxed);
                }
            }
        }
        // The loop reads the same cgroup, and must not wait for it.
        let limits = target.writer();
        block_in_place(|| limits.write_exact(setting, original.cpu_shares)).map_err(|error| error.to_string())?;
        let is_unknown =
            self.bus_is_lost.load(Ordering::Relaxed) || self.silent_until.is_some_and(|until| Instant::now() < until);
        match &target.unit {
            // The file is correct until systemd writes its own value, which is unknown.
            Some(unit) if is_unknown => Err(format!("systemd does not answer, and may have another value for {unit}")),
            _ => Ok(()),
        }
    }

    /// Corrects the weight if the engine converts `cpu_shares` in the other of two ways than it was `written` with, as the value that was
    /// read back shows. Runtimes may differ between containers of one engine, and an update may replace one while it runs.
    async fn correct_weight(
        &self,
        target: &Target,
        original: &EngineLimits,
        written: Conversion,
        settings: &[Setting],
    ) -> WriteResult {
        let wanted = settings.iter().find(|setting| matches!(setting, Setting::CpuWeight(_)));
        let (Some(Setting::CpuWeight(wanted)), Some(_)) = (wanted, self.engine_of(target)) else {
            return WriteResult::Done;
        };
        let other_weight = || target.cgroup().limits().cpu_weight.filter(|now| now != wanted);
        let detected = other_weight().and_then(|now| Conversion::detect(written.shares(*wanted), now.number()));
        let Some(conversion) = detected.filter(|found| *found != written) else { return WriteResult::Done };
        tracing::info!(?conversion, "the engine converts CPU shares differently than expected");
        if let Some(info) = self.connected.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            info.conversion = conversion;
        }
        let corrected = self.write_by_engine(target, original, conversion, &[Setting::CpuWeight(*wanted)]).await;
        match (corrected, other_weight()) {
            (Err(error), _) if error.is_gone() => WriteResult::Gone,
            (Err(error), _) => WriteResult::Failed(error.to_string()),
            (Ok(_), Some(now)) => {
                WriteResult::Failed(format!("the engine made CPU weight {} of {}", now.number(), wanted.number()))
            }
            (Ok(_), None) => WriteResult::Done,
        }
    }

    /// Reads what the engine keeps for the next run of a running container, and whether one of these values is in it.
    pub(crate) async fn read_record(
        &self,
        target: &Target,
        original: &Journalled,
        known: &[Setting],
    ) -> Result<EngineRecord, String> {
        let kernels = |record| numbers_of(record, target.cgroup().cpu_shares());
        if target.runtime != Runtime::Docker {
            return Ok(EngineRecord { limits: kernels(None), has_ours: false });
        }
        let (Some(engine), Some(info)) = (&self.engine, self.info()) else {
            return Err("it does not answer; start it and try again".to_owned());
        };
        let row = original_of(target, original);
        if let Some(why) = of_another_engine(&row, &info) {
            return Err(why);
        }
        match engine.record(&target.id).await {
            Ok((record, _)) => {
                let has_ours = has_ours(known, &row.engine.unwrap_or_default(), info.conversion, &record);
                Ok(EngineRecord { limits: kernels(Some(record)), has_ours })
            }
            Err(error) if error.is_missing() && self.is_of_this_engine(&row).await => Ok(EngineRecord::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether the engine that answers now is that of this container: another may have taken over its socket since the connection.
    async fn is_of_this_engine(&self, original: &Original) -> bool {
        let Some(engine) = &self.engine else { return false };
        engine.info().await.is_ok_and(|info| of_another_engine(original, &info).is_none())
    }

    /// Restores the engine's record of a container that does not run, where it still has values of ours. Values that its owner has set
    /// since stay.
    pub(crate) async fn restore_record(&self, original: &Original, written: &[Setting]) -> RecordResult {
        let (Some(engine), Some(info)) = (&self.engine, self.info()) else {
            return RecordResult::Failed(
                "it is not running, and its engine does not answer; start the engine and restore again".to_owned(),
            );
        };
        if let Some(why) = of_another_engine(original, &info) {
            return RecordResult::Failed(why);
        }
        let record = match engine.record(&original.id).await {
            Ok((_, true)) => return RecordResult::RunsAgain,
            Ok((record, false)) => record,
            Err(error) if error.is_missing() && self.is_of_this_engine(original).await => {
                return RecordResult::Restored(Vec::new());
            }
            Err(error) => return RecordResult::Failed(error.to_string()),
        };
        let limits = original.engine.unwrap_or_default();
        let of = |setting: &Setting| in_record(*setting, &limits, info.conversion, &record);
        let ours: Vec<Setting> = written.iter().copied().filter(|setting| of(setting) == Recorded::Set).collect();
        let mut others: Vec<String> = written
            .iter()
            .filter(|setting| {
                !ours.iter().any(|ours| ours.kind() == setting.kind()) && of(setting) == Recorded::Otherwise
            })
            .map(|setting| format!("the engine's record has another value than {setting}"))
            .collect();
        others.dedup();
        let settings: Vec<Setting> = LimitKind::ALL
            .into_iter()
            .filter(|kind| ours.iter().any(|ours| ours.kind() == *kind))
            .filter_map(|kind| original.limits.get(kind))
            .collect();
        if settings.is_empty() {
            return RecordResult::Restored(others);
        }
        match engine.update(&original.id, info.name, &limits, info.conversion, &settings).await {
            Ok(_) => RecordResult::Restored(others),
            Err(error) if error.is_missing() && self.is_of_this_engine(original).await => {
                RecordResult::Restored(others)
            }
            // Podman keeps no update over the end of a container, and accepts none.
            Err(error) if info.name == EngineName::Podman && !error.is_engine_lost() => RecordResult::Restored(others),
            // An engine that is stopping the container refuses; its record is unchanged.
            Err(error) => RecordResult::Failed(error.to_string()),
        }
    }
}

/// Returns an error if this engine is not the container's: only its own engine can say that a container does not exist.
pub(super) fn of_another_engine(original: &Original, info: &EngineInfo) -> Option<String> {
    let mark = original.mark.as_ref().filter(|mark| mark.is_other(&info.mark))?;
    let (own, other) = (&mark.socket, &info.mark.socket);
    let next = format!(
        "start its engine, then run `flowcond restore --set engine.address=unix://{own}`; if it no longer exists, `flowcond restore --forget-missing`"
    );
    Some(format!("it belongs to the engine at {own}, and the engine at {other} is another one; {next}"))
}
