//! systemd, where it is init: telling it how the service is, asking it for a scope, setting a unit's limits.
//!
//! With the systemd cgroup driver a value written to a control file is reverted by the next `daemon-reload`; what is set through
//! `SetUnitProperties` stays. Imports: model only.

use crate::model::{Bytes, Setting};
use futures_util::StreamExt;
use sd_notify::NotifyState;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;
use zbus::zvariant::{OwnedObjectPath, Value};

/// A manager that does not answer a call by then is given up: a bus may take a message and never deliver it. A machine under load takes
/// seconds; what the bus's own library waits is 25.
const ANSWER_AT_MOST: Duration = Duration::from_secs(20);
/// Starting a scope waits for a job of the manager's, behind others.
const SCOPE_AT_MOST: Duration = Duration::from_secs(30);

/// A message to the service manager; without one, each is a no-op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The service is up (`Type=notify`).
    Ready,
    /// It reads its configuration again; [`Notice::Ready`] follows.
    Reloading,
    /// It goes down.
    Stopping,
    /// A line for `systemctl status`.
    Status(String),
    /// It is alive; at least twice per [`watchdog_interval`].
    Alive,
}

/// Sends a notice. Never fails: a manager that does not listen is no reason to stop.
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
        tracing::debug!(%error, "the service manager did not take a notice");
    }
}

/// How often [`Notice::Alive`] must be sent, if the unit has a watchdog: half its time.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 2)
}

/// Why systemd did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// No bus.
    #[error("systemd does not answer on D-Bus: {0}; check `systemctl status dbus`, or run the command as root")]
    Unreachable(zbus::Error),
    /// It says nothing.
    #[error("systemd did not answer on D-Bus within {} s when asked {what}; check `systemctl status dbus`", .waited.as_secs())]
    Silent {
        /// What was asked.
        what: &'static str,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It said no.
    #[error("systemd refused {what}: {reason}; `systemctl status {unit}` says more")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// About which unit.
        unit: String,
        /// Its answer.
        reason: String,
    },
    /// It has no property for that limit.
    #[error("systemd has no property for {0} of a unit; write it to the cgroup")]
    NoProperty(Setting),
}

impl SystemdError {
    /// Whether it did not answer in time, so that it will not answer other calls either.
    pub fn is_silent(&self) -> bool {
        matches!(self, SystemdError::Silent { .. })
    }
}

/// A connection to the system's manager, or to the user's own.
#[derive(Clone, Debug)]
pub struct Systemd {
    manager: Manager,
}

/// `org.freedesktop.systemd1.Manager`, the methods that are used here.
#[derive(Clone, Debug)]
struct Manager(zbus::Proxy<'static>);

type Property<'value> = (&'static str, Value<'value>);

impl Systemd {
    /// The manager that this user's units belong to: the system's for root, the user's own otherwise.
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
        in_time("who it is", ANSWER_AT_MOST, Systemd::over(bus)).await
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

    /// Moves process `pid` into a transient scope of its own and returns when it is there. The scope goes away when it is empty.
    ///
    /// # Errors
    /// [`SystemdError::Refused`], for example when a unit of that name exists, [`SystemdError::Silent`].
    pub async fn start_scope(&self, unit: &str, pid: u32, description: &str) -> Result<(), SystemdError> {
        in_time("to start a scope", SCOPE_AT_MOST, self.scope(unit, pid, description)).await
    }

    async fn scope(&self, unit: &str, pid: u32, description: &str) -> Result<(), SystemdError> {
        let refused =
            |reason: String| SystemdError::Refused { what: "to start a scope", unit: unit.to_owned(), reason };
        let asked = |error: zbus::Error| refused(reason(error));
        let mut ends = self.manager.0.receive_signal("JobRemoved").await.map_err(asked)?;
        // An answer that it is subscribed already is as good.
        let _: zbus::Result<()> = self.manager.0.call("Subscribe", &()).await;
        let properties: Vec<Property<'_>> = vec![
            ("Description", Value::from(description)),
            ("PIDs", Value::from(vec![pid])),
            ("CPUAccounting", Value::from(true)),
            // A user's manager hands a controller down to those only that ask for something of it.
            ("CPUWeight", Value::from(100_u64)),
            ("MemoryAccounting", Value::from(true)),
            ("IOAccounting", Value::from(true)),
            ("CollectMode", Value::from("inactive-or-failed")),
        ];
        let none: Vec<(&str, Vec<Property<'_>>)> = Vec::new();
        let job: OwnedObjectPath =
            self.manager.0.call("StartTransientUnit", &(unit, "fail", properties, none)).await.map_err(asked)?;
        while let Some(end) = ends.next().await {
            let (_, ended, _, result): (u32, OwnedObjectPath, String, String) =
                end.body().deserialize().map_err(|error| refused(error.to_string()))?;
            if ended == job {
                return if result == "done" { Ok(()) } else { Err(refused(format!("the job ended as `{result}`"))) };
            }
        }
        Err(refused("the bus closed before the scope was there".to_owned()))
    }

    /// Sets one limit of a unit until the next boot.
    ///
    /// # Errors
    /// [`SystemdError::NoProperty`] for limits that no property stands for, [`SystemdError::Silent`], [`SystemdError::Refused`] otherwise.
    pub async fn set(&self, unit: &str, setting: Setting) -> Result<(), SystemdError> {
        let property = property(setting)?;
        let refused = |error| SystemdError::Refused { what: "a limit", unit: unit.to_owned(), reason: reason(error) };
        let asking = async {
            let asked = (unit, true, vec![property]);
            let answer: zbus::Result<()> = self.manager.0.call("SetUnitProperties", &asked).await;
            answer.map_err(refused)
        };
        in_time("to set a limit", ANSWER_AT_MOST, asking).await
    }
}

async fn in_time<T>(
    what: &'static str,
    waited: Duration,
    asking: impl Future<Output = Result<T, SystemdError>>,
) -> Result<T, SystemdError> {
    timeout(waited, asking).await.unwrap_or(Err(SystemdError::Silent { what, waited }))
}

/// systemd's own words where it answered, the bus's otherwise.
fn reason(error: zbus::Error) -> String {
    match error {
        zbus::Error::MethodError(_, Some(text), _) => text,
        error => error.to_string(),
    }
}

/// `systemd.resource-control(5)`; "no limit" is the largest number there.
fn property(setting: Setting) -> Result<Property<'static>, SystemdError> {
    let bytes = |limit: Option<Bytes>| Value::from(limit.map_or(u64::MAX, |bytes| bytes.0));
    match setting {
        Setting::CpuWeight(weight) => Ok(("CPUWeight", Value::from(u64::from(weight.number())))),
        Setting::CpuQuota(quota) => {
            // Microseconds of CPU time per second; our unit is thousandths of a core.
            let per_second = quota.map_or(u64::MAX, |quota| quota.0.saturating_mul(1000));
            Ok(("CPUQuotaPerSecUSec", Value::from(per_second)))
        }
        Setting::MemoryLow(low) => Ok(("MemoryLow", Value::from(low.0))),
        Setting::MemoryHigh(high) => Ok(("MemoryHigh", bytes(high))),
        Setting::IoWeight(weight) => Ok(("IOWeight", Value::from(u64::from(weight)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuWeight;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use zbus::connection::Builder;

    const LONG: Duration = Duration::from_secs(40);

    /// A bus that takes connections and says nothing, or says nothing more once one may go on.
    fn mute_bus(welcomes: bool) -> (tempfile::TempDir, String) {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("bus");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            if welcomes {
                welcome(&stream);
            }
            std::thread::sleep(2 * LONG);
        });
        let address = format!("unix:path={}", path.display());
        (dir, address)
    }

    /// Authenticates whoever it is, and gives them a name.
    fn welcome(mut stream: &UnixStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while !line.ends_with("BEGIN\r\n") {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let answer: &[u8] = match line.trim_start_matches('\0').split(' ').next() {
                Some("AUTH") => b"OK 1234deadbeef1234deadbeef1234dead\r\n",
                Some("NEGOTIATE_UNIX_FD\r\n") => b"AGREE_UNIX_FD\r\n",
                _ => b"",
            };
            stream.write_all(answer).unwrap();
        }
        let mut hello = [0; 16];
        reader.read_exact(&mut hello).unwrap();
        // A return: 9 bytes of body, serial 1, 15 bytes of fields: what it answers, and that it is a string.
        let head = [&b"l\x02\x01\x01\x09\0\0\0\x01\0\0\0\x0f\0\0\0\x05\x01u\0"[..], &hello[8..12]].concat();
        let answer = [&head[..], b"\x08\x01g\0\x01s\0\0", b"\x04\0\0\0:1.1\0"].concat();
        stream.write_all(&answer).unwrap();
    }

    async fn over(address: &str) -> Result<Systemd, SystemdError> {
        let bus = async { Builder::address(address)?.build().await };
        in_time("who it is", ANSWER_AT_MOST, Systemd::over(bus)).await
    }

    #[tokio::test]
    async fn a_bus_that_takes_a_connection_and_says_nothing_is_given_up() {
        let (_dir, address) = mute_bus(false);
        let error = timeout(LONG, over(&address)).await.expect("it ends by itself").unwrap_err();
        assert!(error.is_silent() && error.to_string().contains("within 20 s"), "{error}");
    }

    #[tokio::test]
    async fn a_manager_that_never_answers_a_call_is_given_up() {
        let (_dir, address) = mute_bus(true);
        let systemd = over(&address).await.unwrap();
        let set = timeout(LONG, systemd.set("x.scope", Setting::CpuWeight(CpuWeight::DEFAULT))).await;
        assert!(set.expect("it ends by itself").unwrap_err().is_silent());
        let started = timeout(LONG, systemd.start_scope("x.scope", 1, "x")).await;
        assert!(started.expect("it ends by itself").unwrap_err().is_silent());
    }
}
