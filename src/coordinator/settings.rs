//! Parser of `flowcoord.toml`: every key is optional; each error names its line and the expected value.

use super::machine::{CoordinatorSettings, LOOKS_VALID, RentSettings, RunTimes};
use model::cluster::{Admission, ClusterSettings, MoveRule, PlacementRule, QueueRule};
use model::time::duration;
use model::{Bytes, Millis};
use serde::{Deserialize, Deserializer, de};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Default port of agents.
pub const PORT: u16 = 7951;
/// Maximum time from the expiry of a lease until the agent has stopped the job, besides the job's stop grace period.
pub(super) const STOPPED_WITHIN: Millis = Millis::from_secs(12);

/// Configuration of `flowcoord`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// API socket of the coordinator, used by `flowctl cluster`.
    pub socket: PathBuf,
    /// Group with read-only access.
    pub group: Option<String>,
    /// Users with full control, besides root.
    pub admins: Vec<String>,
    /// The engine's socket; `None` = the default of `docker`.
    pub engine: Option<String>,
    /// Settings of the machine.
    pub machine: CoordinatorSettings,
    /// Settings of each node's agent.
    pub agent: AgentSettings,
}

/// Configuration of `flowcoord agent`; managers read the port from it too.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// Port, the same on all nodes.
    pub port: u16,
    /// Address to listen on; `None` = the node's address in the Swarm.
    pub listen: Option<String>,
    /// API socket of `flowcond`.
    pub flowcond: PathBuf,
    /// Certificate, key and authority; `None` = those of Swarm.
    pub certificates: Option<CertificateFiles>,
    /// Maximum size of a transferred volume.
    pub volume_most: Bytes,
    /// Maximum bytes per second of one transfer; `None` = unlimited.
    pub carry_rate: Option<Bytes>,
}

/// PEM files of a custom PKI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificate of this node, with the same names as Swarm's certificate.
    pub certificate: PathBuf,
    /// Private key, not encrypted.
    pub key: PathBuf,
    /// Certificate authority of the cluster.
    pub authority: PathBuf,
}

/// Errors of loading a configuration.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{path}: cannot read the configuration: {source}; check the path and its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file contains an invalid value.
    #[error("{path}: {mistake}")]
    Mistake {
        /// The file.
        path: PathBuf,
        /// Line and column, and the expected value.
        mistake: String,
    },
}

impl Settings {
    /// Loads the file. Returns the defaults if it does not exist, unless it `must_exist`.
    ///
    /// # Errors
    /// The file cannot be read, or contains an invalid key or value.
    pub fn load(path: &Path, must_exist: bool) -> Result<Settings, SettingsError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => String::new(),
            Err(source) => return Err(SettingsError::Unreadable { path: path.to_owned(), source }),
        };
        let mistake = |mistake| SettingsError::Mistake { path: path.to_owned(), mistake };
        let (mut settings, run_times) = Settings::parse(&text).map_err(mistake)?;
        if let Some(path) = run_times {
            let text = fs::read_to_string(&path);
            let text = text.map_err(|source| SettingsError::Unreadable { path: path.clone(), source })?;
            settings.machine.run_times =
                RunTimes::parse(&text).map_err(|mistake| SettingsError::Mistake { path, mistake })?;
        }
        Ok(settings)
    }

    /// Returns the settings, and the file with the table of run times.
    fn parse(text: &str) -> Result<(Settings, Option<PathBuf>), String> {
        let mut file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let run_times = file.cluster.run_times.take();
        Ok((file.settings()?, run_times))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            socket: PathBuf::from("/run/flowcon/flowcoord.sock"),
            group: Some("flowcon".to_owned()),
            admins: Vec::new(),
            engine: None,
            machine: CoordinatorSettings::default(),
            agent: AgentSettings::default(),
        }
    }
}

impl Default for AgentSettings {
    fn default() -> Self {
        AgentSettings {
            port: PORT,
            listen: None,
            flowcond: PathBuf::from("/run/flowcon/flowcond.sock"),
            certificates: None,
            volume_most: Bytes(1 << 40),
            carry_rate: None,
        }
    }
}

/// Syntax of the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    socket: Option<PathBuf>,
    group: Option<String>,
    admins: Vec<String>,
    engine: Option<String>,
    cluster: Cluster,
    times: Times,
    nodes: Nodes,
    agent: Agent,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Cluster {
    placement: Option<PlacementRule>,
    moves: Option<MoveRule>,
    queue: Option<QueueRule>,
    reclaim: Option<bool>,
    admission: Option<Admission>,
    moves_per_node: Option<usize>,
    moves_at_once: Option<usize>,
    overtaken_for: Option<Span>,
    price_lowest: Option<f64>,
    price_highest: Option<f64>,
    price_margin: Option<f64>,
    unknown_takes: Option<Span>,
    run_times: Option<PathBuf>,
    specon_threshold: Option<Part>,
    specon_interval: Option<Span>,
    procon_limit: Option<Part>,
    dragon_waits: Option<Span>,
    dragon_idles: Option<Span>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Times {
    look_every: Option<Span>,
    poll_every: Option<Span>,
    heard_within: Option<Span>,
    carry_within: Option<Span>,
    start_within: Option<Span>,
    verify_within: Option<Span>,
    move_takes: Option<Span>,
    lease: Option<Span>,
    lease_margin: Option<Span>,
    retry_after: Option<Span>,
    retry_most: Option<Span>,
    tries: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Nodes {
    close_after: Option<Span>,
    open_command: Option<Vec<String>>,
    close_command: Option<Vec<String>>,
    command_within: Option<Span>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Agent {
    port: Option<u16>,
    listen: Option<String>,
    flowcond: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authority: Option<PathBuf>,
    volume_most: Option<Size>,
    carry_rate: Option<Size>,
}

/// A duration such as `90s` or `2m`, from half a second to a day.
struct Span(Millis);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        let millis = duration(&text).and_then(|span| u64::try_from(span.as_millis()).ok());
        match millis {
            Some(millis @ 500..=86_400_000) => Ok(Span(Millis(millis))),
            _ => Err(de::Error::custom(format!("`{text}`: expected a duration from 500ms to 1d, such as 90s or 2m"))),
        }
    }
}

/// A part of a whole: above 0, at most 1.
struct Part(f64);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number > 0.0 && number <= 1.0 {
            return Ok(Part(number));
        }
        Err(de::Error::custom(format!("`{number}`: expected a number above 0 and at most 1, such as 0.05")))
    }
}

/// A size such as `512MiB` or `2GiB`.
struct Size(Bytes);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let text = String::deserialize(deserializer)?;
        let size = config::bytes(&text).filter(|size| size.0 > 0);
        size.map(Size).ok_or_else(|| de::Error::custom(format!("`{text}`: expected a size, such as 512MiB or 2GiB")))
    }
}

impl Cluster {
    fn settings(self, usual: ClusterSettings) -> Result<ClusterSettings, String> {
        let prices = self.prices()?;
        let part = |given: Option<Part>, usual: f64| given.map_or(usual, |part| part.0);
        Ok(ClusterSettings {
            placement: self.placement.unwrap_or(usual.placement),
            moves: self.moves.unwrap_or(usual.moves),
            queue: self.queue.unwrap_or(usual.queue),
            reclaim: self.reclaim.unwrap_or(usual.reclaim),
            admission: self.admission.unwrap_or(usual.admission),
            prices,
            price_margin: self.price_margin.unwrap_or(usual.price_margin),
            unknown_takes: span(self.unknown_takes, usual.unknown_takes),
            moves_per_node: self.moves_per_node.unwrap_or(usual.moves_per_node),
            moves_at_once: self.moves_at_once.unwrap_or(usual.moves_at_once),
            overtaken_for: span(self.overtaken_for, usual.overtaken_for),
            specon_threshold: part(self.specon_threshold, usual.specon_threshold),
            specon_interval: span(self.specon_interval, usual.specon_interval),
            procon_limit: part(self.procon_limit, usual.procon_limit),
            dragon_waits: span(self.dragon_waits, usual.dragon_waits),
            dragon_idles: span(self.dragon_idles, usual.dragon_idles),
        })
    }

    /// Returns the bounds of the prices, if they are set.
    fn prices(&self) -> Result<Option<(f64, f64)>, String> {
        if self.price_margin.is_some_and(|margin| !(1.0..=1e6).contains(&margin)) {
            return Err("[cluster]: price-margin must be from 1 to 1000000".to_owned());
        }
        match (self.price_lowest, self.price_highest) {
            (None, None) => Ok(None),
            (Some(lowest), Some(highest)) if 0.0 < lowest && lowest < highest && highest <= 1e9 => {
                Ok(Some((lowest, highest)))
            }
            _ => {
                Err("[cluster]: set both price-lowest and price-highest, with 0 < price-lowest < price-highest"
                    .to_owned())
            }
        }
    }
}

impl File {
    fn settings(self) -> Result<Settings, String> {
        let usual = Settings::default();
        let certificates = match (self.agent.certificate, self.agent.key, self.agent.authority) {
            (None, None, None) => None,
            (Some(certificate), Some(key), Some(authority)) => Some(CertificateFiles { certificate, key, authority }),
            _ => {
                return Err("[agent]: certificate, key and authority belong together; set all three or none".to_owned());
            }
        };
        let cluster = self.cluster.settings(usual.machine.cluster)?;
        let (times, machine) = (self.times, usual.machine);
        let margin = times.lease_margin.as_ref().map(|span| span.0);
        let machine = CoordinatorSettings {
            cluster,
            look_every: span(times.look_every, machine.look_every),
            poll_every: span(times.poll_every, machine.poll_every),
            heard_within: span(times.heard_within, machine.heard_within),
            carry_within: span(times.carry_within, machine.carry_within),
            start_within: span(times.start_within, machine.start_within),
            verify_within: span(times.verify_within, machine.verify_within),
            lease: span(times.lease, machine.lease),
            retry_after: span(times.retry_after, machine.retry_after),
            retry_most: span(times.retry_most, machine.retry_most),
            tries_most: times.tries.unwrap_or(machine.tries_most).max(1),
            move_s: times.move_takes.map_or(machine.move_s, |span| span.0.as_secs_f64()),
            rent: self.nodes.settings()?,
            ..machine
        };
        let least = least_margin(&machine);
        let machine =
            CoordinatorSettings { lease_margin: margin.unwrap_or(machine.lease_margin.max(least)), ..machine };
        if machine.lease_margin < least {
            let seconds = least.0.div_ceil(1000);
            return Err(format!(
                "[times]: lease-margin must be at least {seconds}s with this look-every, or a job could start elsewhere before its agent has stopped it"
            ));
        }
        // A lease counts from the response before the one that renews it.
        if machine.lease.0 <= 2 * machine.poll_every.0 {
            return Err(
                "[times]: lease must be longer than twice poll-every, or leases expire on healthy nodes".to_owned()
            );
        }
        if machine.heard_within <= machine.poll_every {
            return Err("[times]: heard-within must be longer than poll-every".to_owned());
        }
        Ok(Settings {
            socket: self.socket.unwrap_or(usual.socket),
            group: self.group.or(usual.group).filter(|group| !group.is_empty()),
            admins: self.admins,
            engine: self.engine,
            machine,
            agent: AgentSettings {
                port: self.agent.port.unwrap_or(usual.agent.port),
                listen: self.agent.listen,
                flowcond: self.agent.flowcond.unwrap_or(usual.agent.flowcond),
                certificates,
                volume_most: self.agent.volume_most.map_or(usual.agent.volume_most, |size| size.0),
                carry_rate: self.agent.carry_rate.map(|size| size.0),
            },
        })
    }
}

/// Returns the least `lease-margin`: a manager that is no longer the leader may renew a lease until its last look is too old and its last
/// request has timed out, and the agent needs time to stop the job once the lease has expired.
fn least_margin(machine: &CoordinatorSettings) -> Millis {
    let looked = Millis(machine.look_every.0 * LOOKS_VALID).after(machine.request_within);
    looked.after(machine.request_within).after(STOPPED_WITHIN)
}

impl Nodes {
    /// Returns `None` without `close-after`: no node is opened or closed then.
    fn settings(self) -> Result<Option<RentSettings>, String> {
        let Nodes { close_after, open_command, close_command, command_within } = self;
        let Some(Span(close_after)) = close_after else {
            return match open_command.or(close_command) {
                Some(_) => {
                    Err("[nodes]: open-command and close-command require close-after, such as \"30m\"".to_owned())
                }
                None => Ok(None),
            };
        };
        let (open_command, close_command) = (open_command.unwrap_or_default(), close_command.unwrap_or_default());
        let command_within = span(command_within, Millis::from_secs(300));
        Ok(Some(RentSettings { close_after, open_command, close_command, command_within }))
    }
}

fn span(given: Option<Span>, usual: Millis) -> Millis {
    given.map_or(usual, |span| span.0)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
