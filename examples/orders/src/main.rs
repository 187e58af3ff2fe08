//! The orders service as a standalone program.
fn main() -> std::process::ExitCode {
    onceward_cli::main(vec![onceward_example_orders::service()])
}
