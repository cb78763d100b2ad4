//! What to do about a refusal of Envoy's that is not the configuration's fault.

/// The end of a message that quotes Envoy's text. A listener that could not be bound is sent again by itself (`portolan-xds`).
pub(crate) fn of(text: &str) -> &'static str {
    if !text.contains("cannot bind") {
        ""
    } else if text.contains("Address already in use") {
        "; stop the process that has the port (`ss -ltnp` names it), or choose another port: the listener is tried again until the port is free"
    } else if text.contains("Permission denied") {
        "; let Envoy listen on ports below 1024, or choose another port: the listener is tried again"
    } else {
        "; the listener is tried again"
    }
}
