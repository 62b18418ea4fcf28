//! `flowsim`, the simulator.

fn main() -> std::process::ExitCode {
    flowcon::sim::run()
}
