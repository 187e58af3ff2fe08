//! Why a file is not sent. Errors never repeat the name, which may be personal data.

/// Why a file cannot be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachmentError {
    /// The name is empty, or nothing follows its last path separator.
    #[error("the file has no name: name it with its extension")]
    NoName,
    /// The name contains a character that disguises the extension or cannot be seen.
    #[error("the file name contains a control, invisible or text-direction character: rename the file")]
    InvisibleCharacter,
    /// The name begins or ends with a dot.
    #[error("the file name begins or ends with a dot: rename the file")]
    OuterDot,
    /// More than 255 bytes.
    #[error("the file name is longer than {limit} bytes: shorten it")]
    NameTooLong {
        /// The limit.
        limit: usize,
    },
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// A program or a script, by its content, its extension, or inside an archive.
    #[error("the file is a program or a script, or contains one: it is never sent")]
    Executable,
    /// An archive that cannot be checked.
    #[error("the archive is encrypted: attach the files without a password")]
    EncryptedArchive,
    /// The content begins like a type and is not one.
    #[error("the file is damaged: it begins like {media_type} and is not a complete one")]
    Damaged {
        /// The type that it begins like.
        media_type: &'static str,
    },
    /// The content is of no known type.
    #[error("the type of the file is not known from its content")]
    UnknownType,
    /// The extension is of another type than the content.
    #[error("the content is {media_type}, and the extension of the file name is that of another type: rename the file")]
    ExtensionMismatch {
        /// The type of the content.
        media_type: &'static str,
    },
    /// The type is not among those that are allowed.
    #[error("files of the type {media_type} are not allowed")]
    TypeNotAllowed {
        /// The type of the content.
        media_type: &'static str,
    },
    /// There are too many files.
    #[error("there are more than {limit} files: attach fewer")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The files are too large after encoding.
    #[error("the files are larger than {limit} bytes after base64, which adds 37 %: attach smaller ones")]
    TooLarge {
        /// The limit, after base64.
        limit: usize,
    },
}
