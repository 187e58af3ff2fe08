//! The types that are known, with their extensions.

pub(super) const PDF: &str = "application/pdf";
pub(super) const ZIP: &str = "application/zip";
pub(super) const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
pub(super) const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
pub(super) const PPTX: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation";
pub(super) const ODT: &str = "application/vnd.oasis.opendocument.text";
pub(super) const ODS: &str = "application/vnd.oasis.opendocument.spreadsheet";
pub(super) const ODP: &str = "application/vnd.oasis.opendocument.presentation";
pub(super) const TEXT: &str = "text/plain";
pub(super) const CSV: &str = "text/csv";
pub(super) const CALENDAR: &str = "text/calendar";
pub(super) const MESSAGE: &str = "message/rfc822";

/// Every type with its extensions, and whether it is allowed unless a policy says otherwise.
const TYPES: &[(&str, &[&str], bool)] = &[
    (PDF, &["pdf"], true),
    (ZIP, &["zip"], true),
    (DOCX, &["docx"], true),
    (XLSX, &["xlsx"], true),
    (PPTX, &["pptx"], true),
    (ODT, &["odt"], true),
    (ODS, &["ods"], true),
    (ODP, &["odp"], true),
    (TEXT, &["txt", "text", "log", "md"], true),
    (CSV, &["csv"], true),
    (CALENDAR, &["ics"], true),
    (MESSAGE, &["eml"], false),
    ("image/jpeg", &["jpg", "jpeg"], true),
    ("image/png", &["png"], true),
    ("image/gif", &["gif"], true),
    ("image/webp", &["webp"], true),
    ("image/tiff", &["tif", "tiff"], true),
    ("image/heif", &["heif", "heic"], true),
];

/// Extensions that a reader's system runs when the file is opened, whatever the content is.
const EXECUTABLE: &[&str] = &[
    "ace", "apk", "app", "appx", "bat", "chm", "class", "cmd", "com", "command", "cpl", "dll", "dmg", "docm", "dotm",
    "elf", "exe", "gadget", "hta", "inf", "iso", "jar", "js", "jse", "lnk", "mjs", "msc", "msi", "msix", "msp", "mst",
    "pif", "pl", "potm", "ppam", "ppsm", "pptm", "ps1", "psm1", "py", "rb", "reg", "scf", "scr", "sct", "sh", "sldm",
    "so", "svg", "sys", "url", "vb", "vbe", "vbs", "vhd", "vhdx", "wasm", "ws", "wsc", "wsf", "wsh", "xlam", "xll",
    "xlsm", "xltm",
];

pub(super) fn is_executable_extension(extension: &str) -> bool {
    EXECUTABLE.contains(&extension)
}

/// Returns the type as this crate names it, if it is known.
pub(super) fn known_type(media_type: &str) -> Option<&'static str> {
    TYPES.iter().map(|(known, _, _)| *known).find(|known| *known == media_type)
}

pub(super) fn has_extension(media_type: &str, extension: &str) -> bool {
    TYPES.iter().any(|(known, extensions, _)| *known == media_type && extensions.contains(&extension))
}

/// Returns the types that are allowed by default.
pub(super) fn default_types() -> Vec<String> {
    TYPES.iter().filter(|(_, _, is_allowed)| *is_allowed).map(|(known, _, _)| (*known).to_owned()).collect()
}
