//! Parses the log of `train`.

/// One line of a training's log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Steps done.
    pub step: u64,
    /// Total steps.
    pub of: u64,
    /// Loss after this step.
    pub loss: f64,
    /// Seconds since the first step began.
    pub seconds: f64,
}

impl Line {
    /// Parses a line such as `step 3/100 loss: 0.25 time: 1.50s`.
    pub fn of(text: &str) -> Option<Line> {
        let mut words = text.split_whitespace();
        let (step, of) = words.by_ref().skip_while(|word| *word != "step").nth(1)?.split_once('/')?;
        let loss = words.by_ref().skip_while(|word| *word != "loss:").nth(1)?.parse().ok()?;
        let seconds = words.skip_while(|word| *word != "time:").nth(1)?.strip_suffix('s')?.parse().ok()?;
        Some(Line { step: step.parse().ok()?, of: of.parse().ok()?, loss, seconds })
    }

    /// Returns the last such line of a log.
    pub fn last(log: &str) -> Option<Line> {
        log.lines().rev().find_map(Line::of)
    }

    /// Returns the mean speed so far, in steps per second.
    pub fn speed(&self) -> f64 {
        self.step as f64 / self.seconds.max(0.01)
    }

    /// Returns the mean speed since an earlier line; `None` if no time has passed.
    pub fn speed_since(&self, before: &Line) -> Option<f64> {
        let passed = self.seconds - before.seconds;
        (passed > 0.0).then(|| (self.step as f64 - before.step as f64) / passed)
    }
}

/// Returns the process id that a training printed.
pub fn pid(log: &str) -> Option<u32> {
    log.lines().find_map(|line| line.strip_prefix("process "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Line, pid};

    #[test]
    fn the_last_line_and_the_process_id_are_found_in_a_log() {
        let log = "process 4711\nstep 1/100 loss: 0.500000 time: 0.02s\nstep 2/100 loss: 0.250000 time: 0.50s\nend";
        assert_eq!(Line::last(log), Some(Line { step: 2, of: 100, loss: 0.25, seconds: 0.5 }));
        assert_eq!((Line::last(log).map(|line| line.speed()), pid(log)), (Some(4.0), Some(4711)));
        assert_eq!((Line::last("nothing"), pid("nothing")), (None, None));
    }

    #[test]
    fn the_speed_since_a_line_does_not_count_what_was_before() {
        let line = |step: u64, seconds: f64| Line { step, of: 100, loss: 0.5, seconds };
        assert_eq!(line(60, 8.0).speed_since(&line(20, 4.0)), Some(10.0));
        assert_eq!(line(60, 8.0).speed_since(&line(60, 8.0)), None);
    }
}
