//! Transfers of volumes: offers from this node, and fetches to this node.

use super::claim::{Claims, owner_of, shared_with_others};
use super::client::Client;
use super::failure::{failed, owned_by_other};
use super::owner;
use super::pack::{Sent, State, hexadecimal, pack, state_of};
use super::record;
use super::sandbox;
use super::unpack::{Bounds, Staged, unpack};
use super::wire::{Offer, Sum};
use http_body_util::BodyExt;
use model::Bytes;
use model::swarm::{Attestation, NodeId, ServiceId, Transfer, TransferOutcome};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use swarm::{Engine, FoundVolume, Identity, VolumePlace};
use tokio::sync::{mpsc, watch};

/// Capacity of the channel between network and disk threads, in chunks.
const CHUNKS: usize = 8;
/// Maximum number of offers and of outcomes that are kept, one per service.
const KEPT: usize = 1024;
/// Timeout of a source that sends nothing.
const SILENT_AT_MOST: Duration = Duration::from_secs(60);

/// Transfers of one node.
pub(super) struct Carriages {
    engine: Engine,
    claims: Arc<Claims>,
    bounds: Bounds,
    port: u16,
    flowcond: PathBuf,
    offers: Mutex<BTreeMap<ServiceId, Offered>>,
    fetches: Mutex<BTreeMap<ServiceId, Fetch>>,
}

/// The newest fetch of a service's volume.
struct Fetch {
    number: u64,
    outcome: watch::Receiver<Option<TransferOutcome>>,
}

impl Fetch {
    /// Whether it is in flight, or has a final outcome. A failed fetch may be repeated.
    fn is_valid(&self) -> bool {
        match &*self.outcome.borrow() {
            None => self.outcome.has_changed().is_ok(),
            Some(outcome) => !matches!(outcome, TransferOutcome::Failed(_)),
        }
    }

    fn is_under_way(&self) -> bool {
        self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }
}

/// A volume that another node may fetch.
struct Offered {
    carriage: Transfer,
    /// Its folder; `None` = there is no saved state: the volume is empty or does not exist.
    data: Option<PathBuf>,
    sent: Option<Sent>,
    /// The volume's state before it was sent.
    state: Option<State>,
    made: Instant,
}

impl Carriages {
    pub(super) fn new(
        engine: Engine,
        claims: Arc<Claims>,
        bounds: Bounds,
        port: u16,
        flowcond: PathBuf,
    ) -> Arc<Carriages> {
        let (offers, fetches) = (Mutex::default(), Mutex::default());
        Arc::new(Carriages { engine, claims, bounds, port, flowcond, offers, fetches })
    }

    /// Allows the target of a transfer to fetch the volume from here.
    ///
    /// # Errors
    /// A temporary error: the request may be repeated.
    pub(super) async fn offer(&self, carriage: Transfer, own: &NodeId) -> Result<Offer, String> {
        if carriage.from != *own {
            return Ok(Offer::Refused(format!(
                "the source of the transfer is node {}, but this is node {own}",
                carriage.from
            )));
        }
        match self.engine.attest(&carriage.service).await {
            Attestation::Gone => {}
            Attestation::Alive(_) | Attestation::Changed => {
                return Err("the job is still alive on the source: its state is not saved yet".to_owned());
            }
            Attestation::Unknown(why) => return Err(why),
        }
        let place = match self.engine.volume(&carriage.volume).await? {
            FoundVolume::Local(place) => Some(place),
            FoundVolume::Missing => None,
            FoundVolume::Other => {
                return Ok(Offer::Refused(format!(
                    "volume {} has another driver or options; name them in the service's mount (flowctl help cluster, SAVED STATE)",
                    carriage.volume
                )));
            }
        };
        let mut data = None;
        if let Some(place) = place {
            if let Some(why) = shared_with_others(&place, &carriage) {
                return Ok(Offer::Refused(why));
            }
            if let Some(why) =
                self.claims.own_source(&place.data, &carriage).await.map_err(|error| sandbox::explained(&error))?
            {
                return Ok(Offer::Refused(why));
            }
            let is_empty = owner::is_empty(&place.data).map_err(|error| sandbox::explained(&error))?;
            data = (!is_empty).then_some(place.data);
        }
        let mut offers = lock(&self.offers);
        if offers.get(&carriage.service).is_some_and(|newest| newest.carriage.number > carriage.number) {
            return Ok(Offer::Refused("superseded by a newer transfer of this job".to_owned()));
        }
        if offers.get(&carriage.service).is_some_and(|same| same.carriage == carriage) {
            return Ok(Offer::Made);
        }
        let offered = Offered { data, sent: None, state: None, made: Instant::now(), carriage };
        offers.insert(offered.carriage.service.clone(), offered);
        if offers.len() > KEPT {
            let oldest = offers.iter().min_by_key(|(_, offered)| offered.made).map(|(service, _)| service.clone());
            oldest.and_then(|service| offers.remove(&service));
        }
        Ok(Offer::Made)
    }

    /// Returns the volume as chunks of a tar stream, for the node that it was offered to; `None` = there is no saved state to send.
    ///
    /// # Errors
    /// The volume was not offered to that node.
    pub(super) fn volume(
        self: &Arc<Self>,
        carriage: &Transfer,
        requester: &NodeId,
    ) -> Result<Option<mpsc::Receiver<Vec<u8>>>, String> {
        let data = {
            let offers = lock(&self.offers);
            let offered = offers.get(&carriage.service);
            let offered = offered.filter(|offered| offered.carriage == *carriage && carriage.to == *requester);
            offered.ok_or("no such volume was offered to this node")?.data.clone()
        };
        let Some(data) = data else { return Ok(None) };
        let (out, chunks) = mpsc::channel(CHUNKS);
        // The stream ends only after the checksum is stored, because the target requests that next.
        let (this, carriage, open) = (self.clone(), carriage.clone(), out.clone());
        tokio::task::spawn_blocking(move || match state_of(&data).and_then(|state| Ok((state, pack(&data, out)?))) {
            Ok((state, sent)) => {
                let mut offers = lock(&this.offers);
                if let Some(offered) = offers.get_mut(&carriage.service).filter(|offered| offered.carriage == carriage)
                {
                    (offered.sent, offered.state) = (Some(sent), Some(state));
                }
                drop(open);
            }
            Err(error) => tracing::warn!(volume = %data.display(), %error, "cannot send the volume"),
        });
        Ok(Some(chunks))
    }

    /// Returns the checksum of the sent volume, and the job record of this node's flowcond.
    ///
    /// # Errors
    /// The volume was not sent completely to that node.
    pub(super) async fn sum(&self, carriage: &Transfer, requester: &NodeId) -> Result<Sum, String> {
        let Sent { bytes, sha256 } = {
            let offers = lock(&self.offers);
            let offered = offers.get(&carriage.service).filter(|offered| offered.carriage == *carriage);
            let sent = offered.filter(|_| carriage.to == *requester).and_then(|offered| offered.sent.as_ref());
            sent.ok_or("the volume was not sent completely")?.clone()
        };
        let record = record::read(&carriage.service, &self.flowcond).await;
        Ok(Sum { bytes, sha256: sha256.into(), record })
    }

    /// Attests, for a service without live containers, whether its state is still the transferred one.
    pub(super) async fn attest(&self, service: &ServiceId, number: u64) -> Attestation {
        let took = {
            let offers = lock(&self.offers);
            let offered = offers.get(service).filter(|offered| offered.carriage.number == number);
            offered.map(|offered| (offered.carriage.volume.clone(), offered.data.clone(), offered.state.clone()))
        };
        let (data, state) = match took {
            Some((_, Some(data), Some(state))) => (data, state),
            Some((volume, None, _)) => return self.attest_missing(&volume).await,
            // Unknown after a restart of the agent.
            _ => return Attestation::Changed,
        };
        match tokio::task::spawn_blocking(move || state_of(&data)).await {
            Ok(Ok(now)) if now == state => Attestation::Gone,
            Ok(Ok(_)) => Attestation::Changed,
            Ok(Err(error)) => Attestation::Unknown(error.to_string()),
            Err(error) => Attestation::Unknown(error.to_string()),
        }
    }

    /// Attests whether a volume that held no state when it was offered still holds none.
    async fn attest_missing(&self, volume: &str) -> Attestation {
        match self.engine.volume(volume).await {
            Ok(FoundVolume::Missing) => Attestation::Gone,
            Ok(FoundVolume::Local(place)) if matches!(owner::is_empty(&place.data), Ok(true)) => Attestation::Gone,
            Ok(FoundVolume::Local(_) | FoundVolume::Other) => Attestation::Changed,
            Err(why) => Attestation::Unknown(why),
        }
    }

    /// Fetches a volume to this node. A repeated request joins the transfer in flight, an outdated one fails, and a newer one begins after the
    /// previous one has ended, so that an older state never replaces a newer one.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        carriage: Transfer,
        from: Arc<str>,
        identity: Arc<Identity>,
    ) -> TransferOutcome {
        let number = carriage.number;
        let mut receiver = {
            let mut fetches = lock(&self.fetches);
            if fetches.len() > KEPT {
                fetches.retain(|_, fetch| fetch.is_under_way());
            }
            let before = fetches.get(&carriage.service);
            match before {
                Some(newest) if newest.number > number => {
                    return TransferOutcome::Failed("superseded by a newer transfer of this job".to_owned());
                }
                Some(same) if same.number == number && same.is_valid() => same.outcome.clone(),
                before => {
                    let mut before = before.filter(|fetch| fetch.is_under_way()).map(|fetch| fetch.outcome.clone());
                    let (sender, receiver) = watch::channel(None);
                    fetches.insert(carriage.service.clone(), Fetch { number, outcome: receiver.clone() });
                    let this = self.clone();
                    // Continues if the client disconnects; a repeated request joins it.
                    tokio::spawn(async move {
                        if let Some(before) = &mut before {
                            let _ = before.wait_for(Option::is_some).await; // fails if its task panicked
                        }
                        let outcome = this.fetched(&carriage, &from, identity).await;
                        sender.send_replace(Some(outcome));
                    });
                    receiver
                }
            }
        };
        let ended = receiver.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        ended.ok().flatten().unwrap_or_else(|| {
            TransferOutcome::Failed("the task of the transfer panicked; it may be retried".to_owned())
        })
    }

    async fn fetched(&self, carriage: &Transfer, from: &str, identity: Arc<Identity>) -> TransferOutcome {
        if carriage.to != identity.own.node {
            return TransferOutcome::Impossible(format!(
                "the target of the transfer is node {}, but this is node {}",
                carriage.to, identity.own.node
            ));
        }
        if let Err(why) = self.engine.make_volume(&carriage.volume, &BTreeMap::new()).await {
            return TransferOutcome::Failed(why);
        }
        let place = match self.engine.volume(&carriage.volume).await {
            Ok(FoundVolume::Local(place)) => place,
            Ok(FoundVolume::Other | FoundVolume::Missing) => {
                return TransferOutcome::Impossible(format!(
                    "the target has a volume {} with another driver or options; use another volume name, or remove it with `docker volume rm`",
                    carriage.volume
                ));
            }
            Err(why) => return TransferOutcome::Failed(why),
        };
        if let Some(why) = self.rejection(&place, carriage).await {
            return why;
        }
        let source = Client::new(identity, carriage.from.clone(), from, self.port);
        let body = match source.volume(carriage).await {
            Ok(Some(body)) => body,
            // An earlier state here stays: it is better than none.
            Ok(None) => return self.own_target(&place.data, carriage).await,
            Err(why) => return TransferOutcome::Failed(why),
        };
        let (out, chunks) = mpsc::channel(CHUNKS);
        let (data, number, bounds) = (place.data, carriage.number, self.bounds);
        let taking = tokio::task::spawn_blocking(move || unpack(&data, number, chunks, bounds));
        let broken = relay(body, out).await;
        let staged = match taking.await {
            Ok(Ok(staged)) => staged,
            Ok(Err(error)) => return failed(&error, broken),
            Err(error) => return TransferOutcome::Failed(error.to_string()),
        };
        let record = match source.sum(carriage).await {
            Ok(sum) if sum.bytes == staged.bytes && *sum.sha256 == *staged.sha256 => sum.record,
            Ok(_) => return TransferOutcome::Failed("checksum mismatch between source and target".to_owned()),
            Err(why) => return TransferOutcome::Failed(why),
        };
        let outcome = self.swap(staged, carriage).await;
        if let (TransferOutcome::Carried { .. }, Some(record)) = (&outcome, record) {
            record::hand_over(&carriage.service, &record, &self.flowcond).await;
        }
        outcome
    }

    async fn swap(&self, staged: Staged, carriage: &Transfer) -> TransferOutcome {
        // A container that started meanwhile would see its files change.
        if !matches!(self.engine.attest(&carriage.service).await, Attestation::Gone) {
            return TransferOutcome::Failed("the job is alive on the target".to_owned());
        }
        let _guard = self.claims.guard().await;
        if let Some(why) = owned_by_other(&staged.data, carriage) {
            return why;
        }
        let (size, sha256) = (Bytes(staged.bytes), staged.sha256.as_str().into());
        let owner = owner_of(carriage, carriage.number);
        match tokio::task::spawn_blocking(move || staged.swap(&owner)).await {
            Ok(Ok(())) => TransferOutcome::Carried { size, sha256 },
            Ok(Err(error)) => failed(&error, None),
            Err(error) => TransferOutcome::Failed(error.to_string()),
        }
    }

    /// Records the job as the owner of the volume here; its source has no state to send.
    async fn own_target(&self, data: &Path, carriage: &Transfer) -> TransferOutcome {
        let _guard = self.claims.guard().await;
        if let Some(why) = owned_by_other(data, carriage) {
            return why;
        }
        match owner::write(data, &owner_of(carriage, carriage.number)) {
            // An empty stream.
            Ok(()) => TransferOutcome::Carried { size: Bytes(0), sha256: hexadecimal(&Sha256::digest(b"")).into() },
            Err(error) => failed(&error, None),
        }
    }

    /// Returns why the volume on this node must not be overwritten.
    async fn rejection(&self, place: &VolumePlace, carriage: &Transfer) -> Option<TransferOutcome> {
        if let Some(why) = shared_with_others(place, carriage) {
            return Some(TransferOutcome::Impossible(why));
        }
        if !matches!(self.engine.attest(&carriage.service).await, Attestation::Gone) {
            return Some(TransferOutcome::Failed("the job is alive on the target".to_owned()));
        }
        if let Some(why) = owned_by_other(&place.data, carriage) {
            return Some(why);
        }
        let is_its_own = place.users.contains(&Some(carriage.service.clone()))
            || matches!(owner::read(&place.data), Ok(Some(owner)) if owner.service == carriage.service);
        match owner::is_empty(&place.data) {
            Ok(is_empty) if is_empty || is_its_own => None,
            Ok(_) => Some(TransferOutcome::Impossible(format!(
                "the target already has a volume {} with other files; use another volume name, or remove it with `docker volume rm`",
                carriage.volume
            ))),
            Err(error) => Some(TransferOutcome::Failed(sandbox::explained(&error))),
        }
    }
}

/// Passes the received data to the thread that unpacks it. Returns the error if the stream was interrupted.
async fn relay(mut body: hyper::body::Incoming, out: mpsc::Sender<Vec<u8>>) -> Option<String> {
    loop {
        let frame = match tokio::time::timeout(SILENT_AT_MOST, body.frame()).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return None,
            Err(_elapsed) => return Some(format!("the source sent nothing for {} s", SILENT_AT_MOST.as_secs())),
        };
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(bytes)) if out.send(bytes.to_vec()).await.is_err() => return None,
            Ok(_) => {}
            Err(error) => return Some(format!("the source closed the connection: {error}")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
