//! Echo backends, load and fixtures for tests, demonstrations and benchmarks
