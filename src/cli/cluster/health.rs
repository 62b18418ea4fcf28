//! From what was found of a Swarm to a verdict and a way to mend it. Pure. Imports: host's and model's types, the doctor's.

use super::super::doctor::Check;
use crate::api::client::ClientError;
use crate::api::wire::Cluster;
use crate::host::swarm::{CertificateError, EngineInfo, Identity, Role};
use crate::model::Millis;
use crate::model::swarm::NodeReport;
use crate::term::text;

/// Leases and moves do not depend on wall clocks; what people read does.
const CLOCK_MAY_DIFFER_MS: u64 = 5_000;
/// Swarm's certificates are valid from an hour before they are made on.
const CLOCK_MUST_NOT_DIFFER_MS: u64 = 3_600_000;
/// Swarm renews a certificate when half to four fifths of its time is over.
const RENEWED_BEFORE: f64 = 0.1;

const SYNCHRONIZE: &str = "synchronize the clocks of all nodes: `timedatectl set-ntp true`";
const ONE_RELEASE: &str = "install one release of flowcon on all nodes, then `systemctl restart flowcoord-agent` there";

/// What an agent answered, and the wall clock here before and after it.
pub(super) struct Answer {
    pub(super) before: Millis,
    pub(super) report: Result<NodeReport, String>,
    pub(super) after: Millis,
}

pub(super) fn swarm(info: &Result<EngineInfo, String>) -> Check {
    const NAME: &str = "swarm";
    match info {
        Err(error) => Check::fail(NAME, error.clone(), "`docker info` asks the same"),
        Ok(EngineInfo { node: None, .. }) => Check::fail(
            NAME,
            "this engine is in no Swarm",
            "`docker swarm init` makes one; `docker swarm join` joins one",
        ),
        Ok(EngineInfo { is_manager: false, .. }) => Check::warn(
            NAME,
            "this node is a worker: only what concerns itself is checked",
            "`flowctl cluster doctor` on a manager checks every node",
        ),
        Ok(info) => Check::ok(NAME, format!("this node is a manager, at {}", info.address)),
    }
}

pub(super) fn coordinator(asked: Result<&Cluster, &ClientError>) -> Check {
    const NAME: &str = "coordinator";
    match asked {
        Ok(Cluster { acts: true, jobs, .. }) => {
            Check::ok(NAME, format!("acts on Swarm's leader, {}", text::count(jobs.len(), "job")))
        }
        Ok(Cluster { why, .. }) => match why {
            // The one on the leader acts.
            Some(why) => Check::ok(NAME, format!("answers and does not act: {why}")),
            None => Check::ok(NAME, "answers and does not act: another manager is Swarm's leader"),
        },
        Err(error) => Check::fail(
            NAME,
            error.to_string().replace("no daemon answers", "no coordinator answers"),
            "`systemctl start flowcoord`; `journalctl -u flowcoord` says why it stopped",
        ),
    }
}

/// `now` in seconds since 1970.
pub(super) fn certificate(loaded: &Result<Identity, CertificateError>, now: u64) -> Check {
    const NAME: &str = "certificate";
    const RENEW: &str =
        "`docker swarm ca --rotate` renews those of all nodes; where flowcoord.toml names one, renew that one";
    let identity = match loaded {
        Ok(identity) => identity,
        Err(error @ CertificateError::Encrypted { .. }) => {
            return Check::fail(NAME, "the Swarm is locked, and its key with it", error.to_string());
        }
        Err(error) => return Check::fail(NAME, error.to_string(), "`sudo flowctl cluster doctor` sees every file"),
    };
    let role = if identity.own.role == Role::Manager { "manager" } else { "worker" };
    let whose = format!("of {role} {}", identity.own.node);
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let (from, until) = (identity.valid.start, identity.valid.end);
    let left = text::duration((until - now).max(0) as f64);
    if now < from {
        return Check::fail(NAME, format!("{whose} is not valid yet"), SYNCHRONIZE);
    }
    if now >= until {
        return Check::fail(NAME, format!("{whose} has expired"), RENEW);
    }
    if let Err(error) = identity.server() {
        return Check::fail(NAME, error.to_string(), "give the three files of one node; none of them for Swarm's own");
    }
    if ((until - now) as f64) < RENEWED_BEFORE * (until - from) as f64 {
        return Check::warn(NAME, format!("{whose} expires in {left}"), RENEW);
    }
    Check::ok(NAME, format!("{whose}, valid for {left}"))
}

/// On a worker, whose certificate may ask nobody.
pub(super) fn own_agent(answer: &Answer) -> Check {
    match &answer.report {
        Err(error) if error.contains("is a worker") => Check::ok("agent", "answers here, to managers only"),
        Err(error) => Check::fail("agent", error.clone(), "`systemctl start flowcoord-agent` here"),
        Ok(_) => Check::ok("agent", "answers here"),
    }
}

pub(super) fn agent(node: &str, is_up: bool, answer: &Answer) -> Vec<Check> {
    const NAME: &str = "agent";
    let report = match &answer.report {
        Ok(report) => report,
        Err(_) if !is_up => {
            let mend = format!("bring it back, or say that it is off for good: `docker node rm {node}`");
            return vec![Check::fail(NAME, format!("{node} is down, as Swarm says"), mend)];
        }
        Err(error) => {
            let mend = format!(
                "on {node}: `systemctl start flowcoord-agent`; its log says why it does not listen; open the port for the managers"
            );
            return vec![Check::fail(NAME, format!("{node}: {error}"), mend)];
        }
    };
    let mut checks = vec![match &*report.version == env!("CARGO_PKG_VERSION") {
        true => Check::ok(NAME, format!("{node} answers, version {}", report.version)),
        false => {
            let found = format!("{node} runs version {}; this is {}", report.version, env!("CARGO_PKG_VERSION"));
            Check::warn(NAME, found, ONE_RELEASE)
        }
    }];
    if !report.is_governed {
        checks.push(Check::fail(
            "flowcond",
            format!("none answers on {node}: it gets no jobs"),
            format!("on {node}: `systemctl start flowcond`, then `flowctl doctor`"),
        ));
    }
    checks.extend(clock(node, report.clock, answer));
    checks
}

/// The clock of the other lies between the two readings here, or it differs by what it lies outside.
fn clock(node: &str, theirs: Millis, answer: &Answer) -> Option<Check> {
    let ahead = theirs.0.saturating_sub(answer.after.0);
    let behind = answer.before.0.saturating_sub(theirs.0);
    let apart = ahead.max(behind);
    let found = || {
        let which = if ahead > behind { "ahead of" } else { "behind" };
        format!("{node} is {} {which} this node", text::duration(apart as f64 / 1000.0))
    };
    match apart {
        CLOCK_MUST_NOT_DIFFER_MS.. => Some(Check::fail("clock", found(), SYNCHRONIZE)),
        CLOCK_MAY_DIFFER_MS.. => Some(Check::warn("clock", found(), SYNCHRONIZE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::doctor::Verdict;
    use super::*;

    fn answer(report: Result<NodeReport, String>) -> Answer {
        Answer { before: Millis(10_000_000), report, after: Millis(10_000_500) }
    }

    fn well() -> NodeReport {
        let version = env!("CARGO_PKG_VERSION").into();
        NodeReport { version, clock: Millis(10_000_200), is_governed: true, ..NodeReport::default() }
    }

    /// The verdicts with the first words of what was found.
    fn verdicts(report: NodeReport) -> Vec<(&'static str, Verdict)> {
        agent("node-2", true, &answer(Ok(report))).into_iter().map(|check| (check.name, check.verdict)).collect()
    }

    #[test]
    fn an_agent_that_is_well_is_one_line() {
        assert_eq!(verdicts(well()), [("agent", Verdict::Ok)]);
    }

    #[test]
    fn another_version_a_wrong_clock_and_a_missing_flowcond_are_told() {
        assert_eq!(verdicts(NodeReport { version: "0.0.9".into(), ..well() }), [("agent", Verdict::Warn)]);
        assert_eq!(verdicts(NodeReport { is_governed: false, ..well() })[1], ("flowcond", Verdict::Fail));
        for (clock, verdict) in [(10_007_000, Verdict::Warn), (9_990_000, Verdict::Warn), (96_400_000, Verdict::Fail)] {
            assert_eq!(verdicts(NodeReport { clock: Millis(clock), ..well() })[1], ("clock", verdict), "{clock}");
        }
        let ahead = agent("n", true, &answer(Ok(NodeReport { clock: Millis(10_060_500), ..well() })));
        assert!(ahead[1].found.contains("ahead of"), "{ahead:?}");
        // Within the time that the question took nothing is known of it.
        assert_eq!(verdicts(NodeReport { clock: Millis(10_000_000), ..well() }).len(), 1);
    }

    #[test]
    fn an_agent_that_cannot_be_asked_and_a_node_that_is_down_are_told_apart() {
        let silent = || answer(Err("cannot be asked: connection refused".to_owned()));
        let up = agent("node-2", true, &silent());
        assert!(up[0].found.contains("refused") && up[0].mend.as_ref().expect("a way").contains("on node-2"));
        assert!(agent("node-2", false, &silent())[0].found.contains("is down"));
    }

    #[test]
    fn a_worker_knows_its_own_agent_by_its_refusal() {
        assert_eq!(
            own_agent(&answer(Err("refused: 403 w is a worker; managers ask this".into()))).verdict,
            Verdict::Ok
        );
        assert_eq!(own_agent(&answer(Err("cannot be asked".into()))).verdict, Verdict::Fail);
    }
}
