//! The fixture of all tests.

mod fixture;
mod mails;
mod resend_sandbox;
mod returned;

pub use fixture::{CrmFixture, USER, greeting, settings};
pub use mails::{TENANT, mail, start_with_smtp};
pub use resend_sandbox::{API_KEY, ResendSandbox};
pub use returned::{SentMail, WEBHOOK_SECRET, sign_event};
