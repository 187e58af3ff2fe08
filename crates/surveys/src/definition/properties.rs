//! What holds for every definition and every respondent.
