//! Tests of transfers on a simulated engine without containers.

use super::super::unpack::Spare;
use super::*;
use axum::http::{StatusCode, Uri};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The engine's answer to requests for a volume.
type Answer = Arc<Mutex<(StatusCode, Value)>>;

/// Returns the transfers of a node whose engine gives this answer.
fn carriages(folder: &Path, answer: Answer) -> Arc<Carriages> {
    let socket = folder.join("engine.sock");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let reply = move |uri: Uri| {
        let answer = answer.clone();
        async move {
            if uri.path().starts_with("/containers") {
                return (StatusCode::OK, Json(json!([])));
            }
            let (status, document) = lock(&answer).clone();
            (status, Json(document))
        }
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(reply)).await });
    let engine = Engine::at(socket.to_str()).expect("an address");
    let bounds = Bounds { most: Bytes(1 << 30), rate: None, spare: Spare::USUAL };
    Carriages::new(engine.clone(), Claims::new(engine), bounds, 1, folder.join("flowcond.sock"))
}

fn node(name: &str) -> NodeId {
    NodeId(name.into())
}

fn transfer(number: u64) -> Transfer {
    let (service, name, volume) = (ServiceId("s".into()), "train".into(), "saved".into());
    Transfer { service, name, volume, from: node("a"), to: node("b"), number }
}

fn not_found() -> (StatusCode, Value) {
    (StatusCode::NOT_FOUND, json!({"message": "get saved: no such volume"}))
}

#[tokio::test]
async fn a_job_whose_first_start_failed_leaves_its_node_without_a_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer: Answer = Arc::new(Mutex::new(not_found()));
    let carriages = carriages(folder.path(), answer.clone());
    let service = transfer(1).service;
    assert_eq!(carriages.offer(transfer(1), &node("a")).await, Ok(Offer::Made));
    assert!(matches!(carriages.volume(&transfer(1), &node("b")), Ok(None)));
    assert!(carriages.volume(&transfer(1), &node("c")).is_err(), "it was not offered to c");
    assert_eq!(carriages.attest(&service, 1).await, Attestation::Gone);
    // A late task of the job has created the volume: it has to be transferred as soon as it holds something.
    let data = folder.path().join("saved/_data");
    std::fs::create_dir_all(&data).expect("made");
    *lock(&answer) = (StatusCode::OK, json!({"Driver": "local", "Options": null, "Mountpoint": data}));
    assert_eq!(carriages.attest(&service, 1).await, Attestation::Gone);
    std::fs::write(data.join("model"), "7").expect("written");
    assert_eq!(carriages.attest(&service, 1).await, Attestation::Changed);
    assert_eq!(carriages.offer(transfer(2), &node("a")).await, Ok(Offer::Made));
    assert!(matches!(carriages.volume(&transfer(2), &node("b")), Ok(Some(_))));
}

#[tokio::test]
async fn the_saved_state_of_another_job_is_neither_sent_nor_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("saved/_data");
    std::fs::create_dir_all(&data).expect("made");
    std::fs::write(data.join("model"), "7").expect("written");
    let theirs = Transfer { service: ServiceId("other".into()), name: "resnet".into(), ..transfer(0) };
    owner::write(&data, &owner_of(&theirs, 0)).expect("written");
    let found = json!({"Driver": "local", "Options": null, "Mountpoint": data});
    let carriages = carriages(folder.path(), Arc::new(Mutex::new((StatusCode::OK, found))));
    match carriages.offer(transfer(1), &node("a")).await {
        Ok(Offer::Refused(why)) => assert!(why.contains("holds the saved state of resnet (other)"), "{why}"),
        other => panic!("{other:?}"),
    }
    match owned_by_other(&data, &transfer(1)) {
        Some(TransferOutcome::Impossible(why)) => assert!(why.contains("belongs to resnet (other)"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(owned_by_other(&data, &theirs), None);
}

#[tokio::test]
async fn an_error_of_the_engine_is_temporary_and_a_volume_of_nfs_is_refused_with_the_next_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer: Answer = Arc::new(Mutex::new((StatusCode::INTERNAL_SERVER_ERROR, json!({"message": "busy"}))));
    let carriages = carriages(folder.path(), answer.clone());
    assert_eq!(carriages.offer(transfer(1), &node("a")).await, Err("busy".to_owned()));
    let options = json!({"type": "nfs", "o": "addr=192.0.2.1,rw", "device": ":/saved"});
    *lock(&answer) = (StatusCode::OK, json!({"Driver": "local", "Options": options, "Mountpoint": "/v/_data"}));
    match carriages.offer(transfer(1), &node("a")).await {
        Ok(Offer::Refused(why)) => assert!(why.contains("name them in the service's mount"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_read_only_volume_names_the_setting_of_the_unit() {
    match failed(&io::ErrorKind::ReadOnlyFilesystem.into(), None) {
        TransferOutcome::Impossible(why) => assert!(why.contains("ReadWritePaths="), "{why}"),
        other => panic!("{other:?}"),
    }
}
