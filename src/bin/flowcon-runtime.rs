//! `flowcon-runtime`, the OCI runtime whose containers' threads wait asleep.

fn main() -> std::process::ExitCode {
    flowcon::environment::runtime::run()
}
