//! An SMTP client that knows after every failure whether the server may have the mail.
//!
//! It is our own, because libraries report that a send failed, not at which step: a connection that is lost while the
//! answer to the final dot is awaited must become [`SendOutcome::Unknown`](crate::outcome::SendOutcome::Unknown), and
//! everything before it must not. The body and the final dot are one write: two writes cost 40 ms each time, because
//! the second waits for the acknowledgement of the first.
//!
//! ```text
//! connect → greeting → EHLO → STARTTLS → EHLO → AUTH ─┐  lost: nothing was handed over, another provider may be asked
//!    ┌────────────────────────────────────────────────┘
//!    └→ MAIL → RCPT → DATA → body and final dot → answer   lost after the final dot: unknown
//!         ▲                                         │
//!         └──────── the pool, for at most 20 s ◄────┘
//! ```
//!
//! Reading order: [`SmtpClient`], `transaction`, `connection`, `pool`, `wire`, `reply`, `settings`.

mod client;
mod connection;
mod envelope;
mod pool;
mod reply;
mod reply_text;
mod settings;
mod step;
mod stream;
mod tls;
mod transaction;
mod wire;

pub use client::{SmtpClient, SmtpDelivery};
pub use settings::{SmtpCredentials, SmtpSecurity, SmtpSettings, SmtpSettingsError, SmtpTimeouts};
pub use step::{SmtpStep, SmtpStepKind};
