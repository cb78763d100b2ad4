use std::time::Duration;

use bytes::{BufMut, Bytes};
use futures::{StreamExt as _, stream};
use portolan_proto::ResourceType;
use portolan_proto::envoy::core::Node;
use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::time::{Instant, Sleep};

use super::*;
use crate::{FleetName, Server};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn write(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = vec![b'P'; PREFACE];
    for frame in frames {
        bytes.put_uint(frame.payload.len() as u64, 3);
        bytes.extend([frame.kind, frame.flags]);
        bytes.put_u32(frame.stream);
        bytes.extend(&frame.payload);
    }
    bytes
}

fn read(bytes: &[u8]) -> Vec<Frame> {
    let mut bytes = &bytes[PREFACE..];
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..HEAD].try_into().unwrap());
        let payload = bytes[HEAD..HEAD + length].to_vec();
        frames.push(Frame { kind: bytes[3], flags: bytes[4], stream, payload });
        bytes = &bytes[HEAD + length..];
    }
    frames
}

/// One after another with the same stream, DATA without padding is one frame again.
fn join(frames: Vec<Frame>) -> Vec<Frame> {
    let mut joined: Vec<Frame> = Vec::new();
    for frame in frames {
        let is_data = |frame: &Frame| frame.kind == DATA && frame.flags & PADDED == 0;
        match joined.last_mut() {
            Some(last) if is_data(last) && is_data(&frame) && last.stream == frame.stream => {
                assert_eq!(last.flags & END_STREAM, 0, "only the last part ends the stream");
                last.payload.extend(frame.payload);
                last.flags = frame.flags;
            }
            _ => joined.push(frame),
        }
    }
    joined
}

fn frame() -> impl Strategy<Value = Frame> {
    let lengths = prop_oneof![0..40_usize, ROOM - 2..ROOM + 3, 2 * ROOM - 2..2 * ROOM + 3, 16_000..16_385_usize];
    (0..3_u8, prop_oneof![Just(0_u8), Just(PADDED)], 1..9_u32, lengths, any::<u8>()).prop_map(
        |(kind, flags, stream, length, first)| {
            let payload = (0..251).cycle().take(length).map(|place| first.wrapping_add(place)).collect();
            Frame { kind, flags, stream, payload }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_arrives_is_the_same_in_smaller_frames(
        frames in prop::collection::vec(frame(), 1..6), ends in any::<bool>(), arriving in 1..20_000_usize, asked in 1..20_000_usize,
    ) {
        let mut frames = frames;
        if let (true, Some(last)) = (ends, frames.last_mut()) {
            last.flags |= END_STREAM;
        }
        let sent = write(&frames);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let received = runtime.block_on(async {
            let (mut near, far) = tokio::io::duplex(arriving);
            let sent = sent.clone();
            let writing = async move { tokio::io::AsyncWriteExt::write_all(&mut near, &sent).await.unwrap() };
            let reading = async {
                let (mut cut, mut received, mut piece) = (Cut::new(far), Vec::new(), vec![0; asked]);
                loop {
                    match cut.read(&mut piece).await.unwrap() {
                        0 => return received,
                        count => received.extend(&piece[..count]),
                    }
                }
            };
            tokio::join!(writing, reading).1
        });
        let received = read(&received);
        for frame in &received {
            let is_whole = frame.kind != DATA || frame.flags & PADDED != 0;
            prop_assert!(is_whole || frame.payload.len() <= ROOM);
        }
        prop_assert_eq!(join(received), join(frames));
    }
}

/// A connection from which nothing can be read for a while.
struct Late {
    io: DuplexStream,
    until: Pin<Box<Sleep>>,
}

impl AsyncRead for Late {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.until.as_mut().poll(context));
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Late {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

fn framed(request: &DeltaDiscoveryRequest) -> Bytes {
    let message = request.encode_to_vec();
    let mut bytes = vec![0];
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.extend(message);
    bytes.into()
}

/// As Envoy does where the machine is busy: its first request, of which the list of its extensions is the most, has been read and answered
/// before it has read the server's SETTINGS. What it sends next has to arrive.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_learns_of_the_settings_late_is_served() {
    const LATE: Duration = Duration::from_millis(500);
    let (server, _transitions) = Server::new(crate::Options::default(), &mut Registry::default());
    let fleet = FleetName::new("fleet");
    server.publish(&fleet, Vec::new());
    server.open();
    let (near, far) = tokio::io::duplex(1 << 20);
    let incoming = stream::iter([Ok::<_, io::Error>(far)]).chain(stream::pending());
    tokio::spawn(async move {
        server.serve(incoming, move |()| Some(fleet.clone()), std::future::pending()).await.unwrap();
    });

    let late = Late { io: near, until: Box::pin(tokio::time::sleep_until(Instant::now() + LATE)) };
    let (mut client, connection) = h2::client::handshake(late).await.unwrap();
    tokio::spawn(connection);
    let path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let request = http::Request::post(format!("http://portolan{path}")).body(()).unwrap();
    let (response, mut requests) = client.send_request(request, false).unwrap();
    let node = Node { id: "x".repeat(12_000), ..Node::default() };
    let request = |kind: ResourceType| DeltaDiscoveryRequest { type_url: kind.type_url().into(), ..Default::default() };
    requests
        .send_data(framed(&DeltaDiscoveryRequest { node: Some(node), ..request(ResourceType::Listener) }), false)
        .unwrap();

    let mut received = Vec::new();
    let has = |received: &[u8], kind: ResourceType| {
        let url = kind.type_url().as_bytes();
        received.windows(url.len()).any(|bytes| bytes == url)
    };
    let both = async {
        let mut body = response.await.unwrap().into_body();
        for kind in [ResourceType::Listener, ResourceType::Cluster] {
            if kind == ResourceType::Cluster {
                requests.send_data(framed(&request(kind)), false).unwrap();
            }
            while !has(&received, kind) {
                received.extend(body.data().await.unwrap().unwrap());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), both).await.expect("both requests are answered");
}
