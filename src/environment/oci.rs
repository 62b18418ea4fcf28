//! The documents of the OCI runtime specification: `config.json` of a bundle, and the process of `exec`. Pure.

use crate::passive_waiting;
use serde_json::Value;

/// A document that describes a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// `config.json`, whose `process` is the first one of a container.
    Config,
    /// The process itself, for `exec --process`.
    Process,
}

/// The document with the variables for passive waiting; nothing if they are set or if it is not such a document.
pub(crate) fn with_passive_waiting(document: Document, text: &str) -> Option<String> {
    let mut parsed: Value = serde_json::from_str(text).ok()?;
    let process = match document {
        Document::Config => parsed.get_mut("process")?,
        Document::Process => &mut parsed,
    };
    process.get("args")?.as_array()?;
    // The specification allows a process without an environment.
    let env = process.as_object_mut()?.entry("env").or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
    let is_set =
        |name: &str| env.iter().any(|entry| entry.as_str().is_some_and(|text| text.split('=').next() == Some(name)));
    let added = passive_waiting(is_set);
    if added.is_empty() {
        return None;
    }
    env.extend(added.iter().map(|(name, value)| Value::String(format!("{name}={value}"))));
    serde_json::to_string(&parsed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn env_of(text: &str) -> Vec<String> {
        let parsed: Value = serde_json::from_str(text).expect("a document");
        let env = parsed["process"]["env"].as_array().or(parsed["env"].as_array()).expect("an environment").clone();
        env.iter().map(|entry| entry.as_str().expect("a text").to_owned()).collect()
    }

    #[test]
    fn the_environment_gets_what_is_missing_and_nothing_else_changes() {
        let config = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"env":["PATH=/bin","A=b=c"],
            "rlimits":[{"type":"RLIMIT_NOFILE","hard":18446744073709551615,"soft":1024}]},
            "linux":{"resources":{"cpu":{"shares":1024,"quota":-1},"memory":{"swappiness":0.1}}}}"#;
        let written = with_passive_waiting(Document::Config, config).expect("two variables are missing");
        assert_eq!(env_of(&written), ["PATH=/bin", "A=b=c", "OMP_WAIT_POLICY=passive", "OPENBLAS_THREAD_TIMEOUT=4"]);
        let (mut before, mut after): (Value, Value) =
            (serde_json::from_str(config).expect("JSON"), serde_json::from_str(&written).expect("JSON"));
        for document in [&mut before, &mut after] {
            document["process"]["env"] = Value::Null;
        }
        assert_eq!(before, after);
    }

    #[test]
    fn a_user_who_said_how_threads_wait_is_left_alone() {
        let set = r#"{"args":["python"],"env":["OMP_WAIT_POLICY=ACTIVE","OPENBLAS_THREAD_TIMEOUT=20"]}"#;
        assert_eq!(with_passive_waiting(Document::Process, set), None);
        // Also one who set it to nothing, or by another name.
        let spinning = r#"{"args":["python"],"env":["GOMP_SPINCOUNT","OPENBLAS_THREAD_TIMEOUT="]}"#;
        assert_eq!(with_passive_waiting(Document::Process, spinning), None);
    }

    #[test]
    fn a_process_without_an_environment_gets_one() {
        let written = with_passive_waiting(Document::Process, r#"{"args":["true"]}"#).expect("variables");
        assert_eq!(env_of(&written), ["OMP_WAIT_POLICY=passive", "OPENBLAS_THREAD_TIMEOUT=4"]);
    }

    #[test]
    fn what_is_no_process_stays_as_it_is() {
        for text in [
            "",
            "not JSON",
            "[]",
            "null",
            r#"{"process":null}"#,
            r#"{"process":[]}"#,
            r#"{"process":{"env":[]}}"#,
            r#"{"process":{"args":"sh","env":[]}}"#,
            r#"{"process":{"args":["sh"],"env":{}}}"#,
            r#"{"process":{"args":["sh"],"env":["A=b"]}"#,
        ] {
            assert_eq!(with_passive_waiting(Document::Config, text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"(\{|\}|\[|\]|"process"|"env"|"args"|:|,|"[a-zA-Z=]*"|[0-9]){0,30}"#) {
            let _ = with_passive_waiting(Document::Config, &text);
            let _ = with_passive_waiting(Document::Process, &text);
        }

        #[test]
        fn a_second_time_changes_nothing(env in prop::collection::vec("[A-Z_]{1,20}(=[a-z0-9=]{0,8})?", 0..6)) {
            let text = serde_json::json!({ "process": { "args": ["sh"], "env": env } }).to_string();
            if let Some(written) = with_passive_waiting(Document::Config, &text) {
                prop_assert_eq!(&env_of(&written)[..env.len()], &env[..]);
                prop_assert_eq!(with_passive_waiting(Document::Config, &written), None);
            }
        }
    }
}
