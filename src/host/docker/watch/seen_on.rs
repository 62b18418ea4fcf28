//! In which engine each adopted container was seen: only that engine can say that it was removed.
//!
//! It is not stored: after a start of the daemon, a container that was not seen yet is taken for one of the first engine.

use model::{ContainerId, EngineMark};
use std::collections::{BTreeMap, BTreeSet};

/// The engine in which each adopted container was seen last.
#[derive(Debug, Default)]
pub(super) struct SeenOn {
    /// The first engine: of containers that were not seen yet.
    first: Option<EngineMark>,
    engines: BTreeMap<ContainerId, EngineMark>,
}

impl SeenOn {
    /// Records a connection to an engine.
    pub(super) fn connected(&mut self, engine: &EngineMark) {
        self.first.get_or_insert_with(|| engine.clone());
    }

    /// Records the adopted containers that exist in this engine. Returns those of this engine that do not exist any more.
    pub(super) fn removed(
        &mut self,
        adopted: &BTreeSet<ContainerId>,
        existing: &BTreeSet<ContainerId>,
        engine: &EngineMark,
    ) -> Vec<ContainerId> {
        self.engines.retain(|id, _| adopted.contains(id));
        self.engines.extend(adopted.intersection(existing).map(|id| (id.clone(), engine.clone())));
        let is_its = |id: &ContainerId| {
            let seen_on = self.engines.get(id).or(self.first.as_ref());
            seen_on.is_some_and(|seen_on| !seen_on.is_other(engine))
        };
        adopted.difference(existing).filter(|id| is_its(id)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(id: &str) -> EngineMark {
        EngineMark { id: Some(id.to_owned()), socket: "/engine.sock".to_owned() }
    }

    fn ids(names: &[&str]) -> BTreeSet<ContainerId> {
        names.iter().map(|name| ContainerId::new(name)).collect()
    }

    #[test]
    fn only_the_engine_in_which_a_container_was_seen_reports_its_removal() {
        let mut seen = SeenOn::default();
        let (docker, podman) = (engine("docker"), engine("podman"));
        let adopted = ids(&["a", "b"]);
        seen.connected(&docker);
        assert_eq!(seen.removed(&adopted, &adopted, &docker), []);
        seen.connected(&podman);
        assert_eq!(seen.removed(&adopted, &ids(&[]), &podman), [], "they are not Podman's");
        seen.connected(&docker);
        assert_eq!(seen.removed(&adopted, &ids(&["b"]), &docker), [ContainerId::new("a")]);
    }

    #[test]
    fn a_container_that_was_never_seen_belongs_to_the_first_engine() {
        let mut seen = SeenOn::default();
        let (first, second) = (engine("first"), engine("second"));
        seen.connected(&first);
        assert_eq!(seen.removed(&ids(&["a"]), &ids(&[]), &first), [ContainerId::new("a")]);
        seen.connected(&second);
        assert_eq!(seen.removed(&ids(&["b"]), &ids(&[]), &second), []);
        // Adopted in the second engine.
        assert_eq!(seen.removed(&ids(&["b"]), &ids(&["b"]), &second), []);
        assert_eq!(seen.removed(&ids(&["b"]), &ids(&[]), &second), [ContainerId::new("b")]);
    }
}
