//! Incremental strata over resolution and translation
