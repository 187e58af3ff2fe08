//! The conformance suites that every bus passes, whatever its implementation.
//!
//! - [`broker`]: the contract of `Broker` and `Receiver`, against a broker's real server. A broker's crate
//!   implements [`broker::BrokerHarness`] in its tests and calls `broker_suite!(harness)`; each case becomes a separate test.
//! - [`platform`]: the contract of the whole platform, on any bus, by `platform_suite!(harness)`.
//!
//! A broker's `Capabilities` determine which cases apply. A case that does not apply reports that on standard error,
//! where no test runner hides it.

#![expect(missing_docs, reason = "the name of a case says what it checks")]

pub mod broker;
mod macros;
pub mod platform;
