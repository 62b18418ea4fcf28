//! Targets of messages: the tables `[notify.NAME]` of the configuration. flowcond knows their names, `flowcon-notify` sends.

use super::value::{Value, seconds, user_name};
use model::{AlertKind, Millis, word};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Folders of flowcon-notify's state for messages that wait, and for those that could not be delivered, with one [`folder_of`] each target.
pub const WAITING: &str = "spool";
/// See [`WAITING`].
pub const FAILED: &str = "failed";

/// The folder of a target; its name may be `..`, but not that of its folder.
pub fn folder_of(target: &str) -> String {
    format!("to-{target}")
}

/// Targets that a job may name.
const TARGETS_AT_MOST: usize = 8;

/// How messages reach a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A program gets them on its standard input.
    Command,
    /// HTTP POST of a JSON document.
    Webhook,
    /// A topic of ntfy.
    Ntfy,
    /// A webhook of Slack, or of a service that takes the same: Mattermost, Rocket.Chat, Discord's `/slack`.
    Slack,
    /// Mail.
    Smtp,
}

const TRANSPORTS: &[(&str, Transport)] = &[
    ("command", Transport::Command),
    ("webhook", Transport::Webhook),
    ("ntfy", Transport::Ntfy),
    ("slack", Transport::Slack),
    ("smtp", Transport::Smtp),
];

/// A target of messages. [`TargetSettings::problem`] finds none in those of [`Settings`](super::Settings).
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSettings {
    /// How messages reach it.
    pub transport: Option<Transport>,
    /// The address, unless a file has it.
    pub url: Option<String>,
    /// File with the address.
    pub url_file: Option<PathBuf>,
    /// File with a token, for `Authorization: Bearer`.
    pub token_file: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Sender of mail.
    pub from: Option<String>,
    /// Receivers of mail.
    pub to: Vec<String>,
    /// User at the mail server.
    pub user: Option<String>,
    /// File with the password of this user.
    pub password_file: Option<PathBuf>,
    /// What it gets.
    pub events: Vec<AlertKind>,
    /// Whether it also gets messages about jobs that name no target.
    pub all_jobs: bool,
    /// Then only about jobs of these users; empty = of all.
    pub users: Vec<String>,
    /// Messages within an hour, at most.
    pub per_hour: u32,
    /// The end of a job is also reported if it ran for this time, however it ended; `None` = no.
    pub done_after: Option<Millis>,
}

impl Default for TargetSettings {
    fn default() -> Self {
        TargetSettings {
            transport: None,
            url: None,
            url_file: None,
            token_file: None,
            command: Vec::new(),
            from: None,
            to: Vec::new(),
            user: None,
            password_file: None,
            events: AlertKind::ALL.into_iter().filter(|kind| kind.is_urgent()).collect(),
            all_jobs: true,
            users: Vec::new(),
            per_hour: 12,
            done_after: Some(Millis::from_secs(2 * 3600)),
        }
    }
}

/// One key of a target.
pub struct TargetKey {
    /// Its name.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    set: fn(&mut TargetSettings, &Value) -> Result<(), String>,
    /// Returns the value as TOML.
    show: fn(&TargetSettings) -> toml::Value,
}

/// Every key of a target.
pub const TARGET_KEYS: &[TargetKey] = &[
    TargetKey {
        name: "type",
        help: "\"command\", \"webhook\", \"ntfy\", \"slack\" or \"smtp\"",
        set: |t, v| v.word(TRANSPORTS).map(|word| t.transport = Some(word)),
        show: |t| {
            let word = |of| TRANSPORTS.iter().find(|(_, known)| *known == of).map_or("", |(word, _)| *word);
            t.transport.map_or("", word).into()
        },
    },
    TargetKey {
        name: "url",
        help: "http:// or https:// of a webhook, an ntfy topic or a Slack webhook; smtp:// (add ?tls=required for STARTTLS) or \
               smtps:// of a mail server",
        set: |t, v| v.text().map(|url| t.url = Some(url.to_owned())),
        show: |t| t.url.clone().unwrap_or_default().into(),
    },
    TargetKey {
        name: "url-file",
        help: "file with the url instead, as for Slack, where the url is the secret",
        set: |t, v| v.text().map(|path| t.url_file = Some(path.into())),
        show: |t| shown_path(t.url_file.as_ref()),
    },
    TargetKey {
        name: "token-file",
        help: "file with a token that webhook and ntfy send as Authorization: Bearer",
        set: |t, v| v.text().map(|path| t.token_file = Some(path.into())),
        show: |t| shown_path(t.token_file.as_ref()),
    },
    TargetKey {
        name: "command",
        help: "the program and its arguments, without a shell; it gets the message on standard input and in FLOWCON_* variables",
        set: |t, v| v.list().map(|words| t.command = words),
        show: |t| t.command.clone().into(),
    },
    TargetKey {
        name: "from",
        help: "sender of mail, such as \"flowcon@gpu-1.example\"",
        set: |t, v| v.text().map(|address| t.from = Some(address.to_owned())),
        show: |t| t.from.clone().unwrap_or_default().into(),
    },
    TargetKey {
        name: "to",
        help: "receivers of mail, a list",
        set: |t, v| v.list().map(|addresses| t.to = addresses),
        show: |t| t.to.clone().into(),
    },
    TargetKey {
        name: "user",
        help: "user at the mail server, if it asks for one",
        set: |t, v| v.text().map(|user| t.user = Some(user.to_owned())),
        show: |t| t.user.clone().unwrap_or_default().into(),
    },
    TargetKey {
        name: "password-file",
        help: "file with the password of this user",
        set: |t, v| v.text().map(|path| t.password_file = Some(path.into())),
        show: |t| shown_path(t.password_file.as_ref()),
    },
    TargetKey {
        name: "events",
        help: "what it is told; also possible: done, stopped, ended (nobody knows how), sweep, starving-gpu, overfitting and recovered",
        set: |t, v| kinds(&v.list()?).map(|kinds| t.events = kinds),
        show: |t| t.events.iter().map(|kind| word(*kind)).collect::<Vec<String>>().into(),
    },
    TargetKey {
        name: "done-after",
        help: "the end of a job that ran for this time is also reported, however it ended; \"off\": only those in events",
        set: |t, v| {
            let is_off = matches!(v, Value::Text(text) if text == "off");
            let time = if is_off { None } else { Some(v.duration(Millis(0), Millis::from_secs(366 * 86_400))?) };
            t.done_after = time;
            Ok(())
        },
        show: |t| t.done_after.map_or("off".to_owned(), seconds).into(),
    },
    TargetKey {
        name: "all-jobs",
        help: "false: only jobs with the label flowcon.notify=NAME",
        set: |t, v| v.switch().map(|on| t.all_jobs = on),
        show: |t| t.all_jobs.into(),
    },
    TargetKey {
        name: "users",
        help: "of the jobs without the label, only those of these users; [] = of all",
        set: |t, v| v.list().map(|users| t.users = users),
        show: |t| t.users.clone().into(),
    },
    TargetKey {
        name: "per-hour",
        help: "messages within an hour at most; what is more comes together in one",
        set: |t, v| v.number(1.0, 3600.0).map(|number| t.per_hour = number as u32),
        show: |t| i64::from(t.per_hour).into(),
    },
];

/// Prefix of the keys of targets.
pub(super) const SECTION: &str = "notify.";

/// Sets a key such as `notify.NAME.url`; `None` if there is no such key.
pub(super) fn set(
    targets: &mut BTreeMap<String, TargetSettings>,
    key: &str,
    value: &Value,
) -> Option<Result<(), String>> {
    let (name, key) = key.strip_prefix(SECTION)?.rsplit_once('.')?;
    let key = TARGET_KEYS.iter().find(|known| known.name == key)?;
    if !is_name(name) {
        return Some(Err("expected a name of letters, digits and . _ - @, at most 64 bytes, and not none".to_owned()));
    }
    Some((key.set)(targets.entry(name.to_owned()).or_default(), value))
}

/// Parses the label `flowcon.notify`: names of targets, separated by commas; `none` is none.
pub(super) fn names(value: &str) -> Result<Vec<String>, String> {
    if value.trim() == "none" {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = value.split(',').map(str::trim).collect();
    let are_names = names.len() <= TARGETS_AT_MOST && names.iter().all(|name| is_name(name));
    let expected = || format!("expected none, or at most {TARGETS_AT_MOST} names of targets, separated by commas");
    are_names.then(|| names.into_iter().map(str::to_owned).collect()).ok_or_else(expected)
}

/// Whether a target may be called so.
fn is_name(name: &str) -> bool {
    user_name(name) == Some(name) && name != "none"
}

impl TargetSettings {
    /// Returns what is missing.
    pub fn problem(&self) -> Option<&'static str> {
        let Some(transport) = self.transport else {
            return Some("expected type = \"command\", \"webhook\", \"ntfy\", \"slack\" or \"smtp\"");
        };
        let schemes: &[&str] = match transport {
            Transport::Command if self.command.is_empty() => return Some("expected command = [\"PROGRAM\", …]"),
            Transport::Command => return None,
            Transport::Smtp => &["smtp://", "smtps://"],
            Transport::Webhook | Transport::Ntfy | Transport::Slack => &["http://", "https://"],
        };
        if self.url.is_some() == self.url_file.is_some() {
            return Some("expected either url or url-file");
        }
        if self.url.as_ref().is_some_and(|url| !schemes.iter().any(|scheme| url.starts_with(scheme))) {
            return Some(match transport {
                Transport::Smtp => "expected a url that begins with smtp:// or smtps://",
                _ => "expected a url that begins with http:// or https://",
            });
        }
        let is_mail = transport == Transport::Smtp;
        if is_mail && (self.from.is_none() || self.to.is_empty()) {
            return Some("expected from = \"ADDRESS\" and to = [\"ADDRESS\", …]");
        }
        if is_mail && self.user.is_some() != self.password_file.is_some() {
            return Some("expected both user and password-file, or neither");
        }
        let is_open = |url: &String| url.starts_with("smtp://") && !url.contains("tls=required");
        (self.user.is_some() && self.url.as_ref().is_some_and(is_open)).then_some(
            "with a password, expected a url that begins with smtps://, or ends in ?tls=required, so that it is encrypted",
        )
    }
}

/// Formats targets as TOML: what differs from the defaults.
pub(super) fn shown(targets: &BTreeMap<String, TargetSettings>) -> String {
    let default = TargetSettings::default();
    let mut text = String::new();
    for (name, target) in targets {
        text.push_str(&format!("\n[notify.{}]\n", toml::Value::from(name.as_str())));
        let differing = TARGET_KEYS.iter().map(|key| (key.name, (key.show)(target), (key.show)(&default)));
        for (name, value, _) in differing.filter(|(_, value, default)| value != default) {
            text.push_str(&format!("{name} = {value}\n"));
        }
    }
    text
}

/// The default of a key as TOML, for the manual.
pub fn default_of(key: &TargetKey) -> String {
    (key.show)(&TargetSettings::default()).to_string()
}

fn shown_path(path: Option<&PathBuf>) -> toml::Value {
    path.map_or(String::new(), |path| path.to_string_lossy().into_owned()).into()
}

fn kinds(words: &[String]) -> Result<Vec<AlertKind>, String> {
    let of = |text: &String| AlertKind::ALL.into_iter().find(|kind| word(*kind) == text.trim());
    let expected = || {
        let known: Vec<String> = AlertKind::ALL.into_iter().map(word).collect();
        format!("expected a list of {}", known.join(", "))
    };
    words.iter().map(|text| of(text).ok_or_else(expected)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::load::from_text;
    use super::super::{ConfigError, Settings, keys};
    use super::*;

    fn loaded(text: &str) -> Result<Settings, Vec<String>> {
        from_text(text).map_err(|errors| errors.iter().map(ConfigError::to_string).collect())
    }

    #[test]
    fn a_target_is_a_table_and_shown_ones_load_to_the_same() {
        let text = "[notify.ops]\ntype = \"smtp\"\nurl = \"smtp://127.0.0.1:25\"\nfrom = \"a@b.example\"\nto = [\"c@d.example\"]\n\
                    events = [\"nan\", \"killed-for-memory\"]\ndone-after = \"off\"\nusers = [\"alice\"]\nper-hour = 3\n\
                    [notify.\"al.ice\"]\ntype = \"command\"\ncommand = [\"/bin/say\", \"it\"]\nall-jobs = false\n";
        let settings = loaded(text).unwrap();
        let (ops, alice) = (&settings.notify["ops"], &settings.notify["al.ice"]);
        assert_eq!((ops.transport, ops.per_hour, ops.done_after), (Some(Transport::Smtp), 3, None));
        assert_eq!(ops.events, [AlertKind::Nan, AlertKind::KilledForMemory]);
        assert!(ops.all_jobs && !alice.all_jobs && alice.events.contains(&AlertKind::Node));
        assert_eq!(loaded(&keys::shown(&settings)), Ok(settings));
    }

    #[test]
    fn a_target_that_lacks_something_is_named() {
        for (text, said) in [
            ("url = \"https://x\"", "expected type = "),
            ("type = \"ntfy\"", "either url or url-file"),
            ("type = \"slack\"\nurl = \"https://x\"\nurl-file = \"/x\"", "either url or url-file"),
            ("type = \"webhook\"\nurl = \"ftp://x\"", "begins with http://"),
            ("type = \"smtp\"\nurl = \"smtp://x\"", "expected from = "),
            (
                "type = \"smtp\"\nurl = \"smtp://x\"\nfrom = \"a@b\"\nto = [\"c@d\"]\nuser = \"a\"\npassword-file = \"/p\"",
                "so that it is encrypted",
            ),
            ("type = \"command\"", "expected command = "),
            ("type = \"mail\"", "`notify.ops.type`: expected one of command, webhook, ntfy, slack, smtp"),
            ("type = \"command\"\ncommand = [\"x\"]\nevents = [\"nans\"]", "expected a list of done, failed"),
            ("type = \"command\"\ncommand = [\"x\"]\nurll = \"x\"", "did you mean `notify.ops.url`?"),
        ] {
            let errors = loaded(&format!("[notify.ops]\n{text}\n")).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains(said), "{text}: {errors:?}");
        }
        let errors = loaded("[notify.none]\ntype = \"command\"\n").unwrap_err();
        assert!(errors[0].contains("not none"), "{errors:?}");
    }
}
