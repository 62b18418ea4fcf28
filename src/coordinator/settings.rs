//! `flowcoord.toml`: every key optional, each mistake told with its line and what is expected there.
//!
//! Imports: machine, config, model.

use super::machine::{CoordinatorSettings, RentSettings};
use crate::model::cluster::{Admission, ClusterSettings, MoveRule, PlacementRule, QueueRule};
use crate::model::time::duration;
use crate::model::{Bytes, Millis};
use serde::{Deserialize, Deserializer, de};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The port that agents listen on, unless told otherwise.
pub const PORT: u16 = 7951;

/// Everything that `flowcoord` may be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where `flowctl cluster` finds the coordinator.
    pub socket: PathBuf,
    /// Its members may read.
    pub group: Option<String>,
    /// Users who may change things, besides root.
    pub admins: Vec<String>,
    /// The engine's socket; `None` = as `docker` finds it.
    pub engine: Option<String>,
    /// What the machine may be told.
    pub machine: CoordinatorSettings,
    /// What each node's agent may be told.
    pub agent: AgentSettings,
}

/// Everything that `flowcoord agent` may be told, and what managers must know to reach it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The same on all nodes.
    pub port: u16,
    /// Address to listen on; `None` = the node's address in the Swarm.
    pub listen: Option<String>,
    /// Where `flowcond` answers.
    pub flowcond: PathBuf,
    /// Certificate, key and authority; `None` = Swarm's own.
    pub certificates: Option<CertificateFiles>,
    /// A volume that is larger is not carried.
    pub volume_most: Bytes,
    /// Bytes a second of one carriage; `None` = as fast as it goes.
    pub carry_rate: Option<Bytes>,
}

/// Files of a PKI of one's own, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// This node's certificate, with the names that Swarm's has.
    pub certificate: PathBuf,
    /// Its key, not encrypted.
    pub key: PathBuf,
    /// Who signs certificates of this cluster.
    pub authority: PathBuf,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{path}: cannot read the configuration: {source}; check the path and its permissions")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something in it cannot be obeyed.
    #[error("{path}: {mistake}")]
    Mistake {
        /// Which file.
        path: PathBuf,
        /// With line and column, and what is expected.
        mistake: String,
    },
}

impl Settings {
    /// What the file says; a file that is not there says nothing, unless it `must_exist`.
    ///
    /// # Errors
    /// File, line, key, and what is expected.
    pub fn load(path: &Path, must_exist: bool) -> Result<Settings, SettingsError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => String::new(),
            Err(source) => return Err(SettingsError::Unreadable { path: path.to_owned(), source }),
        };
        Settings::parse(&text).map_err(|mistake| SettingsError::Mistake { path: path.to_owned(), mistake })
    }

    fn parse(text: &str) -> Result<Settings, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        file.settings()
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

/// The file as it is written.
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
    lease: Option<Span>,
    lease_margin: Option<Span>,
    retry_after: Option<Span>,
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

/// `90s`, `2m`, from half a second to a day.
struct Span(Millis);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        let millis = duration(&text).and_then(|span| u64::try_from(span.as_millis()).ok());
        match millis {
            Some(millis @ 500..=86_400_000) => Ok(Span(Millis(millis))),
            _ => Err(de::Error::custom(format!("`{text}`: expected a duration from 500ms to 1d, as 90s or 2m"))),
        }
    }
}

/// `512MiB`, `2GiB`.
struct Size(Bytes);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let text = String::deserialize(deserializer)?;
        let size = crate::config::bytes(&text).filter(|size| size.0 > 0);
        size.map(Size).ok_or_else(|| de::Error::custom(format!("`{text}`: expected a size, as 512MiB or 2GiB")))
    }
}

impl File {
    fn settings(self) -> Result<Settings, String> {
        let usual = Settings::default();
        let certificates = match (self.agent.certificate, self.agent.key, self.agent.authority) {
            (None, None, None) => None,
            (Some(certificate), Some(key), Some(authority)) => Some(CertificateFiles { certificate, key, authority }),
            _ => {
                return Err(
                    "[agent]: certificate, key and authority belong together; give all three or none".to_owned()
                );
            }
        };
        let Cluster { placement, moves, queue, reclaim, admission, moves_per_node, moves_at_once, overtaken_for } =
            self.cluster;
        let rules = usual.machine.cluster;
        let cluster = ClusterSettings {
            placement: placement.unwrap_or(rules.placement),
            moves: moves.unwrap_or(rules.moves),
            queue: queue.unwrap_or(rules.queue),
            reclaim: reclaim.unwrap_or(rules.reclaim),
            admission: admission.unwrap_or(rules.admission),
            moves_a_node: moves_per_node.unwrap_or(rules.moves_a_node),
            moves_in_all: moves_at_once.unwrap_or(rules.moves_in_all),
            overtaken_for: span(overtaken_for, rules.overtaken_for),
        };
        let (times, machine) = (self.times, usual.machine);
        let machine = CoordinatorSettings {
            cluster,
            look_every: span(times.look_every, machine.look_every),
            poll_every: span(times.poll_every, machine.poll_every),
            heard_within: span(times.heard_within, machine.heard_within),
            carry_within: span(times.carry_within, machine.carry_within),
            start_within: span(times.start_within, machine.start_within),
            verify_within: span(times.verify_within, machine.verify_within),
            lease: span(times.lease, machine.lease),
            lease_margin: span(times.lease_margin, machine.lease_margin),
            retry_after: span(times.retry_after, machine.retry_after),
            rent: self.nodes.settings()?,
            ..machine
        };
        // A lease counts from the answer before the one that renews it.
        if machine.lease.0 <= 2 * machine.poll_every.0 {
            return Err(
                "[times]: lease must be longer than two of poll-every, or leases end while all is well".to_owned()
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

impl Nodes {
    /// Without `close-after` no node is opened or closed.
    fn settings(self) -> Result<Option<RentSettings>, String> {
        let Nodes { close_after, open_command, close_command, command_within } = self;
        let Some(Span(close_after)) = close_after else {
            return match open_command.or(close_command) {
                Some(_) => Err("[nodes]: the commands are run only with close-after, as \"30m\"".to_owned()),
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
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
    }

    #[test]
    fn what_is_said_holds() {
        let text = "socket = \"/tmp/c.sock\"\n[cluster]\nmoves = \"specon\"\nmoves-at-once = 3\n[times]\nlease = \"2m\"\n[agent]\nport = 8000\nvolume-most = \"2GiB\"\n";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.machine.cluster.moves, MoveRule::SpeCon);
        assert_eq!((settings.machine.cluster.moves_in_all, settings.machine.lease), (3, Millis::from_secs(120)));
        assert_eq!((settings.agent.port, settings.agent.volume_most), (8000, Bytes(2 << 30)));
    }

    #[test]
    fn each_mistake_is_told_with_its_place() {
        for (text, expected) in [
            ("[cluster]\nplacement = \"best\"\n", "line 2"),
            ("[cluster]\nspeed = 3\n", "unknown field `speed`"),
            ("[times]\nlease = \"soon\"\n", "expected a duration"),
            ("[times]\nlease = \"2s\"\n", "lease must be longer than two of poll-every"),
            ("[agent]\nkey = \"/a\"\n", "belong together"),
            ("[nodes]\nopen-command = [\"/bin/rent\"]\n", "only with close-after"),
            ("[nodes]\nclose-after = \"1h\"\nopen-command = \"rent\"\n", "line 3"),
            ("[agent]\nvolume-most = \"big\"\n", "expected a size"),
        ] {
            let mistake = Settings::parse(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
    }
}
