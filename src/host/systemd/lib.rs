//! systemd, where it is init: service notifications, transient scopes, and limits of units.
//!
//! With the systemd cgroup driver, a value written to a control file is reverted by the next `daemon-reload`; a value set through
//! `SetUnitProperties` is kept.

use futures_util::StreamExt;
use model::{Bytes, Setting};
use sd_notify::NotifyState;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;
use zbus::zvariant::{OwnedObjectPath, Value};

/// Timeout of a D-Bus call: a bus may accept a message and never deliver it. A machine under load takes seconds; the default of the D-Bus
/// library is 25 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of starting a scope, which waits for a systemd job that may be queued behind others.
const SCOPE_TIMEOUT: Duration = Duration::from_secs(30);

/// A message to the service manager; a no-op if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The service is ready (`Type=notify`).
    Ready,
    /// The service is reloading its configuration; [`Notice::Ready`] follows.
    Reloading,
    /// The service is stopping.
    Stopping,
    /// A line for `systemctl status`.
    Status(String),
    /// Watchdog ping, sent at least twice per [`watchdog_interval`].
    Alive,
}

/// Sends a notice. A failure is only logged: it is no reason to stop.
pub fn notify(notice: &Notice) {
    let sent = match notice {
        Notice::Ready => sd_notify::notify(&[NotifyState::Ready]),
        Notice::Reloading => match NotifyState::monotonic_usec_now() {
            Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
            Err(_) => sd_notify::notify(&[NotifyState::Reloading]),
        },
        Notice::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Notice::Status(text) => sd_notify::notify(&[NotifyState::Status(&text.replace('\n', " "))]),
        Notice::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

/// Returns the interval at which [`Notice::Alive`] must be sent, if the unit has a watchdog: half of its timeout.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 2)
}

/// A failed request to systemd.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// No connection to the bus, or the connection was closed.
    #[error("cannot reach systemd on D-Bus: {0}; {next}", next = next_to_reach(rustix::process::geteuid().as_raw()))]
    Unreachable(zbus::Error),
    /// No response within the timeout.
    #[error("{what}: no response from systemd on D-Bus within {} s; check `systemctl status dbus`", .waited.as_secs())]
    Silent {
        /// The operation.
        what: &'static str,
        /// The timeout.
        waited: Duration,
    },
    /// A unit of this name exists.
    #[error("systemd has a unit {unit} already; choose another --name, or see `systemctl status {unit}`")]
    Exists {
        /// The unit.
        unit: String,
    },
    /// The request was rejected.
    #[error("{what}: systemd rejected the request: {reason}; see `systemctl status {unit}`")]
    Refused {
        /// The operation.
        what: &'static str,
        /// The unit.
        unit: String,
        /// The error message.
        reason: String,
    },
}

/// The next step if the manager of user `uid` cannot be reached. The manager of an unprivileged user runs only while that user is logged in
/// or lingers.
fn next_to_reach(uid: u32) -> String {
    if uid == 0 {
        return "check `systemctl status dbus`".to_owned();
    }
    format!("without a login (cron, `sudo -u`), first run `sudo loginctl enable-linger {uid}`, or use root")
}

impl SystemdError {
    /// Whether the call timed out, so that further calls would time out as well.
    pub fn is_silent(&self) -> bool {
        matches!(self, SystemdError::Silent { .. })
    }

    /// Whether the connection is of no use any more.
    pub fn is_lost(&self) -> bool {
        matches!(self, SystemdError::Silent { .. } | SystemdError::Unreachable(_))
    }

    /// Sorts the error of a call: only a reply of systemd, with a message or without, is a rejection.
    fn of_call(what: &'static str, unit: &str, error: zbus::Error) -> SystemdError {
        let reason = match error {
            zbus::Error::MethodError(name, ..) if name.as_str() == "org.freedesktop.systemd1.UnitExists" => {
                return SystemdError::Exists { unit: unit.to_owned() };
            }
            zbus::Error::MethodError(_, Some(text), _) => text,
            error @ zbus::Error::MethodError(..) => error.to_string(),
            error => return SystemdError::Unreachable(error),
        };
        SystemdError::Refused { what, unit: unit.to_owned(), reason }
    }
}

/// A connection to the system manager or to the user's manager.
#[derive(Clone, Debug)]
pub struct Systemd {
    manager: Manager,
}

/// `org.freedesktop.systemd1.Manager`.
#[derive(Clone, Debug)]
struct Manager(zbus::Proxy<'static>);

type Property<'value> = (&'static str, Value<'value>);

impl Systemd {
    /// Connects to the manager of this user's units: the system manager for root, the user's manager otherwise.
    ///
    /// # Errors
    /// [`SystemdError::Unreachable`], [`SystemdError::Silent`].
    pub async fn connect() -> Result<Systemd, SystemdError> {
        let bus = async {
            if rustix::process::geteuid().is_root() {
                zbus::Connection::system().await
            } else {
                zbus::Connection::session().await
            }
        };
        in_time("connecting", CALL_TIMEOUT, Systemd::over(bus)).await
    }

    /// Connects to the manager on the bus at this address, for tests.
    ///
    /// # Errors
    /// As [`Systemd::connect`].
    #[doc(hidden)]
    pub async fn at(address: &str) -> Result<Systemd, SystemdError> {
        let bus = async { zbus::connection::Builder::address(address)?.build().await };
        in_time("connecting", CALL_TIMEOUT, Systemd::over(bus)).await
    }

    async fn over(bus: impl Future<Output = zbus::Result<zbus::Connection>>) -> Result<Systemd, SystemdError> {
        let bus = bus.await.map_err(SystemdError::Unreachable)?;
        let manager = zbus::Proxy::new(
            &bus,
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
        );
        Ok(Systemd { manager: Manager(manager.await.map_err(SystemdError::Unreachable)?) })
    }

    /// Moves process `pid` into a new transient scope, and returns when it is there. The scope is removed once it is empty.
    ///
    /// # Errors
    /// [`SystemdError::Exists`], [`SystemdError::Refused`], [`SystemdError::Silent`], [`SystemdError::Unreachable`].
    pub async fn start_scope(&self, unit: &str, pid: u32, description: &str) -> Result<(), SystemdError> {
        in_time("starting a scope", SCOPE_TIMEOUT, self.scope(unit, pid, description)).await
    }

    async fn scope(&self, unit: &str, pid: u32, description: &str) -> Result<(), SystemdError> {
        let refused =
            |reason: String| SystemdError::Refused { what: "starting a scope", unit: unit.to_owned(), reason };
        let failed = |error| SystemdError::of_call("starting a scope", unit, error);
        let mut ends = self.manager.0.receive_signal("JobRemoved").await.map_err(failed)?;
        // An error that the connection is already subscribed is harmless.
        let _: zbus::Result<()> = self.manager.0.call("Subscribe", &()).await;
        let mut properties: Vec<Property<'_>> = vec![
            ("Description", Value::from(description)),
            ("PIDs", Value::from(vec![pid])),
            ("CPUAccounting", Value::from(true)),
            // A user manager enables a controller only for units that use it.
            ("CPUWeight", Value::from(100_u64)),
            ("MemoryAccounting", Value::from(true)),
            ("IOAccounting", Value::from(true)),
            ("CollectMode", Value::from("inactive-or-failed")),
            // By default, systemd ends the whole job when the kernel has killed one of its processes for want of memory.
            ("OOMPolicy", Value::from("continue")),
        ];
        let mut started = self.start_unit(unit, &properties).await;
        if started.as_ref().is_err_and(is_unknown_property) {
            properties.pop(); // older versions have no OOMPolicy for scopes
            started = self.start_unit(unit, &properties).await;
        }
        let job = started.map_err(failed)?;
        while let Some(end) = ends.next().await {
            let (_, ended, _, result): (u32, OwnedObjectPath, String, String) =
                end.body().deserialize().map_err(|error| refused(error.to_string()))?;
            if ended == job {
                return if result == "done" { Ok(()) } else { Err(refused(format!("the job ended with `{result}`"))) };
            }
        }
        Err(refused("the bus was closed before the scope was started".to_owned()))
    }

    /// Requests the start of a transient unit; returns the path of the job.
    async fn start_unit(&self, unit: &str, properties: &[Property<'_>]) -> zbus::Result<OwnedObjectPath> {
        let none: Vec<(&str, Vec<Property<'_>>)> = Vec::new();
        self.manager.0.call("StartTransientUnit", &(unit, "fail", properties, none)).await
    }

    /// Sets one limit of a unit until the next boot.
    ///
    /// # Errors
    /// [`SystemdError::Silent`], [`SystemdError::Unreachable`] if the connection was closed, [`SystemdError::Refused`] otherwise.
    pub async fn set(&self, unit: &str, setting: Setting) -> Result<(), SystemdError> {
        let property = property(setting);
        let request = async {
            let arguments = (unit, true, vec![property]);
            let answer: zbus::Result<()> = self.manager.0.call("SetUnitProperties", &arguments).await;
            answer.map_err(|error| SystemdError::of_call("setting a limit", unit, error))
        };
        in_time("setting a limit", CALL_TIMEOUT, request).await
    }
}

async fn in_time<T>(
    what: &'static str,
    waited: Duration,
    request: impl Future<Output = Result<T, SystemdError>>,
) -> Result<T, SystemdError> {
    timeout(waited, request).await.unwrap_or(Err(SystemdError::Silent { what, waited }))
}

/// Whether systemd rejected a property that it does not have.
fn is_unknown_property(error: &zbus::Error) -> bool {
    const NAMES: [&str; 2] =
        ["org.freedesktop.DBus.Error.PropertyReadOnly", "org.freedesktop.DBus.Error.UnknownProperty"];
    matches!(error, zbus::Error::MethodError(name, _, _) if NAMES.contains(&name.as_str()))
}

/// Converts a limit to a property of `systemd.resource-control(5)`, where the largest number means "no limit".
fn property(setting: Setting) -> Property<'static> {
    let bytes = |limit: Option<Bytes>| Value::from(limit.map_or(u64::MAX, |bytes| bytes.0));
    match setting {
        Setting::CpuWeight(weight) => ("CPUWeight", Value::from(u64::from(weight.number()))),
        Setting::CpuQuota(quota) => {
            // Microseconds of CPU time per second; our unit is thousandths of a core.
            let per_second = quota.map_or(u64::MAX, |quota| quota.0.saturating_mul(1000));
            ("CPUQuotaPerSecUSec", Value::from(per_second))
        }
        Setting::MemoryLow(low) => ("MemoryLow", Value::from(low.0)),
        Setting::MemoryHigh(high) => ("MemoryHigh", bytes(high)),
        Setting::IoWeight(weight) => ("IOWeight", Value::from(u64::from(weight))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CpuWeight;
    use testing::bus;

    const LONG: Duration = Duration::from_secs(40);

    #[tokio::test]
    async fn connecting_to_a_silent_bus_times_out() {
        let (_dir, address) = bus::mute(false);
        let error = timeout(LONG, Systemd::at(&address)).await.expect("it times out").unwrap_err();
        assert!(error.is_silent() && error.to_string().contains("within 20 s"), "{error}");
    }

    #[test]
    fn a_user_without_a_manager_is_told_how_to_start_it() {
        assert!(next_to_reach(1000).contains("loginctl enable-linger 1000"), "{}", next_to_reach(1000));
        assert!(next_to_reach(0).contains("systemctl status dbus"), "{}", next_to_reach(0));
    }

    #[tokio::test]
    async fn a_manager_without_the_oom_policy_is_asked_again_without_it() {
        let (_dir, address) = bus::old_manager();
        let systemd = Systemd::at(&address).await.unwrap();
        let started = timeout(LONG, systemd.start_scope("x.scope", 1, "x")).await.expect("it is answered");
        let error = started.unwrap_err();
        assert!(!error.is_lost() && error.to_string().contains("test.RequestedTwice"), "{error}");
    }

    #[tokio::test]
    async fn a_call_that_the_manager_never_answers_times_out() {
        let (_dir, address) = bus::mute(true);
        let systemd = Systemd::at(&address).await.unwrap();
        let set = timeout(LONG, systemd.set("x.scope", Setting::CpuWeight(CpuWeight::DEFAULT))).await;
        assert!(set.expect("it times out").unwrap_err().is_silent());
        let started = timeout(LONG, systemd.start_scope("x.scope", 1, "x")).await;
        assert!(started.expect("it times out").unwrap_err().is_silent());
    }
}
