//! The engine against its oracle: a fresh engine that is given the final world in one batch.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::disallowed_methods,
    reason = "choices are small numbers; the tests, unlike the engine, may ask the environment how long to run"
)]

mod forget;
mod property;
mod refused;
mod time;
mod world;
