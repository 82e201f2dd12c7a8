//! The `writ` command.

fn main() -> std::process::ExitCode {
    host_sim::cli::main()
}
