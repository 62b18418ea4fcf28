//! State of each container that is kept between ticks, in the order of the last observation.

use model::{ContainerId, ContainerObservation};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Containers with their state.
///
/// Nearly always a tick observes the containers of the last one in the same order; then no lookup is needed, and the ids stay. Boxed,
/// because a tick takes out all states and puts them back. Serialized as a map.
#[derive(Clone, Debug)]
pub(super) struct Recollection<M> {
    ids: Vec<ContainerId>,
    /// In the order of the ids; empty while a tick has them.
    memories: Vec<Box<M>>,
}

impl<M> Default for Recollection<M> {
    fn default() -> Self {
        Recollection { ids: Vec::new(), memories: Vec::new() }
    }
}

impl<M: Default> Recollection<M> {
    /// Whether these are the containers of the last tick, in its order.
    pub(super) fn is_of(&self, containers: &[ContainerObservation]) -> bool {
        self.ids.iter().eq(containers.iter().map(|container| &container.id))
    }

    /// Iterates over the states of the last tick's containers, in its order.
    pub(super) fn memories(&self) -> impl Iterator<Item = &M> {
        self.memories.iter().map(AsRef::as_ref)
    }

    /// Returns the state of one container. The daemon observes containers by id, and asks for each of them after each look: a search in
    /// order would compare all with all.
    pub(super) fn get(&self, id: &ContainerId) -> Option<&M> {
        let at = self.ids.binary_search(id).ok().or_else(|| self.ids.iter().position(|known| known == id))?;
        self.memories.get(at).map(AsRef::as_ref)
    }

    /// Takes out all states, in the order of these containers; `is_same` is what [`Self::is_of`] says of them. A new container gets a
    /// default state; that of an unobserved one is dropped.
    pub(super) fn take(&mut self, containers: &[ContainerObservation], is_same: bool) -> Vec<Box<M>> {
        let memories = std::mem::take(&mut self.memories);
        if is_same {
            return memories;
        }
        let observed = containers.iter().map(|container| container.id.clone()).collect();
        let ids = std::mem::replace(&mut self.ids, observed);
        let mut known: BTreeMap<ContainerId, Box<M>> = ids.into_iter().zip(memories).collect();
        self.ids.iter().map(|id| known.remove(id).unwrap_or_default()).collect()
    }

    /// Puts back the states that were taken out.
    pub(super) fn put(&mut self, memories: Vec<Box<M>>) {
        self.memories = memories;
    }
}

impl<M: Serialize> Serialize for Recollection<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.ids.iter().zip(&self.memories))
    }
}

impl<'de, M: Deserialize<'de>> Deserialize<'de> for Recollection<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let known: BTreeMap<ContainerId, Box<M>> = BTreeMap::deserialize(deserializer)?;
        let (ids, memories) = known.into_iter().unzip();
        Ok(Recollection { ids, memories })
    }
}
