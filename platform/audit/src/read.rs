//! Reading the trail: entries by filter, chains page by page.

use crate::{BrokenLink, BrokenLinkKind, ChainHead, ChainLink, store};
use jiff::Timestamp;
use onceward_db::{Db, DbError, Row, Scope, Tx};
use onceward_envelope::TenantId;
use serde::Serialize;
use serde_json::Value;

/// An entry as it is stored: its link, and the columns used for searching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEntry {
    /// Its position in the chain and its content.
    pub link: ChainLink,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The type of the action.
    pub event_type: String,
    /// The actor: the person if there is one, otherwise the service.
    pub actor: Option<String>,
    /// The type of the object.
    pub object_type: Option<String>,
    /// The object's id.
    pub object_id: Option<String>,
    /// The loan it belongs to.
    pub loan_id: Option<String>,
    /// The request it belongs to.
    pub correlation_id: String,
}

impl RecordedEntry {
    /// Returns the parsed content.
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.link.document).unwrap_or_default()
    }

    /// Fails with the first column that differs from `document`.
    pub(crate) fn check_columns(&self, document: &Value) -> Result<(), BrokenLink> {
        let member = |name: &str| document[name].as_str();
        let actor = &document["actor"];
        let texts = [
            ("event_type", Some(self.event_type.as_str()), member("eventType")),
            ("actor", self.actor.as_deref(), actor["userId"].as_str().or(actor["service"].as_str())),
            ("object_type", self.object_type.as_deref(), member("objectType")),
            ("object_id", self.object_id.as_deref(), member("objectId")),
            ("loan_id", self.loan_id.as_deref(), member("loanId")),
            ("correlation_id", Some(self.correlation_id.as_str()), member("correlationId")),
        ];
        let occurred: Option<Timestamp> = member("occurredAt").and_then(|text| text.parse().ok());
        // PostgreSQL stores microseconds; a document written by another program may be more precise.
        let same_time = occurred.is_some_and(|at| at.duration_since(self.occurred_at).abs().as_micros() <= 1);
        let differs = texts.into_iter().find(|(_, column, text)| column != text).map(|(name, ..)| name);
        match differs.or((!same_time).then_some("occurred_at")) {
            None => Ok(()),
            Some(name) => Err(BrokenLink {
                tenant_id: self.link.tenant_id.clone(),
                seq: self.link.seq,
                what: BrokenLinkKind::Field,
                detail: format!("the column {name} differs from the document"),
            }),
        }
    }

    fn from_row(row: &Row) -> Result<Self, DbError> {
        Ok(Self {
            link: ChainLink {
                tenant_id: tenant(row.get(0))?,
                seq: row.get(1),
                document: row.get(9),
                prev_hash: row.get(10),
                record_hash: row.get(11),
            },
            occurred_at: row.get(2),
            event_type: row.get(3),
            actor: row.get(4),
            object_type: row.get(5),
            object_id: row.get(6),
            loan_id: row.get(7),
            correlation_id: row.get(8),
        })
    }
}

/// A filter for entries; a field that is `None` matches everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EntryFilter {
    /// The object's type.
    pub object_type: Option<String>,
    /// The object's id.
    pub object_id: Option<String>,
    /// The loan.
    pub loan_id: Option<String>,
    /// The type of the action.
    pub event_type: Option<String>,
    /// The actor.
    pub actor: Option<String>,
    /// The request it belongs to.
    pub correlation_id: Option<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
}

/// Returns the entries of the transaction's tenant that match `filter`, latest first: at most `limit`, before entry
/// `before`.
pub async fn list(
    tx: &Tx,
    filter: &EntryFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<RecordedEntry>, DbError> {
    let rows = tx
        .query(
            store::LIST,
            &[
                &tx.tenant()?.as_str(),
                &filter.object_type,
                &filter.object_id,
                &filter.loan_id,
                &filter.event_type,
                &filter.actor,
                &filter.correlation_id,
                &filter.since,
                &before.unwrap_or(i64::MAX),
                &i64::from(limit),
            ],
        )
        .await?;
    rows.iter().map(RecordedEntry::from_row).collect()
}

/// Returns a page of the chain of the transaction's tenant, in order: at most `limit` entries after `after`, up to
/// `to`.
pub async fn page(tx: &Tx, after: i64, to: i64, limit: u32) -> Result<Vec<RecordedEntry>, DbError> {
    let rows = tx.query(store::PAGE, &[&tx.tenant()?.as_str(), &after, &to, &i64::from(limit)]).await?;
    rows.iter().map(RecordedEntry::from_row).collect()
}

/// Returns whether this database has an audit trail at all.
pub async fn exists(db: &Db) -> Result<bool, DbError> {
    Ok(db.connection().await?.query(store::EXISTS, &[]).await?[0].get(0))
}

/// Returns the tenants that have a chain.
pub async fn chains(db: &Db) -> Result<Vec<TenantId>, DbError> {
    let rows = db.connection().await?.query(store::CHAINS, &[]).await?;
    rows.iter().map(|row| tenant(row.get(0))).collect()
}

/// Returns the head of the tenant's chain, if it has one.
pub async fn head(db: &Db, tenant: &TenantId) -> Result<Option<ChainHead>, DbError> {
    Ok(ChainEnd::read(db, tenant).await?.head)
}

/// The end of a chain.
pub(crate) struct ChainEnd {
    pub head: Option<ChainHead>,
    /// The number of the last existing entry; 0 if the chain is empty.
    pub last: i64,
}

impl ChainEnd {
    pub(crate) async fn read(db: &Db, tenant: &TenantId) -> Result<Self, DbError> {
        let tx = db.begin(Scope::for_tenant(tenant.clone())).await?;
        let row = tx.query_one(store::END, &[&tenant.as_str()]).await?;
        let head = row.get::<_, Option<i64>>(0).map(|seq| ChainHead {
            tenant_id: tenant.clone(),
            seq,
            hash: row.get(1),
            at: row.get(2),
        });
        tx.rollback().await?;
        Ok(Self { head, last: row.get::<_, Option<i64>>(3).unwrap_or(0) })
    }
}

fn tenant(name: &str) -> Result<TenantId, DbError> {
    TenantId::new(name).map_err(|_| DbError::Config("the audit trail contains an invalid tenant id".into()))
}
