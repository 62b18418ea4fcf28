//! The limits of a simulated container in the units of its engine and of the kernel, of which the daemon reads rounded ones: `--cpu-shares
//! 660` and 655 shares are both weight 64. The engine is Docker 20.10 on cgroup v1.

use docker::{Conversion, updated};
use model::{EngineLimits, LimitKind, Quota, Setting};

const ON_V1: Conversion = Conversion::Shares;
/// The weight of 1024 shares, and of these.
const ORIGINAL_SHARES: i64 = 1027;

pub(super) struct Numbers {
    /// Limits with which the engine will start the next run.
    pub record: EngineLimits,
    /// `cpu.shares` of this run.
    pub shares: i64,
    /// What its owner wants for the next run, and for this one.
    wanted_next: EngineLimits,
    wanted_shares: i64,
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        let record = EngineLimits { cpu_shares: ORIGINAL_SHARES, ..EngineLimits::default() };
        Numbers { record, shares: ORIGINAL_SHARES, wanted_next: record, wanted_shares: ORIGINAL_SHARES }
    }

    /// Whether the engine carries out such a request of the daemon.
    pub(super) fn accepts(&self, exact: &EngineLimits, settings: &[Setting]) -> Result<(), String> {
        updated(self.record, exact, ON_V1, settings).map(drop)
    }

    /// The engine carries out an accepted request of the daemon.
    pub(super) fn update(&mut self, exact: &EngineLimits, setting: Setting, runs: bool) -> Result<(), String> {
        self.record = updated(self.record, exact, ON_V1, &[setting])?;
        if runs && setting.kind() == LimitKind::CpuWeight {
            self.shares = self.record.cpu_shares;
        }
        Ok(())
    }

    /// The daemon writes to the cgroup, as `LimitWriter::write_exact` does.
    pub(super) fn write(&mut self, exact: &EngineLimits, setting: Setting) {
        let Setting::CpuWeight(weight) = setting else { return };
        let gives = |shares: &i64| ON_V1.weight(shares.unsigned_abs()) == weight.number();
        self.shares = [exact.cpu_shares, self.shares].into_iter().find(gives).unwrap_or(ON_V1.shares(weight) as i64);
    }

    /// The owner sets a limit, with digits that no reading of the daemon shows. Returns whether the engine carries it out.
    pub(super) fn owner_sets(&mut self, setting: Setting, digits: u32, by_engine: bool, runs: bool) -> bool {
        let odd = i64::from(digits % 9) - 4;
        match setting {
            Setting::CpuWeight(weight) => {
                let shares = ON_V1.shares(weight) as i64 + odd;
                if by_engine {
                    (self.record.cpu_shares, self.wanted_next.cpu_shares) = (shares, shares);
                }
                if runs {
                    (self.shares, self.wanted_shares) = (shares, shares);
                }
            }
            Setting::CpuQuota(Some(Quota(thousandths))) if by_engine => {
                let nano_cpus = thousandths as i64 * 1_000_000 + 123_000 + odd;
                match (self.record.nano_cpus, self.record.cpu_quota) {
                    (0, 1..) => return false, // `--cpus` beside a quota
                    (0, _) if digits.is_multiple_of(2) => self.record.cpu_quota = thousandths as i64 * 100 + 37 + odd,
                    _ => self.record.nano_cpus = nano_cpus,
                }
                self.wanted_next = self.wanted_next.with(LimitKind::CpuQuota, &self.record);
            }
            _ => {}
        }
        true
    }

    /// The system restores the shares with which the run started.
    pub(super) fn reverts(&mut self) {
        self.shares = self.wanted_shares;
    }

    pub(super) fn starts(&mut self) {
        (self.shares, self.wanted_shares) = (self.record.cpu_shares, self.wanted_next.cpu_shares);
    }

    /// Describes a number of this run that is not the owner's, although it reads like it.
    pub(super) fn violation(&self, kind: LimitKind) -> Option<String> {
        let is_off = kind == LimitKind::CpuWeight && self.shares != self.wanted_shares;
        is_off.then(|| format!("{} shares, and its owner wants {}", self.shares, self.wanted_shares))
    }

    /// Describes such a number in the engine's record.
    pub(super) fn record_violation(&self, kind: LimitKind) -> Option<String> {
        let of = |numbers: &EngineLimits| match kind {
            LimitKind::CpuWeight => [numbers.cpu_shares, 0],
            LimitKind::CpuQuota => [numbers.nano_cpus, numbers.cpu_quota],
            _ => [0, 0],
        };
        let (has, wants) = (of(&self.record), of(&self.wanted_next));
        (has != wants).then(|| format!("{has:?}, and its owner wants {wants:?}"))
    }
}
