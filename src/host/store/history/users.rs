//! What users used, from the CPU counters of their jobs.

use super::read::HistoryReader;
use crate::StoreError;
use model::{CpuTime, JobRecord, NOBODY, Span, UserRecord};
use std::collections::BTreeMap;

impl HistoryReader {
    /// Returns what the jobs of each user used within the span, ordered by name. Of a job that ran before, only the part within the span
    /// counts.
    pub fn users(&self, span: Span) -> Result<Vec<UserRecord>, StoreError> {
        let mut users: BTreeMap<String, UserRecord> = BTreeMap::new();
        for job in self.lived(span, None, 0, usize::MAX)? {
            let used = self.used_until(&job, span.until)?.since(self.used_until(&job, span.since)?);
            let name = job.user.unwrap_or_else(|| NOBODY.to_owned());
            let empty = || UserRecord { name: name.clone(), jobs: 0, cpu: CpuTime(0) };
            let user = users.entry(name.clone()).or_insert_with(empty);
            user.jobs += 1;
            user.cpu = CpuTime(user.cpu.0.saturating_add(used.0));
        }
        Ok(users.into_values().collect())
    }

    /// CPU time that the job had used at that time, as far as was recorded.
    fn used_until(&self, job: &JobRecord, unix_ms: u64) -> Result<CpuTime, StoreError> {
        if unix_ms < job.first_unix_ms {
            return Ok(CpuTime(0));
        }
        Ok(self.at_or_before(job, unix_ms)?.and_then(|sample| sample.cpu).unwrap_or(CpuTime(0)))
    }
}
