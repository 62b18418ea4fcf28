//! The simulator's binary.

fn main() -> std::process::ExitCode {
    flowcon::sim::run()
}
