//! Reading the trail: entries by what they are about, chains page by page.

use crate::{Broken, Head, Link, What, store};
use jiff::Timestamp;
use onceward_db::{Db, DbError, Row, Scope, Tx};
use onceward_envelope::TenantId;
use serde::Serialize;
use serde_json::Value;

/// An entry as it is stored: its link, and the columns by which it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place in the chain and what it says.
    pub link: Link,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// What was done.
    pub event_type: String,
    /// By whom: a person, or else a service.
    pub actor: Option<String>,
    /// To what kind of object.
    pub object_type: Option<String>,
    /// To which of them.
    pub object_id: Option<String>,
    /// The loan it belongs to.
    pub loan_id: Option<String>,
    /// In which request.
    pub correlation_id: String,
}

impl Recorded {
    /// What it says.
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.link.document).unwrap_or_default()
    }

    /// The first column that does not repeat what `document` says.
    pub(crate) fn check_columns(&self, document: &Value) -> Result<(), Broken> {
        let said = |name: &str| document[name].as_str();
        let actor = &document["actor"];
        let texts = [
            ("event_type", Some(self.event_type.as_str()), said("eventType")),
            ("actor", self.actor.as_deref(), actor["userId"].as_str().or(actor["service"].as_str())),
            ("object_type", self.object_type.as_deref(), said("objectType")),
            ("object_id", self.object_id.as_deref(), said("objectId")),
            ("loan_id", self.loan_id.as_deref(), said("loanId")),
            ("correlation_id", Some(self.correlation_id.as_str()), said("correlationId")),
        ];
        let occurred: Option<Timestamp> = said("occurredAt").and_then(|text| text.parse().ok());
        // PostgreSQL keeps microseconds; a document written by somebody else may say more.
        let same_time = occurred.is_some_and(|at| at.duration_since(self.occurred_at).abs().as_micros() <= 1);
        let differs = texts.into_iter().find(|(_, column, text)| column != text).map(|(name, ..)| name);
        match differs.or((!same_time).then_some("occurred_at")) {
            None => Ok(()),
            Some(name) => Err(Broken {
                tenant_id: self.link.tenant_id.clone(),
                seq: self.link.seq,
                what: What::Field,
                detail: format!("the column {name} differs from what the document says"),
            }),
        }
    }

    fn from_row(row: &Row) -> Result<Self, DbError> {
        Ok(Self {
            link: Link {
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

/// Which entries are wanted; what is `None` does not matter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Filter {
    /// The object's kind.
    pub object_type: Option<String>,
    /// The object's id.
    pub object_id: Option<String>,
    /// The loan.
    pub loan_id: Option<String>,
    /// What was done.
    pub event_type: Option<String>,
    /// By whom.
    pub actor: Option<String>,
    /// In which request.
    pub correlation_id: Option<String>,
    /// Not before this time.
    pub since: Option<Timestamp>,
}

/// The transaction's tenant's entries that `filter` wants, the latest first: `limit` of those before entry `before`.
pub async fn list(tx: &Tx, filter: &Filter, before: Option<i64>, limit: u32) -> Result<Vec<Recorded>, DbError> {
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
    rows.iter().map(Recorded::from_row).collect()
}

/// The transaction's tenant's chain in its order: `limit` entries after `after`, up to `to`.
pub async fn page(tx: &Tx, after: i64, to: i64, limit: u32) -> Result<Vec<Recorded>, DbError> {
    let rows = tx.query(store::PAGE, &[&tx.tenant()?.as_str(), &after, &to, &i64::from(limit)]).await?;
    rows.iter().map(Recorded::from_row).collect()
}

/// Whether this database keeps an audit trail at all.
pub async fn is_there(db: &Db) -> Result<bool, DbError> {
    Ok(db.connection().await?.query(store::IS_THERE, &[]).await?[0].get(0))
}

/// The tenants that have a chain.
pub async fn chains(db: &Db) -> Result<Vec<TenantId>, DbError> {
    let rows = db.connection().await?.query(store::CHAINS, &[]).await?;
    rows.iter().map(|row| tenant(row.get(0))).collect()
}

/// The head of the tenant's chain, if it has one.
pub async fn head(db: &Db, tenant: &TenantId) -> Result<Option<Head>, DbError> {
    Ok(End::read(db, tenant).await?.head)
}

/// How a chain ends.
pub(crate) struct End {
    pub head: Option<Head>,
    /// The number of the last entry that is there; 0: there is none.
    pub last: i64,
}

impl End {
    pub(crate) async fn read(db: &Db, tenant: &TenantId) -> Result<Self, DbError> {
        let tx = db.begin(Scope::tenant(tenant.clone())).await?;
        let row = tx.query_one(store::END, &[&tenant.as_str()]).await?;
        let head = row.get::<_, Option<i64>>(0).map(|seq| Head {
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
    TenantId::new(name).map_err(|_| DbError::Config("the audit trail names a tenant that there cannot be".into()))
}
