//! `flowctl`, the command line.

fn main() -> std::process::ExitCode {
    flowcon::cli::run(std::env::args_os(), flowcon::flowsim::command)
}
