//! One test a case, so that a failure has a name.

/// Writes a test for each case of each module: `cases!(lab; path::to: one, two; path::to::more: three)`.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($lab:expr; $($level:ident::$module:ident: $($case:ident),+ $(,)?);+ $(;)?) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let lab = $lab;
                if !$crate::$level::is_left_out(&lab) {
                    $crate::$level::$module::$case(&lab).await;
                }
            }
        )+)+
    };
}
