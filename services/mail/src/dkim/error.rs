//! Why a key cannot be used or a message cannot be signed.

/// Why there is no signature. It never contains a key or a header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DkimError {
    /// The text is not a PEM file with a private key in PKCS#8.
    #[error(
        "the key is not a private key in PKCS#8, as PEM (BEGIN PRIVATE KEY): convert it with `openssl pkcs8 -topk8 -nocrypt`"
    )]
    NotPkcs8,
    /// The key is of another kind, too short, or damaged.
    #[error("the key is neither an RSA key of 2048 to 4096 bits nor an Ed25519 key, or it is damaged")]
    UnusableKey,
    /// The domain or the selector is not a name in DNS.
    #[error("the domain or the selector of the key is not a host name")]
    InvalidName,
    /// The message has no empty line after its headers, or a header without a name.
    #[error("the message has no headers followed by an empty line")]
    MalformedMessage,
    /// A line ends with CR or LF alone: a server on the way would change it and invalidate the signature.
    #[error("the message has a line that does not end with CRLF")]
    BareLineBreak,
    /// There is not exactly one From.
    #[error("the message must have exactly one From header with one address")]
    NoSingleFrom,
    /// Receivers ignore a signature of another domain than that of From.
    #[error("the key's domain is neither the domain of From nor above it")]
    NotAligned,
    /// The signature could not be computed.
    #[error("the signature could not be computed")]
    SigningFailed,
}
