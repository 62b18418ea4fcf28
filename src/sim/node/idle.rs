//! Idle time of each processor, as the kernel counts it in `/proc/stat`.

/// Idle time of each processor in seconds, up to `since`; from then on the rates apply.
pub(super) struct Idle {
    since: f64,
    pub(super) seconds: Vec<f64>,
    pub(super) rates: Vec<f64>,
}

impl Idle {
    pub(super) fn new(cores: f64) -> Idle {
        let processors = (cores.ceil() as usize).max(1);
        Idle { since: 0.0, seconds: vec![0.0; processors], rates: vec![cores / processors as f64; processors] }
    }

    pub(super) fn settle(&mut self, now: f64) {
        let passed = now - self.since;
        self.seconds.iter_mut().zip(&self.rates).for_each(|(seconds, rate)| *seconds += rate * passed);
        self.since = now;
    }
}
