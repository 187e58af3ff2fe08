//! The orders service as a program of its own.
fn main() -> std::process::ExitCode {
    onceward::cli::main(vec![onceward_example_orders::service()])
}
