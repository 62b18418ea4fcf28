//! `flowcond`, the node daemon.

fn main() -> std::process::ExitCode {
    flowcon::cli::flowcond::run(std::env::args_os())
}
