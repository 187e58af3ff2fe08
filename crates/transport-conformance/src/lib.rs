//! What every bus passes, however it works inside.
//!
//! - [`wire`]: the promises of `Broker` and `Receiver`, against a broker's real server. A broker's crate
//!   implements [`wire::Lab`] in its tests and says `wire_suite!(lab)`; each case becomes a test of its own.
//! - [`platform`]: the promises of the whole platform, on any bus, by `platform_suite!(lab)`.
//!
//! What a broker says of itself in `Capabilities` decides which cases apply. A case that does not apply
//! says so on standard error, where no test runner hides it.

mod macros;
pub mod platform;
pub mod wire;
