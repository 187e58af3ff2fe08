//! Requests a mail: checks everything that can be checked without rendering it, and publishes one message.

use super::{Registration, attachments, register};
use crate::{
    CrmError,
    changes::{self, Change},
    emails::{Recipients, store},
    events::{AttachedFile, EmailRequested},
    links::unsubscribe_url,
    loans::{ContactFacts, LoanSnapshot, resolve_email_variables},
    permission::{Denial, facts_of},
    state::CrmState,
    store::objects,
    templates::{self, StoredTemplate},
};
use jiff::{SignedDuration, Timestamp};
use onceward::{DbError, PublishError, Tx, outbox};
use onceward_mail::template::VariableProblem;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const SUBJECT_MAX_CHARS: usize = 255;

/// The body of a request.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmailRequest {
    pub template_id: String,
    pub template_version: Option<i32>,
    pub loan_id: Option<String>,
    pub contact_id: Option<Uuid>,
    pub subject: Option<String>,
    #[serde(default)]
    pub to: Vec<String>,
    #[serde(default)]
    pub cc: Vec<String>,
    #[serde(default)]
    pub bcc: Vec<String>,
    #[serde(default)]
    pub variables: Map<String, Value>,
    #[serde(default)]
    pub attachments: Vec<AttachedFile>,
    pub not_after: Option<Timestamp>,
}

/// Why a request is rejected. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Crm(#[from] CrmError),
    /// Paths in the request, and what is wrong there.
    #[error("the request is invalid")]
    Invalid(Vec<(String, String)>),
    #[error("the variables are invalid")]
    Variables(Vec<VariableProblem>),
    #[error("there is no such template or version")]
    NoTemplate,
    #[error("there is no such contact")]
    NoContact,
    /// The position of the recipient, and why.
    #[error("a recipient may not be written to")]
    Denied { position: usize, denial: Denial, template: Arc<StoredTemplate> },
}

impl From<DbError> for RequestError {
    fn from(error: DbError) -> Self {
        Self::Crm(error.into())
    }
}

impl From<PublishError> for RequestError {
    fn from(error: PublishError) -> Self {
        Self::Crm(error.into())
    }
}

impl EmailRequest {
    /// Creates a request without recipients and variables.
    pub(crate) fn by_template(template_id: String) -> Self {
        Self {
            template_id,
            template_version: None,
            loan_id: None,
            contact_id: None,
            subject: None,
            to: Vec::new(),
            cc: Vec::new(),
            bcc: Vec::new(),
            variables: Map::new(),
            attachments: Vec::new(),
            not_after: None,
        }
    }

    /// Returns whether it may contain a file that is stored before the request is committed.
    pub(crate) fn has_large_files(&self, state: &CrmState) -> bool {
        let len = |file: &AttachedFile| file.content.as_ref().map_or(0, String::len);
        self.attachments.iter().any(|file| len(file) > state.settings.attachment_inline_bytes)
    }
}

/// Checks a request and publishes it with the commit of `tx`. `separate` is a transaction of its own, needed for large files,
/// which are stored before that commit. Returns the id of the mail.
pub(crate) async fn request_email(
    tx: &mut Tx,
    separate: Option<Tx>,
    state: &CrmState,
    request: EmailRequest,
) -> Result<Uuid, RequestError> {
    let email_id = Uuid::now_v7();
    let template = templates::load(tx, &state.templates, &request.template_id, request.template_version).await?;
    let template = template.ok_or(RequestError::NoTemplate)?;
    let contact = match request.contact_id {
        Some(id) => Some(store::contact(tx, id).await?.ok_or(RequestError::NoContact)?),
        None => None,
    };
    let to = match contact.as_ref().and_then(|contact| contact.address.clone()) {
        Some(address) if request.to.is_empty() => vec![address],
        _ => request.to.clone(),
    };
    let recipients = parse_recipients(state, &template, &to, &request)?;
    check_times_and_subject(&request)?;
    let checked = attachments::check_attachments(&state.settings, &request.attachments)?;
    let variables = variables(tx, state, &template, &request, contact.as_ref(), email_id).await?;
    let hasher = state.keys.address_hasher(tx).await?;
    let hashes: Vec<_> = recipients.envelopes().iter().map(|(_, address)| hasher.hash(address)).collect();
    let facts = facts_of(tx, template.class, request.contact_id, &hashes).await?;
    let denied = facts
        .iter()
        .enumerate()
        .find_map(|(position, facts)| Denial::decide(template.class, facts).map(|denial| (position, denial)));
    if let Some((position, denial)) = denied {
        return Err(RequestError::Denied { position, denial, template });
    }
    let key = state.keys.data_key(tx, request.contact_id.unwrap_or(email_id)).await?;
    let key = key.ok_or(RequestError::NoContact)?;
    let files = attachments::store_attachments(state, &key, email_id, separate, &checked).await?;
    let expires = Timestamp::now() + SignedDuration::from_hours(i64::from(state.settings.expire_after_h));
    let requested = EmailRequested {
        email_id: Some(email_id),
        loan_id: request.loan_id,
        contact_id: request.contact_id,
        user_id: tx.scope().actor.user_id.clone(),
        template_id: template.template_id.clone(),
        template_version: Some(template.version),
        subject: request.subject.unwrap_or_else(|| template.checked.source().subject.clone()),
        to,
        cc: request.cc,
        bcc: request.bcc,
        variables,
        attachments: files,
        correlation_id: tx.scope().correlation_id.as_str().to_owned(),
        not_after: Some(request.not_after.unwrap_or(expires)),
    };
    publish(tx, state, &template, &recipients, &requested).await?;
    Ok(email_id)
}

/// Writes the rows, the message and the audit entry.
async fn publish(
    tx: &mut Tx,
    state: &CrmState,
    template: &StoredTemplate,
    recipients: &Recipients,
    requested: &EmailRequested,
) -> Result<(), RequestError> {
    let email_id = requested.email_id.unwrap_or_default();
    let event_id = outbox::publish(tx, requested).await?;
    let hasher = state.keys.address_hasher(tx).await?;
    register(tx, &hasher, &Registration { email_id, event_id, requested, template, recipients }).await?;
    let tenant = tx.tenant()?.clone();
    let stored = requested.attachments.iter().filter_map(|file| file.sha256.clone());
    let keys: Vec<String> = stored
        .map(|sha256| crate::artifacts::ObjectName::with_hash(&tenant, email_id, "attachment", sha256).key)
        .collect();
    objects::forget_pending(tx, &keys).await?;
    let change = Change::new("CRM.EMAIL.REQUESTED", "email", email_id)
        .contact(requested.contact_id)
        .email(email_id)
        .loan(requested.loan_id.as_deref())
        .detail(json!({
            "template_id": template.template_id,
            "template_version": template.version,
            "class": template.class.as_str(),
            "recipients": recipients.envelopes().len(),
            "attachments": requested.attachments.len(),
        }));
    changes::record(tx, change).await?;
    let class = template.class.as_str();
    tx.after_commit(move || crate::measure::requested(class));
    Ok(())
}

/// Records that a request was denied. The caller commits.
pub(crate) async fn record_denial(
    tx: &mut Tx,
    request: &EmailRequest,
    template: &StoredTemplate,
    position: usize,
    denial: &Denial,
) -> Result<(), CrmError> {
    let change = Change::new("CRM.EMAIL.DENIED", "template", &template.template_id)
        .contact(request.contact_id)
        .loan(request.loan_id.as_deref())
        .detail(json!({
            "template_version": template.version,
            "class": template.class.as_str(),
            "position": position,
            "reason": denial.code(),
        }));
    changes::record(tx, change).await?;
    let reason = denial.code();
    tx.after_commit(move || crate::measure::denied(reason));
    Ok(())
}

fn parse_recipients(
    state: &CrmState,
    template: &StoredTemplate,
    to: &[String],
    request: &EmailRequest,
) -> Result<Recipients, RequestError> {
    let parsed = Recipients::parse(to, &request.cc, &request.bcc, state.settings.max_recipients);
    let invalid = |problems: Vec<crate::emails::recipients::RecipientProblem>| {
        RequestError::Invalid(problems.into_iter().map(|problem| (problem.path, problem.message)).collect())
    };
    let recipients = parsed.map_err(invalid)?;
    if template.class.needs_unsubscribe_link() && recipients.envelopes().len() != 1 {
        let class = template.class.as_str();
        let what =
            format!("{class} mail has one recipient, whose unsubscribe link it contains; request one per person");
        return Err(RequestError::Invalid(vec![("/to".to_owned(), what)]));
    }
    Ok(recipients)
}

fn check_times_and_subject(request: &EmailRequest) -> Result<(), RequestError> {
    let mut problems = Vec::new();
    if let Some(subject) = &request.subject
        && (subject.trim().is_empty()
            || subject.chars().count() > SUBJECT_MAX_CHARS
            || subject.chars().any(char::is_control))
    {
        let what = format!("must be one line of 1 to {SUBJECT_MAX_CHARS} characters without control characters");
        problems.push(("/subject".to_owned(), what));
    }
    if request.not_after.is_some_and(|time| time <= Timestamp::now()) {
        problems.push(("/not_after".to_owned(), "must be in the future".to_owned()));
    }
    if problems.is_empty() { Ok(()) } else { Err(RequestError::Invalid(problems)) }
}

/// Returns every declared variable: what the caller provided, else what the facts say, else its default.
async fn variables(
    tx: &Tx,
    state: &CrmState,
    template: &StoredTemplate,
    request: &EmailRequest,
    contact: Option<&store::ContactRow>,
    email_id: Uuid,
) -> Result<Map<String, Value>, RequestError> {
    let snapshot = match &request.loan_id {
        Some(loan_id) => LoanSnapshot::find(tx, loan_id).await?,
        None => None,
    };
    let loan = request.loan_id.as_deref().zip(snapshot.as_ref());
    let contact = contact.map(|contact| ContactFacts {
        display_name: contact.display_name.clone(),
        given_name: contact.given_name.clone(),
        family_name: contact.family_name.clone(),
    });
    let mut known = resolve_email_variables(loan, contact.as_ref());
    known.insert("unsubscribe_url".to_owned(), json!(unsubscribe_url(state, email_id, 0)));
    let declared = &template.checked.source().variables;
    let mut merged = Map::new();
    for name in declared.iter().map(|variable| variable.name.as_str()) {
        if let Some(value) = lookup(&known, name) {
            insert(&mut merged, name, value.clone());
        }
    }
    overlay(&mut merged, &request.variables);
    let resolved = template.checked.resolve(&merged).map_err(RequestError::Variables)?;
    Ok(resolved.as_json().clone())
}

/// Returns the value at a dotted path.
fn lookup<'v>(variables: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let mut names = path.split('.');
    let first = variables.get(names.next()?)?;
    names.try_fold(first, |value, name| value.as_object()?.get(name))
}

/// Sets the value at a dotted path, creating the objects on the way.
fn insert(variables: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            variables.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            let inner = variables.entry(name).or_insert_with(|| json!({}));
            if let Some(inner) = inner.as_object_mut() {
                insert(inner, rest, value);
            }
        }
    }
}

/// Writes what the caller provided over what is known; objects are merged, except amounts of money.
fn overlay(variables: &mut Map<String, Value>, provided: &Map<String, Value>) {
    for (name, value) in provided {
        match (variables.get_mut(name).and_then(Value::as_object_mut), value.as_object()) {
            (Some(known), Some(given)) if !given.contains_key("amountMinor") => overlay(known, given),
            _ => {
                variables.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_provides_wins_over_facts_member_by_member() {
        let mut variables = Map::new();
        insert(&mut variables, "contact.first_name", json!("Ada"));
        insert(&mut variables, "contact.last_name", json!("Lovelace"));
        insert(&mut variables, "loan.balance", json!({ "amountMinor": "1", "currency": "USD" }));
        let provided =
            json!({ "contact": { "first_name": "Countess" }, "loan": { "balance": { "amountMinor": "2" } } });
        overlay(&mut variables, provided.as_object().expect("an object"));
        assert_eq!(lookup(&variables, "contact.first_name"), Some(&json!("Countess")));
        assert_eq!(lookup(&variables, "contact.last_name"), Some(&json!("Lovelace")));
        assert_eq!(lookup(&variables, "loan.balance"), Some(&json!({ "amountMinor": "2" })));
        assert_eq!(lookup(&variables, "loan.balance.missing"), None);
    }
}
