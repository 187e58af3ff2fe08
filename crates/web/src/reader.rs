//! What a reading handler gets: its caller, and a transaction that sees the caller's tenant only.

use crate::{AppState, Caller, Problem};
use axum::{
    Json,
    extract::FromRequestParts,
    http::request::Parts,
    response::{IntoResponse, Response},
};
use onceward_db::Tx;
use serde::Serialize;

/// A caller and a transaction to read with. Whatever is written in it is undone.
pub struct Reader {
    /// Who asks.
    pub caller: Caller,
    /// Sees the caller's tenant; rolled back at the end.
    pub tx: Tx,
}

impl Reader {
    /// Ends the transaction and answers 200 with `body`.
    pub async fn respond(self, body: &impl Serialize) -> Result<Response, Problem> {
        self.tx.rollback().await?;
        Ok(Json(body).into_response())
    }
}

impl FromRequestParts<AppState> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let tx = state.db.begin(caller.scope()).await?;
        Ok(Self { caller, tx })
    }
}
