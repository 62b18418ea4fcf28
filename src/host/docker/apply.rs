//! Applies limits through the engine: one update, which changes them and nothing else.

use super::EngineName;
use super::cpu_shares::Conversion;
use super::engine::{Engine, checked_id, decoded};
use super::error::EngineError;
use super::update::UpdateBody;
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use model::{ContainerId, EngineLimits, Setting};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::future::Future;
use std::io;

impl Engine {
    /// Applies `settings` in one update, and returns those that the engine cannot update or discarded: write them to the cgroup.
    ///
    /// `original`: the container's limits before our first change; a setting equal to one of them is restored exactly. An update persists
    /// across restarts of the container and changes the output of `inspect`. Only reading the cgroup back shows the result. After a
    /// timeout the update goes on: see [`super::sent_updates`].
    pub async fn update(
        &self,
        id: &ContainerId,
        engine: EngineName,
        original: &EngineLimits,
        conversion: Conversion,
        settings: &[Setting],
    ) -> Result<Vec<Setting>, EngineError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(rename = "Warnings")]
            warnings: Option<Vec<String>>,
        }
        let operation = format!("update container {id}");
        checked_id(&operation, id)?;
        let mut body = UpdateBody::default();
        let (by_engine, mut not_by_engine): (Vec<_>, Vec<_>) =
            settings.iter().copied().partition(|setting| body.add(*setting, original, conversion));
        if by_engine.is_empty() {
            return Ok(not_by_engine);
        }
        let answered = self.in_turn(&operation, self.sent.send(id, body, self.sending(id, engine, body))).await?;
        let (status, text) = answered.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                EngineError::InvalidResponse { operation: operation.clone(), why: error.to_string() }
            }
            _ => self.unreachable(&operation, &*error),
        })?;
        let answer: Answer = match decoded(&operation, status, &text) {
            // Podman before 5.1 does not support this call.
            Err(EngineError::Refused { status: 404 | 405 | 501, .. }) => return Ok(settings.to_vec()),
            answer => answer?,
        };
        if answer.warnings.iter().flatten().any(|warning| warning.contains("Block I/O weight")) {
            not_by_engine.extend(by_engine.into_iter().filter(|setting| matches!(setting, Setting::IoWeight(_))));
        }
        Ok(not_by_engine)
    }

    /// Sends an update and returns the answer, or that of the inspection before it if that failed.
    ///
    /// Podman up to 6.1 takes a restart policy that is not named for `no`, so it gets the one that the container has at that moment. Docker
    /// keeps what is not named: there, naming it could only undo a change that the owner makes in between.
    fn sending(
        &self,
        id: &ContainerId,
        engine: EngineName,
        body: UpdateBody,
    ) -> impl Future<Output = io::Result<(StatusCode, Bytes)>> + use<> {
        let (client, path) = (self.clone(), format!("/containers/{}", id.as_str()));
        async move {
            let mut update = Update { limits: body, restart_policy: None };
            if engine == EngineName::Podman {
                let (status, found) = client.exchange(Method::GET, &format!("{path}/json"), Vec::new()).await?;
                if !status.is_success() {
                    return Ok((status, found));
                }
                update.restart_policy = Some(restart_policy(&found)?);
            }
            let json = serde_json::to_vec(&update).expect("numbers and JSON always serialize");
            client.exchange(Method::POST, &format!("{path}/update"), json).await
        }
    }
}

/// The body of an update as it is sent.
#[derive(Serialize)]
struct Update {
    #[serde(flatten)]
    limits: UpdateBody,
    #[serde(rename = "RestartPolicy", skip_serializing_if = "Option::is_none")]
    restart_policy: Option<Value>,
}

/// Returns the restart policy of an inspected container, word for word: an unknown one must survive too.
fn restart_policy(inspected: &[u8]) -> io::Result<Value> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Inspected {
        host_config: HostConfig,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct HostConfig {
        restart_policy: serde_json::Map<String, Value>,
    }
    let found: Inspected = serde_json::from_slice(inspected).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("its restart policy is unknown: {error}"))
    })?;
    Ok(Value::Object(found.host_config.restart_policy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineAddress;
    use model::CpuWeight;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;
    use tokio::sync::mpsc;

    const ID: &str = "449e1d56655b86cfb98f8a89e3609ecfab2019fc1609fbc25ceea3c54f9cbd3c";

    /// An engine that describes its container like this and accepts updates, and the requests that it receives.
    fn engine(status: &'static str, inspected: &'static str) -> (TempDir, Engine, mpsc::UnboundedReceiver<String>) {
        let dir = TempDir::new().unwrap();
        let socket = dir.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut request = vec![0; 4_096];
                let size = client.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..size]).into_owned();
                let (status, body) = match request.split_whitespace().nth(1) {
                    Some("/version") => ("200 OK", r#"{"ApiVersion":"1.41"}"#),
                    _ if request.starts_with("GET") => (status, inspected),
                    _ => ("200 OK", "{}"),
                };
                if !request.starts_with("GET /version") {
                    sender.send(request).unwrap();
                }
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
                client.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        let address = EngineAddress::parse(&format!("unix://{}", socket.display())).unwrap();
        (dir, Engine::new(address), requests)
    }

    #[test]
    fn a_caller_does_not_contain_the_state_of_a_connection() {
        let engine = Engine::new(EngineAddress::parse("unix:///nowhere").unwrap());
        let id = ContainerId::new(ID);
        let (limits, conversion) = (EngineLimits::default(), Conversion::Shares);
        let sizes = [
            size_of_val(&engine.record(&id)),
            size_of_val(&engine.inspect(&id, EngineName::Docker)),
            size_of_val(&engine.update(&id, EngineName::Docker, &limits, conversion, &[])),
            size_of_val(&engine.info()),
        ];
        assert!(sizes.into_iter().all(|size| size < 2048), "{sizes:?}");
    }

    async fn update(engine: &Engine, name: EngineName) -> Result<Vec<Setting>, EngineError> {
        let half = [Setting::CpuWeight(CpuWeight::clamped(50.0))];
        engine.update(&ContainerId::new(ID), name, &EngineLimits::default(), Conversion::Shares, &half).await
    }

    fn sent(requests: &mut mpsc::UnboundedReceiver<String>) -> Vec<String> {
        let received = std::iter::from_fn(|| requests.try_recv().ok());
        received
            .map(|request| request.split_whitespace().next().unwrap_or("").to_owned() + &body_of(&request))
            .collect()
    }

    fn body_of(request: &str) -> String {
        request.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned())
    }

    #[tokio::test]
    async fn podman_is_told_the_restart_policy_that_it_reports_and_docker_is_not() {
        let inspected = r#"{"HostConfig":{"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":5},"CpuShares":0}}"#;
        let (_dir, engine, mut requests) = engine("200 OK", inspected);
        update(&engine, EngineName::Podman).await.unwrap();
        let named = r#"POST{"CpuShares":512,"RestartPolicy":{"MaximumRetryCount":5,"Name":"on-failure"}}"#;
        assert_eq!(sent(&mut requests), ["GET", named]);
        update(&engine, EngineName::Docker).await.unwrap();
        assert_eq!(sent(&mut requests), [r#"POST{"CpuShares":512}"#]);
    }

    #[tokio::test]
    async fn podman_gets_no_update_while_the_restart_policy_is_unknown() {
        let (_dir, odd, mut requests) = engine("200 OK", r#"{"HostConfig":{"CpuShares":0}}"#);
        let error = update(&odd, EngineName::Podman).await.unwrap_err();
        assert!(
            matches!(&error, EngineError::InvalidResponse { why, .. } if why.contains("restart policy")),
            "{error}"
        );
        assert_eq!(sent(&mut requests), ["GET"]);

        let (_dir, without, mut requests) = engine("404 Not Found", r#"{"message":"no such container"}"#);
        assert!(update(&without, EngineName::Podman).await.unwrap_err().is_gone());
        assert_eq!(sent(&mut requests), ["GET"]);
    }
}
