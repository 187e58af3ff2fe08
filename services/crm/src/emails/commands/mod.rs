//! The verbs of mails: request one, register one that another service requested, resolve an unknown outcome.

mod attachments;
mod register;
mod request;
mod resolve;

pub(crate) use attachments::{decode_attachment, policy};
pub(crate) use register::{Registration, register};
pub(super) use request::{EmailRequest, RequestError, record_denial, request_email};
pub(super) use resolve::{UnknownResolution, resolve_unknown};
