//! `flowcoord`, the coordinator of a cluster and the agent on each node.

fn main() -> std::process::ExitCode {
    flowcon::cli::flowcoord::run(std::env::args_os())
}
