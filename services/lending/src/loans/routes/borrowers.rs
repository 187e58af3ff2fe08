//! `/api/borrowers`.

use crate::loans::{
    commands,
    store::{self, NewBorrower},
};
use onceward::prelude::*;
use uuid::Uuid;

pub(super) async fn create(command: Command<NewBorrower>) -> Result<Response, Problem> {
    let (borrower, mut command) = command.into_parts();
    let borrower = commands::create_borrower(&mut command.tx, borrower).await?;
    command.respond(StatusCode::CREATED, &borrower).await
}

pub(super) async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let missing = || Problem::new(codes::NOT_FOUND).detail("There is no such borrower.");
    let borrower = store::find_borrower(&reader.tx, id).await?.ok_or_else(missing)?;
    reader.respond(&borrower).await
}
