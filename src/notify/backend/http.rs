//! HTTP targets: webhooks, ntfy, and Slack's format.

use super::{SendError, WITHIN, secret, url};
use crate::message::Delivery;
use config::TargetSettings;
use model::word;
use serde_json::{Value, json};
use std::sync::Arc;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Version of the document that a webhook gets.
const VERSION: u32 = 1;
/// Bytes of an answer that are reported.
const REPORTED: u64 = 200;

pub(super) fn webhook(target: &TargetSettings, delivery: &Delivery) -> Result<(), SendError> {
    let messages: Vec<Value> = delivery
        .messages
        .iter()
        .map(|message| {
            json!({
                "unix_ms": message.unix_ms, "kind": word(message.kind), "job": message.job, "container": message.container,
                "user": message.user, "words": message.words, "detail": message.detail,
            })
        })
        .collect();
    let document = json!({
        "version": VERSION, "title": delivery.title, "body": delivery.body, "host": delivery.host(),
        "kind": word(delivery.kind()), "messages": messages,
    });
    post(target, &url(target)?, &document)
}

/// ntfy takes JSON at the address of the server; the last part of the url is the topic.
pub(super) fn ntfy(target: &TargetSettings, delivery: &Delivery) -> Result<(), SendError> {
    let url = url(target)?;
    let (server, topic) = url.trim_end_matches('/').rsplit_once('/').unwrap_or((&url, ""));
    if topic.is_empty() || server.ends_with('/') {
        return Err(SendError::permanent("the url of ntfy needs a topic: https://SERVER/TOPIC".to_owned()));
    }
    let priority = if delivery.kind().is_urgent() { 4 } else { 3 };
    let document = json!({
        "topic": topic, "title": delivery.title, "message": delivery.body, "priority": priority,
        "tags": [word(delivery.kind()), delivery.host()],
    });
    post(target, server, &document)
}

pub(super) fn slack(target: &TargetSettings, delivery: &Delivery) -> Result<(), SendError> {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = format!("*{}*\n{}", escaped(&delivery.title), escaped(&delivery.body));
    post(target, &url(target)?, &json!({ "text": text }))
}

fn post(target: &TargetSettings, url: &str, document: &Value) -> Result<(), SendError> {
    let mut tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::default()));
    if url.starts_with("https:") {
        tls = tls.root_certs(RootCerts::Specific(Arc::new(roots())));
    }
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(WITHIN))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("flowcon-notify/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls.build())
        .build()
        .new_agent();
    let mut request = agent.post(url).header("content-type", "application/json");
    if let Some(path) = &target.token_file {
        request = request.header("authorization", format!("Bearer {}", secret(path)?));
    }
    // The url may be a secret, so errors do not name it.
    let next = "next: check that the server runs, and the url";
    let mut response = request.send(document.to_string()).map_err(|error| match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => SendError::permanent("the url is not valid".to_owned()),
        error => SendError::passing(format!("{error}; {next}")),
    })?;
    let status = response.status().as_u16();
    if response.status().is_success() {
        return Ok(());
    }
    let seconds = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let said = response.body_mut().with_config().limit(REPORTED).lossy_utf8(true).read_to_string().unwrap_or_default();
    let hint = match status {
        300..=399 => "; next: use the address to which it redirects",
        401 | 403 => "; next: check the token, and that it may write there",
        404 | 410 => "; next: check the url",
        _ => "",
    };
    let text = format!("HTTP status {status}: {}{hint}", said.trim().replace(char::is_control, " "));
    let is_permanent = (300..500).contains(&status) && ![408, 425, 429].contains(&status);
    Err(SendError { is_permanent, retry_after_ms: seconds.map(|seconds| seconds.saturating_mul(1000)), text })
}

/// The certificates that this system trusts.
fn roots() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs().certs;
    found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}
