//! Lists of contacts. Each statement begins with the condition for which there is an index; the others filter its rows.

use super::contact::read_contact;
use crate::contacts::model::Contact;
use onceward::{DbError, Tx};
use uuid::Uuid;

/// The columns, the condition that an index serves, the optional conditions, and the order with its cursor.
macro_rules! list {
    ($indexed:literal, $order:expr) => {
        concat!(
            "SELECT c.contact_id, c.kind, c.display_name, c.given_name, c.family_name, c.phone, c.locale, c.jurisdiction,
                c.company_id, c.owner_id, c.tags, c.labels, c.custom, c.version, c.created_at, c.updated_at, c.erased_at
            FROM crm.contact c
            WHERE c.tenant_id = $1 AND c.erased_at IS NULL AND ",
            $indexed,
            " AND ($2::text IS NULL OR starts_with(lower(c.display_name), lower($2)))
              AND ($3::text IS NULL OR c.tags @> ARRAY[$3])
              AND ($4::text IS NULL OR c.owner_id = $4)
              AND ($5::text IS NULL OR EXISTS (
                  SELECT FROM crm.contact_link l
                  WHERE l.contact_id = c.contact_id AND l.tenant_id = $1 AND l.object_type = $5 AND l.object_id = $6::text))
              AND ($7::bytea IS NULL OR EXISTS (
                  SELECT FROM crm.contact_address a
                  WHERE a.contact_id = c.contact_id AND a.tenant_id = $1 AND a.address_hash = $7))",
            $order,
            " LIMIT $9"
        )
    };
}

macro_rules! latest_first {
    () => {
        " AND ($8::uuid IS NULL OR c.contact_id < $8) ORDER BY c.contact_id DESC"
    };
}

macro_rules! by_name {
    () => {
        " AND ($8::uuid IS NULL OR (lower(c.display_name) COLLATE \"C\", c.contact_id) > (
              SELECT lower(last.display_name) COLLATE \"C\", last.contact_id FROM crm.contact last WHERE last.contact_id = $8))
          ORDER BY lower(c.display_name) COLLATE \"C\", c.contact_id"
    };
}

const ALL: &str = list!("true", latest_first!());
const BY_NAME: &str = list!(
    "lower(c.display_name) COLLATE \"C\" >= lower($2) AND lower(c.display_name) COLLATE \"C\" < lower($2) || chr(1114111)",
    by_name!()
);
const BY_TAG: &str = list!("c.tags @> ARRAY[$3]", latest_first!());
const BY_OWNER: &str = list!("c.owner_id = $4", latest_first!());
const BY_OBJECT: &str = list!(
    "c.contact_id IN (
        SELECT l.contact_id FROM crm.contact_link l WHERE l.object_type = $5 AND l.object_id = $6 AND l.tenant_id = $1)",
    latest_first!()
);
const BY_ADDRESS: &str = list!(
    "c.contact_id IN (SELECT a.contact_id FROM crm.contact_address a WHERE a.address_hash = $7 AND a.tenant_id = $1)",
    latest_first!()
);

/// Selects contacts that are not erased. A field that is `None` selects all.
#[derive(Debug, Default)]
pub(in crate::contacts) struct ContactFilter {
    /// The beginning of the display name, in any case. The contacts are then in the order of their names.
    pub name: Option<String>,
    pub tag: Option<String>,
    pub owner: Option<String>,
    /// The type and the id of a linked object.
    pub object: Option<(String, String)>,
    pub address_hash: Option<Vec<u8>>,
}

impl ContactFilter {
    /// Returns the statement whose index selects the fewest contacts.
    fn statement(&self) -> &'static str {
        match self {
            Self { address_hash: Some(_), .. } => BY_ADDRESS,
            Self { object: Some(_), .. } => BY_OBJECT,
            Self { name: Some(_), .. } => BY_NAME,
            Self { tag: Some(_), .. } => BY_TAG,
            Self { owner: Some(_), .. } => BY_OWNER,
            _ => ALL,
        }
    }
}

/// Returns at most `limit` contacts after the contact `cursor`.
pub(in crate::contacts) async fn list_contacts(
    tx: &Tx,
    filter: &ContactFilter,
    cursor: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Contact>, DbError> {
    let ContactFilter { name, tag, owner, object, address_hash } = filter;
    let (object_type, object_id) = object.clone().unzip();
    let tenant = tx.tenant()?.as_str();
    let rows = tx
        .query(
            filter.statement(),
            &[&tenant, name, tag, owner, &object_type, &object_id, address_hash, &cursor, &limit],
        )
        .await?;
    Ok(rows.iter().map(read_contact).collect())
}
