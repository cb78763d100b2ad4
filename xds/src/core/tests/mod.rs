//! Tests of the state machine: rules of the protocol one by one, then the property that no prefix of any push breaks traffic.

mod client;
mod cut_off;
mod order;
mod property;
mod protocol;
mod refusal;
mod retry;
mod scale;
