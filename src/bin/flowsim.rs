//! `flowsim`, the simulator.

fn main() -> std::process::ExitCode {
    flowcon::flowsim::run()
}
