//! The example as real processes.

use onceward_testkit::Executable;

/// The program.
pub fn example() -> Executable {
    Executable::at(env!("CARGO_BIN_EXE_onceward-example-orders"))
}

/// A token that its processes accept.
pub fn token(tenant: &str) -> String {
    onceward_testkit::token(tenant, &["orders:read", "orders:write"])
}
