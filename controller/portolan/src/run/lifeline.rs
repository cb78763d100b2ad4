//! Notices the end of what the program cannot do without, however it ends.

use std::convert::Infallible;

use tokio::sync::oneshot;

/// Belongs to a thread or task: when it ends, in a panic too, so does the value.
pub struct Lifeline {
    _never_used: oneshot::Sender<Infallible>,
}

/// The other end.
pub struct Watched(oneshot::Receiver<Infallible>);

/// Both ends.
pub fn lifeline() -> (Lifeline, Watched) {
    let (sender, receiver) = oneshot::channel();
    (Lifeline { _never_used: sender }, Watched(receiver))
}

impl Watched {
    /// Resolves once the holder of the lifeline has ended.
    pub async fn lost(&mut self) {
        // Nothing can be sent.
        let Err(_ended) = (&mut self.0).await;
    }
}
