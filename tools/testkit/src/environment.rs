//! Environment variables that control a test run.

use std::{
    env,
    io::{self, Write},
};

/// Returns the number in an environment variable, such as the duration of a long test. Returns `None` if it is not set,
/// and panics if it is not a whole number.
pub fn env_number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}

/// Returns whether `ONCEWARD_WITHOUT=rabbitmq,redis,kafka` excludes this broker, as `cargo xtask test` does where Kafka
/// is unavailable. Prints a notice, because the test then passes without having tested anything.
pub fn left_out(name: &str) -> bool {
    let without = env::var("ONCEWARD_WITHOUT").unwrap_or_default();
    let left_out = without.split(',').any(|other| other.trim().eq_ignore_ascii_case(name));
    if left_out {
        // Written directly: the test harness would capture a macro's output.
        let _ = writeln!(io::stderr(), "\n*** {name} LEFT OUT by ONCEWARD_WITHOUT: this was not tested ***");
    }
    left_out
}
