//! Writes responses without copying resources first, reads requests as usual.

use portolan_proto::DeltaResponse;
use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeltaCodec;

impl Codec for DeltaCodec {
    type Encode = DeltaResponse;
    type Decode = DeltaDiscoveryRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for DeltaCodec {
    type Item = DeltaResponse;
    type Error = Status;

    fn encode(&mut self, response: DeltaResponse, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(response.encoded_len());
        response.encode(buffer);
        Ok(())
    }
}

impl Decoder for DeltaCodec {
    type Item = DeltaDiscoveryRequest;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DeltaDiscoveryRequest>, Status> {
        let request = DeltaDiscoveryRequest::decode(buffer);
        request.map(Some).map_err(|error| Status::invalid_argument(format!("no DeltaDiscoveryRequest: {error}")))
    }
}
