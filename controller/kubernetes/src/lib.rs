//! Watches, status writer, lease
