//! What a request meets, and which object and field decided each step.
