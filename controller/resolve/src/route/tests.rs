//! Route resolution, rule by rule.
