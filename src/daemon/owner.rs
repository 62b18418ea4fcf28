//! Whose a job is.
//!
//! It belongs to the user that its label `flowcon.user` names, else to the user who registered it with `flowctl run`, else to the user of
//! the first rule that fits its container, else to nobody. Labels are trusted here: who can label a container controls the engine, and so
//! has root's rights; a label of `flowctl run` is checked at its registration.

use config::UserSettings;
use docker::EngineContainer;
use model::{CpuTime, Directives, NOBODY};
use node::users;
use std::sync::Arc;
use store::ScopeRecord;

/// What Docker Compose and Podman Compose call the label with the project's name.
const PROJECT_LABELS: [&str; 2] = ["com.docker.compose.project", "io.podman.compose.project"];

/// Whose a job is, and what this follows from.
#[derive(Default)]
pub(super) struct Owner {
    /// User who registered the command; `None` for a container.
    pub uid: Option<u32>,
    /// The name of that user.
    registered: Option<String>,
    image: String,
    project: Option<String>,
    /// The user to whom it belongs.
    pub user: Option<Arc<str>>,
    /// Its CPU counter, as far as its user was charged.
    charged: Option<CpuTime>,
}

impl Owner {
    pub(crate) fn of_scope(scope: &ScopeRecord) -> Owner {
        Owner { uid: Some(scope.uid), registered: Some(users::name_or_number(scope.account)), ..Owner::default() }
    }

    pub(crate) fn of_container(container: &EngineContainer) -> Owner {
        let project = PROJECT_LABELS.iter().find_map(|label| container.labels.get(*label)).cloned();
        Owner { image: container.image.clone(), project, ..Owner::default() }
    }

    pub(crate) fn of_image(image: &str) -> Owner {
        Owner { image: image.to_owned(), ..Owner::default() }
    }

    /// Finds to whom the job belongs, by its labels and the settings in force.
    pub(crate) fn assign(&mut self, directives: &Directives, settings: &UserSettings) {
        let by_rule = || match self.uid {
            Some(_) => None,
            None => settings.user_of(&self.image, self.project.as_deref()),
        };
        let user = directives.user.as_deref().or(self.registered.as_deref()).or_else(by_rule);
        self.user = user.map(Arc::from);
    }

    /// The name of that user, or of the one to whom all jobs of nobody belong.
    pub(crate) fn name(&self) -> &str {
        self.user.as_deref().unwrap_or(NOBODY)
    }

    /// Returns the CPU time used since the last call; none at the first.
    pub(crate) fn charge(&mut self, cpu: CpuTime) -> CpuTime {
        cpu.since(self.charged.replace(cpu).unwrap_or(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_goes_before_the_registered_user_and_rules_are_for_containers() {
        let settings = UserSettings {
            rules: vec!["image vision/* = carol".parse().unwrap(), "project nlp = dave".parse().unwrap()],
            ..UserSettings::default()
        };
        let user_with = |label: Option<&str>, mut owner: Owner| {
            owner.assign(&Directives { user: label.map(str::to_owned), ..Directives::default() }, &settings);
            owner.name().to_owned()
        };
        let command = || Owner { uid: Some(1), registered: Some("bob".to_owned()), ..Owner::default() };
        let container = |image: &str, project: Option<&str>| Owner {
            image: image.to_owned(),
            project: project.map(str::to_owned),
            ..Owner::default()
        };
        assert_eq!(user_with(None, command()), "bob");
        assert_eq!(user_with(Some("alice"), command()), "alice");
        assert_eq!(user_with(None, container("vision/train:1", None)), "carol");
        assert_eq!(user_with(None, container("python", Some("nlp"))), "dave");
        assert_eq!(user_with(Some("alice"), container("vision/train:1", None)), "alice");
        assert_eq!(user_with(None, container("python", None)), NOBODY);
    }
}
