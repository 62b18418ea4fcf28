//! State of each container that is kept between ticks, in the order of the last observation.

use model::{ContainerId, ContainerObservation};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Containers with their state.
///
/// Nearly always a tick observes the containers of the last one in the same order; then no lookup is needed. Boxed, because a tick takes
/// out all states and puts them back. Serialized as a map.
#[derive(Clone, Debug)]
pub(super) struct Recollection<M>(Vec<(ContainerId, Box<M>)>);

impl<M> Default for Recollection<M> {
    fn default() -> Self {
        Recollection(Vec::new())
    }
}

impl<M: Default> Recollection<M> {
    /// Whether these are the containers of the last tick, in its order.
    fn is_of(&self, containers: &[ContainerObservation]) -> bool {
        self.0.len() == containers.len() && self.0.iter().zip(containers).all(|((id, _), now)| *id == now.id)
    }

    /// Iterates over the containers with their states; `None` unless they are the containers of the last tick, in its order.
    pub(super) fn of<'a>(
        &'a self,
        containers: &'a [ContainerObservation],
    ) -> Option<impl Iterator<Item = (&'a ContainerObservation, &'a M)>> {
        let each = || containers.iter().zip(&self.0).map(|(container, (_, memory))| (container, memory.as_ref()));
        self.is_of(containers).then(each)
    }

    /// Returns the state of one container.
    pub(super) fn get(&self, id: &ContainerId) -> Option<&M> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, memory)| memory.as_ref())
    }

    /// Takes out all states, in the order of these containers. A new container gets a default state; that of an unobserved one is dropped.
    pub(super) fn take(&mut self, containers: &[ContainerObservation]) -> Vec<Box<M>> {
        let is_same = self.is_of(containers);
        let known = std::mem::take(&mut self.0);
        if is_same {
            return known.into_iter().map(|(_, memory)| memory).collect();
        }
        let mut known: BTreeMap<ContainerId, Box<M>> = known.into_iter().collect();
        containers.iter().map(|container| known.remove(&container.id).unwrap_or_default()).collect()
    }

    /// Puts back the states taken out for these containers.
    pub(super) fn put(&mut self, containers: &[ContainerObservation], memories: Vec<Box<M>>) {
        self.0 = containers.iter().map(|container| container.id.clone()).zip(memories).collect();
    }
}

impl<M: Serialize> Serialize for Recollection<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(id, memory)| (id, memory)))
    }
}

impl<'de, M: Deserialize<'de>> Deserialize<'de> for Recollection<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(|known| Recollection(known.into_iter().collect()))
    }
}
