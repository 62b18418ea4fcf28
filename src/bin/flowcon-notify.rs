//! `flowcon-notify`, which sends messages about jobs.

fn main() -> std::process::ExitCode {
    flowcon::cli::notify::run(std::env::args_os(), flowcon::notify::serve, flowcon::notify::test)
}
