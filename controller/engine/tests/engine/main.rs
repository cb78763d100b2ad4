//! The engine against its oracle: a fresh engine that is given the final world in one batch.

mod forget;
mod property;
mod world;
