//! Parses the output of `nvidia-smi pmon`: the share of GPU time of each process, per second.

use std::collections::BTreeMap;

/// Mean utilisation of the GPU by each process, 0 ..= 100, over the printed seconds. A dash counts as 0.
#[derive(Debug, Default)]
pub struct Monitored {
    columns: Option<(usize, usize)>,
    /// For each process: the sum of its percentages, and the number of lines.
    sums: BTreeMap<u32, (f64, u32)>,
}

impl Monitored {
    /// Parses one line. Columns are found by the header lines, because newer drivers print more columns.
    pub fn line(&mut self, line: &str) {
        if let Some(head) = line.trim().strip_prefix('#') {
            let words: Vec<&str> = head.split_whitespace().collect();
            let at = |name: &str| words.iter().position(|word| *word == name);
            if let (Some(pid), Some(sm)) = (at("pid"), at("sm")) {
                self.columns = Some((pid, sm));
            }
            return;
        }
        let Some((pid, sm)) = self.columns else { return };
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(Ok(pid)) = words.get(pid).map(|word| word.parse()) else { return };
        let percent = words.get(sm).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        let sum = self.sums.entry(pid).or_default();
        *sum = (sum.0 + percent, sum.1 + 1);
    }

    /// Returns the mean of a process; `None` if it was never printed.
    pub fn mean(&self, pid: u32) -> Option<f64> {
        self.sums.get(&pid).map(|(sum, times)| sum / f64::from(*times))
    }

    /// Returns the number of processes in the output.
    pub fn processes(&self) -> usize {
        self.sums.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Monitored;

    fn of(text: &str) -> Monitored {
        let mut monitored = Monitored::default();
        text.lines().for_each(|line| monitored.line(line));
        monitored
    }

    #[test]
    fn columns_are_found_by_the_headers_of_old_and_new_drivers() {
        let old = "# gpu        pid  type    sm   mem   enc   dec   command\n\
                   # Idx          #   C/G     %     %     %     %   name\n\
                   \x20   0       4711     C    60    20     -     -   train\n\
                   \x20   0       4712     C    30    10     -     -   train\n";
        let new = "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n\
                   # Idx           #    C/G      %      %      %      %      %      %     MB     MB    name \n\
                   \x20   0       4711     C     60     20      -      -      -      -    512      0    train\n\
                   \x20   0       4712     C     30     10      -      -      -      -    512      0    train\n";
        for text in [old, new] {
            let monitored = of(text);
            assert_eq!((monitored.mean(4711), monitored.mean(4712), monitored.mean(1)), (Some(60.0), Some(30.0), None));
        }
    }

    #[test]
    fn a_mean_includes_all_seconds_and_counts_dashes_as_idle() {
        let head = "# gpu pid type sm mem command\n# Idx # C/G % % name\n";
        let monitored = of(&format!("{head}0 7 C 80 1 train\n0 7 C - - train\n{head}0 7 C 40 1 train\n0 - - - - -\n"));
        assert_eq!((monitored.mean(7), monitored.processes()), (Some(40.0), 1));
    }

    #[test]
    fn output_without_a_header_gives_no_process() {
        assert_eq!(of("Unable to determine the device handle\n0 7 C 80 1 train\n").processes(), 0);
    }
}
