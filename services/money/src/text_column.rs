//! Stores types as text in PostgreSQL.

/// Implements `ToSql` and `FromSql` for a type that is a text column: it is written with its `as_str` and read with its
/// `FromStr`, so an unknown text is an error.
#[macro_export]
macro_rules! text_column {
    ($type:ty) => {
        impl $crate::postgres_types::ToSql for $type {
            fn to_sql(
                &self,
                ty: &$crate::postgres_types::Type,
                out: &mut $crate::bytes::BytesMut,
            ) -> Result<$crate::postgres_types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
                $crate::postgres_types::ToSql::to_sql(&self.as_str(), ty, out)
            }

            fn accepts(ty: &$crate::postgres_types::Type) -> bool {
                <&str as $crate::postgres_types::ToSql>::accepts(ty)
            }

            $crate::postgres_types::to_sql_checked!();
        }

        impl<'a> $crate::postgres_types::FromSql<'a> for $type {
            fn from_sql(
                ty: &$crate::postgres_types::Type,
                raw: &'a [u8],
            ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
                Ok(<&str as $crate::postgres_types::FromSql>::from_sql(ty, raw)?.parse()?)
            }

            fn accepts(ty: &$crate::postgres_types::Type) -> bool {
                <&str as $crate::postgres_types::FromSql>::accepts(ty)
            }
        }
    };
}
