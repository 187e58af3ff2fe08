//! One test per case, so that a failure has a name.

/// Creates a test for each case of each module: `cases!(harness; broker::routing: one, two; broker::ordering: three)`.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($harness:expr; $($level:ident::$module:ident: $($case:ident),+ $(,)?);+ $(;)?) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let harness = $harness;
                if !$crate::$level::is_left_out(&harness) {
                    $crate::$level::$module::$case(&harness).await;
                }
            }
        )+)+
    };
}
