//! Turns facts about a Swarm into verdicts and fixes. Pure.

use super::super::doctor::Check;
use api::client::ClientError;
use api::wire::Cluster;
use coordinator::agent::WORKER_REFUSED;
use model::Millis;
use model::swarm::NodeReport;
use swarm::{CertificateError, EngineInfo, Identity, Role};
use term::text;

/// From this clock difference on, a warning. Leases and moves do not depend on wall clocks, but displayed times do.
const CLOCK_WARN_MS: u64 = 5_000;
/// From this clock difference on, a failure. Swarm's certificates are valid from one hour before their creation.
const CLOCK_FAIL_MS: u64 = 3_600_000;
/// Below this remaining part of a certificate's validity, a warning. Swarm renews it after half to four fifths of its validity.
const RENEWED_BEFORE: f64 = 0.1;

const SYNCHRONIZE: &str = "synchronize the clocks of all nodes: `timedatectl set-ntp true`";
const ONE_RELEASE: &str = "install one release of flowcon on all nodes, then `systemctl restart flowcoord-agent` there";

/// The reply of an agent, and the local wall clock before and after it.
pub(super) struct AgentReply {
    pub(super) before: Millis,
    pub(super) report: Result<NodeReport, String>,
    pub(super) after: Millis,
}

pub(super) fn swarm(info: &Result<EngineInfo, String>) -> Check {
    const NAME: &str = "swarm";
    match info {
        Err(error) => Check::fail(NAME, error.clone(), "`docker info` sends the same request"),
        Ok(EngineInfo { node: None, .. }) => Check::fail(
            NAME,
            "this engine is not in a Swarm",
            "`docker swarm init` creates one; `docker swarm join` joins one",
        ),
        Ok(EngineInfo { is_manager: false, .. }) => Check::warn(
            NAME,
            "this node is a worker: only this node is checked",
            "`flowctl cluster doctor` on a manager checks every node",
        ),
        Ok(info) => Check::ok(NAME, format!("this node is a manager, at {}", info.address)),
    }
}

pub(super) fn coordinator(reply: Result<&Cluster, &ClientError>) -> Check {
    const NAME: &str = "coordinator";
    match reply {
        Ok(Cluster { acts: true, jobs, .. }) => {
            Check::ok(NAME, format!("active on Swarm's leader, {}", text::count(jobs.len(), "job")))
        }
        Ok(Cluster { why, .. }) => match why {
            // Only the coordinator on the leader is active.
            Some(why) => Check::ok(NAME, format!("running, but not active: {why}")),
            None => Check::ok(NAME, "running, but not active: another manager is Swarm's leader"),
        },
        Err(error) => Check::fail(
            NAME,
            error.to_string().replace("no daemon answers", "no coordinator answers"),
            "`systemctl start flowcoord`; `journalctl -u flowcoord` shows why it stopped",
        ),
    }
}

/// `now` in seconds since 1970.
pub(super) fn certificate(loaded: &Result<Identity, CertificateError>, now: u64) -> Check {
    const NAME: &str = "certificate";
    const RENEW: &str =
        "`docker swarm ca --rotate` renews the certificates of all nodes; if flowcoord.toml names one, renew that one";
    let identity = match loaded {
        Ok(identity) => identity,
        Err(error @ CertificateError::Encrypted { .. }) => {
            return Check::fail(NAME, "the Swarm is locked, and therefore its key too", error.to_string());
        }
        Err(error) => return Check::fail(NAME, error.to_string(), "`sudo flowctl cluster doctor` can read every file"),
    };
    let role = if identity.own.role == Role::Manager { "manager" } else { "worker" };
    let owner = format!("of {role} {}", identity.own.node);
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let (from, until) = (identity.valid.start, identity.valid.end);
    let left = text::duration((until - now).max(0) as f64);
    if now < from {
        return Check::fail(NAME, format!("{owner} is not valid yet"), SYNCHRONIZE);
    }
    if now >= until {
        return Check::fail(NAME, format!("{owner} has expired"), RENEW);
    }
    if let Err(error) = identity.server() {
        return Check::fail(
            NAME,
            error.to_string(),
            "set the three files of one node, or none of them to use Swarm's own",
        );
    }
    if ((until - now) as f64) < RENEWED_BEFORE * (until - from) as f64 {
        return Check::warn(NAME, format!("{owner} expires in {left}"), RENEW);
    }
    Check::ok(NAME, format!("{owner}, valid for {left}"))
}

/// Checks the agent of a worker, whose certificate may not query agents.
pub(super) fn own_agent(answer: &AgentReply) -> Check {
    match &answer.report {
        Err(error) if error.contains(WORKER_REFUSED) => Check::ok("agent", "running here; replies only to managers"),
        Err(error) => Check::fail("agent", error.clone(), "`systemctl start flowcoord-agent` here"),
        Ok(_) => Check::ok("agent", "running here"),
    }
}

pub(super) fn agent(node: &str, is_up: bool, answer: &AgentReply) -> Vec<Check> {
    const NAME: &str = "agent";
    let report = match &answer.report {
        Ok(report) => report,
        Err(_) if !is_up => {
            let fix = format!("bring it back, or remove it if it is off for good: `docker node rm {node}`");
            return vec![Check::fail(NAME, format!("{node} is down, according to Swarm"), fix)];
        }
        Err(error) => {
            let fix = format!(
                "on {node}: `systemctl start flowcoord-agent`; its log shows why it does not listen; open the port for the managers"
            );
            return vec![Check::fail(NAME, format!("{node}: {error}"), fix)];
        }
    };
    let mut checks = vec![match &*report.version == env!("CARGO_PKG_VERSION") {
        true => Check::ok(NAME, format!("{node} is reachable, version {}", report.version)),
        false => {
            let found =
                format!("{node} runs version {}; this is version {}", report.version, env!("CARGO_PKG_VERSION"));
            Check::warn(NAME, found, ONE_RELEASE)
        }
    }];
    if !report.is_governed {
        checks.push(Check::fail(
            "flowcond",
            format!("not running on {node}: it gets no jobs"),
            format!("on {node}: `systemctl start flowcond`, then `flowctl doctor`"),
        ));
    }
    checks.extend(clock(node, report.clock, answer));
    checks
}

/// Checks that the node's clock is between the two local readings; the difference is its distance from that range.
fn clock(node: &str, remote: Millis, answer: &AgentReply) -> Option<Check> {
    let ahead = remote.0.saturating_sub(answer.after.0);
    let behind = answer.before.0.saturating_sub(remote.0);
    let apart = ahead.max(behind);
    let found = || {
        let which = if ahead > behind { "ahead of" } else { "behind" };
        format!("{node} is {} {which} this node", text::duration(apart as f64 / 1000.0))
    };
    match apart {
        CLOCK_FAIL_MS.. => Some(Check::fail("clock", found(), SYNCHRONIZE)),
        CLOCK_WARN_MS.. => Some(Check::warn("clock", found(), SYNCHRONIZE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::doctor::Verdict;
    use super::*;

    fn answer(report: Result<NodeReport, String>) -> AgentReply {
        AgentReply { before: Millis(10_000_000), report, after: Millis(10_000_500) }
    }

    fn healthy() -> NodeReport {
        let version = env!("CARGO_PKG_VERSION").into();
        NodeReport { version, clock: Millis(10_000_200), is_governed: true, ..NodeReport::default() }
    }

    /// The name and verdict of each check.
    fn verdicts(report: NodeReport) -> Vec<(&'static str, Verdict)> {
        agent("node-2", true, &answer(Ok(report))).into_iter().map(|check| (check.name, check.verdict)).collect()
    }

    #[test]
    fn a_healthy_agent_is_one_check() {
        assert_eq!(verdicts(healthy()), [("agent", Verdict::Ok)]);
    }

    #[test]
    fn another_version_a_wrong_clock_and_a_missing_flowcond_are_reported() {
        assert_eq!(verdicts(NodeReport { version: "0.0.9".into(), ..healthy() }), [("agent", Verdict::Warn)]);
        assert_eq!(verdicts(NodeReport { is_governed: false, ..healthy() })[1], ("flowcond", Verdict::Fail));
        for (clock, verdict) in [(10_007_000, Verdict::Warn), (9_990_000, Verdict::Warn), (96_400_000, Verdict::Fail)] {
            assert_eq!(verdicts(NodeReport { clock: Millis(clock), ..healthy() })[1], ("clock", verdict), "{clock}");
        }
        let ahead = agent("n", true, &answer(Ok(NodeReport { clock: Millis(10_060_500), ..healthy() })));
        assert!(ahead[1].found.contains("ahead of"), "{ahead:?}");
        // A difference within the duration of the request is not reported.
        assert_eq!(verdicts(NodeReport { clock: Millis(10_000_000), ..healthy() }).len(), 1);
    }

    #[test]
    fn an_unreachable_agent_and_a_node_that_is_down_are_different_failures() {
        let unreachable = || answer(Err("cannot be asked: connection refused".to_owned()));
        let up = agent("node-2", true, &unreachable());
        assert!(up[0].found.contains("refused") && up[0].fix.as_ref().expect("a way").contains("on node-2"));
        assert!(agent("node-2", false, &unreachable())[0].found.contains("is down"));
    }

    #[test]
    fn a_worker_recognizes_its_own_agent_by_the_rejection() {
        assert_eq!(own_agent(&answer(Err(format!("refused: 403 w {WORKER_REFUSED}")))).verdict, Verdict::Ok);
        assert_eq!(own_agent(&answer(Err("cannot be asked".into()))).verdict, Verdict::Fail);
    }
}
