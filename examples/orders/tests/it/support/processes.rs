//! The service as separate processes.

use onceward_testkit::Executable;

/// Returns the example's executable.
pub fn example() -> Executable {
    Executable::at(env!("CARGO_BIN_EXE_onceward-example-orders"))
}

/// Returns a token that its processes accept.
pub fn token(tenant: &str) -> String {
    onceward_testkit::token(tenant, &["orders:read", "orders:write"])
}
