//! The journal of originals: the limits of each container before our first change, and the values written since.
//!
//! Guarantees: [`Store::journal_changes`] returns after the rows are on disk. The limits recorded for an id are never replaced by a later
//! reading, because an engine keeps our update across a restart of the container and would report it as the original.

use super::{Store, StoreError, number, rows};
use model::{Bytes, ContainerId, CpuWeight, EngineLimits, EngineMark, Limits, Quota, Runtime, Setting, word};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

/// `NULL` means that the file does not exist, so unlimited needs a number.
const UNLIMITED: i64 = -1;

/// A container and its limits before our first change.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    /// The container.
    pub id: ContainerId,
    /// Its runtime.
    pub runtime: Runtime,
    /// Its name at that time.
    pub name: String,
    /// Its cgroup at that time, as in `/proc/PID/cgroup`.
    pub cgroup: String,
    /// `/proc/sys/kernel/random/boot_id` at that time.
    pub boot_id: String,
    /// Start of this run of the container, Unix time in milliseconds.
    pub started_unix_ms: u64,
    /// Time of the record, Unix time in milliseconds.
    pub remembered_unix_ms: u64,
    /// The limits of its cgroup.
    pub limits: Limits,
    /// The limits in the units of the engine; `None` without an engine.
    pub engine: Option<EngineLimits>,
    /// Its engine; `None` without an engine, or if an earlier version did not record it.
    pub mark: Option<EngineMark>,
}

/// All readable originals, and the ids of unreadable ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Originals {
    /// Originals, ordered by id.
    pub readable: Vec<Original>,
    /// Ids of rows with invalid values: these containers must be left alone.
    pub damaged: Vec<ContainerId>,
}

impl Store {
    /// Records, in one transaction for all of `changes`, the limits before our first change and the values that may be in force through us
    /// from now on: for each setting the value about to be written, and our value until then. Returns the valid originals in order: for a
    /// known id, those of the earlier record.
    ///
    /// Name, cgroup, boot and start are updated to the current run. Any other value found later in the cgroup was written by someone else.
    pub fn journal_changes(
        &mut self,
        changes: &[(Original, Vec<Setting>)],
    ) -> Result<Vec<Result<Original, StoreError>>, StoreError> {
        let operation = "save the originals";
        self.durably(operation, |connection| {
            let transaction = connection.transaction()?;
            for (original, settings) in changes {
                insert_original(&transaction, original)?;
                insert_written(&transaction, &original.id, settings)?;
            }
            transaction.commit()
        })?;
        let missing = || self.error(operation, rusqlite::Error::QueryReturnedNoRows);
        Ok(changes.iter().map(|(original, _)| self.original(&original.id)?.ok_or_else(missing)).collect())
    }

    /// Returns the original of one container. A damaged row is [`StoreError::DamagedRow`].
    pub fn original(&self, id: &ContainerId) -> Result<Option<Original>, StoreError> {
        let operation = "read an original";
        let read = self
            .connection
            .prepare_cached("SELECT * FROM original WHERE id = ?1")
            .and_then(|mut statement| statement.query_row([id.as_str()], |row| Ok(parsed(row))).optional())
            .map_err(|error| self.error(operation, error))?;
        match read {
            None => Ok(None),
            Some(Some(original)) => Ok(Some(original)),
            Some(None) => Err(StoreError::DamagedRow { path: self.path.clone(), id: id.clone() }),
        }
    }

    /// Returns all originals to be restored.
    pub fn originals(&self) -> Result<Originals, StoreError> {
        let mut all = Originals::default();
        let read = rows(&self.connection, "SELECT * FROM original ORDER BY id", |row| {
            Ok((row.get::<_, String>("id")?, parsed(row)))
        });
        for (id, original) in read.map_err(|error| self.error("read the originals", error))? {
            match original {
                Some(original) => all.readable.push(original),
                None => all.damaged.push(ContainerId::new(&id)),
            }
        }
        Ok(all)
    }

    /// Deletes a container whose limits are restored or that was removed, including the values written for it.
    pub fn forget(&mut self, id: &ContainerId) -> Result<(), StoreError> {
        self.durably("delete an original", |connection| {
            connection.execute("DELETE FROM original WHERE id = ?1", [id.as_str()])
        })
    }

    /// Returns the values of ours that may be in force for a container, one or two per setting, in a fixed order; damaged rows are left
    /// out.
    pub fn written(&self, id: &ContainerId) -> Result<Vec<Setting>, StoreError> {
        self.connection
            .prepare_cached("SELECT setting, value FROM written WHERE id = ?1 ORDER BY setting, value")
            .and_then(|mut statement| {
                let read =
                    statement.query_map([id.as_str()], |row| Ok(setting(&row.get::<_, String>(0)?, row.get(1)?)))?;
                read.filter_map(Result::transpose).collect()
            })
            .map_err(|error| self.error("read the written values", error))
    }
}

/// Inserts an original; a known id keeps its limits. Its engine is the one that runs it now: an engine may get a new id, or another socket.
fn insert_original(connection: &Connection, original: &Original) -> rusqlite::Result<()> {
    let limits = &original.limits;
    let engine = original.engine;
    let values = named_params! {
        ":id": original.id.as_str(),
        ":runtime": word(original.runtime),
        ":name": original.name,
        ":cgroup": original.cgroup,
        ":boot_id": original.boot_id,
        ":started": number(original.started_unix_ms),
        ":remembered": number(original.remembered_unix_ms),
        ":cpu_weight": limits.cpu_weight.map(CpuWeight::number),
        ":cpu_quota": limits.cpu_quota.map(|quota| quota.map_or(UNLIMITED, |q| number(q.0))),
        ":memory_low": limits.memory_low.map(|bytes| number(bytes.0)),
        ":memory_high": limits.memory_high.map(|high| high.map_or(UNLIMITED, |b| number(b.0))),
        ":io_weight": limits.io_weight,
        ":shares": engine.map(|e| e.cpu_shares),
        ":nano": engine.map(|e| e.nano_cpus),
        ":quota": engine.map(|e| e.cpu_quota),
        ":period": engine.map(|e| e.cpu_period),
        ":memory": engine.map(|e| e.memory),
        ":reservation": engine.map(|e| e.memory_reservation),
        ":blkio": engine.map(|e| e.blkio_weight),
        ":engine_id": original.mark.as_ref().and_then(|mark| mark.id.as_ref()),
        ":engine_socket": original.mark.as_ref().map(|mark| &mark.socket),
    };
    let mut statement = connection.prepare_cached(
        "INSERT INTO original VALUES (:id, :runtime, :name, :cgroup, :boot_id, :started, :remembered,
             :cpu_weight, :cpu_quota, :memory_low, :memory_high, :io_weight,
             :shares, :nano, :quota, :period, :memory, :reservation, :blkio,
             :engine_id, :engine_socket)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, cgroup = excluded.cgroup,
             boot_id = excluded.boot_id, started_unix_ms = excluded.started_unix_ms,
             engine_id = CASE WHEN excluded.engine_socket IS NULL THEN engine_id ELSE excluded.engine_id END,
             engine_socket = coalesce(excluded.engine_socket, engine_socket)",
    )?;
    statement.execute(values).map(drop)
}

fn insert_written(connection: &Connection, id: &ContainerId, settings: &[Setting]) -> rusqlite::Result<()> {
    let rows = || settings.iter().map(|setting| setting_row(*setting));
    let mut delete = connection.prepare_cached("DELETE FROM written WHERE id = ?1 AND setting = ?2")?;
    for (word, _) in rows() {
        delete.execute(params![id.as_str(), word])?;
    }
    let mut insert =
        connection.prepare_cached("INSERT OR IGNORE INTO written (id, setting, value) VALUES (?1, ?2, ?3)")?;
    for (word, value) in rows() {
        insert.execute(params![id.as_str(), word, value])?;
    }
    Ok(())
}

/// Parses a row; `None` if a value is invalid, because the file may have been edited or written by another program.
fn parsed(row: &Row<'_>) -> Option<Original> {
    let text = |column: &str| row.get::<_, String>(column).ok();
    let time = |column: &str| row.get::<_, i64>(column).ok().and_then(natural);
    let cgroup = text("cgroup").filter(|path| !path.split('/').any(|part| part == ".."))?;
    Some(Original {
        id: ContainerId::new(&text("id")?),
        runtime: runtime(&text("runtime")?)?,
        name: text("name")?,
        cgroup,
        boot_id: text("boot_id")?,
        started_unix_ms: time("started_unix_ms")?,
        remembered_unix_ms: time("remembered_unix_ms")?,
        limits: limits(row)?,
        engine: engine_limits(row)?,
        mark: text("engine_socket").map(|socket| EngineMark { id: text("engine_id"), socket }),
    })
}

fn limits(row: &Row<'_>) -> Option<Limits> {
    Some(Limits {
        cpu_weight: nullable(row, "cpu_weight", cpu_weight)?,
        cpu_quota: nullable(row, "cpu_quota", |value| unlimited_or(value, Quota))?,
        memory_low: nullable(row, "memory_low", |value| natural(value).map(Bytes))?,
        memory_high: nullable(row, "memory_high", |value| unlimited_or(value, Bytes))?,
        io_weight: nullable(row, "io_weight", io_weight)?,
    })
}

fn engine_limits(row: &Row<'_>) -> Option<Option<EngineLimits>> {
    let Some(cpu_shares) = nullable(row, "engine_cpu_shares", Some)? else { return Some(None) };
    let present = |column: &str| row.get::<_, i64>(column).ok();
    Some(Some(EngineLimits {
        cpu_shares,
        nano_cpus: present("engine_nano_cpus")?,
        cpu_quota: present("engine_cpu_quota")?,
        cpu_period: present("engine_cpu_period")?,
        memory: present("engine_memory")?,
        memory_reservation: present("engine_memory_reservation")?,
        blkio_weight: present("engine_blkio_weight")?,
    }))
}

/// Outer `None`: invalid. Inner `None`: `NULL`.
fn nullable<T>(row: &Row<'_>, column: &str, parse: impl Fn(i64) -> Option<T>) -> Option<Option<T>> {
    match row.get::<_, Option<i64>>(column).ok()? {
        None => Some(None),
        Some(value) => parse(value).map(Some),
    }
}

fn natural(value: i64) -> Option<u64> {
    u64::try_from(value).ok()
}

fn unlimited_or<T>(value: i64, limit: impl Fn(u64) -> T) -> Option<Option<T>> {
    if value == UNLIMITED { Some(None) } else { natural(value).map(|value| Some(limit(value))) }
}

fn cpu_weight(value: i64) -> Option<CpuWeight> {
    (1..=10_000).contains(&value).then(|| CpuWeight::clamped(value as f64))
}

fn io_weight(value: i64) -> Option<u16> {
    u16::try_from(value).ok().filter(|weight| (1..=10_000).contains(weight))
}

pub(super) fn runtime(text: &str) -> Option<Runtime> {
    [Runtime::Docker, Runtime::Scope, Runtime::Pod, Runtime::Containerd]
        .into_iter()
        .find(|runtime| word(runtime) == text)
}

fn setting_row(setting: Setting) -> (&'static str, i64) {
    match setting {
        Setting::CpuWeight(weight) => ("cpu-weight", i64::from(weight.number())),
        Setting::CpuQuota(quota) => ("cpu-quota", quota.map_or(UNLIMITED, |quota| number(quota.0))),
        Setting::MemoryLow(bytes) => ("memory-low", number(bytes.0)),
        Setting::MemoryHigh(bytes) => ("memory-high", bytes.map_or(UNLIMITED, |bytes| number(bytes.0))),
        Setting::IoWeight(weight) => ("io-weight", i64::from(weight)),
    }
}

fn setting(word: &str, value: i64) -> Option<Setting> {
    match word {
        "cpu-weight" => cpu_weight(value).map(Setting::CpuWeight),
        "cpu-quota" => unlimited_or(value, Quota).map(Setting::CpuQuota),
        "memory-low" => natural(value).map(|value| Setting::MemoryLow(Bytes(value))),
        "memory-high" => unlimited_or(value, Bytes).map(Setting::MemoryHigh),
        "io-weight" => io_weight(value).map(Setting::IoWeight),
        _ => None,
    }
}
