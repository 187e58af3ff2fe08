//! The extractor for reads: the caller, and a transaction that sees only the caller's tenant.

use crate::{AppState, Caller, Problem};
use axum::{
    Json,
    extract::FromRequestParts,
    http::request::Parts,
    response::{IntoResponse, Response},
};
use onceward_db::Tx;
use serde::Serialize;

/// A caller and a transaction to read with. Anything written in it is rolled back.
pub struct Reader {
    /// The caller.
    pub caller: Caller,
    /// Sees the caller's tenant; rolled back at the end.
    pub tx: Tx,
}

impl Reader {
    /// Ends the transaction and responds with 200 and `body`.
    pub async fn respond(self, body: &impl Serialize) -> Result<Response, Problem> {
        self.tx.rollback().await?;
        Ok(Json(body).into_response())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let tx = AppState::of(&parts.extensions)?.db.begin(caller.scope()).await?;
        Ok(Self { caller, tx })
    }
}
