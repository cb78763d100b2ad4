use futures::stream;
use http_body_util::StreamBody;
use portolan_proto::envoy::discovery::DeltaDiscoveryResponse;
use portolan_proto::{DeltaResource, DeltaResponse};

use super::*;

fn framed(request: &DeltaDiscoveryRequest) -> Vec<u8> {
    let message = request.encode_to_vec();
    let mut bytes = vec![NOT_COMPRESSED];
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.extend(message);
    bytes
}

fn request(nonce: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { response_nonce: nonce.into(), ..DeltaDiscoveryRequest::default() }
}

/// The requests that arrive as these frames.
fn requests(frames: Vec<Vec<u8>>, limit: usize) -> Requests {
    let frames = frames.into_iter().map(|bytes| Ok::<_, Infallible>(Frame::data(Bytes::from(bytes))));
    Requests::new(Body::new(StreamBody::new(stream::iter(frames))), limit)
}

#[tokio::test]
async fn requests_are_found_however_they_are_cut() {
    let bytes = [framed(&request("1")), framed(&request("")), framed(&request("a longer one"))].concat();
    for size in 1..=bytes.len() {
        let mut requests = requests(bytes.chunks(size).map(<[u8]>::to_vec).collect(), 100);
        for nonce in ["1", "", "a longer one"] {
            assert_eq!(requests.next().await.unwrap(), Some(request(nonce)), "in pieces of {size}");
        }
        assert_eq!(requests.next().await.unwrap(), None);
        assert_eq!(requests.received.capacity(), 0, "nothing stays");
    }
}

#[tokio::test]
async fn what_cannot_be_read_ends_the_stream() {
    let long = framed(&request(&"x".repeat(200)));
    assert_eq!(requests(vec![long], 100).next().await.unwrap_err().code(), tonic::Code::OutOfRange);
    let mut compressed = framed(&request("1"));
    compressed[0] = 1;
    assert_eq!(requests(vec![compressed], 100).next().await.unwrap_err().code(), tonic::Code::Unimplemented);
    let nonsense = vec![0, 0, 0, 0, 2, 0xff, 0xff];
    assert_eq!(requests(vec![nonsense], 100).next().await.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn responses_are_framed_and_end_with_their_status() {
    let (sender, waiting) = mpsc::channel(4);
    let large = Bytes::from(vec![1; 100_000]);
    for nonce in ["1", "2"] {
        let resource = DeltaResource { name: "a".into(), version: "v".into(), message: large.clone() };
        let response =
            DeltaResponse { type_url: "t", nonce: nonce.into(), resources: vec![resource], removed: Vec::new() };
        sender.send(Ok(Box::new(response))).await.unwrap();
    }
    sender.send(Err(Status::aborted("enough"))).await.unwrap();

    let collected = Responses::new(waiting).collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "10");
    let mut bytes = &collected.to_bytes()[..];
    for nonce in ["1", "2"] {
        let (prefix, rest) = bytes.split_first_chunk::<PREFIX>().unwrap();
        assert_eq!(prefix[0], NOT_COMPRESSED);
        let length = u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize;
        let response = DeltaDiscoveryResponse::decode(&rest[..length]).unwrap();
        assert_eq!((response.nonce.as_str(), response.resources.len()), (nonce, 1));
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty());
}
