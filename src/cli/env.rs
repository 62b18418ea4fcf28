//! `flowctl env`: prints the environment with which the threads of a training wait asleep.

use environment::{number_of_threads, passive_waiting};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use term::exit::Failure;
use term::screen::Screen;

/// Print the environment in which threads wait asleep, which saves most CPU where several trainings run
///
/// Commands of flowctl run have it already. For a shell: eval "$(flowctl env)". For a container: docker run $(flowctl env --docker) IMAGE.
/// `flowctl help threads` says what it gains.
#[derive(clap::Args, Debug)]
pub(crate) struct EnvArgs {
    /// Print it as options of docker run or podman run
    #[arg(long, conflicts_with = "compose")]
    docker: bool,
    /// Print it as a part of a service in a Compose file
    #[arg(long)]
    compose: bool,
    /// Also limit the libraries to N threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
}

/// Runs `flowctl env`.
pub(crate) fn env(args: &EnvArgs, screen: &Screen) -> Result<(), Failure> {
    let variables = variables(args.threads);
    Ok(screen.print(&screen.rendered(&variables, &[&variables], |_| page(args, &variables))?)?)
}

fn variables(threads: Option<u16>) -> BTreeMap<&'static str, String> {
    let waiting = passive_waiting(|_| false).into_iter().map(|(name, value)| (name, value.to_owned()));
    waiting.chain(threads.into_iter().flat_map(|threads| number_of_threads(threads.into()))).collect()
}

fn page(args: &EnvArgs, variables: &BTreeMap<&str, String>) -> String {
    if args.docker {
        let options: Vec<String> = variables.iter().map(|(name, value)| format!("-e {name}={value}")).collect();
        return options.join(" ") + "\n";
    }
    let mut page = String::new();
    if args.compose {
        page.push_str("    environment:\n");
    }
    for (name, value) in variables {
        let _ = if args.compose {
            writeln!(page, "      {name}: \"{value}\"")
        } else {
            writeln!(page, "export {name}={value}")
        };
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_all_variables() {
        let form = |docker, compose, threads| page(&EnvArgs { docker, compose, threads }, &variables(threads));
        assert_eq!(form(true, false, None), "-e OMP_WAIT_POLICY=passive -e OPENBLAS_THREAD_TIMEOUT=4\n");
        assert_eq!(form(false, false, None), "export OMP_WAIT_POLICY=passive\nexport OPENBLAS_THREAD_TIMEOUT=4\n");
        let compose = "    environment:\n      OMP_WAIT_POLICY: \"passive\"\n      OPENBLAS_THREAD_TIMEOUT: \"4\"\n";
        assert_eq!(form(false, true, None), compose);
        assert!(form(true, false, Some(3)).contains("-e OMP_NUM_THREADS=3 -e OMP_WAIT_POLICY=passive"));
    }
}
