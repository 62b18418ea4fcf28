//! The policies that can be compared on a cluster, by name, each with a policy for the nodes and one for the cluster.

use crate::variant::Variant;
use model::cluster::{Admission, ClusterSettings, MoveRule, PlacementRule, QueueRule};
use model::{Millis, PolicySettings};

/// One of the compared policies.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterVariant {
    /// Its name in tables.
    pub name: String,
    /// The policy on each node.
    pub node: Variant,
    /// The policy of the cluster.
    pub cluster: ClusterSettings,
    /// Interval between two plans without events.
    pub interval: Millis,
}

/// All variants: name and description.
pub const CLUSTER_VARIANTS: [(&str, &str); 9] = [
    ("swarm", "spread placement, plain sharing on the nodes (the baseline)"),
    ("procon-plain", "ProCon's placement as published, plain sharing on the nodes"),
    ("specon-plain", "spread placement and SpeCon's moves as published, plain sharing on the nodes"),
    ("dragon", "DRAGON's queue and scaling, plain sharing on the nodes"),
    ("spread", "spread placement, governed nodes"),
    ("procon", "ProCon's placement, governed nodes"),
    ("specon", "spread placement and SpeCon's moves, governed nodes"),
    ("default", "least added completion, moves that shorten the mean completion by the forecasts, governed nodes"),
    ("oasis", "the default, but admits only jobs that are worth more than their resources cost"),
];

const INTERVAL: Millis = Millis::from_secs(10);

impl ClusterVariant {
    /// Returns the variant of that name; governed nodes use `settings`.
    ///
    /// # Errors
    /// Lists the known names.
    pub fn named(name: &str, settings: &PolicySettings) -> Result<ClusterVariant, String> {
        use MoveRule::{Forecast, Never, SpeCon};
        use PlacementRule::{LeastAdded, ProCon, Spread};
        use QueueRule::{Dragon, FirstFit, Weighted};
        let (node, placement, moves, queue) = match name {
            "swarm" => ("fair", Spread, Never, FirstFit),
            "procon-plain" => ("fair", ProCon, Never, FirstFit),
            "specon-plain" => ("fair", Spread, SpeCon, FirstFit),
            "dragon" => ("fair", Spread, Never, Dragon),
            "spread" => ("balanced", Spread, Never, Weighted),
            "procon" => ("balanced", ProCon, Never, Weighted),
            "specon" => ("balanced", Spread, SpeCon, Weighted),
            "default" | "oasis" => ("balanced", LeastAdded, Forecast, Weighted),
            other => {
                let names = CLUSTER_VARIANTS.map(|(name, _)| name).join(", ");
                return Err(format!("unknown policy `{other}`; expected one of {names}"));
            }
        };
        let usual = ClusterSettings::default();
        let admission = if name == "oasis" { Admission::Prices } else { Admission::All };
        // SpeCon's publication bounds its moves only by the number of jobs.
        let (per_node, in_total) =
            if moves == SpeCon { (usize::MAX, usize::MAX) } else { (usual.moves_per_node, usual.moves_at_once) };
        Ok(ClusterVariant {
            name: name.to_owned(),
            node: Variant::named(node, settings)?,
            cluster: ClusterSettings {
                placement,
                moves,
                queue,
                admission,
                moves_per_node: per_node,
                moves_at_once: in_total,
                ..usual
            },
            interval: if moves == SpeCon { usual.specon_interval } else { INTERVAL },
        })
    }
}
