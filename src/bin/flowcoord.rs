//! The coordinator of a cluster, and the agent of a node.

fn main() -> std::process::ExitCode {
    flowcon::cli::flowcoord::run(std::env::args_os())
}
