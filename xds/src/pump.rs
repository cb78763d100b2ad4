//! Carries one proxy's requests to its fleet and the fleet's responses to the proxy.

use std::sync::Arc;
use std::time::Instant;

use portolan_proto::DeltaResponse;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::MissedTickBehavior;
use tonic::Status;

use crate::core::fleet::Fleet;
use crate::core::limits::Reset;
use crate::framing::Requests;
use crate::metrics::CountedStream;
use crate::server::{Hosted, Inner};
use crate::transition::{FleetName, StreamId, Transition};

/// Responses that may wait for the connection. More are never unanswered: one per type, or 32 where each carries one resource.
pub(crate) const WAITING: usize = 128;

/// Boxed: the queue of a stream has room for 32 at least.
pub(crate) type Queued = Result<Box<DeltaResponse>, Status>;
type Sender = mpsc::Sender<Queued>;

/// Serves a proxy of `fleet` until either side ends the stream.
pub(crate) async fn run(server: Arc<Inner>, fleet: FleetName, inbound: Requests, outbound: Sender) {
    let counted = server.metrics.stream(&fleet);
    let hosted = tokio::select! {
        hosted = server.wait_for(&fleet) => hosted,
        () = outbound.closed() => return,
    };
    let mut pump = Pump::open(server, hosted, outbound, counted);
    let ending = pump.serve(inbound).await;
    if let Some(status) = ending {
        pump.server.metrics.reset(&pump.hosted.name);
        tracing::info!(fleet = %pump.hosted.name, %status, "ending a proxy's stream; it resumes when it connects again");
        // A full queue means that the proxy does not read; then the end of the stream has to say it.
        _ = pump.outbound.try_send(Err(status));
    }
}

struct Pump {
    server: Arc<Inner>,
    hosted: Arc<Hosted>,
    id: StreamId,
    outbound: Sender,
    counted: CountedStream,
}

impl Pump {
    fn open(server: Arc<Inner>, hosted: Arc<Hosted>, outbound: Sender, counted: CountedStream) -> Self {
        let id = server.new_stream();
        tracing::debug!(fleet = %hosted.name, stream = id.0, "a proxy's stream begins");
        hosted.lock().open(id);
        server.tell(Transition::StreamOpened { fleet: hosted.name.clone(), stream: id });
        Self { server, hosted, id, outbound, counted }
    }

    /// Returns why the stream has to be ended from this side; `None` when the proxy ended it.
    async fn serve(&mut self, mut inbound: Requests) -> Option<Status> {
        let removed = || Some(Status::unavailable("the fleet has been removed"));
        let mut changed = self.hosted.changed.subscribe();
        if *changed.borrow_and_update() {
            // Between being found and now: the bell does not ring again.
            return removed();
        }
        let mut tick = tokio::time::interval(self.server.options.tick);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let id = self.id;
            let outcome = tokio::select! {
                () = self.outbound.closed() => return None,
                request = inbound.next() => match request {
                    Ok(Some(request)) => self.step(|fleet, now| fleet.on_request(id, request, now)),
                    Ok(None) | Err(_) => return None,
                },
                _ = changed.changed() => {
                    if *changed.borrow_and_update() {
                        return removed();
                    }
                    self.step(|fleet, now| fleet.poll(id, now))
                }
                _ = tick.tick() => self.step(|fleet, now| fleet.poll(id, now)),
            };
            if let Err(status) = outcome {
                return Some(status);
            }
        }
    }

    fn step(
        &mut self,
        work: impl FnOnce(&mut Fleet, Instant) -> Result<Vec<DeltaResponse>, Reset>,
    ) -> Result<(), Status> {
        let mut fleet = self.hosted.lock();
        let responses = work(&mut fleet, Instant::now());
        self.server.tell_events(&self.hosted.name, &mut fleet);
        let state = fleet.stream_state(self.id);
        drop(fleet);
        self.counted.set(state);
        for response in responses.map_err(|reset| Status::aborted(reset.to_string()))? {
            self.server.metrics.sent(&self.hosted.name, &response);
            self.outbound.try_send(Ok(Box::new(response))).map_err(|error| match error {
                TrySendError::Full(_) => Status::aborted("the proxy does not read its stream"),
                TrySendError::Closed(_) => Status::aborted("the connection is gone"),
            })?;
        }
        Ok(())
    }
}

/// However the stream ends, also by the task being dropped.
impl Drop for Pump {
    fn drop(&mut self) {
        tracing::debug!(fleet = %self.hosted.name, stream = self.id.0, "a proxy's stream ends");
        let mut fleet = self.hosted.lock();
        fleet.close(self.id);
        self.server.tell_events(&self.hosted.name, &mut fleet);
        let transition =
            Transition::StreamClosed { fleet: self.hosted.name.clone(), stream: self.id, remaining: fleet.streams() };
        self.server.tell(transition);
    }
}
