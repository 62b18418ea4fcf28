//! Backends of the coordinator: the local engine, and the agent of each node over mutual TLS.

use super::agent::{Client, ConnectionPool, Offer};
use super::machine::labels::GANG;
use super::machine::{Question, check_submission};
use super::rendezvous::{ImageVariables, connect};
use super::settings::Settings;
use model::cluster::Submission;
use model::swarm::{
    Attestation, Claim, ClaimOutcome, HeldLease, NodeId, NodeReport, ServiceId, Swarm, Transfer, TransferOutcome,
};
use model::{Millis, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use swarm::{Certificates, Engine, Identity};

/// How long an agent may wait for containers to exit before it replies, instead of being polled.
const PATIENCE: Millis = Millis::from_secs(5);

/// Modification times and sizes of the certificate files, and the identity loaded from them.
type Loaded = ([Option<(SystemTime, u64)>; 3], Arc<Identity>);

/// The engine and the agents.
pub(super) struct Backends {
    pub(super) engine: Engine,
    port: u16,
    certificates: Option<Certificates>,
    /// Paths of Swarm's certificates, cached because asking the engine for them costs more than a report.
    found: Mutex<Option<Certificates>>,
    kept: Arc<ConnectionPool>,
    identity: Mutex<Option<Loaded>>,
    addresses: Mutex<BTreeMap<NodeId, Arc<str>>>,
    /// The gangs at the last look, whose networks remain. Locked while a gang is created: its network has no user yet.
    gangs: tokio::sync::Mutex<BTreeSet<Arc<str>>>,
}

impl Backends {
    /// # Errors
    /// The engine's address is invalid.
    pub(super) fn new(settings: &Settings) -> Result<Backends, String> {
        let given = settings.agent.certificates.clone();
        Ok(Backends {
            engine: Engine::at(settings.engine.as_deref())?,
            port: settings.agent.port,
            certificates: given.map(|files| Certificates::of_files(files.certificate, files.key, files.authority)),
            found: Mutex::default(),
            kept: Arc::default(),
            identity: Mutex::default(),
            addresses: Mutex::default(),
            gangs: tokio::sync::Mutex::default(),
        })
    }

    pub(super) async fn look(&self) -> Result<Swarm, String> {
        let swarm = self.engine.look().await?;
        let addresses: BTreeMap<_, _> =
            swarm.nodes.iter().map(|node| (node.id.clone(), node.address.clone())).collect();
        self.kept.retain(|node| addresses.contains_key(node));
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
        self.remove_networks(&swarm).await;
        Ok(swarm)
    }

    /// Removes the networks of gangs of which the last service was removed.
    async fn remove_networks(&self, swarm: &Swarm) {
        let Ok(mut known) = self.gangs.try_lock() else { return };
        let gangs: BTreeSet<Arc<str>> =
            swarm.services.iter().filter_map(|service| service.labels.get(GANG).cloned()).collect();
        // If it fails, the network is removed with the next one, or reused by a gang of the same name.
        if swarm.is_leader && !known.is_subset(&gangs) {
            let _ = self.engine.remove_unused_networks().await;
        }
        *known = gangs;
    }

    /// Creates the services of a job: all, or none. Returns what was done.
    pub(super) async fn create(&self, submissions: &mut [Submission]) -> Result<String, Refusal> {
        let services = self.engine.services().await.map_err(Refusal::Failed)?;
        submissions.iter().try_for_each(|submission| check_submission(submission, &services))?;
        let _networks_stay = self.gangs.lock().await;
        let mut images = ImageVariables::new();
        for image in submissions.iter().map(|submission| &submission.image) {
            if !images.contains_key(image) {
                images.insert(image.clone(), self.engine.variables_of(image).await.map_err(Refusal::Failed)?);
            }
        }
        if let Some((gang, network)) = connect(submissions, &images) {
            self.engine.create_network(&network, &gang).await.map_err(Refusal::Failed)?;
        }
        let mut created = Vec::new();
        for submission in submissions.iter() {
            match self.engine.create(submission).await {
                Ok(id) => created.push(id),
                Err(refusal) => {
                    for id in created {
                        // One that cannot be removed is in the queue, where the rest of its gang is missing.
                        let _ = self.engine.remove(&id).await;
                    }
                    return Err(refusal);
                }
            }
        }
        let names: Vec<&str> = submissions.iter().map(|submission| &*submission.name).collect();
        Ok(format!("{} {} queued", names.join(", "), if names.len() == 1 { "is" } else { "are" }))
    }

    pub(super) async fn poll(
        &self,
        node: &NodeId,
        leases: &[ServiceId],
        graces: BTreeMap<ServiceId, Millis>,
        lease: Millis,
        release: &[HeldLease],
    ) -> Result<NodeReport, String> {
        self.client(node).await?.report_and_release(leases, graces, lease, release).await
    }

    pub(super) async fn attest(&self, question: &Question) -> Attestation {
        let asked = match self.client(&question.node).await {
            Ok(client) => client.attest(&question.service, question.carried, PATIENCE).await,
            Err(error) => Err(error),
        };
        asked.unwrap_or_else(Attestation::Unknown)
    }

    pub(super) async fn claim(&self, claim: &Claim) -> ClaimOutcome {
        let claimed = match self.client(&claim.node).await {
            Ok(client) => client.claim(claim).await,
            Err(error) => Err(error),
        };
        claimed.unwrap_or_else(ClaimOutcome::Unknown)
    }

    pub(super) async fn output(
        &self,
        node: &NodeId,
        service: &ServiceId,
        after: Option<String>,
        tail: u32,
    ) -> Result<String, String> {
        self.client(node).await?.output(service, after, tail).await
    }

    /// Has the source offer the volume to the target, then has the target fetch it.
    pub(super) async fn carry(&self, carriage: &Transfer) -> TransferOutcome {
        let carried = async {
            let from = self.address(&carriage.from)?;
            let offered = self.client(&carriage.from).await?.offer(carriage).await?;
            if let Offer::Refused(why) = offered {
                return Ok(TransferOutcome::Impossible(why));
            }
            self.client(&carriage.to).await?.fetch(carriage, &from).await
        };
        carried.await.unwrap_or_else(TransferOutcome::Failed)
    }

    async fn client(&self, node: &NodeId) -> Result<Client, String> {
        let address = self.address(node)?;
        Ok(Client::new(self.identity().await?, node.clone(), &address, self.port).with_pool(self.kept.clone()))
    }

    fn address(&self, node: &NodeId) -> Result<Arc<str>, String> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let address = addresses.get(node).filter(|address| !address.is_empty()).cloned();
        address.ok_or_else(|| format!("Swarm reports no address for node {node}"))
    }

    /// Returns this manager's certificate, reloaded if it was renewed.
    async fn identity(&self) -> Result<Arc<Identity>, String> {
        let found = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.certificates.clone().or_else(|| found().clone());
        let certificates = match known {
            Some(certificates) => certificates,
            None => Certificates::of_swarm(&self.engine.info().await?.data),
        };
        *found() = Some(certificates.clone());
        let stamp = certificates.stamp();
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, loaded)) = identity.as_ref()
            && *of == stamp
        {
            return Ok(loaded.clone());
        }
        let loaded = certificates.load().map_err(|error| {
            *found() = None;
            error.to_string()
        });
        let loaded = Arc::new(loaded?);
        *identity = Some((stamp, loaded.clone()));
        Ok(loaded)
    }
}
