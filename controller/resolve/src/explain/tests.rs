//! Requests through small worlds.
